//! DynamoDB's own time, read off the `Date` of its answers, and the wall clock of this host beside it.
//!
//! What a gateway says of the time while DynamoDB is out of reach does not count.
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
use aws_smithy_types::DateTime;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use aws_smithy_types::date_time::Format;

use crate::runtime::clock::Clock;
use fairlock_protocol::clocks::Clocks;
use fairlock_protocol::moment::{HostTime, Moment, ServerTime};
use fairlock_protocol::stamps::LastDate;
use fairlock_protocol::told::ToldTime;

use super::exchange;

/// The last second that a `Date` can tell, at the end of the year 9999.
const LAST_DATE: u64 = 253_402_300_799;

/// What the answers of a client have told of the time.
#[derive(Clone, Debug)]
pub(crate) struct ServerClock {
    clock: Clock,
    /// Stands in for the `Date` that answers do not have.
    fallback: Option<Clock>,
    told: Arc<Mutex<Told>>,
}

#[derive(Debug, Default)]
struct Told {
    time: ToldTime,
    /// When the only machine whose processes use the table was started. An answer that says so comes from an engine on this very machine.
    boot_began: Option<ServerTime>,
}

impl ServerClock {
    pub(crate) fn new(clock: Clock, fallback: Option<Clock>) -> Self {
        ServerClock {
            clock,
            fallback,
            told: Arc::default(),
        }
    }

    /// Whether the times that are known come from the clock that stands in for missing `Date`s.
    pub(crate) fn goes_by_fallback(&self) -> bool {
        self.told().time.is_of_a_stand_in()
    }

    /// When the only machine whose processes use the table was started, if the newest answer says so.
    pub(crate) fn boot_began(&self) -> Option<ServerTime> {
        self.told().boot_began
    }

    /// What is known of the time now. The moment is read before the wall clock.
    pub(crate) fn clocks(&self) -> Clocks {
        let now = self.clock.now();
        let host = HostTime(self.clock.unix());
        let told = self.told();
        Clocks {
            now,
            host,
            told: told.time,
            boot: told.boot_began,
        }
    }

    /// What is told of the time.
    pub(crate) fn time(&self) -> ToldTime {
        self.told().time
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
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
            self.told().boot_began = boot_began(response);
        }
        let sent = bag.load::<SentAt>().map(|SentAt(sent)| *sent);
        match (date, sent) {
            (Some(date), Some(sent)) => self.hear(date, sent),
            (None, Some(sent)) if is_own => self.hear_no_date(sent),
            _ => exchange::saw(None),
        }
        Ok(())
    }
}

impl ServerClock {
    fn hear(&self, date: Duration, sent: Moment) {
        exchange::saw(Some(date));
        let heard = self.heard(date, sent);
        self.told().time.hear(heard);
    }

    /// Takes in an answer of DynamoDB's own without a `Date`.
    fn hear_no_date(&self, sent: Moment) {
        let is_date = |clock: &&Clock| clock.unix().as_secs() <= LAST_DATE;
        let fallback = self.fallback.as_ref().filter(is_date);
        // In whole seconds, as a `Date` is.
        let stand_in = fallback.map(|clock| Duration::from_secs(clock.unix().as_secs()));
        let mut told = self.told();
        told.time
            .hear_no_date(stand_in.map(|date| self.heard(date, sent)));
        exchange::saw(stand_in.filter(|_| told.time.is_of_a_stand_in()));
    }

    fn heard(&self, date: Duration, sent: Moment) -> LastDate {
        LastDate {
            date: ServerTime(date),
            sent,
            arrived: self.clock.now(),
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
    use aws_smithy_types::body::SdkBody;

    use super::*;

    const DATE: Duration = Duration::from_secs(1_700_000_000);
    const HOUR: Duration = Duration::from_secs(3_600);
    const SECOND: Duration = Duration::from_secs(1);

    /// The clock of a client whose host is an hour ahead, with this clock in place of missing `Date`s.
    fn server(fallback: Option<Clock>) -> ServerClock {
        ServerClock::new(Clock::of_tokio(DATE + HOUR), fallback)
    }

    fn tells(server: &ServerClock) -> Option<Duration> {
        server.clocks().stamps().server.map(|told| told.0)
    }

    #[test]
    fn an_answer_without_a_date_tells_the_time_of_the_fallback_and_none_without_it() {
        let with = server(Some(Clock::of_tokio(DATE)));
        with.hear_no_date(with.clock.now());
        assert!(tells(&with).is_some_and(|told| told.abs_diff(DATE) <= 2 * SECOND));
        assert!(with.goes_by_fallback() && !with.time().is_silent());
        let without = server(None);
        without.hear_no_date(without.clock.now());
        assert_eq!((tells(&without), without.clocks().past()), (None, None));
        assert!(without.time().is_silent() && !without.goes_by_fallback());
    }

    #[test]
    fn a_date_wins_over_the_fallback_whichever_comes_first() {
        for before in [0, 2, 9] {
            let server = server(Some(Clock::of_tokio(DATE - HOUR)));
            let sent = server.clock.now();
            (0..before).for_each(|_| server.hear_no_date(sent));
            server.hear(DATE, sent);
            (0..9).for_each(|_| server.hear_no_date(sent));
            assert!(tells(&server).is_some_and(|told| told.abs_diff(DATE) <= 2 * SECOND));
            assert!(!server.goes_by_fallback());
        }
    }

    #[test]
    fn an_answer_of_a_gateway_is_not_dynamodbs_own() {
        let answer = |status: u16, kind: Option<&'static str>| {
            let mut answer = HttpResponse::new(status.try_into().unwrap(), SdkBody::empty());
            if let Some(kind) = kind {
                answer.headers_mut().insert("content-type", kind);
            }
            is_own(&answer)
        };
        let json = Some("application/x-amz-json-1.0");
        assert!(answer(200, json) && answer(400, json) && answer(200, None));
        assert!(!answer(500, json) && !answer(503, None) && !answer(403, Some("text/html")));
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
