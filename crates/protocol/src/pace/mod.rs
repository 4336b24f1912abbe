//! The pace at which a waiter polls a queue.

mod lateness;
mod regular;
mod throttle;
mod turns;

pub use throttle::ThrottleBackoff;

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::moment::Moment;
use crate::ticket::Ticket;
use lateness::ReleaseLateness;
use regular::RegularTurns;
use turns::Turns;

/// Where a waiter stands, for the pace of its polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollPosition {
    /// This many successors come before it.
    Successor(usize),
    /// This many turns come before it gets a slot, or come before it in a slot that the queue does not fill.
    Queue(u64),
    /// As `Queue`, and the waiter that gives it a slot notifies it.
    QueueTold(u64),
    /// It has a slot, and the place before it has just confirmed that it is there: that place tells when it goes.
    Told,
}

/// When to poll next.
///
/// The first successor polls again as soon as it has its answer, one request after the other. It slows down with the hold that it watches.
/// So the handoff waits for its poll for half a round trip on average, and for a twentieth of the hold at most. When the hold has lasted
/// for about as long as holds do, the successor polls again before the answer has come.
///
/// Where all holds last about as long, the first successor expects the end. It polls rarely until then, and often around then. If the hold
/// ends unexpectedly early, the handoff is late by four requests, or by a twentieth of what holds took so far.
///
/// Waiters behind it pace their polls by the turns before them. A successor polls twice in the time that these turns take. A waiter in the
/// queue polls after three quarters of that time: if it is late, the successors are still before it. So a queue of N costs O(log N) polls a
/// turn. A waiter in the queue that is notified of its slot polls after all of that time, in case that the notification is lost. The speed of the queue is the number of tickets over the time between two polls. It is never learnt from the gaps between the
/// waiter's own polls: from these a waiter would learn its own slowness.
///
/// Requests are slow at first: connections are made, and many processes start at once. So a turn is remembered as the time that it took
/// beyond the requests' own time. The queue counts as fast as the fastest of the last answers lets it be. And no waiter sleeps for longer
/// than half of the time for which it has known the queue. Otherwise a waiter that polled once at a slow moment would stop the queue
/// because of that poll.
#[derive(Clone, Debug)]
pub struct PollSchedule {
    shortest: Duration,
    longest: Duration,
    /// When the last poll was sent.
    sent: Moment,
    /// How long an answer takes, as seen so far.
    round_trip: Duration,
    /// How long each of the last answers took.
    answers: VecDeque<Duration>,
    /// How long the fastest of them took.
    fastest: Duration,
    /// Since when the waiter has polled.
    began: Option<Moment>,
    /// For how long the queue was known when this wait began.
    known: Duration,
    /// The current holder's ticket, and when it was first seen to hold the lock.
    holder: Option<(Ticket, Moment)>,
    /// How long before that an answer did not show it yet. `None` if there was no answer.
    unseen: Option<Duration>,
    /// When the last answer arrived in this wait.
    answered: Option<Moment>,
    /// Which ticket this client has handed the lock to, and when.
    handed_off: Option<(Ticket, Moment)>,
    /// Since when no holder was seen: the waiters wait for a caller that drew a ticket and may be dead.
    free: Option<Moment>,
    turns: Turns,
    regular: RegularTurns,
    lateness: ReleaseLateness,
    path: NotificationPath,
}

/// What is known of the way that notifications take to this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotificationPath {
    /// No place was asked yet.
    Untried,
    /// The last place that was asked answered.
    Open,
    /// The last place that was asked did not answer, or a notification that was due did not arrive.
    Closed,
}

/// A late poll costs the handoff at most this share of the hold: a twentieth.
const HOLD_SHARE: u32 = 20;
/// About so many polls look for the end of a hold while it is expected.
const POLLS_FOR_AN_END: u32 = 32;
/// The fastest of this many answers says how fast requests are.
const ANSWERS: usize = 3;
/// Turns of which few were seen take this many times the shortest pause between two polls at the most: each may have been a stall.
const POLLS_OF_A_TURN: u32 = 25;
/// A waiter that knows nothing of a queue polls after this many times the shortest pause between two polls.
const POLLS_TO_LEARN: u32 = 100;

