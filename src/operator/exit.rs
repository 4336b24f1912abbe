//! The way out of a place: settles its ticket, and gives back what the lock item shows of it.

use crate::queue;
use crate::queue::cleaning;
use crate::store::requests::{Requests, RetryPolicy};
use crate::store::{Timed, Write, all_of};
use crate::vocabulary::name::LockName;
use fairlock_protocol::entry::Nonce;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{ItemHold, ItemPosition, LockItem, RowState, TicketRow};
use fairlock_protocol::place::{Act, Found, Place};
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::{LockWrite, RowWrite};

/// Carries out the steps of a place that leaves.
pub(crate) struct Exit<'a> {
    pub(crate) requests: &'a Requests,
    pub(crate) name: &'a LockName,
    pub(crate) policy: &'a RetryPolicy,
    pub(crate) nonce: Nonce,
    pub(crate) tickets: u64,
    pub(crate) ticket: Ticket,
    /// The lock item as it was seen last.
    pub(crate) seen: Option<LockItem>,
}

impl Exit<'_> {
    /// Ends when nothing of the place is left, or when the place is to stay because it was given a slot before. Each pass of the loop comes
    /// nearer to that, or finds that other clients came or went.
    pub(crate) async fn run(&mut self, place: &mut Place, mut act: Act) -> Result<Act, Failure> {
        loop {
            act = match act {
                Act::VoidOwn => {
                    self.requests.retry(self.policy, || self.void_own()).await?;
                    place.voided()
                }
                Act::Depart => self.depart(place).await?,
                Act::Find => {
                    if self.seen.is_none() {
                        let read = || self.requests.store.read_lock(self.name);
                        self.seen = self.requests.retry(self.policy, read).await?.value;
                    }
                    place.stands(self.found(place))
                }
                Act::Release | Act::GiveUp => self.give_back(place).await?,
                end => return Ok(end),
            };
        }
    }

    /// Makes its own tickets void, whether their row came or not.
    async fn void_own(&self) -> Result<Timed<Write<TicketRow>>, Failure> {
        let store = &self.requests.store;
        let void = RowWrite::void_own(self.nonce, self.tickets, store.row_expiry());
        queue::write(store, self.name, self.ticket, &void).await
    }

    /// Counts the departure. No poll can give the ticket a slot afterwards. If a poll did so before, the item that comes back shows it.
    async fn depart(&mut self, place: &mut Place) -> Result<Act, Failure> {
        let leave = LockWrite::leave(all_of(self.name), self.ticket);
        let depart = || self.requests.store.write(self.name, &leave);
        let answer = self.requests.retry(self.policy, depart).await?.value;
        let is_applied = answer.is_applied();
        self.seen = answer.shown();
        if !is_applied {
            self.clean().await;
        }
        let found = self.found(place);
        Ok(place.departed(is_applied, found))
    }

    /// Deletes the row again: the client that gave the slot deleted it, and voiding brought it back. If this fails, the row stays as a
    /// settled row.
    async fn clean(&self) {
        let own = TicketRow {
            ticket: self.ticket,
            tickets: self.tickets,
            state: RowState::Void(None),
            expires_at: 0,
        };
        cleaning::clean_row(self.requests, self.name, self.policy, &own).await;
    }

    async fn give_back(&mut self, place: &mut Place) -> Result<Act, Failure> {
        let (nonce, store) = (self.nonce, &self.requests.store);
        let item = self.seen.as_ref();
        let position = item.and_then(|item| Some((item, item.position_of(nonce)?)));
        let answer = match position {
            None => return Ok(place.stands(Found::Nowhere)),
            Some((item, ItemPosition::Has(at, entry))) => {
                let held = ItemHold::of(item, at, entry);
                let date = store.stamps().server;
                let release = LockWrite::release(all_of(self.name), nonce, held, date);
                let release = || store.write(self.name, &release);
                self.requests.retry(self.policy, release).await?
            }
            Some((item, ItemPosition::Successor(index, own))) => {
                let at = item.at_successor(index);
                let give_up = LockWrite::give_up_slot(all_of(self.name), at, own);
                let give_up = || store.write(self.name, &give_up);
                self.requests.retry(self.policy, give_up).await?
            }
        };
        let is_applied = answer.value.is_applied();
        self.seen = answer.value.shown();
        Ok(place.gave_back(is_applied, self.found(place)))
    }

    /// Finds any place of the nonce if this place gives back what it has. Otherwise finds only the place with its ticket.
    fn found(&self, place: &Place) -> Found {
        let item = self.seen.as_ref();
        let position = item.and_then(|item| match place.is_giving_back() {
            true => item.position_of(self.nonce),
            false => item.position_of_place(self.nonce, self.ticket),
        });
        position.into()
    }
}
