//! What a client remembers of the time that DynamoDB's answers told, and what it writes down by it.
//!
//! Each front end of DynamoDB has a clock of its own, and one of them may be wrong. Whatever is written down is dated by what
//! two of them agree on, or one of them and this host.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use crate::entry::ServerTime;
use crate::moment::Moment;
use crate::witness::AGREE;

/// An answer older than this says too little about the time now.
const OLDEST: Duration = Duration::from_secs(300);
/// So many of the newest answers are remembered.
const REMEMBERED: usize = 8;
/// By this share a host's clock may run slow, and is taken to when the last `Date` is carried on: 2 %.
const DRIFT_DIVISOR: u32 = 50;
/// By two answers as young as this the past is told to half a second.
const YOUNG: Duration = Duration::from_secs(25);

/// What time it is on this host.
#[derive(Clone, Copy, Debug)]
pub struct Here {
    /// On the clock that leases are counted by.
    pub now: Moment,
    /// By the wall clock, since 1970.
    pub unix: Duration,
}

/// One answer that told the time.
#[derive(Clone, Copy, Debug)]
pub struct Seen<F> {
    /// Its `Date`, since 1970.
    pub date: Duration,
    /// When its request was sent.
    pub sent: Moment,
    /// When it arrived.
    pub arrived: Moment,
    /// None if the transport does not tell: then each answer counts as that of another one.
    pub front_end: Option<F>,
}

impl<F: PartialEq> Seen<F> {
    fn is_fresh(&self, now: Moment) -> bool {
        self.is_within(OLDEST, now)
    }

    fn is_within(&self, span: Duration, now: Moment) -> bool {
        now.since(self.sent) <= span
    }

    /// Whether both tell the same time, though this host's clock drifted between them.
    fn agrees(&self, other: &Seen<F>, now: Moment) -> bool {
        self.agrees_by(other, (self.late(now), other.late(now)))
    }

    /// The same where both times are known.
    fn agrees_by(&self, other: &Seen<F>, (own, theirs): (Duration, Duration)) -> bool {
        let apart = own.abs_diff(theirs);
        apart <= AGREE || {
            let between = self.sent.since(other.sent).max(other.sent.since(self.sent));
            apart <= AGREE + 2 * (between / DRIFT_DIVISOR)
        }
    }

    /// Whether the other came from another front end, as far as the transport tells.
    fn is_apart_from(&self, other: &Seen<F>) -> bool {
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

/// What the time that an answer tells is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Another front end tells the same, or the wall clock of this host.
    Confirmed,
    /// Nothing confirms it, and its front end told nothing before.
    First,
    /// Nothing confirms it, and its front end told the time before: it is the same witness once more.
    Again,
}

/// The newest `Date`s seen by a client, and when the requests were sent that brought them. `F` tells front ends apart.
#[derive(Clone, Debug)]
pub struct Told<F> {
    /// In the order in which they arrived.
    seen: VecDeque<Seen<F>>,
    /// Some answer came without any.
    is_silent: bool,
    /// A time that had passed by young answers, and when they told it last.
    past: Option<(ServerTime, Moment)>,
}

impl<F> Default for Told<F> {
    fn default() -> Self {
        Told {
            seen: VecDeque::new(),
            is_silent: false,
            past: None,
        }
    }
}

/// Answers come.
impl<F: PartialEq + Copy> Told<F> {
    /// An answer came that tells the time: whether anything confirms it.
    pub fn hear(&mut self, seen: Seen<F>, here: Here) -> Heard {
        self.forget(&seen);
        let is_known = seen.front_end.is_some();
        let spoke = is_known && !self.seen.iter().all(|before| seen.is_apart_from(before));
        self.seen.push_back(seen);
        let is_told_here = seen.tells(here.unix, AGREE, here.now);
        let is_confirmed = self.confirms(self.seen.len() - 1, here.now) || is_told_here;
        match (is_confirmed, spoke) {
            (true, _) => Heard::Confirmed,
            (false, false) => Heard::First,
            (false, true) => Heard::Again,
        }
    }

    /// An answer came that tells no time.
    pub fn hear_no_date(&mut self) {
        self.is_silent = true;
    }

    /// Whether the connection of an answer that was just heard is not used again: nothing confirms the time, or nothing young
    /// where this host's wall clock tells another. Over the same connection nothing more would be learnt.
    pub fn retires(&mut self, heard: Heard, date: Duration, here: Here) -> bool {
        heard != Heard::Confirmed || self.lacks_a_young_witness(date, here)
    }

    /// Whether neither another front end confirms what answers told just now, nor this host's wall clock.
    fn lacks_a_young_witness(&mut self, date: Duration, here: Here) -> bool {
        let is_by_the_wall_clock = date.abs_diff(here.unix) <= AGREE;
        !is_by_the_wall_clock && self.young_past(here).is_none()
    }

