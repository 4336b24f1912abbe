//! DynamoDB's own time, read off the `Date` of its answers.
//!
//! Each front end of DynamoDB has a clock of its own, and one of them may be wrong. Whatever is written down is dated by what
//! two of them agree on, or one of them and this host; and no entry is judged by the `Date` of one answer alone: that is up to
//! `witness`. A connection leads to one front end for as long as it is kept, so one whose time nothing confirms is not kept: the
//! next answer comes from another. What a gateway says of the time while DynamoDB is out of reach does not count.

use std::cmp::Reverse;
use std::collections::VecDeque;
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
use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::witness::AGREE;

use super::exchange;
use super::front_end::{self, FrontEnd};

/// An answer older than this says too little about the time now.
const OLDEST: Duration = Duration::from_secs(300);
/// So many of the newest answers are remembered.
const REMEMBERED: usize = 8;
/// By this share a host's clock may run slow, and is taken to when the last `Date` is carried on: 2 %.
const DRIFT_DIVISOR: u32 = 50;
/// By two answers as young as this the past is told to half a second.
const YOUNG: Duration = Duration::from_secs(25);

/// The newest `Date`s seen by a client, and when the requests were sent that brought them.
#[derive(Clone, Debug)]
pub(crate) struct ServerClock {
    clock: Clock,
    told: Arc<Mutex<Told>>,
}

#[derive(Debug, Default)]
struct Told {
    /// In the order in which they arrived.
    seen: VecDeque<Seen>,
    /// Some answer came without any.
    is_silent: bool,
    /// A time that had passed by young answers, and when they told it last.
    past: Option<(ServerTime, Moment)>,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    date: Duration,
    sent: Moment,
    arrived: Moment,
    /// None if the transport does not tell: then each answer counts as that of another one.
    front_end: Option<FrontEnd>,
}

impl Seen {
    fn is_fresh(&self, now: Moment) -> bool {
        self.is_within(OLDEST, now)
    }

    fn is_within(&self, span: Duration, now: Moment) -> bool {
        now.since(self.sent) <= span
    }

    /// Whether both tell the same time, though this host's clock drifted between them.
    fn agrees(&self, other: &Seen, now: Moment) -> bool {
        let between = self.sent.since(other.sent).max(other.sent.since(self.sent));
        let apart = self.late(now).abs_diff(other.late(now));
        apart <= AGREE + 2 * (between / DRIFT_DIVISOR)
    }

    /// Whether the other came from another front end, as far as the transport tells.
    fn is_apart_from(&self, other: &Seen) -> bool {
        self.front_end.is_none() || self.front_end != other.front_end
    }

    /// Whether it tells this time, but for so much.
    fn tells(&self, unix: Duration, but: Duration, now: Moment) -> bool {
        self.early(now) <= unix + but && unix <= self.late(now) + but
    }

    /// What time it is by this answer: late rather than early, whatever this host's clock does within its margin.
    fn late(&self, now: Moment) -> Duration {
        let since = now.since(self.sent);
        self.date + since + since / DRIFT_DIVISOR
    }

    /// The same, early rather than late.
    fn early(&self, now: Moment) -> Duration {
        let since = now.since(self.arrived);
        self.date + (since - since / DRIFT_DIVISOR)
    }
}

impl ServerClock {
    pub(crate) fn new(clock: Clock) -> Self {
        ServerClock {
            clock,
            told: Arc::default(),
        }
    }

    /// The time to write into an entry: early by no more than the grain of a `Date`, and late by no more than the answer
    /// took that told it, and 2 % of the time since. An entry that is dated too early is taken for dead while its owner lives, so
    /// this is the latest that two answers agree on, or one answer and the wall clock of this host, which by itself counts for
    /// nothing. Nothing when none told the time lately, or while nothing confirms those that did: the next one tells which was
    /// wrong.
    pub(crate) fn stamp(&self) -> Option<ServerTime> {
        let (told, now, unix) = (self.told(), self.clock.now(), self.clock.unix());
        let all = told.seen.iter().enumerate();
        let latest = all.fold(None, |latest, (index, seen)| {
            let late = Some(seen.late(now));
            // One that is no later is not looked into: this is asked many times in every turn.
            let is_later = late > latest && told.is_agreed_on(index, now, unix);
            if is_later { late } else { latest }
        });
        latest.map(ServerTime)
    }

