//! What a client remembers of the time that DynamoDB's answers told, and how it stamps by it.
//!
//! Each front end of DynamoDB has a clock of its own, and one of them may be wrong. A client stamps only by a time on which two front ends
//! agree, or one front end and this host.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use crate::entry::ServerTime;
use crate::moment::Moment;
use crate::witness::{AGREE, GRAIN};

/// An answer older than this says too little about the time now.
const OLDEST: Duration = Duration::from_secs(300);
/// How many of the newest answers a client remembers.
const REMEMBERED: usize = 8;
/// The share by which a host's clock may run slow: 2 %. A client assumes it when it carries the last `Date` on.
const DRIFT_DIVISOR: u32 = 50;
/// Two answers no older than this tell a past time to within half a second.
const YOUNG: Duration = Duration::from_secs(25);

/// The time on this host.
#[derive(Clone, Copy, Debug)]
pub struct Here {
    /// On the clock that leases are counted by.
    pub now: Moment,
    /// By the wall clock, since 1970.
    pub unix: Duration,
}

/// An answer that told the time.
#[derive(Clone, Copy, Debug)]
pub struct Seen<F> {
    /// Its `Date`, since 1970.
    pub date: Duration,
    /// When its request was sent.
    pub sent: Moment,
    /// When it arrived.
    pub arrived: Moment,
    /// The front end that answered. `None` if the transport does not tell it: then each answer counts as that of another front end.
    pub front_end: Option<F>,
}

impl<F: PartialEq> Seen<F> {
    fn is_fresh(&self, now: Moment) -> bool {
        self.is_within(OLDEST, now)
    }

    fn is_within(&self, span: Duration, now: Moment) -> bool {
        now.since(self.sent) <= span
    }

    /// Whether both tell the same time, though this host's clock may have drifted between them.
    fn agrees(&self, other: &Seen<F>, now: Moment) -> bool {
        self.agrees_by(other, (self.late(now), other.late(now)))
    }

    /// Whether both tell the same time, by their times as already computed.
    fn agrees_by(&self, other: &Seen<F>, (own, theirs): (Duration, Duration)) -> bool {
        let apart = own.abs_diff(theirs);
        apart <= AGREE || {
            let between = self.sent.since(other.sent).max(other.sent.since(self.sent));
            apart <= AGREE + 2 * (between / DRIFT_DIVISOR)
        }
    }

    /// Whether the other answer came from another front end, as far as the transport tells.
    fn is_apart_from(&self, other: &Seen<F>) -> bool {
        self.front_end.is_none() || self.front_end != other.front_end
    }

    /// Whether this answer tells the time `unix`, give or take `but`.
    fn tells(&self, unix: Duration, but: Duration, now: Moment) -> bool {
        self.early(now) <= unix.saturating_add(but) && unix <= self.late(now).saturating_add(but)
    }

    /// The time by this answer, late rather than early, whatever this host's clock does within its margin.
    fn late(&self, now: Moment) -> Duration {
        let since = now.since(self.sent);
        let late = since.saturating_add(since / DRIFT_DIVISOR);
        self.date.saturating_add(late)
    }

    /// The time by this answer, early rather than late.
    fn early(&self, now: Moment) -> Duration {
        let since = now.since(self.arrived);
        self.date.saturating_add(since - since / DRIFT_DIVISOR)
    }
}

/// What the time that an answer tells is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Another front end, or the wall clock of this host, tells the same time.
    Confirmed,
    /// Nothing confirms it, and its front end told no time before.
    First,
    /// Nothing confirms it, and its front end told the time before: it is the same witness again.
    Again,
}

/// The newest `Date`s that a client saw, and when it sent the requests that brought them. `F` tells front ends apart.
#[derive(Clone, Debug)]
pub struct DateHistory<F> {
    /// In the order in which they arrived.
    seen: VecDeque<Seen<F>>,
    /// Some answer came without a `Date`.
    is_silent: bool,
    /// A time that had passed, by young answers, and when they last told it.
    past: Option<(ServerTime, Moment)>,
}

impl<F> Default for DateHistory<F> {
    fn default() -> Self {
        DateHistory {
            seen: VecDeque::new(),
            is_silent: false,
            past: None,
        }
    }
}

