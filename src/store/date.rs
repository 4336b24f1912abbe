//! DynamoDB's own time, read off the `Date` of its answers.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_smithy_types::DateTime;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use aws_smithy_types::date_time::Format;

use crate::clock::Clock;
use crate::entry::ServerTime;
use crate::moment::Moment;

/// An answer older than this says too little about the time now.
const OLDEST: Duration = Duration::from_secs(300);
/// A `Date` has whole seconds and DynamoDB's hosts differ a little, so whoever judges by one takes off as much.
const GRAIN: Duration = Duration::from_secs(1);

/// The last `Date` seen by a client, and when the request that brought it was sent.
#[derive(Clone, Debug)]
pub(crate) struct ServerClock {
    clock: Clock,
    last: Arc<Mutex<Option<Seen>>>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    date: Duration,
    sent: Moment,
    arrived: Moment,
}

impl ServerClock {
    pub(crate) fn new(clock: Clock) -> Self {
        ServerClock {
            clock,
            last: Arc::default(),
        }
    }

    /// The time to write into an entry: early by no more than the grain of a `Date` and what this host's clock runs slow since
    /// the last one, and late by no more than the answer that told it took. Nothing when none did lately.
    pub(crate) fn stamp(&self) -> Option<ServerTime> {
        let seen = self.last()?;
        let since = self.clock.now().since(seen.sent);
        (since <= OLDEST).then(|| ServerTime(seen.date + since))
    }

    /// A time that has passed: by this a lease begins that its holder believes in to the end. As late as is known, unless this
    /// host's clock runs fast since the last answer. Nothing when none told it lately.
    pub(crate) fn past(&self) -> Option<ServerTime> {
        let seen = self.last()?;
        let since = self.clock.now().since(seen.arrived);
        (since <= OLDEST).then(|| ServerTime(seen.date + since))
    }

    /// The time to judge others by: never later than now, for every `Date` seen so far was told before. The caller has just
    /// had an answer.
    pub(crate) fn judge(&self) -> Option<ServerTime> {
        let seen = self.last()?;
        let fresh = self.clock.now().since(seen.sent) <= OLDEST;
        fresh.then(|| ServerTime(seen.date.saturating_sub(GRAIN)))
    }

    fn last(&self) -> Option<Seen> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of answers that overtook one another the latest `Date` stands.
    fn saw(&self, seen: Seen) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last
            .is_none_or(|before| before.date <= seen.date || seen.sent.since(before.sent) > OLDEST)
        {
            *last = Some(seen);
        }
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
        bag.interceptor_state().store_put(SentAt(self.clock.now()));
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date").and_then(parse);
        if let (Some(date), Some(SentAt(sent))) = (date, bag.load::<SentAt>()) {
            let (sent, arrived) = (*sent, self.clock.now());
            self.saw(Seen {
                date,
                sent,
                arrived,
            });
        }
        Ok(())
    }
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

    #[test]
    fn a_stamp_is_never_early_and_a_judgement_never_late() {
        let clock = Clock::system();
        let server = ServerClock::new(clock.clone());
        assert_eq!((server.stamp(), server.judge()), (None, None));
        let date = Duration::from_secs(1_700_000_000);
        let sent = clock.now();
        server.saw(Seen {
            date,
            sent,
            arrived: sent + Duration::from_secs(1),
        });
        assert!(server.stamp().unwrap().0 >= date);
        assert_eq!(server.past(), Some(ServerTime(date)));
        assert_eq!(server.judge(), Some(ServerTime(date - GRAIN)));
    }

    #[test]
    fn an_earlier_date_that_comes_late_changes_nothing() {
        let clock = Clock::system();
        let server = ServerClock::new(clock.clone());
        for seconds in [1_700_000_005, 1_700_000_003] {
            server.saw(Seen {
                date: Duration::from_secs(seconds),
                sent: clock.now(),
                arrived: clock.now(),
            });
        }
        assert_eq!(
            server.last().unwrap().date,
            Duration::from_secs(1_700_000_005)
        );
    }
}
