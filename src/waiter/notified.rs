//! What notifications say about when to poll. Only the times of polls depend on them.
//!
//! A waiter with a slot subscribes to the place before it. That place confirms each subscription until it sends what ends it. When a poll is
//! due, the waiter asks the place before instead of the table, and polls only if no confirmation comes. So a notification that is lost costs
//! the time of one more poll.

use std::future::Future;
use std::time::Duration;

use super::Waiter;
use crate::notify::{News, Registration};
use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::item::ItemPosition;
use fairlock_protocol::lease::EntryLocation;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::pace::PollPosition;
use fairlock_protocol::step::Occupant;
use fairlock_protocol::ticket::Ticket;

/// This many notifications in a row may bring nothing. After each further one, the waiter heeds none for twice as long.
const FALSE_ALARMS: u32 = 3;
/// After this many in a row, a release that is told gets one poll, and no second one.
const CREDIBLE_ALARMS: u32 = 2;
/// A release that was told, and that no poll finds for so many round trips, was none.
const ROUND_TRIPS_TO_FIND: u32 = 4;
/// At the longest, a waiter heeds no notification for 32 times the longest time between two polls.
const MAX_DOUBLINGS: u32 = 5;

/// What a waiter knows of the place before it by notifications.
#[derive(Debug, Default)]
pub(super) struct Path {
    /// The place to which it subscribed.
    before: Option<(Nonce, Ticket)>,
    /// Since when a subscription has waited for its confirmation.
    asked: Option<Moment>,
    /// How many notifications in a row brought nothing.
    false_alarms: u32,
    /// No notification is heeded before this moment.
    heeds_from: Moment,
    /// The next poll is for a release that may not be in the table yet. Another one follows it before it is answered.
    pub(super) expects_release: bool,
    /// The last notification came before the table showed what it was about: one more poll follows at once.
    polls_again: bool,
    unfound: Option<Unfound>,
}

/// A release that was told, and that no poll has found yet. It teaches something once a poll finds it, and is forgotten after a while: a
/// forged notification teaches nothing.
#[derive(Clone, Copy, Debug)]
struct Unfound {
    /// The place that told.
    before: (Nonce, Ticket),
    /// When the first poll for it was answered.
    since: Moment,
    /// How many polls came too early for it.
    early: u32,
}

/// Why a waiter stopped waiting.
#[derive(Debug)]
pub(crate) enum Notified {
    /// The place before is there: the table need not be asked.
    Confirmed,
    /// It is time to poll.
    Poll(News),
}

impl Waiter {
    /// The place before this one, if nothing but its end brings this one nearer to the lock. `None` if there are several, as of readers.
    /// `None` also for a waiter that may hold the lock beside the place before it.
    fn before(&self) -> Option<&Entry> {
        let item = &self.snapshot.item;
        match self.item_position()? {
            ItemPosition::Has(..) => None,
            ItemPosition::Successor(_, own) if own.permits < item.permits => None,
            ItemPosition::Successor(0, _) => {
                let mut holders = item.holders();
                holders.next().filter(|_| holders.next().is_none())
            }
            ItemPosition::Successor(index, _) => item.successors().get(index - 1),
        }
    }

    /// Subscribes to the place before this one, if that is another place than it was. Returns how long to wait for the next poll.
    pub(crate) fn subscribes(&mut self, span: Duration) -> Duration {
        let before = self.before().filter(|before| before.address.is_some());
        let before = before.map(|before| (before.nonce, before.ticket));
        if self.path.before != before {
            self.path = Path {
                before,
                ..Path::default()
            };
            // A path that has failed is tried beside the polls.
            if self.asks() && self.pace.is_path_open() {
                return span.max(self.patience());
            }
        }
        match self.path.polls_again {
            true => Duration::ZERO,
            false => span,
        }
    }

    /// Asks the place before whether it is there. Returns `false` if it cannot be asked.
    fn asks(&mut self) -> bool {
        let registration = self.attempt.registration();
        let before = self.before().filter(|_| self.path.before.is_some());
        let (Some(registration), Some(before)) = (registration, before) else {
            return false;
        };
        let is_sent = registration.subscribe(before);
        self.path.asked = is_sent.then(|| self.requests.store.now());
        is_sent
    }

    /// How long a confirmation may take: as long as the poll that it saves.
    fn patience(&self) -> Duration {
        self.pace
            .round_trip()
            .max(self.requests.store.config().min_poll_interval)
    }

    /// When a poll is due: asks the place before instead, if it has confirmed the last subscription. Returns how long to wait for its answer,
    /// or `None` if it is time to poll.
    pub(crate) fn asks_first(&mut self) -> Option<Duration> {
        let now = self.requests.store.now();
        let polls_again = std::mem::take(&mut self.path.polls_again);
        if let Some(wait) = self.until_release_shows(now) {
            return Some(wait);
        }
        let judges = self.requests.store.judges(self.reading);
        let is_alive = |before| {
            self.judge
                .occupant(EntryLocation::LockItem, before, &judges)
                == Occupant::Alive
        };
        let may_ask = !polls_again
            && self.is_path_trusted()
            && self.before().is_some_and(is_alive)
            && now
                < self
                    .renewal_due()
                    .min(self.polled + self.requests.store.config().heartbeat);
        if may_ask && self.asks() {
            return Some(self.patience());
        }
        if self.path.asked.take().is_some() {
            self.pace.path_is(false);
        }
        // The next answer to this one may say that the path works again.
        self.asks();
        None
    }

