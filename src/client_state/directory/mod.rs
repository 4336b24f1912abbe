//! What the places of one client know of each other, by lock.
//!
//! Everything is behind one mutex, because what an answer shows may concern entering, waiting and holding places at the same moment. No
//! task holds the mutex while it waits.

mod bounded_map;
mod doorway;
mod held;
mod queue;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::name::LockName;
use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::pace::PollSchedule;
use fairlock_protocol::ticket::Ticket;

use bounded_map::Recent;
pub(super) use doorway::Arrival;
use doorway::Doorway;
use held::HeldPlaces;
pub(crate) use queue::Membership;
use queue::Queue;

/// The most locks with a hint, locks with a pace, and attempts in doubt that are remembered, each.
const MAX: usize = 1024;
/// How long a hint serves. It saves an enter request that must fail.
const HINT_LASTS: Duration = Duration::from_secs(1);
/// How many settled rows are deleted together, where no other client reads them meanwhile.
const SETTLED_ROWS_AT_ONCE: usize = 8;

/// The places of one client.
#[derive(Debug, Default)]
pub(super) struct Directory {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The locks of which something is known.
    locks: HashMap<LockName, Known>,
    held: HeldPlaces,
    /// Ended attempts of which a request may still be applied, each with the newest ticket that is no late one.
    doubts: Recent<(Nonce, Ticket)>,
    /// Locks with a hint.
    hinted: Recent<LockName>,
    /// Locks with a pace.
    paced: Recent<LockName>,
}

/// What is known of one lock.
#[derive(Debug, Default)]
struct Known {
    /// Set while a batch of this client is on the way into the queue.
    doorway: Option<Doorway>,
    /// The places of this client that wait.
    queue: Queue,
    /// The queue at this client's last release, if it was not empty, and when that was.
    hint: Option<(LockItem, Moment)>,
    /// How fast the queue was when this client waited there.
    pace: Option<PollSchedule>,
    /// Settled rows that are still to be deleted.
    settled_rows: Vec<Ticket>,
}

impl Default for State {
    fn default() -> Self {
        State {
            locks: HashMap::new(),
            held: HeldPlaces::default(),
            doubts: Recent::new(MAX),
            hinted: Recent::new(MAX),
            paced: Recent::new(MAX),
        }
    }
}

impl Known {
    fn is_nothing(&self) -> bool {
        let has_places = self.doorway.is_some() || !self.queue.is_empty();
        let has_memory =
            self.hint.is_some() || self.pace.is_some() || !self.settled_rows.is_empty();
        !has_places && !has_memory
    }
}

impl State {
    fn known(&mut self, name: &LockName) -> &mut Known {
        self.locks.entry(name.clone()).or_default()
    }

    /// Changes what is known of a lock, and drops a lock of which nothing is known any more.
    fn change<T>(&mut self, name: &LockName, change: impl FnOnce(&mut Known) -> T) -> Option<T> {
        let known = self.locks.get_mut(name)?;
        let changed = change(known);
        if known.is_nothing() {
            self.locks.remove(name);
            // After a burst of locks the map gives its memory back, even where a few of the locks are remembered.
            if self.locks.len() * 4 < self.locks.capacity() {
                self.locks.shrink_to(self.locks.len() * 2);
            }
        }
        Some(changed)
    }

    /// Forgets hints that are too old. Ends at a hint that is not, or after the last hint.
    fn forget_hints(&mut self, now: Moment) {
        while let Some(name) = self.hinted.oldest().cloned() {
            let known = self.locks.get(&name).and_then(|known| known.hint.as_ref());
            if known.is_some_and(|(_, seen)| now.since(*seen) < HINT_LASTS) {
                return;
            }
            self.take_hint(&name);
        }
    }

    fn take_hint(&mut self, name: &LockName) -> Option<LockItem> {
        self.hinted.settle(name);
        let hint = self.change(name, |known| known.hint.take())?;
        hint.map(|(item, _)| item)
    }
}

impl Directory {
    /// Takes in a lock item that some answer shows, and notifies the places of this client that hold the lock by it. Returns the entries of
    /// ended attempts, which late requests made.
    pub(super) fn saw(&self, name: &LockName, item: &LockItem, now: Moment) -> Vec<Entry> {
        let mut state = self.state();
        // Every answer passes here, so old hints go with the next answer, whatever lock it is of.
        state.forget_hints(now);
        if let Some(known) = state.locks.get_mut(name) {
            known.queue.saw(item);
        }
        if state.doubts.is_empty() {
            return Vec::new();
        }
        let mut is_late = |entry: &&Entry| {
            let before = (entry.nonce, Ticket::default())..(entry.nonce, entry.ticket);
            state.doubts.settle_one_of(before)
        };
        item.entries().filter(&mut is_late).cloned().collect()
    }

    /// Notes an ended attempt of which a request may still be applied. A late request draws a newer ticket than `newest`.
    pub(super) fn doubts(&self, nonce: Nonce, newest: Ticket) {
        self.state().doubts.note((nonce, newest));
    }

    /// Whether all places before this ticket are of this client. If they are, the ticket's place is notified of every handoff that comes to
    /// it.
    pub(super) fn surrounds(&self, name: &LockName, item: &LockItem, ticket: Ticket) -> bool {
        let state = self.state();
        let is_alone = |known: &Known| known.queue.is_alone(item, ticket);
        !item.is_free()
            && item.holders().all(|holder| state.held.has(holder))
            && state.locks.get(name).is_some_and(is_alone)
    }

    /// Takes the hint of a lock. A hint serves once.
    pub(super) fn take_hint(&self, name: &LockName, now: Moment) -> Option<LockItem> {
        let mut state = self.state();
        state.forget_hints(now);
        state.take_hint(name)
    }

