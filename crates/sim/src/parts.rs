//! Holders give a part of their permits back, or make leases of their holds.

use fairlock_protocol::agent::{Done, HoldId, Input, LeaseTerm, Order, ReplyId};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::stamps::Stamps;

use crate::agenda::{MS, SECOND};
use crate::clocks::shifted;
use crate::host::{Doing, Held};
use crate::plan::nanos;
use crate::seen::Seen;
use crate::world::World;

impl World {
    /// The holder keeps fewer permits from now on.
    pub(crate) fn frees(&mut self, host: usize, hold: HoldId) {
        let it = &mut self.hosts[host];
        let reply = ReplyId(it.next());
        let Some(held) = it.holds.get_mut(&hold).filter(|held| held.keeps > 1) else {
            return;
        };
        let freed = self.rng.u64(1..held.keeps);
        held.keeps -= freed;
        let (uid, lock, keeps) = (held.uid, held.lock, held.keeps);
        it.callers[held.caller].plain = None;
        it.freeing.insert(reply, hold);
        self.see(Seen::Parted {
            hold: uid,
            lock,
            keeps,
        });
        let (order, reply) = (Order::Free(freed), Some(reply));
        self.mail(host, Input::Order { hold, order, reply });
    }

    /// They are free, unless a caller of the same host may be next at that place, or the hold has a shortest time.
    pub(crate) fn has_freed(&mut self, host: usize, hold: HoldId, done: &Result<Done, Failure>) {
        let it = &self.hosts[host];
        let Some(held) = it.holds.get(&hold).filter(|held| !held.is_over) else {
            return;
        };
        let asks = |doing: &Doing| matches!(doing, Doing::Asking { .. });
        let is_next = it
            .callers
            .iter()
            .any(|other| asks(&other.doing) && other.lock == held.lock);
        let is_open = it.freeing.values().any(|other| *other == hold);
        let is_bound = it.callers[held.caller].min.is_some();
        if !matches!(done, Ok(Done::Freed))
            || is_next
            || is_open
            || is_bound
            || !it.cancelled.is_empty()
        {
            return;
        }
        let (lock, ticket, keeps) = (held.lock, held.ticket, held.keeps);
        let stands = |entry: &&Entry| entry.ticket.get() == held.place;
        let item = self.table.item(lock);
        let shown = item.and_then(|item| item.entries().find(stands).map(|entry| entry.permits));
        if shown.is_some_and(|permits| permits > keeps) {
            let message = format!("{ticket} keeps {keeps} permits, and the table shows {shown:?}");
            self.fail("parts are free", Some(lock), message);
        }
    }

    /// How a hold ends: it is released, or becomes a lease.
    pub(crate) fn ending(&mut self, host: usize, hold: HoldId, is_unused: bool) -> Order {
        let has_leases = self.plan.has_leases && !self.is_calm && !is_unused;
        if !has_leases || !self.front_ends.is_dated() || self.rng.u8(0..4) > 0 {
            return Order::Release { is_unused };
        }
        let it = &mut self.hosts[host];
        let span = it.terms.lease.mul_f64(0.1 + self.rng.f64());
        if let Some(held) = it.holds.get_mut(&hold) {
            held.leases = Some(span);
            it.callers[held.caller].plain = None;
        }
        Order::LeaseOut(LeaseTerm {
            id: "lease".into(),
            span,
            past: Stamps::default(),
        })
    }

    /// A hold that does not become a lease does not stand there, by the item that says so.
    pub(crate) fn is_no_lease(&mut self, held: &Held, item: &LockItem) {
        let stands = |entry: &Entry| entry.ticket.get() == held.place && !entry.given_back;
        if held.leases.is_some() && item.entries().any(stands) {
            let message = format!("{} is no lease, and stands there", held.ticket);
            self.fail("leases last", Some(held.lock), message);
        }
    }

    /// A hold has become a lease: it lasts as long as was asked, by clocks that are right, and others count on that.
    pub(crate) fn is_leased(&mut self, held: &Held, lease: &Entry) {
        let lock = held.lock;
        if Some(lease.lease) != held.leases {
            let message = format!("{} is a lease of {:?}", held.ticket, lease.lease);
            self.fail("leases last", Some(lock), message);
        }
        let Some(server) = lease.stamps.server.filter(|_| self.plan.is_right()) else {
            return;
        };
        let began = nanos(server.0.saturating_sub(shifted(0, 0)));
        let off = self.plan.skew() + SECOND;
        if began + off < held.ended {
            let early = (held.ended - began) / MS;
            let message = format!("the lease of {} counts from {early} ms before", held.ticket);
            self.fail("leases last", Some(lock), message);
        }
        let until = (began + nanos(lease.lease)).saturating_sub(off);
        if until > self.at {
            let hold = held.uid;
            let place = held.place;
            self.see(Seen::Leased {
                hold,
                lock,
                place,
                permits: lease.permits,
                until,
            });
        }
    }
}