    /// How long to wait for the poll for a release that was told: a poll that is sent now would come too early, and hold up that one.
    fn until_release_shows(&self, now: Moment) -> Option<Duration> {
        let due = self
            .attempt
            .registration()?
            .poll_due(self.pace.lateness())?;
        (self.path.heeds_from <= now && now < due).then(|| due.since(now))
    }

    /// Whether the last subscription was confirmed.
    pub(super) fn is_path_trusted(&self) -> bool {
        let registration = self.attempt.registration();
        self.path.before.is_some() && registration.is_some_and(Registration::is_confirmed)
    }

    /// Whether notifications say when to poll: the place before is there, or has told that it is being released.
    pub(super) fn is_told(&self) -> bool {
        self.is_path_trusted() || self.unfound().is_some()
    }

    /// Whether another waiter's notification says when this one has a slot.
    pub(super) fn is_told_of_slots(&self) -> bool {
        self.attempt.registration().is_some() && self.pace.is_path_proven()
    }

    /// Takes in a confirmation. Returns how long to wait until the place before is asked again.
    /// It is asked as often as the first successor polls in a hold of which nothing is known, for this one may have become the first since
    /// its last poll.
    pub(crate) fn confirmed(&mut self) -> Duration {
        self.path.asked = None;
        self.pace.path_is(true);
        self.pace.asked(self.requests.store.now());
        let span = self.until_next_at(PollPosition::Told);
        span.max(self.pace.round_trip())
    }

    /// Waits until a notification makes a difference. Cancel safe: news stays where it is until this ends with it.
    pub(crate) fn notified(&self) -> impl Future<Output = Notified> + Send + '_ {
        let (registration, clock) = (
            self.attempt.registration(),
            &self.requests.store.config().clock,
        );
        let (asked, heeds_from) = (self.path.asked, self.path.heeds_from);
        let lateness = self.pace.lateness();
        async move {
            let Some(registration) = registration else {
                return std::future::pending().await;
            };
            // Each pass of the loop is an arrival.
            loop {
                if asked.is_some() && registration.is_confirmed() {
                    return Notified::Confirmed;
                }
                let Some(due) = registration.poll_due(lateness) else {
                    registration.arrival().await;
                    continue;
                };
                tokio::select! {
                    biased;
                    () = registration.arrival() => {}
                    () = clock.sleep_closely_until(due.max(heeds_from)) => {
                        if let Some(news) = registration.take_news() {
                            return Notified::Poll(news);
                        }
                    }
                }
            }
        }
    }

    /// The next poll is because of a notification. Returns the place before this one, as it was seen until then.
    pub(crate) fn heeds(&mut self, news: News) -> Option<(Nonce, Ticket)> {
        self.path.expects_release =
            news == News::Releasing && self.path.false_alarms < CREDIBLE_ALARMS;
        self.place_before()
    }

    /// Learns from what a poll showed that was because of a notification.
    pub(crate) fn was_notified(&mut self, news: News, before: Option<(Nonce, Ticket)>) {
        let is_moved = match self.item_position() {
            Some(ItemPosition::Has(..)) => true,
            Some(ItemPosition::Successor(..)) | None => self.place_before() != before,
        };
        let unfound = self.unfound().filter(|it| Some(it.before) == before);
        (self.path.unfound, self.path.expects_release) = (None, false);
        if is_moved {
            match (unfound, news) {
                (Some(unfound), _) => self.pace.released(unfound.early),
                (None, News::Releasing) => self.pace.released(0),
                (None, News::Changed { after: Some(span) }) => self.pace.released_within(span),
                (None, News::Changed { after: None }) => {}
            }
            self.path.false_alarms = 0;
            return;
        }
        let is_release = news != News::Changed { after: None };
        let told = before.filter(|_| is_release);
        let now = self.requests.store.now();
        self.path.unfound = told.map(|before| Unfound {
            before,
            since: now,
            early: 1,
        });
        self.path.false_alarms += 1;
        self.path.polls_again = is_release && self.path.false_alarms == 1;
        if let Some(more) = self.path.false_alarms.checked_sub(FALSE_ALARMS) {
            let longest = self.requests.store.config().max_poll_interval;
            let quiet = longest.saturating_mul(2_u32.pow(more.min(MAX_DOUBLINGS)));
            self.path.heeds_from = now + quiet;
        }
    }

    /// Learns from what a poll showed that was due.
    pub(crate) fn has_polled(&mut self, was_queued: bool) {
        self.path.expects_release = false;
        if was_queued && self.item_position().is_some() {
            // The waiter that gave this one its slot has not notified it, or the notification is lost.
            self.pace.path_is(false);
        }
        self.path.unfound = match self.unfound() {
            Some(unfound) if self.place_before() == Some(unfound.before) => Some(Unfound {
                early: unfound.early + 1,
                ..unfound
            }),
            Some(unfound) => {
                self.pace.released(unfound.early);
                None
            }
            None => None,
        };
    }

    fn unfound(&self) -> Option<Unfound> {
        let spoils = self.pace.round_trip() * ROUND_TRIPS_TO_FIND;
        let is_recent = |it: &Unfound| self.requests.store.now().since(it.since) <= spoils;
        self.path.unfound.filter(is_recent)
    }

    fn place_before(&self) -> Option<(Nonce, Ticket)> {
        self.before().map(|before| (before.nonce, before.ticket))
    }
}
