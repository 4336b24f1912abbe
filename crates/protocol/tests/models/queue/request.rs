//! The requests that write, each with what its condition and its expression name, and their answers.

use super::few::Few;
use super::table::{Item, Nonce, Row};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Request {
    Enter {
        who: Who,
    },
    EnterOver {
        who: Who,
        last: u8,
        seated: u8,
    },
    /// Take permits that are left.
    Share {
        who: Who,
    },
    Sit {
        who: Who,
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
    /// Let the first heirs in, up to this one at this place.
    Admit {
        index: u8,
        nonce: Nonce,
        share: u8,
    },
    Release {
        nonce: Nonce,
        held: Held,
    },
    Evict {
        nonce: Nonce,
        beat: u8,
        held: Held,
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

/// How a hold is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Held {
    pub(crate) share: u8,
    pub(crate) hands_over: bool,
}

/// What a seat is conditional on, as the look showed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    pub(crate) seated: u8,
    pub(crate) left: u8,
    pub(crate) free: bool,
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