    /// Whether there is a stamp.
    pub(crate) fn has_stamp(&self) -> bool {
        let (told, now, unix) = (self.told(), self.clock.now(), self.clock.unix());
        let mut newest_first = (0..told.seen.len()).rev();
        newest_first.any(|index| told.is_agreed_on(index, now, unix))
    }

    /// The latest that any answer told lately, whether or not anything confirms it.
    pub(crate) fn latest(&self) -> Option<ServerTime> {
        let (told, now) = (self.told(), self.clock.now());
        let fresh = told.seen.iter().filter(|seen| seen.is_fresh(now));
        fresh.map(|seen| seen.late(now)).max().map(ServerTime)
    }

    /// Whether there is a stamp, or one answer more may bring it: only one told the time so far, and nothing confirms it.
    pub(crate) fn may_stamp_soon(&self) -> bool {
        let is_alone = self.told().seen.len() == 1;
        is_alone || self.has_stamp()
    }

    /// Whether it is so late by an answer that tells it lately, but for the grain of a `Date`.
    pub(crate) fn shows(&self, unix: Duration) -> bool {
        let (told, now) = (self.told(), self.clock.now());
        let mut fresh = told.seen.iter().filter(|seen| seen.is_fresh(now));
        fresh.any(|seen| seen.tells(unix, DATE_GRAIN, now))
    }

    /// The time to write into a renewal: the same, or else by the last answer however long ago it came. A renewal that took the
    /// date off its entry would leave nothing to judge it by; and too late is safe.
    pub(crate) fn stamp_of_renewal(&self) -> Option<ServerTime> {
        let by_last = || {
            let (told, now) = (self.told(), self.clock.now());
            let last = told.seen.back().filter(|seen| !seen.is_fresh(now))?;
            Some(ServerTime(last.late(now)))
        };
        self.stamp().or_else(by_last)
    }

    /// A time that has passed by two answers that agree, those of one front end only where this host's wall clock tells the same:
    /// by this a lease begins that its holder believes in to the end. By young answers if there are two, for the older they are
    /// the earlier it is; also where they were young a moment ago, as they are for a write that is sent once more. Nothing when no two
    /// told the same time lately.
    pub(crate) fn past(&self) -> Option<ServerTime> {
        let young = self.young_past().or_else(|| self.young_past_carried_on());
        young.or_else(|| self.past_within(OLDEST))
    }

    /// The same by young answers alone.
    pub(crate) fn young_past(&self) -> Option<ServerTime> {
        let past = self.past_within(YOUNG)?;
        self.told().past = Some((past, self.clock.now()));
        Some(past)
    }

    fn young_past_carried_on(&self) -> Option<ServerTime> {
        let (past, then) = self.told().past?;
        let since = self.clock.now().since(then);
        let now = past.0 + (since - since / DRIFT_DIVISOR);
        (since <= YOUNG).then_some(ServerTime(now))
    }

    fn past_within(&self, span: Duration) -> Option<ServerTime> {
        let (told, now, unix) = (self.told(), self.clock.now(), self.clock.unix());
        let fresh = told.seen.iter().filter(|seen| seen.is_within(span, now));
        let fresh = Told::of(fresh.copied());
        let agreed = fresh.seen.iter().enumerate().filter(|(index, seen)| {
            let is_told_twice = fresh.repeats(*index, now) && seen.tells(unix, AGREE, now);
            is_told_twice || fresh.confirms(*index, now)
        });
        let agreed = agreed.map(|(_, seen)| seen.early(now));
        agreed.min().map(ServerTime)
    }