/// A brake delays a poll by no more than this, after which it is half released. A waiter that is far back now may be next by then, and
/// slows the whole queue down if it sleeps on.
const MAX_BY_BRAKE: Duration = Duration::from_secs(1);
/// A successor that polls rarely anyhow, in a long hold, polls this many times as rarely at most.
const SLOWEST: u32 = 4;

impl PollSchedule {
    /// The pace in a queue of which nothing is known, with polls between `shortest` and `longest` apart.
    pub fn new(shortest: Duration, longest: Duration) -> Self {
        PollSchedule {
            shortest,
            longest,
            sent: Moment::default(),
            round_trip: Duration::ZERO,
            answers: VecDeque::with_capacity(ANSWERS),
            fastest: Duration::ZERO,
            began: None,
            known: Duration::ZERO,
            holder: None,
            unseen: None,
            free: None,
            turns: Turns::default(),
            regular: RegularTurns::default(),
            answered: None,
            handed_off: None,
            lateness: ReleaseLateness::default(),
            path: NotificationPath::Untried,
        }
    }

    /// The pace for the next wait in this queue: the time until then is no waiter's turn.
    pub fn at_rest(mut self) -> Self {
        self.known = self.known_for(self.sent);
        (self.began, self.holder, self.free) = (None, None, None);
        (self.unseen, self.answered) = (None, None);
        self
    }

    /// Takes in which ticket held the lock when an answer arrived.
    pub fn saw(&mut self, holder: Option<Ticket>, arrived: Moment) {
        self.began.get_or_insert(arrived);
        self.free = match holder {
            Some(_) => None,
            None => self.free.or(Some(arrived)),
        };
        let unseen = self.answered.map(|answered| arrived.since(answered));
        self.answered = Some(arrived);
        match (self.holder, holder) {
            (Some((before, since)), Some(ticket)) if before < ticket => {
                let (turns, took) = (ticket.get() - before.get(), arrived.since(since));
                self.turns.learn(turns, took, self.handoff());
                if let (1, Some(first), Some(last)) = (turns, self.unseen, unseen) {
                    let least = took.saturating_sub(last);
                    self.regular.saw(least, took + first, self.fastest());
                }
                (self.holder, self.unseen) = (Some((ticket, arrived)), unseen);
            }
            // A poll that was overtaken shows an older ticket.
            (Some((before, _)), Some(ticket)) if ticket <= before => {}
            (_, ticket) => {
                let handed_off = self.handed_off.filter(|(to, _)| Some(*to) == ticket);
                self.unseen = handed_off.map(|_| Duration::ZERO).or(unseen);
                self.holder = handed_off.or(ticket.map(|ticket| (ticket, arrived)));
            }
        }
    }

    /// Takes in that this client has handed the lock to another ticket, and for how long it held it. The turn took longer: from the poll
    /// that found the lock, or an earlier one, to the release.
    pub fn handed_off(&mut self, to: Ticket, held: Duration, now: Moment) {
        self.handed_off = Some((to, now));
        let (least, most) = (held + self.fastest(), held + self.fastest() * 3 / 2);
        self.regular.had(least, most, self.fastest());
    }

    /// Takes in how long a poll took. It counts for an eighth, so that one slow answer does not make the network seem slow.
    pub fn timed(&mut self, sent: Moment, arrived: Moment) {
        self.sent = sent;
        let round_trip = arrived.since(sent);
        remember(&mut self.answers, ANSWERS, round_trip);
        self.fastest = self.answers.iter().min().copied().unwrap_or_default();
        self.round_trip = match self.round_trip {
            Duration::ZERO => round_trip,
            known => (known * 7 + round_trip) / 8,
        };
    }

    /// How long a poll takes.
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// Takes in that the place before was asked, instead of the table.
    pub fn asked(&mut self, now: Moment) {
        self.sent = now;
    }

    /// Whether notifications may arrive: none that was due is known to be lost.
    pub fn is_path_open(&self) -> bool {
        self.path != NotificationPath::Closed
    }

    /// Whether notifications arrive: the last place that was asked answered.
    pub fn is_path_proven(&self) -> bool {
        self.path == NotificationPath::Open
    }

    /// Takes in whether the place before answered, or whether another notification that was due arrived.
    pub fn path_is(&mut self, open: bool) {
        self.path = match open {
            true => NotificationPath::Open,
            false => NotificationPath::Closed,
        };
    }

