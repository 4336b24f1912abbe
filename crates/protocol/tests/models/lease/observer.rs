//! An observer: its polls, its watches, and the eviction that it sends in the end.

use super::owner::Mark;
use super::rules::{Mutant, Rules};
use crate::blank;
use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::lease::{EntryLocation, LivenessTracker};
use fairlock_protocol::ticket::Ticket;

const TICKET: Ticket = Ticket::new(1);

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Observer {
    pub(crate) watches: LivenessTracker,
    pub(crate) snapshot: Option<Snapshot>,
    /// What its last poll showed of the lock item.
    pub(crate) seen: Option<Mark>,
}

/// A poll under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Snapshot {
    /// Sent at this tick, for an observer whose watches count from the sending.
    Sent(u8),
    /// The lock item was read, and showed this; the row is read afterwards.
    Read(Option<Mark>),
}

impl Observer {
    /// Takes in the answer to a poll. It shows this of the lock item and, if the poll read the row, of the row. A poll of the lock item
    /// alone tells nothing about the row.
    pub(crate) fn arrived(
        &mut self,
        item: Option<Mark>,
        row: Option<Option<Mark>>,
        now: u8,
        rules: &Rules,
    ) {
        let from = match self.snapshot.take() {
            Some(Snapshot::Sent(sent)) => sent,
            _ => now,
        };
        let shown_item = item.map(|mark| (EntryLocation::LockItem, mark));
        let shown_row = row.flatten().map(|mark| (EntryLocation::Row(TICKET), mark));
        let shown: Vec<_> = shown_item
            .into_iter()
            .chain(shown_row)
            .map(|(place, mark)| watched(place, mark, rules))
            .collect();
        let read = |place| place == EntryLocation::LockItem || row.is_some();
        let entries = shown.iter().map(|(place, entry)| (*place, entry));
        self.watches.poll(rules.by_observer(from), read, entries);
        self.seen = item;
    }

    /// The beat that its last poll showed, if the entry is dead by now.
    pub(crate) fn judges(&self, now: u8, rules: &Rules) -> Option<u8> {
        let dead = self.seen.filter(|mark| {
            let (place, entry) = watched(EntryLocation::LockItem, *mark, rules);
            let now = rules.by_observer(now);
            self.watches.is_dead(place, &entry, now)
        });
        dead.map(|mark| mark.beat)
    }
}

/// An entry as the observer watches it; the mutants hide from the watch what it goes by.
pub(crate) fn watched(place: EntryLocation, mark: Mark, rules: &Rules) -> (EntryLocation, Entry) {
    let Mark { beat, lease } = mark;
    let beat = match rules.mutant {
        Some(Mutant::WatchIgnoresBeats) => 0,
        _ => beat,
    };
    let beat = beat.into();
    let entry = Entry {
        beat,
        ..blank::entry(Nonce::new(0), TICKET, lease)
    };
    (place, entry)
}
