//! An observer: its looks, its watches, and the eviction that it sends in the end.

use super::owner::Mark;
use super::rules::{Mutant, Rules};
use fairlock_protocol::entry::{Attributes, Entry, Nonce, Unknown};
use fairlock_protocol::lease::{Place, Watches};
use fairlock_protocol::ticket::Ticket;

const TICKET: Ticket = Ticket::new(1);

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Observer {
    pub(crate) watches: Watches,
    pub(crate) look: Option<Look>,
    /// What its last look showed of the lock item.
    pub(crate) seen: Option<Mark>,
    /// On its way, conditional on this beat.
    pub(crate) eviction: Option<u8>,
}

/// A look under way: the lock item is read first, then the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Look {
    pub(crate) sent: u8,
    pub(crate) item: Option<Option<Mark>>,
    pub(crate) row: Option<Option<Mark>>,
}

impl Look {
    pub(crate) fn sent(sent: u8) -> Self {
        Look {
            sent,
            item: None,
            row: None,
        }
    }
}

impl Observer {
    /// The answer to a look arrives. One that read only the lock item tells nothing about the row.
    pub(crate) fn arrived(&mut self, look: Look, now: u8, rules: &Rules) {
        let from = if rules.broken(Mutant::WatchFromTheSending) {
            look.sent
        } else {
            now
        };
        let item = look.item.flatten().map(|mark| (Place::LockItem, mark));
        let row = look.row.flatten().map(|mark| (Place::Row(TICKET), mark));
        let shown: Vec<_> = item
            .into_iter()
            .chain(row)
            .map(|(place, mark)| watched(place, mark, rules))
            .collect();
        let read = |place| place == Place::LockItem || look.row.is_some();
        let entries = shown.iter().map(|(place, entry)| (*place, entry));
        self.watches.look(rules.by_observer(from), read, entries);
        self.seen = look.item.flatten();
        self.look = None;
    }

    /// Sends the eviction of what the last look showed, if that is dead by now.
    pub(crate) fn judge(&mut self, now: u8, rules: &Rules) {
        let dead = self.seen.filter(|mark| {
            let (place, entry) = watched(Place::LockItem, *mark, rules);
            let now = rules.by_observer(now);
            self.watches.is_dead(place, &entry, now)
        });
        self.eviction = dead.map(|mark| mark.beat);
    }
}

/// An entry as it is watched; the mutants hide from the watch what it goes by.
pub(crate) fn watched(place: Place, mark: Mark, rules: &Rules) -> (Place, Entry) {
    let Mark { beat, lease } = mark;
    let beat = match rules.mutant {
        Some(Mutant::WatchIgnoresBeats) => 0,
        _ => beat,
    };
    let entry = Entry {
        nonce: Nonce::new(0),
        owner: String::new(),
        ticket: TICKET,
        tickets: 1,
        permits: 1,
        attributes: Attributes::default(),
        id: None,
        beat: beat.into(),
        lease,
        renewed_at: None,
        since: None,
        unknown: Unknown::default(),
    };
    (place, entry)
}
