//! The requests that write, each with what its condition and its expression name, and their answers.

use super::few::Few;
use super::rules::Rules;
use super::snapshot::Snapshot;
use super::table::{Entry, Item, Nonce, Row};
use fairlock_protocol::step::{Filling, Has, Removal, Unsettled};
use fairlock_protocol::ticket::Ticket;

/// `Enter` draws, and takes the slot behind all others; a client that does not wait takes the first slot of a free lock. `Share` takes
/// permits that are left, where the entry in the first slot takes at most `first`. `Admit` lets the first successors in. `Downgrade` keeps
/// one permit, `Rise` gives up the client's own slot, and `Resize` changes the number of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Request {
    Enter { who: Who, waits: bool },
    EnterOver { who: Who, last: u8, watermark: u8 },
    Share { who: Who, first: u8 },
    Draw { size: u8 },
    Join { who: Who, ticket: u8 },
    Fill(Fill),
    Admit(Admit),
    Release { nonce: Nonce, share: u8 },
    Evict { nonce: Nonce, beat: u8, share: u8 },
    Downgrade { nonce: Nonce, share: u8 },
    EvictSuccessor { index: u8, nonce: Nonce, beat: u8 },
    Rise { index: u8, nonce: Nonce },
    VoidGap { first: u8, ticket: u8 },
    VoidDead { ticket: u8, nonce: Nonce, beat: u8 },
    VoidMine { ticket: u8, size: u8, nonce: Nonce },
    Left { ticket: u8 },
    RenewSuccessor { index: u8, nonce: Nonce },
    RenewRow { ticket: u8, nonce: Nonce },
    Delete { ticket: u8 },
    Remove { last: u8 },
    Resize(Resize),
}

/// The slots that are filled, and up to where all is settled then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Fill {
    pub(crate) seen: Seen,
    pub(crate) found: Few,
    pub(crate) watermark: u8,
}

/// From the slot `first` up to this nonce in the slot `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Admit {
    pub(crate) first: u8,
    pub(crate) index: u8,
    pub(crate) nonce: Nonce,
    pub(crate) share: u8,
}

/// The number of permits was `before` and was changed `resizes` times, where this entry stood in the first slot, as the holder or as a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Resize {
    pub(crate) to: u8,
    pub(crate) before: u8,
    pub(crate) resizes: u8,
    pub(crate) first: Option<Entry>,
    pub(crate) holds: bool,
}

/// A client that asks for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Who {
    pub(crate) nonce: Nonce,
    /// Tickets drawn together.
    pub(crate) size: u8,
    /// Permits asked for.
    pub(crate) share: u8,
}

/// What a slot is conditional on, as the snapshot showed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Seen {
    pub(crate) watermark: u8,
    pub(crate) departures: u8,
}

/// The answer to a write. Of the one item that the write named, it shows what is there now if the write applied, and what was there if not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Answer {
    pub(crate) applied: bool,
    pub(crate) shown: Shown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Shown {
    Item(Option<Item>),
    Row(Option<Row>),
}

impl Shown {
    pub(crate) fn item(&self) -> Option<Item> {
        match self {
            Shown::Item(item) => *item,
            Shown::Row(_) => None,
        }
    }
}

impl Request {
    /// Whether it asks for a place on the lock item.
    pub(crate) fn takes_a_place(&self) -> bool {
        matches!(
            self,
            Request::Enter { .. } | Request::EnterOver { .. } | Request::Share { .. }
        )
    }

    /// The ticket of the row that it names, or `None` if it names the lock item.
    pub(crate) fn row(&self) -> Option<u8> {
        match *self {
            Request::Join { ticket, .. }
            | Request::VoidGap { ticket, .. }
            | Request::VoidDead { ticket, .. }
            | Request::VoidMine { ticket, .. }
            | Request::RenewRow { ticket, .. }
            | Request::Delete { ticket } => Some(ticket),
            _ => None,
        }
    }
}

/// Requests by what a snapshot shows, or `None` if no entry stands there.
impl Request {
    pub(crate) fn remove(snapshot: &Snapshot, removal: &Removal, rules: &Rules) -> Option<Self> {
        let item = &snapshot.item;
        match removal {
            Removal::Evict(has) => Request::evict(item, *has, rules),
            Removal::EvictSuccessor(index) => Request::evict_successor(item, *index, rules),
            Removal::Void(unsettled) => Request::void(snapshot, unsettled),
            Removal::Settle(upto) => Some(Request::settle(item, *upto)),
        }
    }

    pub(crate) fn evict(item: &Item, has: Has, rules: &Rules) -> Option<Self> {
        let dead = match has {
            Has::Holder => item.holder(rules)?,
            Has::Sharer(index) => item.sharers.get(index)?,
        };
        Some(Request::Evict {
            nonce: dead.nonce,
            beat: dead.beat,
            share: dead.share,
        })
    }

    pub(crate) fn admit(item: &Item, successors: usize, rules: &Rules) -> Option<Self> {
        let (_, share) = item.admitted(rules);
        let first = item.first_successor(rules);
        let index = first + successors.checked_sub(1)?;
        Some(Request::Admit(Admit {
            first: first as u8,
            index: index as u8,
            nonce: item.slots.get(index)?.nonce,
            share,
        }))
    }

    pub(crate) fn evict_successor(item: &Item, index: usize, rules: &Rules) -> Option<Self> {
        let slot = index + item.first_successor(rules);
        let Entry { nonce, beat, .. } = item.slots.get(slot)?;
        let index = slot as u8;
        Some(Request::EvictSuccessor { index, nonce, beat })
    }

    /// Settles the first of them; the others show again in the next snapshot.
    fn void(snapshot: &Snapshot, unsettled: &[Unsettled]) -> Option<Self> {
        match *unsettled.first()? {
            Unsettled::Gap(first, last) => Some(Request::VoidGap {
                first: first.get() as u8,
                ticket: last.get() as u8,
            }),
            Unsettled::Dead(ticket) => snapshot.entry(ticket.get() as u8).map(Request::void_dead),
        }
    }

    pub(crate) fn void_dead(dead: Entry) -> Self {
        Request::VoidDead {
            ticket: dead.ticket,
            nonce: dead.nonce,
            beat: dead.beat,
        }
    }

    pub(crate) fn fill(snapshot: &Snapshot, filling: &Filling) -> Self {
        let found = filling.found.iter();
        let found = found.filter_map(|ticket| snapshot.entry(ticket.get() as u8));
        Request::Fill(Fill {
            seen: Seen::of(&snapshot.item),
            found: found.collect(),
            watermark: filling.watermark.get() as u8,
        })
    }

    /// The change that an operator sends, by what the item shows.
    pub(crate) fn resize(item: &Item, to: u8, rules: &Rules) -> Self {
        let first = item.slots.get(0);
        Request::Resize(Resize {
            to,
            before: item.there_are(rules),
            resizes: item.resizes,
            // Neither matters to the change.
            first: first.map(|first| Entry {
                beat: 0,
                stray: false,
                ..first
            }),
            holds: item.holder(rules).is_some(),
        })
    }

    /// Gives no client a slot, and raises the watermark.
    fn settle(item: &Item, upto: Ticket) -> Self {
        Request::Fill(Fill {
            seen: Seen::of(item),
            found: Few::default(),
            watermark: upto.get() as u8,
        })
    }
}

impl Seen {
    fn of(item: &Item) -> Self {
        Seen {
            watermark: item.watermark,
            departures: item.departures,
        }
    }
}