/// Taking in answers.
impl<F: PartialEq + Copy> DateHistory<F> {
    /// Takes in an answer that tells the time. Returns whether anything confirms it.
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

    /// Takes in an answer that tells no time.
    pub fn hear_no_date(&mut self) {
        self.is_silent = true;
    }

    /// Whether to stop using the connection of an answer that was just heard. It retires if nothing confirms the time. It also retires if
    /// this host's wall clock tells another time and no young answer confirms it. The same connection would teach nothing more.
    pub fn retires(&mut self, heard: Heard, date: Duration, here: Here) -> bool {
        heard != Heard::Confirmed || self.lacks_a_young_witness(date, here)
    }

    /// Whether neither another front end nor this host's wall clock confirms what answers told just now.
    fn lacks_a_young_witness(&mut self, date: Duration, here: Here) -> bool {
        let is_by_the_wall_clock = date.abs_diff(here.unix) <= AGREE;
        !is_by_the_wall_clock && self.young_past(here).is_none()
    }

    /// Makes room for one more answer. The front end with the largest share of the remembered answers loses its first. So each front end
    /// keeps a share, to confirm what others tell and to be confirmed itself.
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
        // If several shares are equal, the first answer goes.
        let all = self.seen.iter().enumerate();
        let first = all.min_by_key(|(_, seen)| Reverse(share(seen)));
        if let Some((first, _)) = first {
            self.seen.remove(first);
        }
    }
}

/// Stamping.
impl<F: PartialEq + Copy> DateHistory<F> {
    /// Returns the time to write into an entry.
    ///
    /// It is early by no more than the grain of a `Date`. It is late by no more than three times added up: what the telling answer took, 2
    /// % of the time since, and what two agreeing answers may differ by. An entry with too early a date counts as expired while its owner
    /// lives. So this is the latest time on which two answers agree, or one answer and the wall clock of this host. The wall clock by
    /// itself counts for nothing.
    ///
    /// Returns `None` if no answer told the time lately, or while nothing confirms the answers that did: the next answer tells which was
    /// wrong.
    pub fn stamp(&self, here: Here) -> Option<ServerTime> {
        self.latest_agreed(here, |seen| seen.is_fresh(here.now))
    }

    /// The latest time by confirmed answers of a selection, and by the answers that confirm them.
    ///
    /// Clients ask this many times in every turn. So each time is computed once, and an answer that could not be the latest is skipped.
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

    /// The latest time that any answer told lately, whether or not anything confirms it.
    pub fn latest(&self, now: Moment) -> Option<ServerTime> {
        let fresh = self.seen.iter().filter(|seen| seen.is_fresh(now));
        fresh.map(|seen| seen.late(now)).max().map(ServerTime)
    }

    /// Whether there is a stamp, or one more answer may bring it: only one answer has told the time so far, and nothing confirms it.
    pub fn may_stamp_soon(&self, here: Here) -> bool {
        self.seen.len() == 1 || self.has_stamp(here)
    }

    /// Whether an answer that told the time lately agrees with this host's wall clock, give or take `but`.
    pub fn shows(&self, but: Duration, here: Here) -> bool {
        let mut fresh = self.seen.iter().filter(|seen| seen.is_fresh(here.now));
        fresh.any(|seen| seen.tells(here.unix, but, here.now))
    }

    /// Returns the time to write into a renewal: the stamp or, if no answer told the time lately, the time by confirmed answers of any age.
    /// A renewal that took the date off its entry would leave nothing to judge it by, and too late a date is safe.
    pub fn stamp_of_renewal(&self, here: Here) -> Option<ServerTime> {
        let is_fresh = |seen: &Seen<F>| seen.is_fresh(here.now);
        let by_old_ones = || match self.seen.iter().any(is_fresh) {
            true => None,
            false => self.latest_agreed(here, |_| true),
        };
        self.stamp(here).or_else(by_old_ones)
    }

    /// Returns a time that is not over yet, for an end by which no client is safe or in danger. Where an answer confirms this host's wall clock,
    /// it is that clock's. Else it is what the newest answer told, with the grain of a `Date`, whether or not anything confirms it.
    pub fn to_come(&self, here: Here) -> Option<ServerTime> {
        let newest = self.seen.back().filter(|seen| seen.is_fresh(here.now))?;
        Some(ServerTime(match self.shows(GRAIN, here) {
            true => here.unix,
            false => newest.late(here.now) + GRAIN,
        }))
    }

