//! What scripted processes write, and how far a scripted waiter has come.

use std::time::Duration;

use fairlock_protocol::entry::{Attributes, Entry, Nonce, Unknown};
use fairlock_protocol::stamps::Stamps;
use fairlock_protocol::ticket::Ticket;

use crate::agenda::At;
use crate::host::PERMITS;

/// The owner of what scripted processes write.
pub(crate) const SCRIPTED: &str = "scripted";
/// How long the tickets of scripted processes may take to join.
pub(crate) const JOIN: Duration = Duration::from_secs(3);
/// A waiter, and how far it has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waiter {
    pub(crate) lock: usize,
    pub(crate) nonce: Option<Nonce>,
    pub(crate) ticket: Ticket,
    pub(crate) stage: Stage,
    pub(crate) beat: u64,
    pub(crate) renewed: At,
    /// Its hold, and until when it keeps that.
    pub(crate) hold: Option<(u32, At)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    Resting,
    Drawn,
    InRow,
    InSlot,
}

/// An entry that no client wrote.
pub(crate) fn scripted(nonce: Nonce, ticket: Ticket, (stamps, lease): (Stamps, Duration)) -> Entry {
    Entry {
        nonce,
        owner: SCRIPTED.to_owned(),
        ticket,
        tickets: 1,
        permits: PERMITS,
        attributes: Attributes::default(),
        id: None,
        beat: 0,
        session: None,
        lease,
        stamps,
        since: stamps.server,
        given_back: false,
        address: None,
        unknown: Unknown::default(),
    }
}
