//! What the table shows of the owner, and what the writes of the library do to it.

use std::time::Duration;

use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::item::{At, Footing, LockItem};
use fairlock_protocol::stamps::Stamps;
use fairlock_protocol::step::Has;
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::LockWrite;

use crate::blank;

const TICKET: Ticket = Ticket::new(1);
const NONCE: Nonce = Nonce::new(0);
/// The permits of the lock.
const PERMITS: u64 = 1;
const NAME: &str = "lease";

/// What an entry is to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Hold,
    /// Found by its name, and renewed by no task.
    Lease,
    GivenBack,
}

/// What the table shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mark {
    pub(crate) beat: u8,
    pub(crate) stamps: Stamps,
    pub(crate) lease: Duration,
    pub(crate) kind: Kind,
}

impl Mark {
    fn entry(self) -> Entry {
        Entry {
            id: (self.kind == Kind::Lease).then(|| NAME.to_owned()),
            beat: self.beat.into(),
            stamps: self.stamps,
            given_back: self.kind == Kind::GivenBack,
            ..blank::entry(NONCE, TICKET, self.lease)
        }
    }

    fn item(self) -> LockItem {
        LockItem {
            permits: PERMITS,
            slots: vec![self.entry()],
            ..LockItem::free(TICKET, TICKET)
        }
    }

    fn of(item: &LockItem) -> Option<Mark> {
        let entry = item.slots.first()?;
        let kind = match (entry.id.is_some(), entry.given_back) {
            (true, _) => Kind::Lease,
            (false, true) => Kind::GivenBack,
            (false, false) => Kind::Hold,
        };
        Some(Mark {
            beat: u8::try_from(entry.beat).ok()?,
            stamps: entry.stamps,
            lease: entry.lease,
            kind,
        })
    }

    fn after(self, write: &LockWrite) -> Option<Mark> {
        Mark::of(&write.apply(Some(&self.item()))??)
    }

    /// The owner writes its entry again. Returns `None` if the write does not apply.
    pub(crate) fn written(self, new: Mark) -> Option<Mark> {
        let (item, at) = (self.item(), At::Slot(0));
        let place = (NONCE, Footing::of(&item, at, &item.slots[0]));
        let beat = u64::from(new.beat);
        let renew = || LockWrite::renew(PERMITS, place, (beat, new.lease), new.stamps);
        self.after(&match new.kind {
            Kind::Hold => renew(),
            Kind::GivenBack => renew().given_back(at),
            Kind::Lease => {
                let until = (beat, new.lease, new.stamps);
                LockWrite::lease_out(PERMITS, place, until, NAME.into())
            }
        })
    }

    /// A caller stamps what it saw. Returns `None` if the write does not apply.
    pub(crate) fn dated(self, seen: Mark, stamps: Stamps) -> Option<Mark> {
        let (at, seen) = (At::Slot(0), seen.entry());
        self.after(&LockWrite::date_holds(PERMITS, &[(at, &seen)], stamps))
    }

    /// A caller extends a lease that it saw with this beat. Returns `None` if the write does not apply.
    pub(crate) fn extended(self, beat: u8, by: (Stamps, Duration)) -> Option<Mark> {
        let seen = Mark { beat, ..self }.entry();
        self.after(&LockWrite::extend(PERMITS, (At::Slot(0), &seen), by))
    }

    /// Whether the eviction of an owner that was seen with this beat applies.
    pub(crate) fn is_evicted(self, beat: u8) -> bool {
        let seen = Mark { beat, ..self }.item();
        seen.who(Has::Holder).is_some_and(|(dead, held)| {
            let evict = LockWrite::evict(PERMITS, dead, held, None);
            evict.apply(Some(&self.item())).is_some()
        })
    }
}
