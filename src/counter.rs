//! Draws tickets from a lock's counter, which is `last` of the lock item: with the slot behind all others, or alone.

use crate::attempt::Attempt;
use crate::name::LockName;
use crate::requests::{Requests, RetryPolicy};
use crate::store::{Timed, Write, all_of};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{ItemPosition, LockItem};
use fairlock_protocol::lease::RenewalHistory;
use fairlock_protocol::stamps::{Reading, Stamps};
use fairlock_protocol::ticket::{Sequence, Ticket};
use fairlock_protocol::write::{Drawing, Entrance, LockWrite, below};

/// The most tries of a draw. Each further try knows better what stands on the item: a later stamp, or a shorter join timeout.
const TRIES: usize = 3;

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

/// A place that was taken on the lock item.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) ticket: Ticket,
    pub(crate) beats: RenewalHistory,
    /// The lock item that shows the place.
    pub(crate) answer: Timed<LockItem>,
}

/// The result of asking for a place.
#[derive(Debug)]
pub(crate) enum Asked {
    Taken(Taken),
    /// The item that stood in the way, or `None` if there was no item; and what the answer told of the time.
    InTheWay(Option<LockItem>, Reading),
}

/// The counter of a lock, as one caller uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counter<'a> {
    pub(crate) requests: &'a Requests,
    pub(crate) name: &'a LockName,
    pub(crate) policy: &'a RetryPolicy,
}

impl Counter<'_> {
    /// Draws tickets, and takes the slot behind all others: the lock, if that is the first slot. The tickets are the ones that this write
    /// draws.
    pub(crate) async fn enter(
        &self,
        attempt: &Attempt,
        wish: EnterTerms,
    ) -> Result<Asked, Failure> {
        let enter = || async { attempt.note(self.try_enter(attempt, wish).await) };
        self.asked(attempt, enter).await
    }

    async fn try_enter(
        &self,
        attempt: &Attempt,
        wish: EnterTerms,
    ) -> Result<Timed<Write<LockItem>>, Failure> {
        let store = &self.requests.store;
        let is_unseen = wish.stays_until.is_none();
        let entrance = Entrance {
            below: below(wish.most, attempt.tickets),
            slots: wish.waits.then_some(store.config().successor_slots),
            join_timeout: store.config().join_timeout,
            new: store.new_item().filter(|_| is_unseen),
        };
        let me = attempt.entry(store, Ticket::default());
        let write = LockWrite::enter(all_of(self.name), me, entrance);
        // An attempt that may have been applied must see whether it was.
        let may_be_there = attempt.is_in_doubt();
        match wish.stays_until {
            Some(until) => {
                let keeps = store.keeps(until);
                store.write_keeping(self.name, write, keeps).await
            }
            None if entrance.new.is_none() && !may_be_there => {
                store.write_unread(self.name, &write).await
            }
            None => store.write(self.name, &write).await,
        }
    }

    /// Takes permits that are left, if no caller waits for any. A participant in the first slot may have at most `first` permits. The
    /// ticket is the one that this write draws.
    pub(crate) async fn share(&self, attempt: &Attempt, first: u64) -> Result<Asked, Failure> {
        let share = || async {
            let me = attempt.entry(&self.requests.store, Ticket::default());
            let write = LockWrite::share(all_of(self.name), me, first);
            attempt.note(self.requests.store.write(self.name, &write).await)
        };
        self.asked(attempt, share).await
    }

    /// Takes a free lock all of whose drawn tickets `seen` and its rows showed to be settled, with the tickets behind them.
    pub(crate) async fn enter_over(
        &self,
        attempt: &Attempt,
        seen: &LockItem,
    ) -> Result<Asked, Failure> {
        let Some(ticket) = seen.last.after(attempt.tickets) else {
            return Ok(Asked::InTheWay(Some(seen.clone()), Reading::UNTOLD));
        };
        let enter = || async {
            let me = attempt.entry(&self.requests.store, ticket);
            let write = LockWrite::enter_over(all_of(self.name), me, seen);
            let keeps = self.requests.store.keeps(seen.expires_at);
            attempt.note(
                self.requests
                    .store
                    .write_keeping(self.name, write, keeps)
                    .await,
            )
        };
        self.asked(attempt, enter).await
    }

    /// Asks for a place until the question is answered. A refusal that shows our nonce is a success whose answer was lost. The lease counts
    /// from before the first sending, whichever try was applied.
    async fn asked<Fut: Future<Output = Result<Timed<Write<LockItem>>, Failure>>>(
        &self,
        attempt: &Attempt,
        ask: impl FnMut() -> Fut,
    ) -> Result<Asked, Failure> {
        let store = &self.requests.store;
        let first = (store.now(), store.told());
        let answer = self.requests.retry(self.policy, ask).await?;
        let (reading, answered) = (answer.reading, answer.answered());
        let Some(answer) = answer.map(Write::shown).transpose() else {
            return Ok(Asked::InTheWay(None, reading));
        };
        let own = match answer.value.position_of(attempt.nonce) {
            Some(ItemPosition::Has(_, entry) | ItemPosition::Successor(_, entry)) => entry,
            None => return Ok(Asked::InTheWay(Some(answer.value), reading)),
        };
        Ok(Asked::Taken(Taken {
            ticket: own.ticket,
            beats: attempt.history(store, first, (own, answered)),
            answer,
        }))
    }

    /// Draws the next `tickets` tickets, unless a ticket newer than `most` has been drawn. The newest ticket is `last` of the lock item that
    /// is returned. Returns `None` if there is no counter yet, which the first enter request starts, or if other callers drew too many.
    ///
    /// A draw whose answer was lost is drawn again. Its tickets stay a gap in the queue, which closes after the join timeout.
    pub(crate) async fn draw(
        &self,
        tickets: u64,
        most: Ticket,
        seen: Option<&LockItem>,
    ) -> Result<Option<Timed<LockItem>>, Failure> {
        let draw = || self.try_draw(tickets, most, seen);
        let answer = self.requests.retry(self.policy, draw).await?;
        let applied = answer.map(|write| match write {
            Write::Applied(item) => Some(item),
            Write::ConditionFailed(_) => None,
        });
        Ok(applied.transpose())
    }

    /// A stamp on the item that is later by more than two seconds stays. Afterwards the join timeout on the item is at least as long as
    /// this client's.
    async fn try_draw(
        &self,
        tickets: u64,
        most: Ticket,
        seen: Option<&LockItem>,
    ) -> Result<Timed<Write<LockItem>>, Failure> {
        let end = below(most, tickets);
        let (began, stamps) = (self.requests.store.now(), self.requests.store.stamps());
        let draw = async |how| {
            let write = LockWrite::draw(all_of(self.name), tickets, end, how);
            self.requests.store.write(self.name, &write).await
        };
        let mut how = self.drawing(seen, stamps);
        let mut answer = draw(how).await?;
        for _ in 1..TRIES {
            let Write::ConditionFailed(Some(item)) = &answer.value else {
                break;
            };
            let better = self.drawing(Some(item), stamps);
            if end <= item.last || better == how {
                break;
            }
            how = better;
            answer = draw(how).await?;
        }
        Ok(Timed {
            sent: began,
            ..answer
        })
    }

    /// How to draw as the item asks for, as far as that is known.
    fn drawing(&self, seen: Option<&LockItem>, stamps: Stamps) -> Drawing {
        let store = &self.requests.store;
        let keeps = seen.and_then(|item| store.keeps(item.expires_at));
        Drawing::over(seen, stamps, store.config().join_timeout, keeps)
    }
}
