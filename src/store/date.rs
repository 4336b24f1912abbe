//! DynamoDB's own time, read off the `Date` of its answers.
//!
//! The protocol's `date_history` decides what the answers mean. No entry is judged by the `Date` of one answer alone: its `witness` sees
//! to that. A connection leads to one front end for as long as it is kept. So a connection whose time nothing confirms is not
//! kept, and the next answer comes from another front end. What a gateway says of the time while DynamoDB is out of reach does
//! not count.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_smithy_runtime_api::client::connection::ConnectionMetadata;
use aws_smithy_types::DateTime;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use aws_smithy_types::date_time::Format;

use crate::clock::Clock;
use crate::config::DATE_GRAIN;
use fairlock_protocol::date_history::{DateHistory, Heard, Here, Seen};
use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::moment::Moment;

use super::exchange;
use super::front_end::{self, FrontEnd};

/// The newest `Date`s seen by a client, and when it sent the requests that brought them.
#[derive(Clone, Debug)]
pub(crate) struct ServerClock {
    clock: Clock,
    dates: Arc<Mutex<DateHistory<FrontEnd>>>,
}

impl ServerClock {
    pub(crate) fn new(clock: Clock) -> Self {
        ServerClock {
            clock,
            dates: Arc::default(),
        }
    }

    /// The time to write into an entry.
    pub(crate) fn stamp(&self) -> Option<ServerTime> {
        self.dates().stamp(self.here())
    }

    /// Whether there is a stamp.
    pub(crate) fn has_stamp(&self) -> bool {
        self.dates().has_stamp(self.here())
    }

    /// The latest time that any answer told lately, whether or not anything confirms it.
    pub(crate) fn latest(&self) -> Option<ServerTime> {
        self.dates().latest(self.clock.now())
    }

    /// Whether there is a stamp, or one more answer may bring it.
    pub(crate) fn may_stamp_soon(&self) -> bool {
        self.dates().may_stamp_soon(self.here())
    }

    /// Whether a recent answer tells the time `unix`, give or take the grain of a `Date`.
    pub(crate) fn shows(&self, unix: Duration) -> bool {
        let here = Here {
            unix,
            ..self.here()
        };
        self.dates().shows(DATE_GRAIN, here)
    }

    /// The time to write into a renewal.
    pub(crate) fn stamp_of_renewal(&self) -> Option<ServerTime> {
        self.dates().stamp_of_renewal(self.here())
    }

    /// A time that has passed by two answers that agree.
    pub(crate) fn past(&self) -> Option<ServerTime> {
        self.dates().past(self.here())
    }

    /// Such a time by young answers alone.
    pub(crate) fn young_past(&self) -> Option<ServerTime> {
        self.dates().young_past(self.here())
    }

    /// The time that the newest answer told, to judge by.
    pub(crate) fn newest(&self) -> Option<ServerTime> {
        self.dates().newest(self.here())
    }

    /// Whether answers come, and none tells the time.
    pub(crate) fn is_silent(&self) -> bool {
        self.dates().is_silent()
    }

    fn here(&self) -> Here {
        Here {
            now: self.clock.now(),
            unix: self.clock.unix(),
        }
    }

    fn dates(&self) -> MutexGuard<'_, DateHistory<FrontEnd>> {
        self.dates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When a request was sent, carried to its answer.
#[derive(Debug)]
struct SentAt(Moment);

impl Storable for SentAt {
    type Storer = StoreReplace<Self>;
}

impl Intercept for ServerClock {
    fn name(&self) -> &'static str {
        "fairlock::ServerClock"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        exchange::leaves();
        bag.interceptor_state().store_put(SentAt(self.clock.now()));
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response();
        let is_own = is_own(response);
        let date = date_of(response).filter(|_| is_own);
        match (date, bag.load::<SentAt>()) {
            (Some(date), Some(SentAt(sent))) => self.hear(date, *sent, front_end::connection(bag)),
            _ => {
                exchange::saw(None);
                if is_own {
                    self.dates().hear_no_date();
                }
            }
        }
        Ok(())
    }
}

impl ServerClock {
    /// Takes in an answer that tells the time. Its connection is not used again if nothing confirms that time. Nor is it if
    /// nothing young confirms it and this host's wall clock tells another time. Over the same connection nothing more would be
    /// learnt.
    fn hear(&self, date: Duration, sent: Moment, connection: Option<ConnectionMetadata>) {
        let here = self.here();
        let seen = Seen {
            date,
            sent,
            arrived: here.now,
            front_end: connection.as_ref().and_then(FrontEnd::of),
        };
        let mut dates = self.dates();
        let heard = dates.hear(seen, here);
        let newest = dates.newest(here).filter(|_| heard != Heard::Again);
        exchange::saw(newest.map(|date| date.0));
        let retires = dates.retires(heard, date, here);
        drop(dates);
        if let Some(connection) = connection.filter(|_| retires) {
            connection.poison();
        }
    }
}

/// Whether the answer is DynamoDB's own. A gateway that cannot reach DynamoDB, or lets no request through, answers by its own
/// clock, or by none.
fn is_own(response: &HttpResponse) -> bool {
    let is_json = |kind: &str| kind.starts_with("application/x-amz-json");
    let kind = response.headers().get("content-type");
    kind.is_none_or(is_json) && !response.status().is_server_error()
}

fn date_of(response: &HttpResponse) -> Option<Duration> {
    response.headers().get("date").and_then(parse)
}

fn parse(date: &str) -> Option<Duration> {
    let time = DateTime::from_str(date, Format::HttpDate).ok()?;
    u64::try_from(time.secs()).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_read_and_anything_else_is_none() {
        assert_eq!(
            parse("Tue, 14 Nov 2023 22:13:20 GMT"),
            Some(Duration::from_secs(1_700_000_000))
        );
        assert_eq!(parse("yesterday"), None);
        assert_eq!(parse("Tue, 14 Nov 1923 22:13:20 GMT"), None);
    }
}
