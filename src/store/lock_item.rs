//! The verbs on the lock item: each is one conditional write, or a consistent read.

use std::sync::Arc;
use std::time::Duration;

use fairlock_protocol::codec;
use fairlock_protocol::entry::{Entry, Nonce, ServerTime};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{At, Footing, ItemHold, LockItem, Notice};
use fairlock_protocol::ticket::{Sequence, Ticket};
use fairlock_protocol::write::{Entrance, LockWrite, NewItem, end};

use crate::name::LockName;

use super::codec::{Item, values};
use super::{Attempt, Store, Timed, Write, refused};

/// What a caller that asks for a slot wants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EnterTerms {
    /// The newest ticket that may have been drawn before.
    pub(crate) most: Ticket,
    /// If `false`, only the first slot of a free lock will do.
    pub(crate) waits: bool,
    /// Until when the item was seen to stay. `None` if no item was seen.
    pub(crate) stays_until: Option<u64>,
}

/// What a lease says that a hold becomes.
#[derive(Clone, Debug)]
pub(crate) struct LeaseTerm {
    /// The name under which any process finds it.
    pub(crate) id: Arc<str>,
    /// How many of the hold's permits it keeps.
    pub(crate) permits: u64,
    pub(crate) span: Duration,
    /// A time that has passed, by DynamoDB's clock.
    pub(crate) past: ServerTime,
}

pub(super) type Answer = Result<Timed<Write<LockItem>>, Failure>;

impl Store {
    /// Draws tickets and takes the slot behind all others, the first of a free lock included. The tickets are the ones that this write
    /// draws.
    pub(crate) async fn enter(
        &self,
        name: &LockName,
        attempt: &Attempt,
        wish: EnterTerms,
    ) -> Answer {
        let me = self.new_entry(attempt, Ticket::default());
        let is_unseen = wish.stays_until.is_none();
        let entrance = Entrance {
            below: below(wish.most, attempt.tickets),
            slots: wish.waits.then_some(self.config.successor_slots),
            join_timeout: self.config.join_timeout,
            new: self.new_item().filter(|_| is_unseen),
        };
        let write = LockWrite::enter(all_of(name), me, entrance);
        // An attempt that may have been applied must see whether it was.
        let may_be_there = attempt.is_in_doubt();
        attempt.note(match wish.stays_until {
            Some(until) => self.write_keeping(name, write, self.keeps(until)).await,
            None if entrance.new.is_none() && !may_be_there => {
                self.write_unread(name, &write).await
            }
            None => self.write(name, &write).await,
        })
    }

    /// The lock item to create. Returns `None` before an answer has told the time. A client that does not know the time takes
    /// only a place on an existing item. This host's clock does not decide where the counter begins, or how long an item stays.
    /// If no item is shown then, the next try makes one, because that answer told the time.
    fn new_item(&self) -> Option<NewItem> {
        let (now, expiry) = (self.time_of_items()?, self.expiry()?);
        let start = self.start_of_tickets(now).as_micros();
        Some(NewItem {
            start: Ticket::new(u64::try_from(start).unwrap_or_default()),
            expiry,
        })
    }

    /// Takes permits of a lock that no caller waits for. A participant in the first slot may have at most `first` permits. The
    /// ticket is the one that this write draws.
    pub(crate) async fn share(&self, name: &LockName, attempt: &Attempt, first: u64) -> Answer {
        let me = self.new_entry(attempt, Ticket::default());
        let write = LockWrite::share(all_of(name), me, first);
        attempt.note(self.write(name, &write).await)
    }

    /// Takes a free lock all of whose drawn tickets `seen` and its rows showed to be settled.
    pub(crate) async fn enter_over(
        &self,
        name: &LockName,
        attempt: &Attempt,
        seen: &LockItem,
        ticket: Ticket,
    ) -> Answer {
        let me = self.new_entry(attempt, ticket);
        let write = LockWrite::enter_over(all_of(name), me, seen);
        let keeps = self.keeps(seen.expires_at);
        attempt.note(self.write_keeping(name, write, keeps).await)
    }

    /// Gives slots to `found`, the next in the queue as `seen` and its rows showed them.
    pub(crate) async fn fill(
        &self,
        name: &LockName,
        attempt: &Attempt,
        seen: &LockItem,
        found: &[Entry],
        upto: Ticket,
    ) -> Answer {
        let (permits, slots) = (all_of(name), self.config.filled_slots);
        let write = LockWrite::fill(permits, seen, (found, upto), slots, self.server.stamp());
        attempt.note(self.write(name, &write).await)
    }

    /// Raises `watermark` over tickets that are void.
    pub(crate) async fn settle(&self, name: &LockName, seen: &LockItem, upto: Ticket) -> Answer {
        let write = LockWrite::settle(all_of(name), seen, upto);
        self.write(name, &write).await
    }