    /// What the newest answer said, by itself.
    pub(crate) fn newest(&self) -> Option<ServerTime> {
        self.told().seen.back().map(|seen| ServerTime(seen.date))
    }

    /// Answers come, and none tells the time.
    pub(crate) fn is_silent(&self) -> bool {
        let told = self.told();
        told.is_silent && told.seen.is_empty()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anything confirms the time that an answer tells.
    fn saw(&self, seen: Seen) -> Heard {
        let (mut told, now, unix) = (self.told(), self.clock.now(), self.clock.unix());
        told.forget(&seen);
        let is_known = seen.front_end.is_some();
        let spoke = is_known && !told.seen.iter().all(|before| seen.is_apart_from(before));
        told.seen.push_back(seen);
        let is_confirmed = told.confirms(told.seen.len() - 1, now) || seen.tells(unix, AGREE, now);
        match (is_confirmed, spoke) {
            (true, _) => Heard::Confirmed,
            (false, false) => Heard::First,
            (false, true) => Heard::Again,
        }
    }
}

impl Told {
    fn of(seen: impl Iterator<Item = Seen>) -> Told {
        Told {
            seen: seen.collect(),
            ..Told::default()
        }
    }

    /// Makes room for one more. Of the front end that told most of what is remembered, its first answer goes: so each of them has a
    /// share, to confirm what others tell and to be confirmed itself.
    fn forget(&mut self, next: &Seen) {
        self.seen
            .retain(|before| next.sent.since(before.sent) <= OLDEST);
        if self.seen.len() < REMEMBERED {
            return;
        }
        let share = |one: &Seen| {
            let all = self.seen.iter().chain([next]);
            all.filter(|other| !one.is_apart_from(other)).count()
        };
        // The first of those whose shares are alike.
        let all = self.seen.iter().enumerate();
        let first = all.min_by_key(|(_, seen)| Reverse(share(seen)));
        if let Some((first, _)) = first {
            self.seen.remove(first);
        }
    }

    /// Whether what a fresh answer tells is confirmed, however long ago the one came that does.
    fn is_agreed_on(&self, index: usize, now: Moment, unix: Duration) -> bool {
        let seen = &self.seen[index];
        seen.is_fresh(now) && (seen.tells(unix, AGREE, now) || self.confirms(index, now))
    }

    /// Whether another front end told the same time as this answer.
    fn confirms(&self, index: usize, now: Moment) -> bool {
        let seen = &self.seen[index];
        self.repeated(index, now)
            .any(|other| seen.is_apart_from(other))
    }

    /// Whether another answer told the same time as this one, be it of the same front end.
    fn repeats(&self, index: usize, now: Moment) -> bool {
        self.repeated(index, now).next().is_some()
    }

    fn repeated(&self, index: usize, now: Moment) -> impl Iterator<Item = &Seen> {
        let others = self.seen.iter().enumerate();
        let others = others.filter(move |(other, _)| *other != index);
        let seen = self.seen[index];
        let others = others.map(|(_, other)| other);
        others.filter(move |other| seen.agrees(other, now))
    }
}

/// What the time that an answer tells is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    /// Another front end tells the same, or the wall clock of this host.
    Confirmed,
    /// Nothing confirms it, and its front end told nothing before.
    First,
    /// Nothing confirms it, and its front end told the time before: it is the same witness once more.
    Again,
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
                self.told().is_silent |= is_own;
            }
        }
        Ok(())
    }
}