    /// Returns a time that has passed, by two answers that agree.
    ///
    /// Two answers of one front end count only where this host's wall clock tells the same. A lease begins at this time if its holder
    /// believes in it to the end. Two young answers are preferred, because the older the answers are, the earlier is the time. Answers that
    /// were young a moment ago count too, for a write that is sent again. Returns `None` if no two answers told the same time lately.
    pub fn past(&mut self, here: Here) -> Option<ServerTime> {
        let young = self.young_past(here);
        let young = young.or_else(|| self.young_past_carried_on(here.now));
        young.or_else(|| self.past_within(OLDEST, here))
    }

    /// Returns a time that has passed, by young answers alone.
    pub fn young_past(&mut self, here: Here) -> Option<ServerTime> {
        let past = self.past_within(YOUNG, here)?;
        self.past = Some((past, here.now));
        Some(past)
    }

    fn young_past_carried_on(&self, now: Moment) -> Option<ServerTime> {
        let (past, then) = self.past?;
        let since = now.since(then);
        let now = past.0.saturating_add(since - since / DRIFT_DIVISOR);
        (since <= YOUNG).then_some(ServerTime(now))
    }

    fn past_within(&self, span: Duration, here: Here) -> Option<ServerTime> {
        let Here { now, unix } = here;
        let fresh = self.seen.iter().filter(|seen| seen.is_within(span, now));
        let fresh = DateHistory {
            seen: fresh.copied().collect(),
            ..DateHistory::default()
        };
        let agreed = fresh.seen.iter().enumerate().filter(|(index, seen)| {
            let is_told_twice = fresh.repeats(*index, now) && seen.tells(unix, AGREE, now);
            is_told_twice || fresh.confirms(*index, now)
        });
        let agreed = agreed.map(|(_, seen)| seen.early(now));
        agreed.min().map(ServerTime)
    }

    /// Returns the time that the newest answer told, for a client that judges by it: no later than by anything that confirms it. Right
    /// front ends confirm a front end that is wrong by a little, so its connection is kept. That front end can then judge twice.
    pub fn newest(&self, here: Here) -> Option<ServerTime> {
        let newest = self.seen.len().checked_sub(1)?;
        let date = self.seen[newest].date;
        let earliest = self.confirmers(newest, here).chain([date]).min();
        earliest.map(ServerTime)
    }

    /// Whether answers come and none of them tells the time.
    pub fn is_silent(&self) -> bool {
        self.is_silent && self.seen.is_empty()
    }
}

/// Agreement.
impl<F: PartialEq + Copy> DateHistory<F> {
    /// Whether another answer, of any age, or this host confirms what a fresh answer tells.
    fn is_agreed_on(&self, index: usize, here: Here) -> bool {
        self.seen[index].is_fresh(here.now) && self.confirmers(index, here).next().is_some()
    }

    /// The times by all that confirms an answer: other front ends that told the same, late rather than early, and this host's wall clock.
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

    /// Whether another answer told the same time as this one, even an answer of the same front end.
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

    /// At the beginning, on a host whose wall clock is `ahead` seconds ahead.
    fn here(ahead: i64) -> Here {
        Here {
            now: at(0),
            unix: after(ahead),
        }
    }

    const FAR_OFF: i64 = -1_000_000;

    /// Takes in answers of these front ends, which told these times in seconds from a date on, and of which each took `took`.
    fn told_by(
        ahead: i64,
        took: Duration,
        answers: &[(Option<u64>, i64)],
    ) -> (DateHistory<u64>, Vec<Heard>) {
        let mut history = DateHistory::default();
        let heard = answers.iter().map(|(front_end, seconds)| {
            let seen = Seen {
                date: after(*seconds),
                sent: at(0),
                arrived: at(0) + took,
                front_end: *front_end,
            };
            history.hear(seen, here(ahead))
        });
        let heard = heard.collect();
        (history, heard)
    }

    fn told(ahead: i64, dates: &[i64]) -> DateHistory<u64> {
        let answers: Vec<_> = dates.iter().map(|date| (None, *date)).collect();
        told_by(ahead, Duration::ZERO, &answers).0
    }

