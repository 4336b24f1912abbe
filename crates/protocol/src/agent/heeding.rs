//! What notifications say to a waiter about when to poll.
//!
//! A waiter with a slot subscribes to the place before it. That place confirms each subscription until it sends what ends it. When a poll is
//! due, the waiter asks the place before instead of the table, and polls only if no confirmation comes. So a notification that is lost costs
//! the time of one more poll.

use std::time::Duration;

use super::context::Context;
use super::path::{Path, Polling, Stands, Unfound};
use super::post::{News, Post};
use super::waiter::Waiter;
use crate::entry::Entry;
use crate::item::ItemPosition;
use crate::lease::EntryLocation;
use crate::moment::Moment;
use crate::pace::PollPosition;
use crate::step::Occupant;

/// This many notifications in a row may bring nothing. After each further one, the waiter heeds none for twice as long.
const FALSE_ALARMS: u32 = 3;
/// After this many in a row, a release that is told gets one poll, and no second one.
const CREDIBLE_ALARMS: u32 = 2;
/// A release that was told, and that no poll finds for so many round trips, was none.
const ROUND_TRIPS_TO_FIND: u32 = 4;
/// At the longest, a waiter heeds no notification for 32 times the longest time between two polls.
const MAX_DOUBLINGS: u32 = 5;

impl Waiter {
    /// The place before this one, if nothing but its end brings this one nearer to the lock. `None` if there are several, as of readers.
    /// `None` also for a waiter that may hold the lock beside the place before it.
    fn before(&self) -> Option<&Entry> {
        let item = &self.snapshot.item;
        match self.position()? {
            ItemPosition::Has(..) => None,
            ItemPosition::Successor(_, own) if own.permits < item.permits => None,
            ItemPosition::Successor(0, _) => {
                let mut holders = item.holders();
                holders.next().filter(|_| holders.next().is_none())
            }
            ItemPosition::Successor(index, _) => item.successors().get(index - 1),
        }
    }

    fn place_before(&self) -> Option<Stands> {
        self.before().map(|before| (before.nonce, before.ticket))
    }

    /// Subscribes to the place before this one, if that is another place than it was. Returns when to poll.
    pub(super) fn subscribes(&mut self, due: Moment, cx: &mut Context<'_>) -> Moment {
        let before = self.before().filter(|before| before.address.is_some());
        let before = before.map(|before| (before.nonce, before.ticket));
        if self.path.before != before {
            self.path = Path {
                before,
                ..Path::default()
            };
            // A path that has failed is tried beside the polls.
            if self.asks(cx) && self.pace.is_path_open() {
                return due.max(cx.now() + self.patience(cx));
            }
        }
        match self.path.polls_again {
            true => cx.now(),
            false => self.confirmed(cx).unwrap_or(due),
        }
    }

    /// Asks the place before whether it is there. Returns `false` if it cannot be asked.
    fn asks(&mut self, cx: &mut Context<'_>) -> bool {
        let before = self.before().filter(|_| self.path.before.is_some());
        let is_sent = before.is_some_and(|before| cx.subscribes(before));
        self.path.asked = is_sent.then_some(cx.clocks.now);
        is_sent
    }

    /// How long a confirmation may take: as long as the poll that it saves.
    fn patience(&self, cx: &Context<'_>) -> Duration {
        self.pace.round_trip().max(cx.terms.polls.0)
    }

    /// When a poll is due: asks the place before instead, if it has confirmed the last subscription. Returns until when to wait for its answer,
    /// or `None` if it is time to poll.
    pub(super) fn asks_first(&mut self, cx: &mut Context<'_>) -> Option<Moment> {
        let now = cx.now();
        let polls_again = std::mem::take(&mut self.path.polls_again);
        if let Some(shows) = self.release_shows(cx) {
            return Some(shows);
        }
        let may_ask = !polls_again
            && self.is_path_trusted(cx.post.as_deref())
            && self
                .before()
                .is_some_and(|before| self.is_alive(before, cx))
            && now < self.renewal_due(cx).min(self.polled + cx.terms.heartbeat);
        if may_ask && self.asks(cx) {
            return Some(now + self.patience(cx));
        }
        if self.path.asked.take().is_some() {
            self.pace.path_is(false);
        }
        // The next answer to this one may say that the path works again.
        self.asks(cx);
        None
    }

    fn is_alive(&self, before: &Entry, cx: &Context<'_>) -> bool {
        let judges = cx.clocks.judges(self.reading, cx.terms.join_timeout);
        let occupant = self
            .judge
            .occupant(EntryLocation::LockItem, before, &judges);
        occupant == Occupant::Alive
    }

