//! Leaves what a place has in the table, when no caller wants it any more.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use super::{ClientInner, job};
use crate::attempt::Attempt;
use crate::cleaning;
use crate::exit::Exit;
use crate::name::LockName;
use crate::place_id::PlaceId;
use crate::place_writes;
use crate::requests::RetryPolicy;
use crate::runtime::background::Task;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{Footing, LockItem};
use fairlock_protocol::place::{Act, Place};
use fairlock_protocol::ticket::Ticket;

/// No renewal that is still under way is so many beats ahead of what the table shows.
const FAR: u64 = 1000;

/// A place that leaves, with its first step.
#[derive(Debug)]
pub(crate) struct Departure {
    place: Place,
    act: Act,
    attempt: Attempt,
    ticket: Option<Ticket>,
    seen: Option<LockItem>,
}

impl Departure {
    /// A place with a ticket, whatever became of it since `seen`.
    pub(crate) fn of(mut place: Place, attempt: Attempt, ticket: Ticket, seen: LockItem) -> Self {
        attempt.confirms_no_more();
        Departure {
            act: place.leaves(ticket <= seen.watermark),
            place,
            attempt,
            ticket: Some(ticket),
            seen: Some(seen),
        }
    }

    /// A place whose lease had expired when it was granted the lock.
    pub(crate) fn declined(
        mut place: Place,
        attempt: Attempt,
        ticket: Ticket,
        seen: LockItem,
    ) -> Self {
        attempt.confirms_no_more();
        Departure {
            act: place.declines(),
            place,
            attempt,
            ticket: Some(ticket),
            seen: Some(seen),
        }
    }

    /// The place of an attempt that was never answered: whatever place it got.
    pub(crate) fn unseen(mut place: Place, attempt: Attempt) -> Self {
        attempt.confirms_no_more();
        Departure {
            act: place.leaves_unseen(),
            place,
            attempt,
            ticket: None,
            seen: None,
        }
    }
}

impl ClientInner {
    /// Notes that an attempt has ended. An attempt in doubt may still turn up in the table. A lease that a caller named is never noted. A
    /// caller that asks under its name holds it, in this process or another, and no client takes it away.
    pub(crate) fn forget(&self, attempt: &Attempt) {
        self.forget_upto(attempt, Ticket::default());
    }

    /// The same for an attempt whose place may stay, as a lease: an answer may show it with tickets up to `newest`, and no late one.
    pub(crate) fn forget_upto(&self, attempt: &Attempt, newest: Ticket) {
        if attempt.is_in_doubt() && !attempt.is_named() {
            self.directory.doubts(attempt.nonce, newest);
        }
    }

    /// Leaves a place that no task of this client asked for, in a task of its own.
    pub(super) fn leave(self: &Arc<Self>, name: &LockName, departure: Departure) {
        let (inner, ticket, own) = (Arc::clone(self), departure.ticket, name.clone());
        self.spawn(name, ticket, Task::Leave, async move {
            inner.depart(&own, departure).await;
        });
    }

    /// Leaves a place. The work is on the client's list from now on. The waiters behind the place do what this does not do in time.
    pub(crate) fn leaves(
        self: Arc<Self>,
        name: LockName,
        departure: Departure,
    ) -> impl Future<Output = ()> + Send {
        let job = job(&name, departure.ticket, Task::Leave);
        let open = self.background.open(job);
        async move {
            self.depart(&name, departure).await;
            drop(open);
        }
    }

    /// A panic of the caller's own transport ends this departure alone. It ends neither a hold of the same task nor another departure.
    async fn depart(&self, name: &LockName, departure: Departure) {
        let ticket = departure.ticket;
        let exits = AssertUnwindSafe(self.exit(name, departure)).catch_unwind();
        if exits.await.is_err() {
            self.undone(name, ticket, Task::Leave);
        }
    }