    /// The time in whole seconds from that date on.
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
        let (mut history, _) = told_by(FAR_OFF, slow, &[(None, 0), (None, 0)]);
        let later = Here {
            now: at(1),
            ..here(FAR_OFF)
        };
        assert_eq!(
            history.stamp(later),
            Some(ServerTime(DATE + Duration::from_millis(1_020)))
        );
        assert_eq!(history.past(later), Some(ServerTime(DATE)));
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
            // Nothing confirms the first answer.
            (&[13], None, None),
            (&[13, 13], Some(13), Some(13)),
            // If there are only two, no client knows which is wrong.
            (&[0, 13], None, None),
        ] {
            let mut history = told(FAR_OFF, dates);
            let now = here(FAR_OFF);
            let told = (seconds(history.stamp(now)), seconds(history.past(now)));
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
    fn the_first_answer_is_forgotten_and_the_last_is_kept() {
        let mut history = told(FAR_OFF, &[0; REMEMBERED + 1]);
        assert_eq!(history.seen.len(), REMEMBERED);
        let later = Moment::default() + OLDEST * 2;
        let seen = Seen {
            date: DATE,
            sent: later,
            arrived: later,
            front_end: None,
        };
        let _ = history.hear(seen, here(FAR_OFF));
        assert_eq!(history.seen.len(), 1);
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
            // A front end that is wrong by as much as the wall clock.
            (900, &[(1, 900)], &[Confirmed], Some(900), None),
        ] {
            let known: Vec<_> = answers
                .iter()
                .map(|(by, date)| (Some(*by), *date))
                .collect();
            let (mut history, was) = told_by(ahead, Duration::ZERO, &known);
            let now = here(ahead);
            let told = (seconds(history.stamp(now)), seconds(history.past(now)));
            assert_eq!((&was[..], told), (heard, (stamp, past)), "{answers:?}");
        }
    }

    #[test]
    fn who_confirms_a_front_end_is_remembered_though_it_answers_often() {
        let mut answers = vec![(Some(1), 0)];
        answers.extend([(Some(2), 0); 3 * REMEMBERED]);
        let (history, heard) = told_by(900, Duration::ZERO, &answers);
        assert_eq!(history.seen.len(), REMEMBERED);
        assert_eq!(heard[0], Heard::First);
        assert!(heard[1..].iter().all(|heard| *heard == Heard::Confirmed));
    }

    /// An answer of a front end that is `ahead` seconds ahead, after `seconds` seconds.
    fn answer(front_end: u64, ahead: i64, seconds: u64) -> Seen<u64> {
        Seen {
            date: after(ahead + seconds.cast_signed()),
            sent: at(seconds),
            arrived: at(seconds),
            front_end: Some(front_end),
        }
    }

    /// After `seconds` seconds, on a host whose wall clock tells nothing.
    fn later(seconds: u64) -> Here {
        Here {
            now: at(seconds),
            unix: Duration::ZERO,
        }
    }

    #[test]
    fn one_that_is_behind_and_is_confirmed_by_an_old_answer_dates_no_earlier_than_that() {
        let mut history = DateHistory::default();
        let _ = history.hear(answer(1, 0, 0), later(0));
        let heard = history.hear(answer(2, -13, 290), later(290));
        assert_eq!(heard, Heard::Confirmed);
        // The first answer is no longer fresh.
        assert!(seconds(history.stamp(later(310))) >= Some(310));
    }

    #[test]
    fn a_renewal_is_not_dated_by_an_old_answer_that_nothing_confirms() {
        let mut history = DateHistory::default();
        let _ = history.hear(answer(1, -3_600, 0), later(0));
        assert_eq!(history.stamp_of_renewal(later(301)), None);
        let _ = history.hear(answer(2, 0, 0), later(0));
        let _ = history.hear(answer(3, 0, 0), later(0));
        assert!(seconds(history.stamp_of_renewal(later(301))) >= Some(301));
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
            let (history, _) = told_by(ahead, Duration::ZERO, &known);
            let now = here(ahead);
            let told = (seconds(history.newest(now)), seconds(history.stamp(now)));
            assert_eq!(told, (Some(newest), Some(stamp)), "{ahead}, {answers:?}");
        }
    }
}