    /// Gives the first successors the permits that they wait for: they become sharers. The first of them is in the slot `first`.
    pub(crate) async fn admit(
        &self,
        name: &LockName,
        first: usize,
        successors: &[Entry],
    ) -> Answer {
        let Some(write) = LockWrite::admit(all_of(name), first, successors) else {
            return Err(refused("admit", "nobody was found to be admitted"));
        };
        self.write(name, &write).await
    }

    /// Ends a hold. If no other participant holds the lock, the first successor holds it the moment this applies.
    pub(crate) async fn release(
        &self,
        name: &LockName,
        attempt: &Attempt,
        held: ItemHold,
    ) -> Answer {
        let granted = self.server.stamp();
        let write = LockWrite::release(all_of(name), attempt.nonce, held, granted);
        attempt.note(self.write(name, &write).await)
    }

    /// Ends the hold of a dead holder, as a release would.
    pub(crate) async fn evict(&self, name: &LockName, dead: &Entry, held: ItemHold) -> Answer {
        let write = LockWrite::evict(all_of(name), dead, held, self.server.stamp());
        self.write(name, &write).await
    }

    /// Keeps some of the permits of a hold, and frees the others.
    pub(crate) async fn downgrade(
        &self,
        name: &LockName,
        nonce: Nonce,
        (held, keeps): (ItemHold, u64),
    ) -> Answer {
        let write = LockWrite::downgrade(all_of(name), nonce, held, keeps);
        self.write(name, &write).await
    }

    /// Takes the slot of a dead successor away.
    pub(crate) async fn evict_successor(&self, name: &LockName, at: At, dead: &Entry) -> Answer {
        let write = LockWrite::evict_successor(all_of(name), at, dead);
        self.write(name, &write).await
    }

    /// Takes a place away from its owner, though it may be alive: a hold, if `holds`, or a slot.
    pub(crate) async fn break_place(
        &self,
        name: &LockName,
        item: &LockItem,
        (at, entry, holds): (At, &Entry, bool),
        notice: &Arc<Notice>,
    ) -> Answer {
        let write = match holds {
            true => {
                let held = ItemHold::of(item, at, entry);
                LockWrite::evict(all_of(name), entry, held, self.server.stamp())
            }
            false => LockWrite::evict_successor(all_of(name), at, entry),
        };
        self.write(name, &write.breaking(Arc::clone(notice))).await
    }

    /// Changes how many permits there are, if the item still is as it was seen as far as that matters.
    pub(crate) async fn resize(&self, name: &LockName, seen: &LockItem, to: u64) -> Answer {
        let write = LockWrite::resize(all_of(name), seen, to);
        self.write(name, &write).await
    }

    /// Asks the holders of some tickets to give way, unless there were more requests than the client saw.
    pub(crate) async fn ask(&self, name: &LockName, notice: &Arc<Notice>, seen: u64) -> Answer {
        let write = LockWrite::ask(all_of(name), Arc::clone(notice), seen);
        self.write(name, &write).await
    }

    /// Gives up the attempt's own slot.
    pub(crate) async fn give_up_slot(&self, name: &LockName, at: At, own: &Entry) -> Answer {
        let write = LockWrite::give_up_slot(all_of(name), at, own);
        self.write(name, &write).await
    }

    /// Records that a waiter left the queue, so that no client can give it a slot by an earlier snapshot.
    pub(crate) async fn leave(&self, name: &LockName, ticket: Ticket) -> Answer {
        let write = LockWrite::leave(all_of(name), ticket);
        self.write(name, &write).await
    }

    /// Renews a hold or a slot for its owner's `lease`, without its stamp if a later date stands there. Keeps the item for longer if
    /// it would go too soon. The answer shows the other participants.
    pub(crate) async fn renew(
        &self,
        name: &LockName,
        attempt: &Attempt,
        footing: Footing,
        lease: Duration,
    ) -> Answer {
        let renew = |write| write;
        self.renew_as(name, attempt, (footing, lease), renew).await
    }

    /// Renews a hold that was given back once more. It is kept for what it owes, by the clocks of those who watch it or by DynamoDB's,
    /// whichever tells first.
    pub(crate) async fn keep_on(
        &self,
        name: &LockName,
        attempt: &Attempt,
        footing: Footing,
        owed: Duration,
    ) -> Answer {
        let now = self.server.to_come();
        let until = now.map(|now| ServerTime(now.0 + owed));
        let give_back = |write: LockWrite| write.given_back(footing.at, until);
        let kept = self.renew_as(name, attempt, (footing, owed), give_back);
        kept.await
    }

    async fn renew_as(
        &self,
        name: &LockName,
        attempt: &Attempt,
        (footing, lease): (Footing, Duration),
        finish: impl Fn(LockWrite) -> LockWrite + Send + Sync,
    ) -> Answer {
        let Footing {
            at,
            ticket,
            expires_at,
        } = footing;
        let keeps = self.expiry().filter(|_| self.goes_early(expires_at));
        let renew = |beat, dating| {
            let beat = (beat, attempt.in_table(lease));
            let write = LockWrite::renew(all_of(name), (attempt.nonce, footing), beat, dating);
            self.write_keeping(name, finish(write), keeps)
        };
        let own = self.renewed(attempt, renew, |item| {
            item.entry_at(at).filter(|own| own.ticket == ticket)
        });
        own.await
    }

