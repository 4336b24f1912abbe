//! No place of a client ends, and none is passed, while its owner may count on it: for a lease from the request that established what stands
//! there, or, without a row yet, for the time in which it may join.

use std::ops::Bound;
use std::sync::Arc;

use fairlock_protocol::agent::{Of, What};
use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::item::{LockItem, RowState, TicketRow};
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::{LockWrite, RowWrite};

use crate::agenda::{At, SECOND};
use crate::parcel::Parcel;
use crate::standing::{Left, surely};
use crate::world::World;

/// After so long a caller that was refused has left, where nothing is wrong.
const TO_LEAVE: At = 20 * SECOND;

/// What stood there before a request.
pub(crate) struct Before {
    pub(crate) item: Option<Arc<LockItem>>,
    row: Option<TicketRow>,
}

impl World {
    pub(crate) fn stands_before(&self, lock: usize, what: &What) -> Before {
        let row = match what {
            What::WriteRow(ticket, _) => self.table.rows(lock).get(ticket).cloned(),
            _ => None,
        };
        let item = self.table.item(lock).cloned();
        Before { item, row }
    }

    /// A request of a client has been applied: what it establishes, and what it ends.
    pub(crate) fn has_been_applied(&mut self, lock: usize, parcel: &Parcel, before: &Before) {
        let sent = self.hosts[parcel.from.host].clock.when(parcel.sent);
        match &parcel.request.what {
            What::Write { write, .. } => {
                self.is_established(lock, parcel, (write, sent), before.item.as_deref());
            }
            What::WriteRow(ticket, write) => {
                self.row_is_written(lock, *ticket, (write, sent), (before.row.as_ref(), parcel));
            }
            _ => {}
        }
    }

    /// Others give slots and move places, which establishes nothing. What counts is as it was meant, without the mistake that is planted.
    fn is_established(
        &mut self,
        lock: usize,
        parcel: &Parcel,
        (write, sent): (&LockWrite, At),
        before: Option<&LockItem>,
    ) {
        let is_of_a_place = matches!(write.verb, "enter" | "enter over the settled" | "renew");
        if !is_of_a_place && write.verb != "draw" {
            return;
        }
        // What is settled already is no turn any more.
        if matches!(write.verb, "enter" | "draw") {
            self.is_within_its_bound(lock, parcel, before);
        }
        let Some(meant) = write.apply(before).flatten() else {
            return;
        };
        if !is_of_a_place {
            let join = self.hosts[parcel.from.host].terms.join_timeout;
            let until = sent + surely(join);
            self.standing.drawn.insert((lock, meant.last), until);
            return;
        }
        if write.verb != "renew" {
            let own = meant.entries().last().map(|own| own.nonce);
            self.asks_as(parcel, own);
        }
        let was = |entry: &Entry| before?.entries().find(|it| it.nonce == entry.nonce);
        // What is a lease is watched by what its owner is told.
        let is_watched = |entry: &&Entry| !entry.given_back && entry.id.is_none();
        for entry in meant.entries().filter(is_watched) {
            if was(entry).map(|it| it.beat) != Some(entry.beat) {
                self.standing.establishes(lock, entry, sent);
            }
        }
    }

    /// The caller of a request, if it still asks.
    fn asker(&self, parcel: &Parcel) -> Option<(usize, usize)> {
        let host = parcel.from.host;
        let it = &self.hosts[host];
        match parcel.request.of {
            Of::Call(call) if it.life == parcel.from.life => Some((host, it.caller_of(call.0)?)),
            _ => None,
        }
    }

    /// No more turns come before a caller than it accepts.
    fn is_within_its_bound(&mut self, lock: usize, parcel: &Parcel, before: Option<&LockItem>) {
        let Some((host, caller)) = self.asker(parcel) else {
            return;
        };
        let limit = self.hosts[host].callers[caller].limit;
        if let (Some(limit), Some(before)) = (limit, before.map(LockItem::turns))
            && before > limit
        {
            let message = format!("{before} turns come before a caller that accepts {limit}");
            self.fail("bounded queue", Some(lock), message);
        }
    }

    /// An attempt of a caller has a place.
    fn asks_as(&mut self, parcel: &Parcel, nonce: Option<Nonce>) {
        if let (Some((host, caller)), Some(nonce)) = (self.asker(parcel), nonce) {
            self.hosts[host].callers[caller].nonces.push(nonce);
        }
    }

    /// A caller that shared its place with nobody is refused. Nothing of it stands there some time later, if all goes well.
    pub(crate) fn has_left(&mut self, host: usize, caller: usize) {
        let (at, it) = (self.at, &mut self.hosts[host]);
        let (life, is_alone) = (it.life, it.callers.len() == 1);
        let asker = &mut it.callers[caller];
        let nonces = std::mem::take(&mut asker.nonces);
        if is_alone || asker.min.is_some() || asker.max.is_some() {
            let (asked, from) = (asker.asked, at + TO_LEAVE);
            let left = Left {
                host,
                life,
                asked,
                from,
            };
            let nonces = nonces.into_iter().map(|nonce| (nonce, left));
            self.standing.left.extend(nonces);
        }
    }

