//! An entry without anything in it. The models say what stands in it, and leave out the rest.

use std::time::Duration;

use fairlock_protocol::entry::{Attributes, Entry, Nonce, Unknown};
use fairlock_protocol::ticket::Ticket;

pub(crate) fn entry(nonce: Nonce, ticket: Ticket, lease: Duration) -> Entry {
    Entry {
        nonce,
        owner: String::new(),
        ticket,
        tickets: 1,
        permits: 1,
        attributes: Attributes::default(),
        id: None,
        beat: 0,
        lease,
        renewed_at: None,
        since: None,
        kept_until: None,
        address: None,
        unknown: Unknown::default(),
    }
}
