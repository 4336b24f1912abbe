//! A scripted waiter: it draws, joins the queue, takes a slot when its turn comes, and leaves; or it dies somewhere on the way.

use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::item::{Footing, ItemHold, ItemPosition, LockItem};
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::{LockWrite, RowWrite};

use crate::agenda::{Event, MS, SECOND};
use crate::host::PERMITS;
use crate::plan::nanos;
use crate::scripted::{JOIN, Stage, Waiter};
use crate::seen::{Grant, How, Seen};
use crate::world::World;

/// How many slots the waiter leaves behind the first.
const SLOTS: usize = 8;

impl World {
    /// The waiter goes on, or dies. It goes on with another place then.
    pub(crate) fn waits(&mut self, waiter: usize) {
        let it = self.waiters[waiter];
        // Its process may not have run in between.
        let lasts = nanos(self.plan.hosts[0].terms.lease) * 9 / 10;
        let is_late = it.stage != Stage::Drawn && it.renewed + lasts <= self.at;
        let dies = self.rng.u8(0..self.patience()) == 0 || self.is_calm || is_late;
        if dies && it.stage != Stage::Resting {
            self.tell(it.lock, || "the waiter dies".to_owned());
            self.waiter_ends(waiter, How::Crashed);
        } else {
            match it.stage {
                Stage::Resting if self.is_calm => return,
                Stage::Resting => self.waiter_draws(waiter),
                Stage::Drawn => self.waiter_joins(waiter),
                Stage::InRow => self.waiter_polls(waiter),
                Stage::InSlot => self.waiter_stands(waiter),
            }
        }
        let lease = nanos(self.plan.hosts[0].terms.lease);
        let every = match self.waiters[waiter].stage {
            Stage::Resting => 10 * SECOND,
            Stage::Drawn => [100 * MS, 100 * MS, 5 * SECOND][self.rng.usize(0..3)],
            // A renewal comes in time.
            Stage::InRow | Stage::InSlot => lease / 20,
        };
        self.again(every, Event::Waits(waiter));
    }

    /// One in so many steps is a waiter's last. Where queues are long, it waits for long.
    fn patience(&self) -> u8 {
        if self.plan.has_long_queues { 100 } else { 12 }
    }

    fn waiter_ends(&mut self, waiter: usize, how: How) {
        let it = std::mem::take(&mut self.waiters[waiter]);
        if let Some((hold, _)) = it.hold {
            let lock = it.lock;
            self.see(Seen::Ended { hold, lock, how });
        }
    }

    fn waiter_draws(&mut self, waiter: usize) {
        let nonce = Nonce::new(self.rng.u128(..));
        let lock = self.rng.usize(0..self.plan.locks);
        if let Some(ticket) = self.draws(lock) {
            self.waiters[waiter] = Waiter {
                lock,
                nonce: Some(nonce),
                ticket,
                stage: Stage::Drawn,
                renewed: self.at,
                ..Waiter::default()
            };
        }
    }

    fn waiter_joins(&mut self, waiter: usize) {
        let Waiter { lock, ticket, .. } = self.waiters[waiter];
        let Some(nonce) = self.waiters[waiter].nonce else {
            return;
        };
        // Others may have made its ticket void, in a row of a newer one.
        let joins = self
            .plan
            .hosts
            .iter()
            .map(|it| nanos(it.terms.join_timeout));
        let is_late = joins.min() <= Some(self.at - self.waiters[waiter].renewed);
        match self.joins(lock, nonce, ticket) && !is_late {
            true if self
                .table
                .item(lock)
                .is_some_and(|it| it.watermark < ticket) =>
            {
                let it = &mut self.waiters[waiter];
                (it.stage, it.renewed) = (Stage::InRow, self.at);
            }
            _ => self.waiter_comes_late(waiter),
        }
    }

    /// A ticket that joins in time is passed by nobody. An item that went took its queue with it.
    fn waiter_comes_late(&mut self, waiter: usize) {
        let it = self.waiters[waiter];
        let item = self.table.item(it.lock);
        let is_passed = item.is_some_and(|item| it.ticket <= item.watermark);
        if is_passed && it.renewed + nanos(JOIN) * 9 / 10 > self.at {
            let message = format!("{} joined in time, and was passed", it.ticket);
            self.fail("live places stay", Some(it.lock), message);
        }
        self.waiter_ends(waiter, How::Crashed);
    }