    /// Keeps a hint, but without the data that the lock carries: no decision depends on the data, and it may be large.
    pub(super) fn hint(&self, name: &LockName, item: LockItem, now: Moment) {
        let mut state = self.state();
        state.forget_hints(now);
        state.known(name).hint = Some((LockItem { data: None, ..item }, now));
        if let Some(oldest) = state.hinted.note(name.clone()) {
            state.change(&oldest, |known| known.hint = None);
        }
    }

    pub(super) fn pace(&self, name: &LockName) -> Option<PollSchedule> {
        self.state().locks.get(name)?.pace.clone()
    }

    /// Remembers the pace of a queue in which a place has waited.
    pub(super) fn learnt(&self, name: &LockName, pace: PollSchedule) {
        let mut state = self.state();
        state.known(name).pace = Some(pace.at_rest());
        if let Some(oldest) = state.paced.note(name.clone()) {
            state.change(&oldest, |known| known.pace = None);
        }
    }

    /// Notes to which ticket this client has handed the lock, and for how long it held it, for the pace of its next wait.
    pub(super) fn handed_off(&self, name: &LockName, to: Ticket, held: Duration, now: Moment) {
        let mut state = self.state();
        if let Some(pace) = state
            .locks
            .get_mut(name)
            .and_then(|known| known.pace.as_mut())
        {
            pace.handed_off(to, held, now);
        }
    }

    /// Adds settled rows to the rows that are to be deleted. Returns all of them when there are enough, or when no place of this client
    /// waits any more.
    pub(super) fn settled_rows(&self, name: &LockName, settled: Vec<Ticket>) -> Vec<Ticket> {
        let mut state = self.state();
        state.known(name).settled_rows.extend(settled);
        let due = state.change(name, |known| {
            let is_due = known.queue.is_empty() || known.settled_rows.len() >= SETTLED_ROWS_AT_ONCE;
            is_due.then(|| std::mem::take(&mut known.settled_rows))
        });
        due.flatten().unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn name(n: usize) -> LockName {
        LockName::new(&n.to_string(), &Arc::from("namespace")).unwrap()
    }

    fn item() -> LockItem {
        LockItem {
            permits: 64,
            data: Some([7; 1024].into()),
            ..LockItem::free(Ticket::new(2), Ticket::new(1))
        }
    }

    fn at(millis: u64) -> Moment {
        Moment(Duration::from_millis(millis))
    }

    fn pace() -> PollSchedule {
        PollSchedule::new(Duration::from_millis(5), Duration::from_secs(1))
    }

    #[test]
    fn a_hint_is_of_the_queue_and_not_of_what_its_lock_carries() {
        let directory = Directory::default();
        directory.hint(&name(1), item(), at(0));
        let hint = directory.take_hint(&name(1), at(999)).unwrap();
        assert_eq!((hint.last, hint.data), (Ticket::new(2), None));
        assert_eq!(
            directory.take_hint(&name(1), at(999)),
            None,
            "it serves once"
        );
    }

    #[test]
    fn a_hint_that_is_too_old_is_forgotten_whatever_is_asked_for() {
        let directory = Directory::default();
        directory.hint(&name(1), item(), at(0));
        directory.hint(&name(2), item(), at(400));
        directory.hint(&name(1), item(), at(600));
        assert_eq!(directory.take_hint(&name(3), at(1399)), None);
        assert_eq!(
            directory.state().locks.len(),
            2,
            "one of them was seen again"
        );
        directory.saw(&name(3), &item(), at(1400));
        assert_eq!(directory.state().locks.len(), 1);
        directory.saw(&name(3), &item(), at(1600));
        let state = directory.state();
        assert!(state.locks.is_empty() && state.hinted.is_empty());
        assert_eq!(state.locks.capacity(), 0);
    }

    #[test]
    fn no_more_hints_are_kept_than_are_worth_it() {
        let directory = Directory::default();
        (0..2 * MAX).for_each(|n| directory.hint(&name(n), item(), at(0)));
        assert_eq!(directory.state().locks.len(), MAX);
        assert_eq!(
            directory.take_hint(&name(0), at(1)),
            None,
            "the oldest went first"
        );
        assert!(directory.take_hint(&name(2 * MAX - 1), at(1)).is_some());
    }

    #[test]
    fn a_pace_that_is_learnt_again_is_the_youngest_and_makes_no_other_forgotten() {
        let directory = Directory::default();
        (0..MAX).for_each(|n| directory.learnt(&name(n), pace()));
        directory.learnt(&name(0), pace());
        assert!((0..MAX).all(|n| directory.pace(&name(n)).is_some()));
        directory.learnt(&name(MAX), pace());
        assert!(directory.pace(&name(1)).is_none() && directory.pace(&name(0)).is_some());
    }

    #[test]
    fn settled_rows_wait_for_more_while_a_place_waits() {
        let directory = Arc::new(Directory::default());
        let settled = |n: u64| vec![Ticket::new(n)];
        let alone = directory.settled_rows(&name(1), settled(1));
        assert_eq!(alone, settled(1));
        let waits = directory.waits(&name(1), Ticket::new(99), Nonce::new(1), 1);
        for n in 1..SETTLED_ROWS_AT_ONCE as u64 {
            assert_eq!(directory.settled_rows(&name(1), settled(n)), []);
        }
        let enough = directory.settled_rows(&name(1), settled(8));
        assert_eq!(enough.len(), SETTLED_ROWS_AT_ONCE);
        drop(waits);
        assert!(directory.state().locks.is_empty());
    }
}
