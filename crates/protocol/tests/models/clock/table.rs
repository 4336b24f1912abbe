//! What the table shows of the owner, and what the writes of the library do to it.

use std::time::Duration;

use fairlock_protocol::entry::{Entry, Nonce, ServerTime};
use fairlock_protocol::item::{At, Footing, LockItem};
use fairlock_protocol::step::Has;
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::{Dating, LockWrite};

use crate::blank;

const TICKET: Ticket = Ticket::new(1);
const NONCE: Nonce = Nonce::new(0);
/// The permits of the lock.
const PERMITS: u64 = 1;
const NAME: &str = "lease";

/// What the lock item shows of the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mark {
    pub(crate) beat: u8,
    pub(crate) date: Option<ServerTime>,
    /// It is a lease, which any process finds by its name.
    pub(crate) named: bool,
}

impl Mark {
    /// What a caller names of the owner that it saw with this beat.
    fn seen(beat: u8) -> Self {
        Mark {
            beat,
            date: None,
            named: false,
        }
    }

    pub(crate) fn entry(self, lease: Duration) -> Entry {
        Entry {
            id: self.named.then(|| NAME.to_owned()),
            beat: self.beat.into(),
            renewed_at: self.date,
            ..blank::entry(NONCE, TICKET, lease)
        }
    }

    fn item(self, lease: Duration) -> LockItem {
        LockItem {
            permits: PERMITS,
            slots: vec![self.entry(lease)],
            ..LockItem::free(TICKET, TICKET)
        }
    }

    fn of(item: &LockItem) -> Option<Mark> {
        let entry = item.slots.first()?;
        Some(Mark {
            beat: u8::try_from(entry.beat).ok()?,
            date: entry.renewed_at,
            named: entry.id.is_some(),
        })
    }

    /// Returns `None` if the hold does not become a lease.
    pub(crate) fn leased_out(self, beat: u8, lease: Duration, date: ServerTime) -> Option<Mark> {
        let item = self.item(lease);
        let footing = Footing::of(&item, At::Slot(0), &item.slots[0]);
        let until = (beat.into(), lease, date);
        let lease_out = LockWrite::lease_out(PERMITS, (NONCE, footing), until, NAME.into());
        Mark::of(&lease_out.apply(Some(&item))??)
    }

    /// Returns `None` if the renewal does not apply.
    pub(crate) fn renewed(self, beat: u8, lease: Duration, dating: Dating) -> Option<Mark> {
        let item = self.item(lease);
        let footing = Footing::of(&item, At::Slot(0), &item.slots[0]);
        let renew = LockWrite::renew(PERMITS, (NONCE, footing), (beat.into(), lease), dating);
        Mark::of(&renew.apply(Some(&item))??)
    }

    /// The caller saw the owner with the beat `seen`, and stamps it. Returns `None` if the write does not apply.
    pub(crate) fn dated(self, seen: u8, lease: Duration, date: ServerTime) -> Option<Mark> {
        let seen = Mark::seen(seen);
        let write = LockWrite::date_holds(PERMITS, &[(At::Slot(0), &seen.entry(lease))], date);
        Mark::of(&write.apply(Some(&self.item(lease)))??)
    }

    /// Whether the eviction of an owner that was seen with this beat applies.
    pub(crate) fn is_evicted(self, seen: u8, lease: Duration) -> bool {
        let seen = Mark::seen(seen).item(lease);
        let evict = seen
            .who(Has::Holder)
            .map(|(dead, held)| LockWrite::evict(PERMITS, dead, held, None));
        evict.is_some_and(|evict| evict.apply(Some(&self.item(lease))).is_some())
    }
}
