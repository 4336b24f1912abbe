//! The places on which their owners count, as requests established them.

use std::collections::BTreeMap;
use std::time::Duration;

use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::ticket::Ticket;

use crate::agenda::At;
use crate::plan::nanos;

/// The places of clients, and the tickets that they have drawn and not joined with.
#[derive(Default)]
pub(crate) struct Standing {
    /// By nonce and beat, of which lock, and until when its owner counts on what that request established.
    places: BTreeMap<(Nonce, u64), (usize, At)>,
    /// By the newest of the tickets, until when they may join.
    pub(crate) drawn: BTreeMap<(usize, Ticket), At>,
    /// The attempts of callers that were refused.
    pub(crate) left: BTreeMap<Nonce, Left>,
}

/// A caller that was refused, of which nothing stands there from a time on.
#[derive(Clone, Copy)]
pub(crate) struct Left {
    pub(crate) host: usize,
    pub(crate) life: u32,
    pub(crate) asked: At,
    pub(crate) from: At,
}

/// A clock of a host runs at most one percent slow, and what a request establishes is counted from before it is sent.
pub(crate) fn surely(span: Duration) -> At {
    nanos(span) * 97 / 100
}

impl Standing {
    pub(crate) fn establishes(&mut self, lock: usize, entry: &Entry, sent: At) {
        let until = sent + surely(entry.lease);
        // Of several copies the first counts: its owner believes no longer.
        let known = self.places.entry((entry.nonce, entry.beat));
        known.or_insert((lock, until));
    }

    pub(crate) fn knows(&self, nonce: Nonce) -> bool {
        let beats = (nonce, 0)..=(nonce, u64::MAX);
        self.places.range(beats).next().is_some()
    }

    /// Whether a place stands on a lock on which its owner counts. A place that was never renewed may have come to an item that it has not seen.
    pub(crate) fn lives(&self, lock: usize, now: At) -> bool {
        let mut places = self.places.iter().filter(|((_, beat), _)| *beat > 0);
        places.any(|(_, (of, until))| *of == lock && *until > now)
    }

    /// An entry ends, as it stood there. Says for how much longer its owner counts on it.
    pub(crate) fn ends(&mut self, entry: &Entry, now: At) -> Option<At> {
        let known = self.places.get(&(entry.nonce, entry.beat)).copied();
        let beats = (entry.nonce, 0)..=(entry.nonce, u64::MAX);
        self.places.extract_if(beats, |_, _| true).for_each(drop);
        let (_, until) = known?;
        until.checked_sub(now).filter(|left| *left > 0)
    }

    /// The item has gone, and all that stood there.
    pub(crate) fn forget(&mut self, lock: usize) {
        self.places.retain(|_, (of, _)| *of != lock);
        self.drawn.retain(|(of, _), _| *of != lock);
    }
}