impl ServerClock {
    /// An answer came that tells the time. The connection that it came over is not used again if nothing confirms that time, or
    /// nothing young where this host's wall clock tells another: over the same connection nothing more would be learnt.
    fn hear(&self, date: Duration, sent: Moment, connection: Option<ConnectionMetadata>) {
        let heard = self.saw(Seen {
            date,
            sent,
            arrived: self.clock.now(),
            front_end: connection.as_ref().and_then(FrontEnd::of),
        });
        exchange::saw((heard != Heard::Again).then_some(date));
        let is_alone = heard != Heard::Confirmed || self.lacks_a_young_witness(date);
        if let Some(connection) = connection.filter(|_| is_alone) {
            connection.poison();
        }
    }

    /// Whether neither another front end confirms what answers told just now, nor this host's wall clock.
    fn lacks_a_young_witness(&self, date: Duration) -> bool {
        let is_by_the_wall_clock = date.abs_diff(self.clock.unix()) <= AGREE;
        !is_by_the_wall_clock && self.young_past().is_none()
    }
}

/// Whether it is what DynamoDB says. A gateway before it, which cannot reach it or lets nobody through, answers by a clock of its
/// own, or by none.
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

    const DATE: Duration = Duration::from_secs(1_700_000_000);

    /// A clock of a client to which answers told these times, in seconds from a date on, each within `took`.
    fn told(took: Duration, seconds: &[i64]) -> ServerClock {
        let clock = Clock::system();
        let server = ServerClock::new(clock.clone());
        let arrived = clock.now() + took;
        for seconds in seconds {
            let date = Duration::from_secs(DATE.as_secs().saturating_add_signed(*seconds));
            let sent = clock.now();
            let _ = server.saw(Seen {
                date,
                sent,
                arrived,
                front_end: None,
            });
        }
        server
    }

    /// In whole seconds.
    fn seconds(time: Option<ServerTime>) -> Option<i64> {
        let time = time?.0.as_secs();
        Some(time.cast_signed() - DATE.as_secs().cast_signed())
    }

    #[test]
    fn a_stamp_is_never_early_and_the_past_never_late() {
        let server = told(Duration::ZERO, &[]);
        assert_eq!(
            (server.stamp(), server.past(), server.newest()),
            (None, None, None)
        );
        let server = told(Duration::from_secs(1), &[0, 0]);
        assert!(server.stamp().unwrap().0 >= DATE);
        assert_eq!(server.past(), Some(ServerTime(DATE)));
        let seen = Seen {
            date: DATE,
            sent: Moment::default(),
            arrived: Moment::default() + Duration::from_secs(10),
            front_end: None,
        };
        let then = Moment::default() + Duration::from_secs(110);
        assert_eq!(seen.late(then) - DATE, Duration::from_millis(112_200));
        assert_eq!(seen.early(then) - DATE, Duration::from_secs(98));
    }

    #[test]
    fn one_front_end_that_is_wrong_dates_nothing() {
        for (dates, stamp, past) in [
            (&[0, 0, 13][..], Some(0), Some(0)),
            (&[0, 0, -60, 0], Some(0), Some(0)),
            (&[13, 0, 0], Some(0), Some(0)),
            (&[3600, 1, 2], Some(2), Some(1)),
            (&[-3600, 1, 2], Some(2), Some(1)),
            // Nothing confirms the first.
            (&[13], None, None),
            (&[13, 13], Some(13), Some(13)),
            // Of two alone nobody knows which is wrong.
            (&[0, 13], None, None),
        ] {
            let server = told(Duration::ZERO, dates);
            let told = (seconds(server.stamp()), seconds(server.past()));
            assert_eq!(told, (stamp, past), "{dates:?}");
        }
    }

    /// Of a host whose wall clock shows the date of the tests.
    fn told_where_it_is_so_late(ahead: i64, dates: &[i64]) -> Option<i64> {
        let unix = DATE.as_secs().saturating_add_signed(ahead);
        let clock = Clock::of_tokio(Duration::from_secs(unix));
        let server = ServerClock::new(clock.clone());
        for told in dates {
            let date = Duration::from_secs(DATE.as_secs().saturating_add_signed(*told));
            let sent = clock.now();
            let _ = server.saw(Seen {
                date,
                sent,
                arrived: sent,
                front_end: None,
            });
        }
        seconds(server.stamp())
    }

    #[test]
    fn a_wall_clock_confirms_an_answer_and_dates_nothing_by_itself() {
        for (ahead, dates, stamp) in [
            (0, &[0][..], Some(0)),
            (-5, &[0], Some(0)),
            (60, &[0], None),
            (0, &[-60], None),
            (0, &[-60, 0], Some(0)),
            (60, &[-60, 0], None),
            (0, &[], None),
            (-60, &[0, 0], Some(0)),
        ] {
            let told = told_where_it_is_so_late(ahead, dates);
            assert_eq!(told, stamp, "{ahead} s ahead, {dates:?}");
        }
    }

    #[test]
    fn what_was_told_first_is_forgotten_and_the_last_is_kept() {
        let server = told(Duration::ZERO, &[0; REMEMBERED + 1]);
        assert_eq!(server.told().seen.len(), REMEMBERED);
        let later = server.clock.now() + OLDEST * 2;
        let _ = server.saw(Seen {
            date: DATE,
            sent: later,
            arrived: later,
            front_end: None,
        });
        assert_eq!(server.told().seen.len(), 1);
    }

    /// Answers of these front ends told these times, on a host whose wall clock is so late.
    fn told_by(ahead: i64, answers: &[(u64, i64)]) -> (ServerClock, Vec<Heard>) {
        let unix = DATE.as_secs().saturating_add_signed(ahead);
        let clock = Clock::of_tokio(Duration::from_secs(unix));
        let server = ServerClock::new(clock.clone());
        let heard = answers.iter().map(|(number, told)| {
            server.saw(Seen {
                date: Duration::from_secs(DATE.as_secs().saturating_add_signed(*told)),
                sent: clock.now(),
                arrived: clock.now(),
                front_end: Some(FrontEnd::number(*number)),
            })
        });
        let heard = heard.collect();
        (server, heard)
    }

    #[test]
    fn a_front_end_is_one_witness_however_often_it_answers() {
        use Heard::{Again, Confirmed, First};
        for (ahead, answers, heard, stamp, past) in [
            // By a wall clock that is right.
            (0, &[(1, 0)][..], &[Confirmed][..], Some(0), None),
            (0, &[(1, 0), (1, 0)], &[Confirmed; 2], Some(0), Some(0)),
            (0, &[(1, 60), (1, 60)], &[First, Again], None, None),
            (0, &[(1, -60), (1, -60)], &[First, Again], None, None),
            (0, &[(1, 60), (2, 0)], &[First, Confirmed], Some(0), None),
            // By another front end alone.
            (900, &[(1, 0), (1, 0)], &[First, Again], None, None),
            (
                900,
                &[(1, 0), (2, 0)],
                &[First, Confirmed],
                Some(0),
                Some(0),
            ),
            (
                900,
                &[(1, 60), (1, 60), (2, 0), (3, 0)],
                &[First, Again, First, Confirmed],
                Some(0),
                Some(0),
            ),
            // One that is wrong as the wall clock is.
            (900, &[(1, 900)], &[Confirmed], Some(900), None),
        ] {
            let (server, was) = told_by(ahead, answers);
            let told = (seconds(server.stamp()), seconds(server.past()));
            assert_eq!((&was[..], told), (heard, (stamp, past)), "{answers:?}");
        }
    }

    #[test]
    fn who_confirms_a_front_end_is_remembered_though_it_answers_often() {
        let mut answers = vec![(1, 0)];
        answers.extend([(2, 0); 3 * REMEMBERED]);
        let (server, heard) = told_by(900, &answers);
        assert_eq!(server.told().seen.len(), REMEMBERED);
        assert_eq!(heard[0], Heard::First);
        assert!(heard[1..].iter().all(|heard| *heard == Heard::Confirmed));
    }
}