    /// How long after the notification of a release to poll.
    pub fn lateness(&self) -> Duration {
        self.lateness.beyond(self.round_trip)
    }

    /// Takes in how many polls came too early for a release that was told.
    pub fn released(&mut self, early: u32) {
        self.lateness.learn(early, self.round_trip);
    }

    /// Takes in that a release that was told has been found `span` after it was told, before any poll was due for it.
    pub fn released_within(&mut self, span: Duration) {
        self.lateness.shorten_to(span, self.round_trip);
    }

    /// How long after the poll for a release that was told another one is sent. It finds the release if the first one came too early.
    pub fn second_poll(&self) -> Duration {
        (self.round_trip / 4).max(self.shortest)
    }

    /// Whether a poll sent at `sent` is newer than the last one taken in, and no older than polls are when they are answered.
    pub fn is_news(&self, sent: Moment, now: Moment) -> bool {
        sent > self.sent && now.since(sent) < self.round_trip
    }

    /// How long after its poll a successor with `before` others before it sends the next, though no answer has come. Returns `None` if it
    /// waits for the answer.
    pub fn overlap(&self, before: usize, now: Moment) -> Option<Duration> {
        let (span, is_informed) = match (before, self.end_of_hold()) {
            (0, Some(end)) if end.contains(&now) => (self.spacing(&end), true),
            (0, Some(_)) => return None,
            (0, None) if self.expects_an_end(now) && self.slack(now) < self.round_trip => {
                (self.round_trip / 2, self.is_informed())
            }
            (0, None) => return None,
            _ => (self.time_of(before as u64) / 2, self.is_informed()),
        };
        let span = span.max(self.shortest);
        (is_informed && span < self.round_trip).then_some(span)
    }

    /// Whether enough turns were seen to take the queue for anything but fast.
    fn is_informed(&self) -> bool {
        self.turns.are_known() || self.regular.least(self.fastest()).is_some()
    }

    /// From when to when a poll may be the first to show the end of the hold, by when it is sent, if holds are regular.
    fn end_of_hold(&self) -> Option<RangeInclusive<Moment>> {
        let expected = self.regular.expected(self.fastest())?;
        let ((_, since), unseen) = (self.holder?, self.unseen?);
        let early = unseen + self.fastest();
        let begin = since + expected.start().saturating_sub(early);
        let end = since + expected.end().saturating_sub(self.fastest() / 2);
        Some(begin..=end.max(begin))
    }

    /// How far apart the polls are that look for the end of a hold.
    fn spacing(&self, end: &RangeInclusive<Moment>) -> Duration {
        let width = end.end().since(*end.start());
        (width / POLLS_FOR_AN_END).max(self.round_trip / 2)
    }

    /// Whether the hold has lasted for about as long as holds do.
    fn expects_an_end(&self, now: Moment) -> bool {
        let Some((_, since)) = self.holder else {
            return true;
        };
        let (held, usual) = (now.since(since), self.turn());
        usual * 3 / 5 <= held && held <= usual * 2
    }

    /// The mean of the turns seen, handoffs included. Returns `None` until a turn was seen to end.
    pub fn mean(&self) -> Option<Duration> {
        self.turns.mean()
    }

    /// How long this many turns take, if the queue is fast.
    pub fn time_of(&self, turns: u64) -> Duration {
        times(self.turn(), turns)
    }

    /// After how long a waiter polls, however far back it is. A newcomer polls early, to learn the queue, and then after half as long again
    /// each time.
    fn time_to_learn(&self, now: Moment) -> Duration {
        let early = self.shortest.min(self.turn()) * POLLS_TO_LEARN;
        early.max(self.known_for(now) / 2)
    }

    fn known_for(&self, now: Moment) -> Duration {
        let waited = self.began.map(|began| now.since(began));
        self.known + waited.unwrap_or_default()
    }

    /// How long one ticket's turn takes. A waiter that has seen few turns assumes that the queue is as fast as can be.
    fn turn(&self) -> Duration {
        match self.turns.are_known() {
            true => self.turns.usual(self.handoff()),
            false => {
                let regular = self.regular.least(self.fastest());
                let seen = self.turns.shortest(self.handoff());
                let seen = seen.map(|seen| seen.min(self.shortest * POLLS_OF_A_TURN));
                regular.or(seen).unwrap_or_default().max(self.fastest())
            }
        }
    }

