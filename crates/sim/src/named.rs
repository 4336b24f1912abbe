//! Callers who ask for a lease by its name, as other callers may too.

use std::time::Duration;

use fairlock_protocol::agent::{Answer, Input, LeaseTerm};
use fairlock_protocol::entry::Nonce;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::lease;
use fairlock_protocol::stamps::Stamps;

use crate::host::{Doing, PERMITS};
use crate::seen::Seen;
use crate::world::World;

/// How many names there are.
const NAMES: u8 = 3;

impl World {
    /// The lease that a caller asks for, if it asks for one. All who ask by a name ask for the same time.
    pub(crate) fn names(&mut self, host: usize) -> Option<LeaseTerm> {
        let may_know = self.front_ends.is_dated() && self.hosts[host].told.is_known();
        let has_leases = self.plan.has_leases && !self.is_calm && may_know;
        if !has_leases || self.rng.u8(0..3) > 0 {
            return None;
        }
        let name = self.rng.u8(0..NAMES);
        let longest = Duration::from_nanos(self.plan.longest_lease());
        Some(LeaseTerm {
            id: format!("job-{name}").into(),
            span: longest.mul_f64(0.2 + 0.4 * f64::from(name)),
            past: Stamps::default(),
        })
    }

    /// A call has come to a lease of its name.
    pub(crate) fn has_come_to(
        &mut self,
        host: usize,
        caller: usize,
        (item, nonce): (&LockItem, Nonce),
    ) {
        let asker = &self.hosts[host].callers[caller];
        let (lock, requests, most, plain) = (asker.lock, asker.requests, 1, asker.plain);
        let permits = asker.share.unwrap_or(PERMITS);
        let is_quiet = self.is_quiet(host, asker.asked);
        let named = asker.named.clone();
        let found = named.and_then(|named| {
            let lease = item
                .leases_of(&named.id, permits)
                .find(|it| it.nonce == nonce)?;
            Some((lease, named.span))
        });
        let Some((lease, span)) = found else {
            let message = "a call comes to a lease that is not of its name".to_owned();
            return self.fail("leases have names", Some(lock), message);
        };
        if lease.lease != span {
            let message = format!("the lease of {} is of {:?}", lease.ticket, lease.lease);
            self.fail("leases last", Some(lock), message);
        }
        // It may be over by now, or an operator has ended it.
        let now = self.table.item(lock);
        let stands = now.is_some_and(|now| now.hold_of(lease.nonce, lease.ticket).is_some());
        if stands {
            let hold = self.next_hold();
            self.lasts(hold, lock, lease);
        }
        let is_alone = plain.is_some_and(|before| self.changes[lock] <= before + 1);
        if is_alone && is_quiet {
            self.see(Seen::Cost {
                lock,
                requests,
                most,
            });
        }
    }

    /// A call that asks for a lease, and does not wait, is given nothing that it would have to renew.
    pub(crate) fn is_no_hold(&mut self, host: usize, caller: usize) {
        let asker = &self.hosts[host].callers[caller];
        if asker.named.is_some() && !asker.waits {
            let message = "a call for a lease is granted a hold".to_owned();
            self.fail("leases have names", Some(asker.lock), message);
        }
    }

    /// The caller that is to hear by this input that a lease of its name has the lock.
    pub(crate) fn is_shown_a_lease(&self, host: usize, input: &Input) -> Option<(usize, Doing)> {
        let Input::Answer { request, reply } = input else {
            return None;
        };
        let Ok(Answer::Read(Some(item))) = &reply.answer else {
            return None;
        };
        let callers = self.hosts[host].callers.iter().enumerate();
        let mut shown = callers.filter_map(|(number, it)| {
            let named = it.named.as_ref().filter(|_| it.newest == Some(*request))?;
            let mut leases = item.leases_of(&named.id, it.share.unwrap_or(PERMITS));
            leases.find(|lease| !lease::is_over(lease, reply.reading))?;
            let is_asking = matches!(it.doing, Doing::Asking { .. });
            is_asking.then_some((number, it.doing))
        });
        shown.next()
    }

    /// It has heard of it, and is answered once it has left the queue.
    pub(crate) fn has_heard(&mut self, host: usize, (caller, doing): (usize, Doing)) {
        let it = &self.hosts[host];
        let asker = &it.callers[caller];
        if asker.doing == doing {
            let (call, lock, late) = (asker.call, asker.lock, it.late);
            let due = it.answered_by(asker.until.min(self.at));
            self.see(Seen::Asked {
                call,
                lock,
                due,
                late,
            });
        }
    }
}
