//! Holders give a part of their permits back, or make leases of their holds.

use fairlock_protocol::agent::{Done, HoldId, Input, LeaseTerm, Order, ReplyId};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::stamps::Stamps;

use crate::agenda::{At, MS, SECOND};
use crate::clocks::shifted;
use crate::features::Feature;
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
        it.callers[held.caller].features.has(Feature::Freed);
        it.freeing.insert(reply, hold);
        self.see(Seen::Parted {
            hold: uid,
            lock,
            keeps,
        });
        let (order, reply) = (Order::Free(freed), Some(reply));
        self.mail(host, Input::Order { hold, order, reply });
    }

    /// They are free, unless a caller of the same host may be next at that place, or the hold has a shortest time. After a failure its client
    /// tries again later.
    pub(crate) fn has_freed(&mut self, host: usize, hold: HoldId, done: &Result<Done, Failure>) {
        let it = &mut self.hosts[host];
        let Some(held) = it.holds.get_mut(&hold).filter(|held| !held.is_over) else {
            return;
        };
        held.frees_later |= done.is_err();
        let (it, held) = (&self.hosts[host], &self.hosts[host].holds[&hold]);
        let asks = |doing: &Doing| matches!(doing, Doing::Asking { .. });
        let is_next = it
            .callers
            .iter()
            .any(|other| asks(&other.doing) && other.lock == held.lock);
        let is_open = it.freeing.values().any(|other| *other == hold);
        let is_bound = it.callers[held.caller].min.is_some();
        if held.frees_later
            || !matches!(done, Ok(Done::Freed))
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
        let it = &mut self.hosts[host];
        let Some(held) = it.holds.get_mut(&hold) else {
            return Order::Release { is_unused };
        };
        let caller = &mut it.callers[held.caller];
        let may_lease = has_leases && self.front_ends.is_dated();
        // What was waited for as a lease becomes one.
        if !may_lease || (caller.named.is_none() && self.rng.u8(0..4) > 0) {
            return Order::Release { is_unused };
        }
        let term = caller.named.clone().unwrap_or_else(|| LeaseTerm {
            id: "lease".into(),
            span: it.terms.lease.mul_f64(0.1 + self.rng.f64()),
            past: Stamps::default(),
        });
        (held.leases, caller.plain) = (Some(term.span), None);
        caller.features.has(Feature::LeasedOut);
        Order::LeaseOut(term)
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
        if let Some(began) = self.lasts(held.uid, lock, lease)
            && began + self.off() < held.ended
        {
            let early = (held.ended - began) / MS;
            let message = format!("the lease of {} counts from {early} ms before", held.ticket);
            self.fail("leases last", Some(lock), message);
        }
    }

    /// By how much the clocks that matter may be off.
    fn off(&self) -> At {
        self.plan.skew() + SECOND
    }

    /// Others count on a lease that stands there, as long as it lasts by clocks that are right: by the earlier of its stamps, because a `Date`
    /// that was carried over a long silence is late. Returns when it began.
    pub(crate) fn lasts(&mut self, hold: u32, lock: usize, lease: &Entry) -> Option<At> {
        let server = lease.stamps.server.filter(|_| self.plan.is_right())?;
        let host = lease.stamps.host.map(|host| host.0);
        let began = host.map_or(server.0, |host| host.min(server.0));
        let began = nanos(began.saturating_sub(shifted(0, 0)));
        let until = (began + nanos(lease.lease)).saturating_sub(self.off());
        if until > self.at {
            let place = lease.ticket.get();
            self.see(Seen::Leased {
                hold,
                lock,
                place,
                permits: lease.permits,
                until,
            });
        }
        Some(began)
    }
}