    /// Writes, and has the item stay until `keeps`. If that is refused because another client keeps the item for longer, writes
    /// without it.
    async fn write_keeping(&self, name: &LockName, write: LockWrite, keeps: Option<u64>) -> Answer {
        let answer = self.write(name, &write.clone().keeping(keeps)).await?;
        match &answer.value {
            Write::ConditionFailed(Some(item))
                if keeps.is_some_and(|keeps| item.expires_at > keeps) =>
            {
                self.write(name, &write).await
            }
            _ => Ok(answer),
        }
    }

    /// Turns a hold into a lease.
    pub(crate) async fn lease_out(
        &self,
        name: &LockName,
        attempt: &Attempt,
        footing: Footing,
        term: &LeaseTerm,
    ) -> Answer {
        let now = self.server.past().unwrap_or(term.past);
        let until = (attempt.next_beat(), term.span, now);
        let place = (attempt.nonce, footing);
        let write = LockWrite::lease_out(all_of(name), place, until, Arc::clone(&term.id));
        self.write_keeping(name, write, self.expiry()).await
    }

    /// Extends a lease to `by` from now, and never shortens it. Now is no earlier than `past`.
    pub(crate) async fn extend(
        &self,
        name: &LockName,
        (at, entry): (At, &Entry),
        by: Duration,
        past: ServerTime,
    ) -> Answer {
        let now = self.server.past().unwrap_or(past);
        // The item has whole milliseconds. A lease that lasts longer already would end a little earlier if they were cut off later.
        let now =
            ServerTime(now.0 - Duration::from_nanos(u64::from(now.0.subsec_nanos() % 1_000_000)));
        // What the client before knew of the time may be more. The owner's margin would grow with a longer lease from an earlier time.
        let now = entry.renewed_at.map_or(now, |renewed| renewed.max(now));
        let end = entry
            .renewed_at
            .map(|renewed| renewed.0.saturating_add(entry.lease));
        let left = end.unwrap_or_default().saturating_sub(now.0);
        let write = LockWrite::extend(all_of(name), (at, entry), by.max(left), now);
        self.write_keeping(name, write, self.expiry()).await
    }

    /// Reads the lock item, strongly consistent.
    pub(crate) async fn read_lock(
        &self,
        name: &LockName,
    ) -> Result<Timed<Option<LockItem>>, Failure> {
        let verb = "read the lock item";
        let answer = self.get(verb, self.lock_key(name)).await?;
        let decode = |item| self.decode_lock(verb, name, item);
        answer.try_map(|item: Option<Item>| item.map(decode).transpose())
    }

    /// Removes an idle lock item that no client has touched since `seen`. Returns whether this call removed it: `false` also if
    /// another client had.
    pub(crate) async fn remove_idle(
        &self,
        name: &LockName,
        seen: &LockItem,
    ) -> Result<bool, Failure> {
        let write = LockWrite::remove_idle(all_of(name), seen);
        let key = self.lock_key(name);
        self.delete(write.verb, key, write.expressions()).await
    }

    pub(super) async fn write(&self, name: &LockName, write: &LockWrite) -> Answer {
        let (verb, key) = (write.verb, self.lock_key(name));
        let answer = self.update(verb, key.clone(), write.expressions()).await?;
        let answer = self.in_the_way(verb, key, answer).await?;
        answer.try_map(|answer| answer.try_map(|item| self.decode_lock(verb, name, item)))
    }

    /// As `write`, for a caller that tries again if no item is shown to be in the way.
    async fn write_unread(&self, name: &LockName, write: &LockWrite) -> Answer {
        let (verb, key) = (write.verb, self.lock_key(name));
        let answer = self.update(verb, key, write.expressions()).await?;
        answer.try_map(|answer| answer.try_map(|item| self.decode_lock(verb, name, item)))
    }

    pub(super) fn decode_lock(
        &self,
        verb: &'static str,
        name: &LockName,
        item: Item,
    ) -> Result<LockItem, Failure> {
        let read = codec::lock_item(&values(item), &self.config.names.ttl);
        let read = read.and_then(|item| codec::total_permits(item, name.permits()));
        read.map_err(|problem| self.unreadable(verb, name, &name.lock_key(), problem))
    }
}

/// The ticket that the counter must be below: no ticket newer than `most` was drawn, and `tickets` tickets are left.
pub(super) fn below(most: Ticket, tickets: u64) -> Ticket {
    most.next().unwrap_or(most).min(end(tickets))
}

/// The permits of the lock. Zero if the name has no number: no lock has zero permits, and under such a name nothing is written.
pub(super) fn all_of(name: &LockName) -> u64 {
    name.permits().unwrap_or_default()
}
