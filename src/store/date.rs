//! DynamoDB's own time, read off the `Date` of its answers.
//!
//! The protocol's `date_history` decides what the answers mean. No entry is judged by the `Date` of one answer alone: its `witness` sees
//! to that. A connection leads to one front end for as long as it is kept. So a connection whose time nothing confirms is not
//! kept, and the next answer comes from another front end. What a gateway says of the time while DynamoDB is out of reach does
//! not count.
//!
//! Some engines send no `Date`. There a clock of this host may stand in for it, if the client has one. An answer that has a `Date` always
//! wins over that clock.

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

use crate::config::DATE_GRAIN;
use crate::runtime::clock::Clock;
use fairlock_protocol::date_history::{DateHistory, Heard, Here, Seen};
use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::moment::Moment;

use super::exchange;
use super::front_end::{self, FrontEnd};

/// The last second that a `Date` can tell, at the end of the year 9999.
const LAST_DATE: u64 = 253_402_300_799;

/// The newest `Date`s seen by a client, and when it sent the requests that brought them.
#[derive(Clone, Debug)]
pub(crate) struct ServerClock {
    clock: Clock,
    /// Stands in for the `Date` that answers do not have.
    fallback: Option<Clock>,
    dates: Arc<Mutex<Dates>>,
}

#[derive(Debug, Default)]
struct Dates {
    history: DateHistory<FrontEnd>,
    /// Some answer had a `Date`. From then on the fallback counts for nothing.
    is_dated: bool,
    boot_began: Option<ServerTime>,
}

impl ServerClock {
    pub(crate) fn new(clock: Clock, fallback: Option<Clock>) -> Self {
        ServerClock {
            clock,
            fallback,
            dates: Arc::default(),
        }
    }

    /// Whether the times that are known come from the clock that stands in for missing `Date`s.
    pub(crate) fn goes_by_fallback(&self) -> bool {
        let dates = self.dates();
        self.fallback.is_some() && !dates.is_dated && dates.history.newest(self.here()).is_some()
    }

    /// When the only machine whose processes use the table was started, if the newest answer says so.
    pub(crate) fn boot_began(&self) -> Option<ServerTime> {
        self.dates().boot_began
    }

    /// The time to write into an entry.
    pub(crate) fn stamp(&self) -> Option<ServerTime> {
        self.dates().history.stamp(self.here())
    }

    /// Whether there is a stamp.
    pub(crate) fn has_stamp(&self) -> bool {
        self.dates().history.has_stamp(self.here())
    }

    /// The latest time that any answer told lately, whether or not anything confirms it.
    pub(crate) fn latest(&self) -> Option<ServerTime> {
        self.dates().history.latest(self.clock.now())
    }

    /// Whether there is a stamp, or one more answer may bring it.
    pub(crate) fn may_stamp_soon(&self) -> bool {
        self.dates().history.may_stamp_soon(self.here())
    }

    /// Whether a recent answer tells the time `unix`, give or take the grain of a `Date`.
    pub(crate) fn shows(&self, unix: Duration) -> bool {
        let here = Here {
            unix,
            ..self.here()
        };
        self.dates().history.shows(DATE_GRAIN, here)
    }

    /// The time to write into a renewal.
    pub(crate) fn stamp_of_renewal(&self) -> Option<ServerTime> {
        self.dates().history.stamp_of_renewal(self.here())
    }

    /// A time that is not over yet.
    pub(crate) fn to_come(&self) -> Option<ServerTime> {
        self.dates().history.to_come(self.here())
    }

    /// A time that has passed by two answers that agree.
    pub(crate) fn past(&self) -> Option<ServerTime> {
        self.dates().history.past(self.here())
    }

    /// Such a time by young answers alone.
    pub(crate) fn young_past(&self) -> Option<ServerTime> {
        self.dates().history.young_past(self.here())
    }

    /// The time that the newest answer told, to judge by.
    pub(crate) fn newest(&self) -> Option<ServerTime> {
        self.dates().history.newest(self.here())
    }

    /// Whether answers come, and none tells the time.
    pub(crate) fn is_silent(&self) -> bool {
        self.dates().history.is_silent()
    }

    fn here(&self) -> Here {
        Here {
            now: self.clock.now(),
            unix: self.clock.unix(),
        }
    }

    fn dates(&self) -> MutexGuard<'_, Dates> {
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
        if is_own {
            self.dates().boot_began = boot_began(response);
        }
        let sent = bag.load::<SentAt>().map(|SentAt(sent)| *sent);
        match (date, sent) {
            (Some(date), Some(sent)) => self.hear(date, sent, front_end::connection(bag)),
            (None, Some(sent)) if is_own => self.hear_no_date(sent),
            _ => exchange::saw(None),
        }
        Ok(())
    }
}