    /// Of a caller that has left nothing comes back.
    fn nothing_comes_back(&mut self, lock: usize, entries: &[Nonce]) {
        let back = entries.iter().find_map(|nonce| {
            let left = self.standing.left.get(nonce)?;
            let it = &self.hosts[left.host];
            let was_well = it.life == left.life && it.troubled_at < left.asked;
            (was_well && left.from < self.at).then_some(*nonce)
        });
        if let Some(nonce) = back {
            let message = format!("the place of {nonce} stands there, whose caller was refused");
            self.fail("who left is gone", Some(lock), message);
        }
    }

    /// What a write ended that was not its owner's own, and the rows over which it raised the watermark.
    pub(crate) fn places_end(&mut self, lock: usize, before: Option<&LockItem>, by_release: bool) {
        let (Some(before), Some(after)) = (before, self.table.item(lock).cloned()) else {
            return self.standing.forget(lock);
        };
        let entries: Vec<_> = after.entries().map(|entry| entry.nonce).collect();
        self.nothing_comes_back(lock, &entries);
        let stays = |entry: &&Entry| after.entries().any(|it| it.nonce == entry.nonce);
        let gone: Vec<_> = before.entries().filter(|it| !stays(it)).collect();
        for entry in gone {
            let left = self.standing.ends(entry, self.at);
            let is_broken = self.broken.contains(&(lock, entry.ticket.get()));
            if let Some(left) = left.filter(|_| !by_release && !is_broken && !entry.given_back) {
                self.ends_too_early(lock, entry.ticket, left);
            }
        }
        let passed: Vec<_> = self
            .table
            .rows(lock)
            .range((
                Bound::Excluded(before.watermark),
                Bound::Included(after.watermark.max(before.watermark)),
            ))
            .filter_map(|(_, row)| row.waiting().cloned())
            .filter(|own| after.entries().all(|it| it.nonce != own.nonce))
            .collect();
        for own in passed {
            if let Some(left) = self.standing.ends(&own, self.at) {
                self.ends_too_early(lock, own.ticket, left);
            }
        }
        self.tickets_pass(lock, (before.watermark, after.watermark));
    }

    /// Tickets without a row are passed.
    fn tickets_pass(&mut self, lock: usize, (from, to): (Ticket, Ticket)) {
        let at = self.at;
        let passed = self.standing.drawn.extract_if(.., |(of, newest), _| {
            *of == lock && *newest > from && *newest <= to
        });
        let early: Vec<_> = passed
            .filter(|(_, until)| *until > at)
            .map(|((_, ticket), until)| (ticket, until - at))
            .collect();
        for (ticket, left) in early {
            self.ends_too_early(lock, ticket, left);
        }
    }

    fn row_is_written(
        &mut self,
        lock: usize,
        ticket: Ticket,
        (write, sent): (&RowWrite, At),
        (before, parcel): (Option<&TicketRow>, &Parcel),
    ) {
        let nothing = TicketRow {
            ticket,
            tickets: 1,
            state: RowState::Void(None),
            expires_at: 0,
        };
        let meant = write.apply(before, &nothing);
        let is_own = meant.is_some();
        let meant = meant.flatten();
        let may_join = self.standing.drawn.get(&(lock, ticket)).copied();
        let own = meant.as_ref().and_then(TicketRow::waiting);
        let own = own.filter(|own| match write.verb {
            // Others may have passed a ticket that joins late.
            "join" => may_join.is_some_and(|until| self.at < until),
            "renew" => self.standing.knows(own.nonce),
            _ => false,
        });
        let joins = own.filter(|_| write.verb == "join");
        self.asks_as(parcel, joins.map(|own| own.nonce));
        if let Some(entry) = own {
            self.standing.drawn.remove(&(lock, ticket));
            self.standing.establishes(lock, entry, sent);
        }
        if write.verb == "leave" {
            // Its owner gives it up.
            self.standing.drawn.remove(&(lock, ticket));
            if let Some(entry) = before.and_then(TicketRow::waiting).filter(|_| is_own) {
                self.standing.ends(entry, self.at);
            }
        }
        let row = self.table.rows(lock).get(&ticket).cloned();
        let was = before.and_then(TicketRow::waiting);
        let is = row.as_ref().and_then(TicketRow::waiting);
        if let Some(was) = was.filter(|was| is.is_none_or(|is| is.nonce != was.nonce)) {
            if let Some(left) = self.standing.ends(was, self.at) {
                self.ends_too_early(lock, ticket, left);
            }
        } else if was.is_none()
            && let Some(row) = row.filter(|row| row.waiting().is_none())
        {
            let before = Ticket::new(row.first().get() - 1);
            self.tickets_pass(lock, (before, row.ticket));
        }
    }

    fn ends_too_early(&mut self, lock: usize, ticket: Ticket, left: At) {
        let message = format!(
            "the place of {ticket} ends {} ms too early",
            left / 1_000_000
        );
        self.fail("live places stay", Some(lock), message);
    }
}
