//! Whether a caller was kept out by what was over before it asked.

use fairlock_protocol::entry::Entry;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::lease;
use fairlock_protocol::moment::{HostTime, ServerTime};
use fairlock_protocol::stamps::{self, Reading};

use crate::agenda::{At, SECOND};
use crate::clocks::{OFF, shifted};
use crate::seen::Seen;
use crate::world::World;

/// One call passes so many rows in any case.
const ROWS: usize = 40;

impl World {
    /// What a caller whose clocks are right reads now at the least.
    fn reads(&self, asked: At) -> Reading {
        let earliest = shifted(asked, -(OFF + SECOND.cast_signed()));
        Reading {
            date: Some(ServerTime(earliest)),
            wall: self.front_ends.wall(HostTime(earliest)),
        }
    }

    /// By clocks that are right, an entry that was over before the call is in nobody's way. Nor is what was over in the queue, where
    /// nobody holds the lock.
    pub(crate) fn was_kept_out(&mut self, host: usize, caller: usize, item: &LockItem) {
        let it = &self.hosts[host].callers[caller];
        let (lock, asked, meets_dead) = (it.lock, it.asked, it.meets_dead);
        let ticket = item.last.get();
        // It may have been its own that an operator broke.
        if it.waits || !self.plan.is_right() || self.broken.contains(&(lock, ticket)) {
            return;
        }
        let met_dead = meets_dead == Some((ticket, self.scripted))
            && meets_dead == self.meets_dead(lock, asked);
        if item.is_free() && (item.is_idle() || met_dead) {
            return self.see(Seen::KeptOut { lock, ticket });
        }
        let reading = self.reads(asked);
        // Nobody believes in what was given back: it ends with its shortest time, but for what clocks differ.
        let (kept, until) = self.given_back[lock];
        let is_over =
            |it: &&Entry| lease::is_over(it, reading) || (it.ticket.get() == kept && asked > until);
        let holder = item.holder().filter(is_over);
        if let Some(ticket) = holder.map(|holder| holder.ticket.get()) {
            self.see(Seen::KeptOut { lock, ticket });
        }
    }

    /// The newest ticket, if all that is in the way of a call is over in the queue, and how much scripted processes have done until now.
    pub(crate) fn meets_dead(&self, lock: usize, asked: At) -> Option<(u64, u32)> {
        let item = self.table.item(lock).filter(|it| it.is_free())?;
        let reading = self.reads(asked);
        let rows = self.table.rows(lock);
        let mut waiting = rows.values().filter(|row| row.ticket > item.watermark);
        let is_over = |entry: &Entry| lease::is_over(entry, reading);
        let join = std::time::Duration::from_nanos(self.plan.longest_join());
        let is_all_over = rows.len() < ROWS
            && stamps::is_over(item.drawn, item.join_timeout(join), reading)
            && waiting.all(|row| row.waiting().is_none_or(is_over));
        is_all_over.then_some((item.last.get(), self.scripted))
    }
}