impl ServerClock {
    /// Takes in an answer that tells the time. Its connection is not used again if nothing confirms that time. Nor is it if
    /// nothing young confirms it and this host's wall clock tells another time. Over the same connection nothing more would be
    /// learnt.
    fn hear(&self, date: Duration, sent: Moment, connection: Option<ConnectionMetadata>) {
        let front_end = connection.as_ref().and_then(FrontEnd::of);
        let mut dates = self.dates();
        if !std::mem::replace(&mut dates.is_dated, true) {
            // All of it was told by the fallback.
            dates.history = DateHistory::default();
        }
        let retires = self.notes(&mut dates.history, date, sent, front_end);
        drop(dates);
        if let Some(connection) = connection.filter(|_| retires) {
            connection.poison();
        }
    }

    /// Takes in an answer of DynamoDB's own without a `Date`. If a clock stands in for it, that is a time which no front end is known to have
    /// told. So two such answers agree.
    fn hear_no_date(&self, sent: Moment) {
        let mut dates = self.dates();
        let is_date = |clock: &&Clock| clock.unix().as_secs() <= LAST_DATE;
        let fallback = self.fallback.as_ref().filter(is_date);
        let Some(clock) = fallback.filter(|_| !dates.is_dated) else {
            exchange::saw(None);
            return dates.history.hear_no_date();
        };
        // In whole seconds, as a `Date` is.
        let date = Duration::from_secs(clock.unix().as_secs());
        let _ = self.notes(&mut dates.history, date, sent, None);
    }

    /// Notes what time an answer told. Returns whether its connection is not to be used again.
    fn notes(
        &self,
        history: &mut DateHistory<FrontEnd>,
        date: Duration,
        sent: Moment,
        front_end: Option<FrontEnd>,
    ) -> bool {
        let here = self.here();
        let seen = Seen {
            date,
            sent,
            arrived: here.now,
            front_end,
        };
        let heard = history.hear(seen, here);
        let newest = history.newest(here).filter(|_| heard != Heard::Again);
        exchange::saw(newest.map(|date| date.0));
        history.retires(heard, date, here)
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

/// Sent by an embedded engine on a file. No process that wrote the file before that time is alive.
fn boot_began(response: &HttpResponse) -> Option<ServerTime> {
    let seconds = response.headers().get("x-fairlock-boot-began")?;
    let seconds = seconds.parse().ok()?;
    Some(ServerTime(Duration::from_secs(seconds)))
}

fn parse(date: &str) -> Option<Duration> {
    let time = DateTime::from_str(date, Format::HttpDate).ok()?;
    u64::try_from(time.secs()).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: Duration = Duration::from_secs(1_700_000_000);
    const HOUR: Duration = Duration::from_secs(3_600);
    const SECOND: Duration = Duration::from_secs(1);

    /// The clock of a client whose host is an hour ahead, with this clock in place of missing `Date`s.
    fn server(fallback: Option<Clock>) -> ServerClock {
        ServerClock::new(Clock::of_tokio(DATE + HOUR), fallback)
    }

    fn is_about(told: Option<ServerTime>, time: Duration) -> bool {
        told.is_some_and(|told| told.0.abs_diff(time) <= 2 * SECOND)
    }

    #[test]
    fn two_answers_without_a_date_tell_the_time_of_the_fallback_and_none_without_it() {
        let with = server(Some(Clock::of_tokio(DATE)));
        with.hear_no_date(with.here().now);
        assert_eq!(with.stamp(), None, "nothing confirms the first");
        with.hear_no_date(with.here().now);
        assert!(is_about(with.stamp(), DATE) && is_about(with.newest(), DATE));
        assert!(with.goes_by_fallback() && !with.is_silent());
        let without = server(None);
        (0..2).for_each(|_| without.hear_no_date(without.here().now));
        assert_eq!((without.stamp(), without.newest()), (None, None));
        assert!(without.is_silent() && !without.goes_by_fallback());
    }

    #[test]
    fn a_date_wins_over_the_fallback_whichever_comes_first() {
        for before in [0, 2, 9] {
            let server = server(Some(Clock::of_tokio(DATE - HOUR)));
            let sent = server.here().now;
            (0..before).for_each(|_| server.hear_no_date(sent));
            (0..2).for_each(|_| server.hear(DATE, sent, None));
            (0..9).for_each(|_| server.hear_no_date(sent));
            let told = [
                server.stamp(),
                server.newest(),
                server.past(),
                server.latest(),
            ];
            assert!(told.iter().all(|told| is_about(*told, DATE)), "{told:?}");
            assert!(!server.goes_by_fallback());
        }
    }

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