    async fn exit(&self, name: &LockName, departure: Departure) {
        let Departure {
            mut place,
            act,
            attempt,
            ticket,
            seen,
        } = departure;
        let mut exit = Exit {
            requests: &self.requests,
            name,
            policy: &self.policy_to_leave(),
            attempt: &attempt,
            ticket,
            seen,
        };
        if let Err(failure) = exit.run(&mut place, act).await {
            tracing::warn!(lock = %name, ?ticket, %failure, "could not leave: others pass this ticket in time, and a slot lapses with its lease");
            self.undone(name, ticket, Task::Leave);
        }
        self.forget(&attempt);
    }

    /// Deletes settled rows, in the background. Rows that it fails to delete are left to the next client that cleans.
    pub(crate) fn clean(self: &Arc<Self>, name: &LockName, settled: Vec<Ticket>) {
        if settled.is_empty() {
            return;
        }
        let (inner, name) = (Arc::clone(self), name.clone());
        self.spawn(&name.clone(), None, Task::Clean, async move {
            let policy = inner.policy_of_few(CancellationToken::new());
            cleaning::clean(&inner.requests, &name, &policy, &settled).await;
        });
    }

    /// Deletes rows together with others, when there are enough of them or no place of this client waits any more.
    pub(crate) fn clean_later(self: &Arc<Self>, name: &LockName, settled: Vec<Ticket>) {
        self.clean(name, self.directory.settled_rows(name, settled));
    }

    /// Gives up a place of another process. A hold is kept from others for what it owes.
    pub(crate) async fn give_up_place(
        &self,
        name: &LockName,
        place: &PlaceId,
        owed: Duration,
    ) -> Result<(), Failure> {
        let policy = self.policy_of_few(self.closed.clone());
        let read = || self.store.read_lock(name);
        let Some(item) = self.requests.retry(&policy, read).await?.value else {
            return Ok(());
        };
        // No such ticket was drawn, unless the item was deleted and its state is gone.
        if item.last < place.ticket {
            return Ok(());
        }
        // Its hold has become a lease, which belongs to any process that knows the lease's name.
        let hold = item.hold_of(place.nonce, place.ticket);
        if hold.is_some_and(|(_, entry)| entry.id.is_some()) {
            return Ok(());
        }
        let (name, ticket) = (name.with_permits(item.permits), place.ticket);
        if !owed.is_zero() && hold.is_some() {
            return self.keep_place(&name, place, item, owed, &policy).await;
        }
        let attempt = Attempt::new(place.nonce, place.tickets, place.permits);
        let mut place = Place::of_another();
        let act = place.leaves(ticket <= item.watermark);
        let mut exit = Exit {
            requests: &self.requests,
            name: &name,
            policy: &policy,
            attempt: &attempt,
            ticket: Some(ticket),
            seen: Some(item),
        };
        exit.run(&mut place, act).await.map(drop)
    }

    /// Renews a hold of another process once more, as its own client does for what a hold owes. Each iteration but the last finds a renewal of
    /// that process that was still under way.
    async fn keep_place(
        &self,
        name: &LockName,
        place: &PlaceId,
        mut item: LockItem,
        owed: Duration,
        policy: &RetryPolicy,
    ) -> Result<(), Failure> {
        let began = self.store.now();
        loop {
            let hold = item.hold_of(place.nonce, place.ticket);
            let Some((at, entry)) = hold.filter(|(_, entry)| !entry.given_back) else {
                return Ok(());
            };
            let attempt = Attempt::new(place.nonce, place.tickets, place.permits);
            let attempt = attempt.after(entry.beat + FAR);
            let footing = Footing::of(&item, at, entry);
            let keep = || {
                let left = owed.saturating_sub(self.store.now().since(began));
                place_writes::keep_on(&self.store, name, &attempt, (footing, left))
            };
            let Some(shown) = self.requests.retry(policy, keep).await?.value.shown() else {
                return Ok(());
            };
            let hold = shown.hold_of(place.nonce, place.ticket);
            if hold.is_none_or(|(_, entry)| entry.beat == attempt.renewals()) {
                return Ok(());
            }
            item = shown;
        }
    }
}
