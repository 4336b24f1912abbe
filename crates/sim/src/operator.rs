//! An operator in the middle: it breaks holds, asks for them, changes the number of permits, removes what is idle, and shows a client what it saw.

use std::sync::Arc;
use std::time::Duration;

use fairlock_protocol::agent::{Done, Input, ReplyId, Stood};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{ItemHold, ItemPosition, LockItem, Notice, RowState};
use fairlock_protocol::moment::{HostTime, ServerTime};
use fairlock_protocol::stamps::{self, Reading, Wall};
use fairlock_protocol::write::LockWrite;

use crate::agenda::{At, Event, MS};
use crate::clocks::shifted;
use crate::host::{PERMITS, lock};
use crate::plan::nanos;
use crate::scripted::SCRIPTED;
use crate::seen::Seen;
use crate::world::World;

impl World {
    pub(crate) fn operates(&mut self) {
        let lock = self.rng.usize(0..self.plan.locks);
        if let Some(item) = self.table.item(lock).cloned() {
            match self.rng.u8(0..8) {
                0 | 1 => self.breaks(lock, &item),
                2 if !self.plan.has_shares => self.resizes(lock, &item),
                3..6 => self.asks_to_yield(lock, &item),
                6 => self.gives_up_one(lock, item),
                _ => self.shows(lock, item),
            }
            self.removes_idle(lock);
        }
        self.again(self.plan.rates.operates, Event::Operates);
    }

    /// A client gives up a place whose process is dead, in a slot or in a row.
    fn gives_up_one(&mut self, number: usize, item: Arc<LockItem>) {
        let host = self.rng.usize(0..self.plan.hosts.len());
        let rows = self.table.rows(number).values();
        let rows = rows.filter_map(|row| match &row.state {
            RowState::Waiting(entry) => Some(entry),
            RowState::Void(_) => None,
        });
        let lives = |nonce| self.waiters.iter().any(|it| it.nonce == Some(nonce));
        let dead = |it: &&Entry| it.owner == SCRIPTED && !lives(it.nonce);
        let Some(dead) = item.entries().chain(rows).find(dead) else {
            return;
        };
        let place = Stood {
            nonce: dead.nonce,
            ticket: dead.ticket,
            tickets: dead.tickets,
        };
        let it = &mut self.hosts[host];
        if it.is_down {
            return;
        }
        let until = it.clock.moment(self.at) + it.terms.no_wait_lasts();
        let reply = ReplyId(it.next());
        it.giving_up.insert(reply, (number, place));
        let input = Input::GiveUp {
            lock: lock(number),
            place,
            item,
            reply,
            until,
        };
        self.mail(host, input);
    }

    /// Nothing of the place is left, in a slot or in a row. The row of a ticket that is settled is no place.
    pub(crate) fn has_given_up(
        &mut self,
        (lock, place): (usize, Stood),
        done: &Result<Done, Failure>,
    ) {
        let Stood { nonce, ticket, .. } = place;
        let Some(item) = self.table.item(lock) else {
            return;
        };
        let stands = item.position_of_place(nonce, ticket).is_some();
        let row = { self.table.rows(lock).get(&ticket) }.filter(|_| ticket > item.watermark);
        let waits = row.is_some_and(|row| matches!(row.state, RowState::Waiting(_)));
        if matches!(done, Ok(Done::Left)) && (stands || waits) {
            let message = format!("{ticket} was given up, and stands there");
            self.fail("what is given up is gone", Some(lock), message);
        }
    }

    /// Breaks the hold, as it is seen.
    fn breaks(&mut self, lock: usize, item: &LockItem) {
        let Some(holder) = item.holder() else {
            return;
        };
        let Some(ItemPosition::Has(at, entry)) = item.position_of(holder.nonce) else {
            return;
        };
        let held = ItemHold::of(item, at, entry);
        let write = LockWrite::evict(PERMITS, entry, held, None).breaking(notice_to(entry));
        let ticket = entry.ticket.get();
        self.see(Seen::Broken { lock, ticket });
        self.applies(lock, &write);
        if let Some((uid, due)) = self.knows_by(lock, ticket) {
            self.agenda.note(due, Event::BreakIsDue(uid));
        }
    }

    /// Asks the holder to give way. What another asked for in between stays.
    fn asks_to_yield(&mut self, lock: usize, item: &LockItem) {
        let Some(holder) = item.holder() else {
            return;
        };
        let write = LockWrite::ask(PERMITS, notice_to(holder), item.asks);
        if self.applies(lock, &write)
            && let Some((uid, due)) = self.knows_by(lock, holder.ticket.get())
        {
            self.agenda.note(due, Event::AskIsDue(uid));
        }
    }

    /// The hold at a place, and by when its holder knows what the item says of it.
    fn knows_by(&self, lock: usize, ticket: u64) -> Option<(u32, At)> {
        let hosts = self.hosts.iter();
        let found = hosts.enumerate().find_map(|(host, it)| {
            let mut holds = it.holds.values();
            let held = holds.find(|held| held.lock == lock && held.place == ticket)?;
            Some((host, held.uid))
        });
        let (host, uid) = found?;
        let terms = &self.hosts[host].terms;
        let knows = nanos(terms.heartbeat + terms.request_timeout);
        Some((uid, self.at + knows + knows / 50 + 20 * MS))
    }

    fn resizes(&mut self, lock: usize, item: &LockItem) {
        let there_are = self.rng.u64(1..PERMITS * 2);
        self.applies(lock, &LockWrite::resize(PERMITS, item, there_are));
    }

    /// An operation outside of a client shows it the item.
    fn shows(&mut self, number: usize, item: Arc<LockItem>) {
        let host = self.rng.usize(0..self.plan.hosts.len());
        if !self.hosts[host].is_down {
            let lock = lock(number);
            self.mail(host, Input::Seen { lock, item });
        }
    }

    /// A sweeper removes an item that is idle by clocks that are right.
    pub(crate) fn removes_idle(&mut self, lock: usize) {
        let Some(item) = self.table.item(lock).cloned() else {
            return;
        };
        let now = shifted(self.at, 0).saturating_sub(Duration::from_secs(4));
        let reading = Reading {
            date: Some(ServerTime(now)),
            wall: Wall::Shows(HostTime(now)),
        };
        if item.is_idle() && stamps::is_idle(item.expires_at, reading) {
            self.applies(lock, &LockWrite::remove_idle(PERMITS, &item));
        }
    }

    /// Writes at once, without a network in between.
    pub(crate) fn applies(&mut self, lock: usize, write: &LockWrite) -> bool {
        let before = self.table.item(lock).cloned();
        let is_applied = self.table.write(lock, write).is_some();
        self.tell(lock, || {
            format!("directly: {} applied {is_applied}", write.verb)
        });
        if is_applied {
            self.has_changed(lock, before.as_deref(), write.verb);
        }
        is_applied
    }
}

/// A notice to all turns of a place.
fn notice_to(entry: &Entry) -> Arc<Notice> {
    Arc::new(Notice {
        from: entry.first(),
        to: entry.ticket,
        by: "operator".to_owned(),
        reason: "it is time".to_owned(),
    })
}
