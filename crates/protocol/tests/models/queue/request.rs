//! The requests that write, each with what its condition and its expression name, and their answers.

use super::few::Few;
use super::table::{Item, Nonce, Row};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    /// Draw, and take the slot behind all others; or if it does not wait, the first of a free lock.
    Enter {
        who: Who,
        waits: bool,
    },
    EnterOver {
        who: Who,
        last: u8,
        seated: u8,
    },
    /// Take permits that are left, where the one in the first slot has so many at the most.
    Share {
        who: Who,
        first: u8,
    },
    Draw {
        size: u8,
    },
    Join {
        who: Who,
        ticket: u8,
    },
    Seat {
        seen: Seen,
        found: Few,
        seated: u8,
    },
    /// Let the first heirs in, from this slot up to this one in this slot.
    Admit {
        first: u8,
        index: u8,
        nonce: Nonce,
        share: u8,
    },
    Release {
        nonce: Nonce,
        share: u8,
    },
    Evict {
        nonce: Nonce,
        beat: u8,
        share: u8,
    },
    /// Keep one permit.
    Downgrade {
        nonce: Nonce,
        share: u8,
    },
    Unseat {
        index: u8,
        nonce: Nonce,
        beat: u8,
    },
    /// Give up one's own seat.
    Rise {
        index: u8,
        nonce: Nonce,
    },
    VoidGap {
        first: u8,
        ticket: u8,
    },
    VoidDead {
        ticket: u8,
        nonce: Nonce,
        beat: u8,
    },
    VoidMine {
        ticket: u8,
        size: u8,
        nonce: Nonce,
    },
    Left {
        ticket: u8,
    },
    RenewHeir {
        index: u8,
        nonce: Nonce,
    },
    RenewRow {
        ticket: u8,
        nonce: Nonce,
    },
    Delete {
        ticket: u8,
    },
    Remove {
        last: u8,
    },
}

/// Who asks for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Who {
    pub(crate) nonce: Nonce,
    /// Tickets drawn together.
    pub(crate) size: u8,
    /// Permits asked for.
    pub(crate) share: u8,
}

/// What a seat is conditional on, as the look showed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) seated: u8,
    pub(crate) left: u8,
}

/// The answer to a write: of the one item it named, what is there now if it applied, what was there if not.
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
