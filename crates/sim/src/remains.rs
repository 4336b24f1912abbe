//! What dead processes leave in the table: holders, gaps, rows, slots; and the entries that a scripted process writes.

use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::moment::{HostTime, ServerTime};
use fairlock_protocol::stamps::{Stamps, Wall};
use fairlock_protocol::ticket::{Sequence, Ticket};
use fairlock_protocol::write::{Drawing, Entrance, LockWrite, NewItem, RowWrite, end};

use crate::agenda::{Event, SECOND};
use crate::clocks::shifted;
use crate::host::PERMITS;
use crate::scripted::{JOIN, scripted};
use crate::world::World;

/// No more are planted where there are so many.
const MANY_ROWS: usize = 100;
/// A day and a bit: how long what they write stays.
const STAYS: u64 = 100_000;

impl World {
    /// Something of a dead process appears.
    pub(crate) fn plants(&mut self) {
        let lock = self.rng.usize(0..self.plan.locks);
        match self.rng.u8(0..5) {
            0 | 1 => self.plants_holder(lock),
            2 => _ = self.draws(lock),
            3 => self.plants_row(lock),
            _ => self.plants_slot(lock),
        }
        self.again(self.plan.rates.plants, Event::Plants);
    }

    fn plants_holder(&mut self, lock: usize) {
        let nonce = Nonce::new(self.rng.u128(..));
        let mut me = self.entry(nonce);
        if let Some(boot) = self.front_ends.boot().filter(|_| self.rng.bool()) {
            // Of a process of an earlier boot.
            me.stamps.server = Some(ServerTime(boot.0.saturating_sub(JOIN)));
        }
        let now = shifted(self.at, 0);
        let entrance = Entrance {
            below: end(1),
            slots: None,
            join_timeout: JOIN,
            new: Some(NewItem {
                start: Ticket::new(u64::try_from(now.as_micros()).unwrap_or_default()),
                expiry: now.as_secs() + STAYS,
            }),
        };
        self.applies(lock, &LockWrite::enter(PERMITS, me, entrance));
    }

    fn plants_row(&mut self, lock: usize) {
        if self.table.rows(lock).len() > MANY_ROWS {
            return;
        }
        let rows = match self.rng.u8(0..4) {
            0 if self.plan.has_long_queues => 200,
            _ => self.rng.u32(1..8),
        };
        for _ in 0..rows {
            let nonce = Nonce::new(self.rng.u128(..));
            if let Some(ticket) = self.draws(lock) {
                self.joins(lock, nonce, ticket);
            }
        }
    }

    /// An entry waits in a slot behind the holder, and its process is dead.
    fn plants_slot(&mut self, lock: usize) {
        let nonce = Nonce::new(self.rng.u128(..));
        let me = self.entry(nonce);
        let entrance = Entrance {
            below: end(1),
            slots: Some(8),
            join_timeout: JOIN,
            new: None,
        };
        self.applies(lock, &LockWrite::enter(PERMITS, me, entrance));
    }

    /// Draws a ticket, if there is an item.
    pub(crate) fn draws(&mut self, lock: usize) -> Option<Ticket> {
        let (item, expiry) = (self.table.item(lock)?, self.expiry());
        let goes_soon = item.expires_at > 0 && item.expires_at + STAYS / 2 < expiry;
        let how = Drawing {
            stamps: self.stamps(),
            seen: item.drawn,
            join_timeout: JOIN,
            raises_join_timeout: item.join_timeout.is_none_or(|it| it < JOIN),
            keeps: goes_soon.then_some(expiry),
        };
        let ticket = item.last.next()?;
        let draw = LockWrite::draw(PERMITS, 1, end(1), how);
        self.applies(lock, &draw).then_some(ticket)
    }

    pub(crate) fn joins(&mut self, lock: usize, nonce: Nonce, ticket: Ticket) -> bool {
        let mut entry = self.entry(nonce);
        entry.ticket = ticket;
        let join = RowWrite::join(entry, self.expiry());
        self.applies_to_row(lock, ticket, &join)
    }

    pub(crate) fn applies_to_row(&mut self, lock: usize, ticket: Ticket, write: &RowWrite) -> bool {
        let is_applied = self.table.write_row(lock, ticket, write).is_some();
        self.tell(lock, || {
            format!(
                "directly: row {ticket}: {} applied {is_applied}",
                write.verb
            )
        });
        self.changes[lock] += 1;
        self.scripted += 1;
        is_applied
    }

    pub(crate) fn expiry(&self) -> u64 {
        shifted(self.at, 0).as_secs() + STAYS
    }

    /// The time as a scripted process knows it. Its wall clock is as wrong as those of hosts are, or its front end.
    pub(crate) fn stamps(&self) -> Stamps {
        let date = self.front_ends.date(0, self.at + SECOND);
        let ahead = self.plan.hosts[0].ahead;
        Stamps {
            server: date.map(|date| ServerTime(date.0)),
            host: match self.front_ends.wall(HostTime(shifted(self.at, ahead))) {
                Wall::Shows(time) => Some(time),
                Wall::IsNoWitness => None,
            },
        }
    }

    /// A new entry of a scripted process.
    pub(crate) fn entry(&self, nonce: Nonce) -> Entry {
        let lease = self.plan.hosts[0].terms.lease;
        scripted(nonce, Ticket::default(), (self.stamps(), lease))
    }
}
