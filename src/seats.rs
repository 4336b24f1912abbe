//! The lock item: entering, sitting down, handing over, and giving a seat up, each known by its nonce.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::item::{LockItem, Spot};
use crate::lease::Beats;
use crate::moment::Moment;
use crate::name::LockName;
use crate::store::{Attempt, Failure, Patience, Store, Timed, Write};
use crate::ticket::Ticket;

/// A place on the lock item.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) ticket: Ticket,
    pub(crate) beats: Beats,
    /// The lock item that shows the place.
    pub(crate) answer: Timed<LockItem>,
}

/// What came of asking for a place.
#[derive(Debug)]
pub(crate) enum Asked {
    Taken(Taken),
    /// The item that stood in the way; none if there was none.
    Busy(Option<LockItem>),
}

/// What came of ending a hold.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Whoever comes next has it; the item shows who.
    HandedOver(LockItem),
    /// The next at the same place has it; nothing was sent.
    PassedOn,
    /// An earlier attempt of this release was applied though its answer was lost; the item as it is since.
    Before(Option<LockItem>),
    /// It was no longer ours.
    NotOurs(Option<LockItem>),
}

/// One caller's dealings with one lock item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seats<'a> {
    pub(crate) store: &'a Store,
    pub(crate) name: &'a LockName,
    pub(crate) patience: &'a Patience,
}

impl Seats<'_> {
    /// Takes the lock if it is free and nobody has an open ticket.
    pub(crate) async fn enter(&self, attempt: &Attempt) -> Result<Asked, Failure> {
        let first_sent = self.store.now();
        let answer = self
            .store
            .persist(self.patience, || self.store.enter(self.name, attempt))
            .await?;
        Ok(self.recognise(answer, attempt, first_sent))
    }

    /// Takes a free lock whose every ticket up to `seen.last` is settled.
    pub(crate) async fn enter_over(
        &self,
        attempt: &Attempt,
        seen: &LockItem,
    ) -> Result<Asked, Failure> {
        let Some(ticket) = seen.last.after(attempt.tickets) else {
            return Ok(Asked::Busy(Some(seen.clone())));
        };
        let first_sent = self.store.now();
        let enter = || self.store.enter_over(self.name, attempt, seen, ticket);
        let answer = self.store.persist(self.patience, enter).await?;
        Ok(self.recognise(answer, attempt, first_sent))
    }

    /// Takes the next ticket and the seat behind the last heir.
    pub(crate) async fn sit(&self, attempt: &Attempt, seen: &LockItem) -> Result<Asked, Failure> {
        let Some(ticket) = seen.last.after(attempt.tickets) else {
            return Ok(Asked::Busy(Some(seen.clone())));
        };
        let first_sent = self.store.now();
        let sit = || self.store.sit(self.name, attempt, seen.last, ticket);
        let answer = self.store.persist(self.patience, sit).await?;
        Ok(self.recognise(answer, attempt, first_sent))
    }

    /// Ends a hold. Refused means released when an earlier attempt had no answer, for the caller's lease, within
    /// which its patience lies, lets nobody else end it.
    pub(crate) async fn release(&self, attempt: &Attempt) -> Result<Ended, Failure> {
        let unanswered = AtomicBool::new(false);
        let release = || async {
            let answer = self.store.release(self.name, attempt).await;
            if answer.as_ref().is_err_and(Failure::is_ambiguous) {
                unanswered.store(true, Ordering::Relaxed);
            }
            answer
        };
        let answer = self.store.persist(self.patience, release).await?;
        let unanswered = unanswered.into_inner();
        Ok(match answer.value {
            Write::Applied(item) => Ended::HandedOver(item),
            Write::Refused(item) if unanswered && self.within_patience() => Ended::Before(item),
            Write::Refused(item) => Ended::NotOurs(item),
        })
    }

    /// Gives up whatever place the attempt has on the lock item `seen`, following it when seats shift: each turn
    /// of the loop ends it, or finds the place nearer to the holder's.
    pub(crate) async fn give_up(
        &self,
        attempt: &Attempt,
        mut seen: Option<LockItem>,
    ) -> Result<(), Failure> {
        while let Some(item) = seen {
            let answer = match item.place_of(attempt.nonce) {
                None => return Ok(()),
                Some(Spot::Holder(_)) => {
                    self.store
                        .persist(self.patience, || self.store.release(self.name, attempt))
                        .await?
                }
                Some(Spot::Heir(index, _)) => {
                    let give_up = || self.store.give_up_seat(self.name, index, attempt.nonce);
                    self.store.persist(self.patience, give_up).await?
                }
            };
            seen = match answer.value {
                Write::Applied(_) => return Ok(()),
                Write::Refused(item) => item,
            };
        }
        Ok(())
    }

    /// A refusal that shows our nonce is a success whose answer was lost. The lease counts from before the first
    /// sending, whichever attempt it was that applied.
    fn recognise(
        &self,
        answer: Timed<Write<LockItem>>,
        attempt: &Attempt,
        first_sent: Moment,
    ) -> Asked {
        let (Write::Applied(item) | Write::Refused(Some(item))) = answer.value else {
            return Asked::Busy(None);
        };
        let ticket = match item.place_of(attempt.nonce) {
            Some(Spot::Holder(entry) | Spot::Heir(_, entry)) => entry.ticket,
            None => return Asked::Busy(Some(item)),
        };
        let answer = Timed {
            value: item,
            sent: answer.sent,
            arrived: answer.arrived,
        };
        Asked::Taken(Taken {
            ticket,
            beats: Beats::taken(first_sent, self.store.config().lease),
            answer,
        })
    }

    fn within_patience(&self) -> bool {
        self.patience
            .until
            .is_none_or(|until| self.store.now() < until)
    }
}
