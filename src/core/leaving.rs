//! Leaves what a caller that has gone has in the table: in the background, whose end a caller may wait for.

use std::convert::Infallible;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::Core;
use crate::background::Task;
use crate::name::LockName;
use crate::passing;
use crate::place_id::PlaceId;
use crate::queue;
use crate::seats::Seats;
use crate::store::{Attempt, Failure, Limit, Patience, Refusals};
use fairlock_protocol::item::LockItem;
use fairlock_protocol::ticket::Ticket;

/// Settled rows that are deleted together where nobody else reads them meanwhile.
const LITTER_AT_ONCE: usize = 8;

/// Resolves when a place is left, or cannot be left, or the runtime of its client is gone.
pub(crate) type Left = oneshot::Receiver<Infallible>;

impl Core {
    /// As long as what is left in the table could be in somebody's way: then others have removed it.
    pub(crate) fn patience_for_leaving(&self) -> Patience {
        let config = self.store.config();
        let until = self.store.now() + config.lease * 2 + config.gap_grace;
        Patience {
            until: Some(until),
            limit: Limit::None,
            refusals: Refusals::Passing,
            stop: CancellationToken::new(),
        }
    }

    /// Notes that an attempt is over. One that is in doubt may still turn up in the table. A lease that a caller named is never
    /// noted: whoever asks under its name has it, in this process or another, and nobody takes it from them.
    pub(crate) fn forget(&self, attempt: &Attempt) {
        if attempt.is_in_doubt() && !attempt.is_named() {
            self.memory().doubts.note(attempt.nonce);
        }
    }

    /// Runs what leaves a place to its end in the background.
    fn leaving(
        self: &Arc<Self>,
        name: &LockName,
        ticket: Option<Ticket>,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Left {
        let (leaving, left) = oneshot::channel();
        self.spawn_then(name, ticket, Task::Leave, async move {
            work.await;
            move || drop(leaving)
        });
        left
    }

    /// Gives up whatever place an attempt got that was never answered, in the background.
    pub(crate) fn give_up_unseen(self: &Arc<Self>, name: &LockName, attempt: Attempt) -> Left {
        let (core, name) = (Arc::clone(self), name.clone());
        self.leaving(&name.clone(), None, async move {
            let patience = core.patience_for_leaving();
            match core
                .store
                .persist(&patience, || core.store.read_lock(&name))
                .await
            {
                Ok(answer) => {
                    core.give_up_now(&name, &attempt, answer.value, &patience)
                        .await
                }
                Err(failure) => {
                    tracing::warn!(lock = %name, %failure, "could not look for a place to give up");
                    core.undone(&name, None, Task::Leave);
                }
            }
        })
    }

    /// Leaves the line with a drawn ticket, in the background, whatever became of it since `seen`.
    pub(crate) fn leave(
        self: &Arc<Self>,
        name: &LockName,
        attempt: Attempt,
        ticket: Ticket,
        seen: LockItem,
    ) -> Left {
        if ticket <= seen.seated {
            return self.give_up(name, attempt, ticket, Some(seen));
        }
        let (core, name) = (Arc::clone(self), name.clone());
        self.leaving(&name.clone(), Some(ticket), async move {
            let patience = core.patience_for_leaving();
            match queue::leave(&core.store, &name, &patience, &attempt, ticket).await {
                Ok(seen) => {
                    let seen = seen.map(|answer| answer.value);
                    core.give_up_now(&name, &attempt, seen, &patience).await;
                }
                Err(failure) => {
                    tracing::warn!(lock = %name, %ticket, %failure, "could not leave the line: others pass this ticket in time");
                    core.undone(&name, Some(ticket), Task::Leave);
                }
            }
        })
    }

    /// Deletes rows that are settled, in the background. What fails is left to the next who cleans.
    pub(crate) fn clean(self: &Arc<Self>, name: &LockName, settled: Vec<Ticket>) {
        if settled.is_empty() {
            return;
        }
        let (core, name) = (Arc::clone(self), name.clone());
        self.spawn(&name.clone(), None, Task::Clean, async move {
            let patience = core.patience_of_few(CancellationToken::new());
            passing::clean(&core.store, &name, &patience, &settled).await;
        });
    }

    /// Has rows deleted together with others, when there are enough of them or nobody of this client waits any more.
    pub(crate) fn clean_later(self: &Arc<Self>, name: &LockName, settled: Vec<Ticket>) {
        let is_waiting = self.cohort.waits_for(name);
        let litter = {
            let mut memory = self.memory();
            let litter = memory.litter.entry(name.clone()).or_default();
            litter.extend(settled);
            if litter.len() < LITTER_AT_ONCE && is_waiting {
                return;
            }
            memory.litter.remove(name).unwrap_or_default()
        };
        self.clean(name, litter);
    }

    /// Gives up a place on the lock item, in the background.
    pub(crate) fn give_up(
        self: &Arc<Self>,
        name: &LockName,
        attempt: Attempt,
        ticket: Ticket,
        seen: Option<LockItem>,
    ) -> Left {
        let (core, name) = (Arc::clone(self), name.clone());
        self.leaving(&name.clone(), Some(ticket), async move {
            let patience = core.patience_for_leaving();
            core.give_up_now(&name, &attempt, seen, &patience).await;
        })
    }

    /// Gives up a place of another process.
    pub(crate) async fn give_up_place(
        &self,
        name: &LockName,
        place: &PlaceId,
    ) -> Result<(), Failure> {
        let patience = self.patience_of_few(self.closed.clone());
        let read = || self.store.read_lock(name);
        let Some(item) = self.store.persist(&patience, read).await?.value else {
            return Ok(());
        };
        // No such ticket was drawn, unless the item was deleted and what it knew is gone.
        if item.last < place.ticket {
            return Ok(());
        }
        let (name, ticket) = (name.with_permits(item.permits), place.ticket);
        let attempt = Attempt::new(place.nonce, place.tickets, place.permits);
        let seen = match ticket <= item.seated {
            true => Some(item),
            false => {
                let left = queue::leave(&self.store, &name, &patience, &attempt, ticket).await?;
                left.map(|answer| answer.value)
            }
        };
        let seats = Seats {
            store: &self.store,
            name: &name,
            patience: &patience,
        };
        seats.give_up(&attempt, seen).await
    }

    async fn give_up_now(
        &self,
        name: &LockName,
        attempt: &Attempt,
        seen: Option<LockItem>,
        patience: &Patience,
    ) {
        let seats = Seats {
            store: &self.store,
            name,
            patience,
        };
        if let Err(failure) = seats.give_up(attempt, seen).await {
            tracing::warn!(lock = %name, %failure, "could not give up a place: it lapses with its lease");
            self.undone(name, None, Task::Leave);
        }
        self.forget(attempt);
    }
}
