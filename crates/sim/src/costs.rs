//! How many requests turns and refusals take that nothing disturbs.

use fairlock_protocol::agent::Bounds;
use fairlock_protocol::entry::Entry;
use fairlock_protocol::item::LockItem;

use crate::agenda::{At, SECOND};
use crate::clocks::shifted;
use crate::host::Held;
use crate::plan::nanos;
use crate::seen::{Outcome, Seen};
use crate::world::World;

/// After so long without trouble nothing of a host is under way.
const QUIET: At = 300 * SECOND;

impl World {
    /// How often the lock was changed until now, if nothing is in the way of a turn that begins now.
    pub(crate) fn is_plain(&self, host: usize, lock: usize, bounds: Bounds) -> Option<u32> {
        let it = &self.hosts[host];
        let kept = shifted(self.at, 0) + it.terms.retention.mul_f64(0.6);
        let is_kept = |expires_at: u64| expires_at > kept.as_secs();
        let item = self.table.item(lock);
        let is_plain = self.plan.is_right()
            && bounds == Bounds::default()
            && it.told.is_known()
            && self.table.rows(lock).is_empty()
            && item.is_none_or(|item| item.is_idle() && is_kept(item.expires_at));
        is_plain.then_some(self.changes[lock])
    }

    /// The ticket of a holder that is all that is in the way of a call, and needs no new stamps.
    pub(crate) fn meets(&self, host: usize, lock: usize) -> Option<u64> {
        let item = self.table.item(lock)?;
        // What was carried on over a long silence is late, and others replace it.
        let soon = shifted(self.at, SECOND.cast_signed());
        let now = shifted(self.at, 0);
        let is_dated = |it: &&Entry| {
            let date = it.stamps.server.map(|date| date.0);
            date.is_some_and(|date| date <= soon && date + it.lease > now)
        };
        let holder = item.holder().filter(is_dated)?;
        let is_alone = item.entries().count() == 1 && item.watermark == item.last;
        let knows = self.hosts[host].told.is_known() && self.plan.is_right();
        (is_alone && knows && self.table.rows(lock).is_empty()).then_some(holder.ticket.get())
    }

    /// A caller that meets a live holder has asked once.
    pub(crate) fn counts_refusal(&mut self, host: usize, caller: usize, item: &LockItem) {
        let it = &self.hosts[host].callers[caller];
        let (lock, requests, most) = (it.lock, it.requests, 1);
        // What was given back ends early by what clocks differ.
        let holder = item.holder().filter(|it| !it.given_back);
        let holder = holder.map(|holder| holder.ticket.get());
        let is_alone = item.entries().count() == 1 && item.watermark == item.last;
        if it.meets.is_some() && it.meets == holder && is_alone {
            self.see(Seen::Cost {
                lock,
                requests,
                most,
            });
        }
    }

    /// Whether nothing went wrong for a host since long before a call.
    pub(crate) fn is_quiet(&self, host: usize, asked: At) -> bool {
        let it = &self.hosts[host];
        it.troubled_at == 0 || it.troubled_at + QUIET < asked
    }

    /// A turn takes a request to enter and one to release. One that lasts takes a renewal for each heartbeat, and for its shares of
    /// the stagger.
    pub(crate) fn counts_turn(&mut self, host: usize, held: &Held, outcome: Outcome) {
        let it = &self.hosts[host];
        let caller = &it.callers[held.caller];
        let is_calm = self.is_quiet(host, caller.asked);
        let is_released = matches!(outcome, Outcome::HandedOff | Outcome::KeptOn);
        let Some(before) = caller.plain.filter(|_| is_calm && is_released) else {
            return;
        };
        // Renewals are due from the request on, and early by half a heartbeat at most.
        let half = nanos(it.terms.heartbeat) / 2;
        let spans = u32::try_from((self.at - caller.asked) / half).unwrap_or(u32::MAX);
        let is_short = (self.at - caller.asked) * 5 < half * 4;
        let is_alone = before + 2 == self.changes[held.lock];
        let puts = u32::try_from(held.puts).unwrap_or(u32::MAX);
        let most = match is_short && is_alone {
            true => 2 + puts,
            false => 3 + puts + spans,
        };
        let (lock, requests) = (held.lock, caller.requests);
        self.see(Seen::Cost {
            lock,
            requests,
            most,
        });
    }
}