    /// Makes room for one more. Of the front end that told most of what is remembered, its first answer goes: so each of them has a
    /// share, to confirm what others tell and to be confirmed itself.
    fn forget(&mut self, next: &Seen<F>) {
        self.seen
            .retain(|before| next.sent.since(before.sent) <= OLDEST);
        if self.seen.len() < REMEMBERED {
            return;
        }
        let share = |one: &Seen<F>| {
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
}

/// What is written down.
impl<F: PartialEq + Copy> Told<F> {
    /// The time to write into an entry: early by no more than the grain of a `Date`, and late by no more than the answer
    /// took that told it, 2 % of the time since, and what two that agree may differ by. An entry that is dated too early is taken for
    /// dead while its owner lives, so this is the latest that two answers agree on, or one answer and the wall clock of this host,
    /// which by itself counts for nothing. Nothing when none told the time lately, or while nothing confirms those that did: the next
    /// one tells which was wrong.
    pub fn stamp(&self, here: Here) -> Option<ServerTime> {
        self.latest_agreed(here, |seen| seen.is_fresh(here.now))
    }

    /// The latest of some answers that something confirms, and of what confirms them.
    ///
    /// This is asked many times in every turn: each time is worked out once, and what could not be the latest is not looked into.
    fn latest_agreed(&self, here: Here, of: impl Fn(&Seen<F>) -> bool) -> Option<ServerTime> {
        let mut late = [Duration::ZERO; REMEMBERED];
        let times = late.iter_mut().zip(&self.seen);
        times.for_each(|(late, seen)| *late = seen.late(here.now));
        let all = || self.seen.iter().zip(late).enumerate();
        let mut latest = None;
        for (index, (seen, own)) in all().filter(|(_, (seen, _))| of(seen)) {
            let told_here = Some(own.max(here.unix));
            if told_here > latest && seen.tells(here.unix, AGREE, here.now) {
                latest = told_here;
            }
            for (other, (confirms, theirs)) in all() {
                let later = Some(own.max(theirs));
                let is_later = other != index && later > latest && seen.is_apart_from(confirms);
                if is_later && seen.agrees_by(confirms, (own, theirs)) {
                    latest = later;
                }
            }
        }
        latest.map(ServerTime)
    }

    /// Whether there is a stamp.
    pub fn has_stamp(&self, here: Here) -> bool {
        let mut newest_first = (0..self.seen.len()).rev();
        newest_first.any(|index| self.is_agreed_on(index, here))
    }

    /// The latest that any answer told lately, whether or not anything confirms it.
    pub fn latest(&self, now: Moment) -> Option<ServerTime> {
        let fresh = self.seen.iter().filter(|seen| seen.is_fresh(now));
        fresh.map(|seen| seen.late(now)).max().map(ServerTime)
    }

    /// Whether there is a stamp, or one answer more may bring it: only one told the time so far, and nothing confirms it.
    pub fn may_stamp_soon(&self, here: Here) -> bool {
        self.seen.len() == 1 || self.has_stamp(here)
    }

    /// Whether it is so late by an answer that tells it lately, but for so much.
    pub fn shows(&self, but: Duration, here: Here) -> bool {
        let mut fresh = self.seen.iter().filter(|seen| seen.is_fresh(here.now));
        fresh.any(|seen| seen.tells(here.unix, but, here.now))
    }

    /// The time to write into a renewal: the same, or else where nobody told the time lately, by answers however old that something
    /// confirms. A renewal that took the date off its entry would leave nothing to judge it by; and too late is safe.
    pub fn stamp_of_renewal(&self, here: Here) -> Option<ServerTime> {
        let is_fresh = |seen: &Seen<F>| seen.is_fresh(here.now);
        let by_old_ones = || match self.seen.iter().any(is_fresh) {
            true => None,
            false => self.latest_agreed(here, |_| true),
        };
        self.stamp(here).or_else(by_old_ones)
    }

    /// A time that has passed by two answers that agree, those of one front end only where this host's wall clock tells the same:
    /// by this a lease begins that its holder believes in to the end. By young answers if there are two, for the older they are
    /// the earlier it is; also where they were young a moment ago, as they are for a write that is sent once more. Nothing when no two
    /// told the same time lately.
    pub fn past(&mut self, here: Here) -> Option<ServerTime> {
        let young = self.young_past(here);
        let young = young.or_else(|| self.young_past_carried_on(here.now));
        young.or_else(|| self.past_within(OLDEST, here))
    }

    /// The same by young answers alone.
    pub fn young_past(&mut self, here: Here) -> Option<ServerTime> {
        let past = self.past_within(YOUNG, here)?;
        self.past = Some((past, here.now));
        Some(past)
    }

    fn young_past_carried_on(&self, now: Moment) -> Option<ServerTime> {
        let (past, then) = self.past?;
        let since = now.since(then);
        let now = past.0 + (since - since / DRIFT_DIVISOR);
        (since <= YOUNG).then_some(ServerTime(now))
    }

    fn past_within(&self, span: Duration, here: Here) -> Option<ServerTime> {
        let Here { now, unix } = here;
        let fresh = self.seen.iter().filter(|seen| seen.is_within(span, now));
        let fresh = Told {
            seen: fresh.copied().collect(),
            ..Told::default()
        };
        let agreed = fresh.seen.iter().enumerate().filter(|(index, seen)| {
            let is_told_twice = fresh.repeats(*index, now) && seen.tells(unix, AGREE, now);
            is_told_twice || fresh.confirms(*index, now)
        });
        let agreed = agreed.map(|(_, seen)| seen.early(now));
        agreed.min().map(ServerTime)
    }

    /// What time the newest answer told, for whoever judges by it: no later than by anything that confirms it. One that is wrong
    /// by a little is confirmed by those that are right, and judges twice over a connection that is kept.
    pub fn newest(&self, here: Here) -> Option<ServerTime> {
        let newest = self.seen.len().checked_sub(1)?;
        let date = self.seen[newest].date;
        let earliest = self.confirmers(newest, here).chain([date]).min();
        earliest.map(ServerTime)
    }

    /// Answers come, and none tells the time.
    pub fn is_silent(&self) -> bool {
        self.is_silent && self.seen.is_empty()
    }
}

/// What agrees.
impl<F: PartialEq + Copy> Told<F> {
    /// Whether what a fresh answer tells is confirmed, however long ago the one came that does.
    fn is_agreed_on(&self, index: usize, here: Here) -> bool {
        self.seen[index].is_fresh(here.now) && self.confirmers(index, here).next().is_some()
    }

    /// What time it is by each that confirms an answer: another front end that told the same, late rather than early, and this
    /// host's wall clock.
    fn confirmers(&self, index: usize, here: Here) -> impl Iterator<Item = Duration> {
        let Here { now, unix } = here;
        let seen = &self.seen[index];
        let others = self.repeated(index, now);
        let others = others.filter(|other| seen.is_apart_from(other));
        let told_here = seen.tells(unix, AGREE, now).then_some(unix);
        others.map(move |other| other.late(now)).chain(told_here)
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

    fn repeated(&self, index: usize, now: Moment) -> impl Iterator<Item = &Seen<F>> {
        let others = self.seen.iter().enumerate();
        let others = others.filter(move |(other, _)| *other != index);
        let seen = self.seen[index];
        let others = others.map(|(_, other)| other);
        others.filter(move |other| seen.agrees(other, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: Duration = Duration::from_secs(1_700_000_000);

    fn after(seconds: i64) -> Duration {
        Duration::from_secs(DATE.as_secs().saturating_add_signed(seconds))
    }

    fn at(seconds: u64) -> Moment {
        Moment::default() + Duration::from_secs(seconds)
    }

    /// At the beginning, on a host whose wall clock is so late.
    fn here(ahead: i64) -> Here {
        Here {
            now: at(0),
            unix: after(ahead),
        }
    }

    const FAR_OFF: i64 = -1_000_000;

    /// Answers of these front ends that told these times, in seconds from a date on, each within `took`.
    fn told_by(
        ahead: i64,
        took: Duration,
        answers: &[(Option<u64>, i64)],
    ) -> (Told<u64>, Vec<Heard>) {
        let mut told = Told::default();
        let heard = answers.iter().map(|(front_end, seconds)| {
            let seen = Seen {
                date: after(*seconds),
                sent: at(0),
                arrived: at(0) + took,
                front_end: *front_end,
            };
            told.hear(seen, here(ahead))
        });
        let heard = heard.collect();
        (told, heard)
    }

    fn told(ahead: i64, dates: &[i64]) -> Told<u64> {
        let answers: Vec<_> = dates.iter().map(|date| (None, *date)).collect();
        told_by(ahead, Duration::ZERO, &answers).0
    }

    /// In whole seconds.
    fn seconds(time: Option<ServerTime>) -> Option<i64> {
        let time = time?.0.as_secs();
        Some(time.cast_signed() - DATE.as_secs().cast_signed())
    }

    #[test]
    fn a_stamp_is_never_early_and_the_past_never_late() {
        let mut nothing = told(FAR_OFF, &[]);
        let now = here(FAR_OFF);
        assert_eq!(
            (nothing.stamp(now), nothing.past(now), nothing.newest(now)),
            (None, None, None)
        );
        let slow = Duration::from_secs(1);
        let (mut told, _) = told_by(FAR_OFF, slow, &[(None, 0), (None, 0)]);
        let later = Here {
            now: at(1),
            ..here(FAR_OFF)
        };
        assert_eq!(
            told.stamp(later),
            Some(ServerTime(DATE + Duration::from_millis(1_020)))
        );
        assert_eq!(told.past(later), Some(ServerTime(DATE)));
        let seen = Seen {
            date: DATE,
            sent: at(0),
            arrived: at(10),
            front_end: Some(1),
        };
        assert_eq!(seen.late(at(110)) - DATE, Duration::from_millis(112_200));
        assert_eq!(seen.early(at(110)) - DATE, Duration::from_secs(98));
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
            let mut told = told(FAR_OFF, dates);
            let now = here(FAR_OFF);
            let told = (seconds(told.stamp(now)), seconds(told.past(now)));
            assert_eq!(told, (stamp, past), "{dates:?}");
        }
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
            let told = seconds(told(ahead, dates).stamp(here(ahead)));
            assert_eq!(told, stamp, "{ahead} s ahead, {dates:?}");
        }
    }

    #[test]
    fn what_was_told_first_is_forgotten_and_the_last_is_kept() {
        let mut told = told(FAR_OFF, &[0; REMEMBERED + 1]);
        assert_eq!(told.seen.len(), REMEMBERED);
        let later = Moment::default() + OLDEST * 2;
        let seen = Seen {
            date: DATE,
            sent: later,
            arrived: later,
            front_end: None,
        };
        let _ = told.hear(seen, here(FAR_OFF));
        assert_eq!(told.seen.len(), 1);
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
            let known: Vec<_> = answers
                .iter()
                .map(|(by, date)| (Some(*by), *date))
                .collect();
            let (mut told, was) = told_by(ahead, Duration::ZERO, &known);
            let now = here(ahead);
            let told = (seconds(told.stamp(now)), seconds(told.past(now)));
            assert_eq!((&was[..], told), (heard, (stamp, past)), "{answers:?}");
        }
    }

    #[test]
    fn who_confirms_a_front_end_is_remembered_though_it_answers_often() {
        let mut answers = vec![(Some(1), 0)];
        answers.extend([(Some(2), 0); 3 * REMEMBERED]);
        let (told, heard) = told_by(900, Duration::ZERO, &answers);
        assert_eq!(told.seen.len(), REMEMBERED);
        assert_eq!(heard[0], Heard::First);
        assert!(heard[1..].iter().all(|heard| *heard == Heard::Confirmed));
    }

    /// An answer of a front end that is so far ahead, after so many seconds.
    fn answer(front_end: u64, ahead: i64, seconds: u64) -> Seen<u64> {
        Seen {
            date: after(ahead + seconds.cast_signed()),
            sent: at(seconds),
            arrived: at(seconds),
            front_end: Some(front_end),
        }
    }

    /// After so many seconds, on a host whose wall clock tells nothing.
    fn later(seconds: u64) -> Here {
        Here {
            now: at(seconds),
            unix: Duration::ZERO,
        }
    }

    #[test]
    fn one_that_is_behind_and_is_confirmed_by_an_old_answer_dates_no_earlier_than_that() {
        let mut told = Told::default();
        let _ = told.hear(answer(1, 0, 0), later(0));
        let heard = told.hear(answer(2, -13, 290), later(290));
        assert_eq!(heard, Heard::Confirmed);
        // The first is no longer fresh.
        assert!(seconds(told.stamp(later(310))) >= Some(310));
    }

    #[test]
    fn a_renewal_is_not_dated_by_an_old_answer_that_nothing_confirms() {
        let mut told = Told::default();
        let _ = told.hear(answer(1, -3_600, 0), later(0));
        assert_eq!(told.stamp_of_renewal(later(301)), None);
        let _ = told.hear(answer(2, 0, 0), later(0));
        let _ = told.hear(answer(3, 0, 0), later(0));
        assert!(seconds(told.stamp_of_renewal(later(301))) >= Some(301));
    }

    #[test]
    fn who_judges_goes_by_the_earlier_and_who_dates_by_the_later_of_those_that_agree() {
        for (ahead, answers, newest, stamp) in [
            (FAR_OFF, &[(1, 0), (2, 8)][..], 0, 8),
            (FAR_OFF, &[(1, 8), (2, 0)], 0, 8),
            (0, &[(1, 8)], 0, 8),
            (0, &[(1, -8)], -8, 0),
        ] {
            let known: Vec<_> = answers
                .iter()
                .map(|(by, date)| (Some(*by), *date))
                .collect();
            let (told, _) = told_by(ahead, Duration::ZERO, &known);
            let now = here(ahead);
            let told = (seconds(told.newest(now)), seconds(told.stamp(now)));
            assert_eq!(told, (Some(newest), Some(stamp)), "{ahead}, {answers:?}");
        }
    }
}