    /// When the poll for a release that was told is due: a poll that is sent now would come too early, and hold up that one.
    fn release_shows(&self, cx: &Context<'_>) -> Option<Moment> {
        let due = cx.post.as_ref()?.poll_due(self.pace.lateness())?;
        (self.path.heeds_from <= cx.now() && cx.now() < due).then_some(due)
    }

    /// Whether the last subscription was confirmed.
    fn is_path_trusted(&self, post: Option<&Post>) -> bool {
        self.path.before.is_some() && post.is_some_and(|post| post.is_confirmed)
    }

    /// Whether notifications say when to poll: the place before is there, or has told that it is being released.
    pub(super) fn is_told(&self, cx: &Context<'_>) -> bool {
        self.is_path_trusted(cx.post.as_deref()) || self.unfound(cx.now()).is_some()
    }

    /// Whether another waiter's notification says when this one has a slot.
    pub(super) fn is_told_of_slots(&self, cx: &Context<'_>) -> bool {
        cx.post.is_some() && self.pace.is_path_proven()
    }

    /// Takes in a confirmation, if one has come. Returns when the place before is asked again. It is asked as often as the first successor
    /// polls in a hold of which nothing is known, for this one may have become the first since its last poll.
    pub(super) fn confirmed(&mut self, cx: &mut Context<'_>) -> Option<Moment> {
        let is_confirmed = cx.post.as_ref().is_some_and(|post| post.is_confirmed);
        self.path.asked.take_if(|_| is_confirmed)?;
        self.pace.path_is(true);
        self.pace.asked(cx.now());
        let jitter = cx.jitter();
        self.polls_at(PollPosition::Told, jitter, cx);
        // Where nothing takes time, the two would ask each other without end.
        let shortest = cx.now() + self.patience(cx);
        Some(self.due(cx).max(shortest))
    }

    /// When to poll because of what was told.
    pub(super) fn news_due(&self, cx: &Context<'_>) -> Option<Moment> {
        let due = cx.post.as_ref()?.poll_due(self.pace.lateness())?;
        Some(due.max(self.path.heeds_from))
    }

    /// The next poll is because of a notification.
    pub(super) fn heeds(&mut self, news: News) {
        self.path.expects_release =
            news == News::Releasing && self.path.false_alarms < CREDIBLE_ALARMS;
        self.path.polling = Some(Polling::Told(news, self.place_before()));
    }

    /// The next poll was due.
    pub(super) fn polls_when_due(&mut self) {
        let was_queued = self.position().is_none();
        self.path.polling = Some(Polling::Due { was_queued });
    }

    /// Whether it polls because of a notification.
    pub(super) fn heeds_news(&self) -> bool {
        matches!(self.path.polling, Some(Polling::Told(..)))
    }

    /// Learns from what a poll showed.
    pub(super) fn has_polled(&mut self, cx: &Context<'_>) {
        match self.path.polling.take() {
            Some(Polling::Told(news, before)) => self.was_told(news, before, cx),
            Some(Polling::Due { was_queued }) => self.was_due(was_queued, cx),
            None => {}
        }
    }

    fn was_told(&mut self, news: News, before: Option<Stands>, cx: &Context<'_>) {
        let is_moved = match self.position() {
            Some(ItemPosition::Has(..)) => true,
            Some(ItemPosition::Successor(..)) | None => self.place_before() != before,
        };
        let now = cx.now();
        let unfound = self.unfound(now).filter(|it| Some(it.before) == before);
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
        self.path.unfound = told.map(|before| Unfound {
            before,
            since: now,
            early: 1,
        });
        self.path.false_alarms += 1;
        self.path.polls_again = is_release && self.path.false_alarms == 1;
        if let Some(more) = self.path.false_alarms.checked_sub(FALSE_ALARMS) {
            let (_, longest) = cx.terms.polls;
            let quiet = longest.saturating_mul(2_u32.pow(more.min(MAX_DOUBLINGS)));
            self.path.heeds_from = now + quiet;
        }
    }

    fn was_due(&mut self, was_queued: bool, cx: &Context<'_>) {
        self.path.expects_release = false;
        if was_queued && cx.post.is_some() && self.position().is_some() {
            // The waiter that gave this one its slot has not notified it, or the notification is lost.
            self.pace.path_is(false);
        }
        self.path.unfound = match self.unfound(cx.now()) {
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

    fn unfound(&self, now: Moment) -> Option<Unfound> {
        let spoils = self.pace.round_trip() * ROUND_TRIPS_TO_FIND;
        let is_recent = |it: &Unfound| now.since(it.since) <= spoils;
        self.path.unfound.filter(is_recent)
    }
}