    /// Renews its row. Takes a slot if all before it are settled, and leaves at some time.
    fn waiter_polls(&mut self, waiter: usize) {
        let it = self.waiters[waiter];
        let (lock, ticket) = (it.lock, it.ticket);
        let row = self.table.rows(lock).get(&ticket);
        let entry = row.and_then(|row| row.waiting()).cloned();
        let shown = self.table.item(lock).zip(it.nonce);
        if shown.is_some_and(|(item, nonce)| item.position_of_place(nonce, ticket).is_some()) {
            // Another waiter has given it a slot.
            self.waiters[waiter].stage = Stage::InSlot;
            return self.waiter_stands(waiter);
        }
        let Some((entry, item)) = entry.zip(self.table.item(lock).cloned()) else {
            self.tell(lock, || format!("the row of {ticket} has gone"));
            return self.waiter_is_passed(waiter);
        };
        if self.rng.u8(0..self.patience()) == 0 {
            let void = RowWrite::void_own(entry.nonce, 1, self.expiry());
            self.applies_to_row(lock, ticket, &void);
            self.applies(lock, &LockWrite::leave(PERMITS, ticket));
            return self.waiter_ends(waiter, How::GivenBack);
        }
        if self.is_next(lock, &item, ticket) {
            let fill = LockWrite::fill(PERMITS, &item, (&[entry], ticket), SLOTS, None);
            if self.applies(lock, &fill) {
                self.waiters[waiter].stage = Stage::InSlot;
            }
            return;
        }
        let lease = self.plan.hosts[0].terms.lease;
        let beat = (it.beat + 1, lease);
        let renew = RowWrite::renew(entry.nonce, beat, self.stamps(), self.expiry());
        if self.applies_to_row(lock, ticket, &renew) {
            let it = &mut self.waiters[waiter];
            (it.beat, it.renewed) = (beat.0, self.at);
        }
    }

    /// A place that was renewed in time is passed by nobody.
    fn waiter_is_passed(&mut self, waiter: usize) {
        let it = self.waiters[waiter];
        let lease = nanos(self.plan.hosts[0].terms.lease);
        let was_alive = it.renewed + lease * 9 / 10 > self.at;
        if was_alive && !self.broken.contains(&(it.lock, it.ticket.get())) {
            let message = format!(
                "the place of {} ended, which was renewed in time",
                it.ticket
            );
            self.fail("live places stay", Some(it.lock), message);
        }
        self.waiter_ends(waiter, How::GivenBack);
    }

    /// Whether every ticket before it is settled, and a slot is open.
    fn is_next(&self, lock: usize, item: &LockItem, ticket: Ticket) -> bool {
        let rows = self.table.rows(lock).values();
        let void = rows.filter(|row| row.waiting().is_none());
        let settled = void.fold(item.watermark, |upto, row| {
            let goes_on = row.first().get() <= upto.get() + 1;
            if goes_on { upto.max(row.ticket) } else { upto }
        });
        item.slots.len() <= SLOTS && ticket > settled && settled.get() + 1 == ticket.get()
    }

    fn waiter_stands(&mut self, waiter: usize) {
        let it = self.waiters[waiter];
        let Some(item) = self.table.item(it.lock).cloned() else {
            return self.waiter_is_passed(waiter);
        };
        let position = it
            .nonce
            .and_then(|nonce| item.position_of_place(nonce, it.ticket));
        match position {
            None => self.waiter_is_passed(waiter),
            Some(ItemPosition::Successor(index, entry)) => {
                let at = item.at_successor(index);
                self.waiter_renews(waiter, Footing::of(&item, at, entry), entry);
            }
            Some(ItemPosition::Has(at, entry)) => {
                let held = ItemHold::of(&item, at, entry);
                self.waiter_renews(waiter, held.footing, entry);
                self.waiter_holds(waiter, held, entry);
            }
        }
    }

    fn waiter_renews(&mut self, waiter: usize, footing: Footing, entry: &Entry) {
        let lock = self.waiters[waiter].lock;
        let beat = (entry.beat + 1, entry.lease);
        let renew = LockWrite::renew(PERMITS, (entry.nonce, footing), beat, self.stamps());
        if self.applies(lock, &renew) {
            let until = self.at + nanos(entry.lease) * 9 / 10;
            let it = &mut self.waiters[waiter];
            (it.beat, it.renewed) = (beat.0, self.at);
            if let Some((hold, _)) = it.hold {
                it.hold = Some((hold, until));
                self.see(Seen::Extended { hold, lock, until });
            }
        }
    }

    fn waiter_holds(&mut self, waiter: usize, held: ItemHold, entry: &Entry) {
        let lock = self.waiters[waiter].lock;
        if self.waiters[waiter].hold.is_none() {
            let (hold, until) = (self.next_hold(), self.at + nanos(entry.lease) * 9 / 10);
            self.waiters[waiter].hold = Some((hold, until));
            return self.see(Seen::Granted(Grant {
                hold,
                lock,
                ticket: entry.ticket.get(),
                place: entry.ticket.get(),
                until,
                permits: PERMITS,
                min: None,
                max: None,
                begins_later: false,
                margin: 0,
            }));
        }
        if self.rng.u8(0..4) == 0 {
            self.waiter_ends(waiter, How::GivenBack);
            self.applies(lock, &LockWrite::release(PERMITS, entry.nonce, held, None));
        }
    }
}