    /// How long a request takes now.
    fn fastest(&self) -> Duration {
        self.fastest
    }

    /// A handoff takes at least this long: from the release to an answer of the first poll after it.
    fn handoff(&self) -> Duration {
        self.fastest() * 5 / 4
    }

    /// By how much a poll may be late in a hold that has lasted this long, or at a lock that has been free this long.
    fn slack(&self, now: Moment) -> Duration {
        let since = self.holder.map(|(_, since)| since).or(self.free);
        let held = since.map(|since| now.since(since)).unwrap_or_default();
        held / HOLD_SHARE
    }

    /// How far apart the polls are before the hold is expected to end.
    fn before_the_end(&self, now: Moment) -> Duration {
        let least = self.regular.shortest(self.fastest()).unwrap_or_default();
        let slack = self.slack_of(PollPosition::Successor(0), now);
        slack.max((least / 3).min(self.fastest() * 4))
    }

    /// By how much a poll may be late at this position. If turns have taken as long before, it is a share of these too, also at the beginning
    /// of a hold.
    fn slack_of(&self, position: PollPosition, now: Moment) -> Duration {
        let before = match position {
            PollPosition::Successor(before) => before as u64,
            PollPosition::Queue(_) | PollPosition::QueueTold(_) => 0,
            PollPosition::Told => return self.slack(now),
        };
        let usual = self.turns.shortest(self.handoff());
        let usual = self.holder.and(usual);
        let usual = usual.unwrap_or_default() / HOLD_SHARE;
        self.slack(now).max(times(usual, before + 1))
    }

    /// How long from `now` until the next poll. `jitter`, a factor around one, is for the waiters behind, of which there are many. `slowed`
    /// is the factor by which all polls are slowed down.
    pub fn until_next(
        &self,
        position: PollPosition,
        jitter: f64,
        slowed: u32,
        now: Moment,
    ) -> Duration {
        if let (PollPosition::Successor(0), 1, Some(end)) = (position, slowed, self.end_of_hold()) {
            let longest = self.longest.max(self.shortest);
            let span = match now < *end.start() {
                true => self.before_the_end(now).min(end.start().since(self.sent)),
                false if end.contains(&now) => self.spacing(&end),
                false => self.slack(now),
            };
            return (self.sent + span.clamp(self.shortest, longest)).since(now);
        }
        let (turns, longest) = match position {
            PollPosition::Successor(before) => {
                let longest = times(self.longest, before as u64 + 1);
                let turns = self.time_of(before as u64).min(self.time_to_learn(now));
                let is_long = turns > self.round_trip * HOLD_SHARE;
                let share = match before == 1 && is_long && self.end_of_hold().is_some() {
                    true => 4,
                    false => 2,
                };
                (turns / share, longest)
            }
            PollPosition::Queue(before) => {
                let longest = times(self.longest, before);
                let turns = self.time_of(before).min(self.time_to_learn(now));
                (turns * 3 / 4, longest)
            }
            PollPosition::QueueTold(before) => {
                let turns = self.time_of(before).min(self.time_to_learn(now));
                (turns, times(self.longest, before))
            }
            PollPosition::Told => (Duration::ZERO, self.longest),
        };
        // A waiter that is notified polls no earlier than the waiter before it, which gives it a slot.
        let jitter = match position {
            PollPosition::QueueTold(_) => jitter.max(1.0),
            _ => jitter,
        };
        let longest = longest.max(self.shortest);
        let turns = turns.min(longest).mul_f64(jitter);
        let span = self.slack_of(position, now).max(turns);
        let span = span.clamp(self.shortest, longest);
        let most = match position {
            PollPosition::Successor(_) | PollPosition::Told => span.saturating_mul(SLOWEST),
            PollPosition::Queue(_) | PollPosition::QueueTold(_) => span,
        };
        let most = most.max(MAX_BY_BRAKE);
        let slowed = span.saturating_mul(slowed).min(most);
        (self.sent + slowed).since(now)
    }
}

/// Keeps `newest`, and drops the oldest if there are already `most`.
fn remember<T>(kept: &mut VecDeque<T>, most: usize, newest: T) {
    if kept.len() == most {
        kept.pop_front();
    }
    kept.push_back(newest);
}

/// A span, `count` times over.
pub fn times(span: Duration, count: u64) -> Duration {
    span.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
