//! What an operator does to the callers of a lock: asks the holders to give way, or breaks a place.

use std::sync::Arc;

use crate::agent::client_state::ClientInner;
use crate::lock::client::LockClient;
use crate::queue;
use crate::store::all_of;
use crate::store::requests::RetryPolicy;
use crate::vocabulary::config::MAX_NOTICE;
use crate::vocabulary::error::{Error, Holder, Invalid};
use crate::vocabulary::holder;
use crate::vocabulary::name::LockName;
use crate::vocabulary::state::{Participant, Stage};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{ItemHold, ItemPosition, LockItem, Notice, RowState};
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::{LockWrite, RowWrite};

/// How often the holders of a lock are asked that changes hands meanwhile, or whose holders others ask meanwhile.
const ROUNDS: usize = 20;

/// What became of a place that was to be [broken](LockClient::break_hold).
///
/// # Examples
///
/// ```
/// # fn tell(outcome: &fairlock::BreakOutcome) {
/// match outcome {
///     fairlock::BreakOutcome::Broken { next: Some(next) } => println!("{} has the lock now", next.owner),
///     fairlock::BreakOutcome::Broken { next: None } => println!("the lock is free"),
///     fairlock::BreakOutcome::Changed => println!("alive: it was renewed meanwhile. Look again"),
///     _ => println!("gone already"),
/// }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakOutcome {
    /// The place that was shown is gone. A waiter without a slot may get one all the same, within a heartbeat:
    /// [`break_hold`](LockClient::break_hold) says when.
    Broken {
        /// The holder now, if there is one.
        next: Option<Holder>,
    },
    /// The place is still there, and is not as it was seen: its owner has renewed it, or a waiter has become the holder or has been given a
    /// slot. It keeps its place.
    Changed,
    /// The place was gone before the break. If a request had no answer and was sent again, a place in the queue that ended meanwhile
    /// counts as broken.
    Gone,
}

impl LockClient {
    /// Breaks a hold, a slot or a place in the queue, though its owner may be alive. `seen` is what [`FairLock::inspect`] or
    /// [`LockClient::locks`] showed of it. The next in the queue has the lock at once, with a larger ticket. So resources that compare
    /// tokens refuse what the broken holder still sends.
    ///
    /// **A live holder works on until it learns of this**, which its next renewal tells it, after a heartbeat at the most. It may work
    /// beside the next holder for that long. Its guard is then lost by [`LossReason::Broken`](crate::LossReason::Broken), with the
    /// owner name of this client and the `reason`, of 128 bytes at the most. Of a longer name the first 128 bytes are told. Prefer
    /// [`ask_to_yield`](Self::ask_to_yield) where the holder can answer.
    ///
    /// Removes exactly what was seen, on the condition of its nonce, ticket and beat. If the owner has renewed the place since, or a waiter has
    /// become the holder, the place stays, and the outcome is [`BreakOutcome::Changed`]. The break does not see one case: the last
    /// reader before a first successor may release at that very moment, so that the successor has just become the holder. A later break
    /// replaces the reason of an earlier one, which a holder that has not renewed since is then not told.
    ///
    /// A waiter that is alive learns of it by its next poll or renewal, and draws another ticket. So does a successor. A waiter without a slot
    /// is told no reason. If its client has other waiters in this queue, one of them may give it a slot until the client has read of the
    /// break. It keeps its turn then. That takes a heartbeat of a waiter at the longest: a third of its lease, which is up to eight times
    /// the lease duration far back in the queue. The callers of a client that form a batch have one place, which goes as a whole. Costs two
    /// requests, and four for a waiter without a slot.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the place is broken: inspect the lock.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the reason is too long. [`Error::Unavailable`], [`Error::Refused`], [`Error::InvalidItem`] and
    /// [`Error::ShutDown`] as [`FairLock::inspect`].
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which count its time-outs.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn free(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// let state = locks.fair_lock("nightly")?.inspect().await?;
    /// if let Some(stuck) = state.holder.filter(|holder| holder.owner.starts_with("build-7:")) {
    ///     locks.break_hold("nightly", &stuck, "build-7 was thrown away").await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`FairLock::inspect`]: crate::FairLock::inspect
    pub async fn break_hold(
        &self,
        lock: impl AsRef<str>,
        seen: &Participant,
        reason: impl Into<String>,
    ) -> Result<BreakOutcome, Error> {
        let name = LockName::new(lock.as_ref(), &self.inner.store.config().namespace)?;
        let reason = checked(reason.into())?;
        let broken = self.inner.break_place(&name, seen, reason);
        self.inner.for_caller(broken).await
    }

    /// Asks all who hold the lock now to give way. Each sees the request with its next renewal, after a heartbeat at the most, as
    /// [`LockGuard::yield_requested`](crate::LockGuard::yield_requested), and may heed it or not. Takes nothing from anybody. Returns how
    /// many places were asked: zero if nobody holds the lock, or if it changed hands, or others asked its holders, again and again meanwhile.
    ///
    /// The newest request stands on the lock item. A later one replaces it, also for a holder that has not seen it yet. A late copy of an
    /// earlier one does not, nor does a retry of one that had no answer. Costs two requests.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves it open whether the holders are asked: ask again.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the reason has more than 128 bytes. [`Error::Unavailable`], [`Error::Refused`], [`Error::InvalidItem`] and
    /// [`Error::ShutDown`] as [`FairLock::inspect`](crate::FairLock::inspect).
    ///
    /// # Panics
    ///
    /// When polled outside of a tokio runtime with timers, which count its time-outs.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn deploy(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
    /// if locks.ask_to_yield("leader/search", "a deployment begins").await? == 0 {
    ///     println!("nobody leads");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn ask_to_yield(
        &self,
        lock: impl AsRef<str>,
        reason: impl Into<String>,
    ) -> Result<usize, Error> {
        let name = LockName::new(lock.as_ref(), &self.inner.store.config().namespace)?;
        let reason = checked(reason.into())?;
        self.inner.for_caller(self.inner.ask(&name, reason)).await
    }
}

fn checked(reason: String) -> Result<String, Invalid> {
    match reason.len() <= MAX_NOTICE {
        true => Ok(reason),
        false => Err(Invalid::text(
            "the reason",
            &reason,
            "must have 128 bytes at the most",
        )),
    }
}

/// The first bytes of a name, as many as a notice takes.
fn shortened(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(MAX_NOTICE));
    name
}

/// Whether the place that was seen holds the lock by this item, or has a slot on it.
fn stands_on(item: &LockItem, seen: &Participant) -> bool {
    let position = item.position_of_place(seen.nonce, seen.ticket);
    position.is_some()
}

/// How many places the newest request to give way is for, of those that hold the lock.
fn are_asked(item: &LockItem) -> usize {
    let count = |asked: &Notice| {
        let holders = item.holders();
        holders.filter(|it| asked.is_for(it.ticket)).count()
    };
    item.asked.as_deref().map_or(0, count)
}

impl ClientInner {
    fn notice(&self, from: Ticket, to: Ticket, reason: String) -> Arc<Notice> {
        Arc::new(Notice {
            from,
            to,
            by: shortened(self.store.config().owner.clone()),
            reason,
        })
    }

    async fn break_place(
        self: &Arc<Self>,
        name: &LockName,
        seen: &Participant,
        reason: String,
    ) -> Result<BreakOutcome, Failure> {
        let Participant { ticket, owner, .. } = seen;
        tracing::warn!(lock = %name, %ticket, %owner, reason, "breaks a place");
        let policy = self.policy_of_few(self.closed.clone());
        let read = || self.store.read_lock(name);
        let Some(item) = self.requests.retry(&policy, read).await?.value else {
            return Ok(BreakOutcome::Gone);
        };
        let name = &name.with_permits(item.permits);
        let position = item.position_of_place(seen.nonce, seen.ticket);
        let (at, entry) = match position {
            Some(ItemPosition::Has(at, entry)) => (at, entry),
            Some(ItemPosition::Successor(index, entry)) => (item.at_successor(index), entry),
            None if seen.ticket > item.watermark => {
                return self.break_row(name, seen, &policy).await;
            }
            None => return Ok(BreakOutcome::Gone),
        };
        let holds = matches!(position, Some(ItemPosition::Has(..)));
        // A waiter that has become the holder since is at work.
        if holds != (seen.stage == Stage::Holder) || entry.beat != seen.beat {
            return Ok(BreakOutcome::Changed);
        }
        let notice = self.notice(seen.first(), seen.ticket, reason);
        let write = || async {
            let (permits, stamp) = (all_of(name), self.store.stamps().server);
            let write = match holds {
                true => LockWrite::evict(permits, entry, ItemHold::of(&item, at, entry), stamp),
                false => LockWrite::evict_successor(permits, at, entry),
            };
            let write = write.breaking(Arc::clone(&notice));
            self.store.write(name, &write).await
        };
        let answer = self.requests.retry(&policy, write).await?.value;
        let (is_applied, after) = (answer.is_applied(), answer.shown());
        match after {
            Some(after) if !stands_on(&after, seen) => {
                self.tell_of_break(name, entry, &after);
                let is_ours = is_applied || after.broken.as_ref() == Some(&notice);
                Ok(match is_ours {
                    true => BreakOutcome::Broken {
                        next: holder::shown(&after),
                    },
                    false => BreakOutcome::Gone,
                })
            }
            Some(_) => Ok(BreakOutcome::Changed),
            None => Ok(BreakOutcome::Gone),
        }
    }

    /// Notifies the next holders and the broken place, and lets in the successors that need not wait any more.
    fn tell_of_break(self: &Arc<Self>, name: &LockName, broken: &Entry, after: &LockItem) {
        if let Some(notifications) = &self.notifications {
            after
                .holders()
                .chain([broken])
                .for_each(|entry| notifications.tell_change(entry));
        }
        self.saw(name, after);
        self.admit(name, after);
    }

    /// Breaks the place of a waiter without a slot. Its owner is told no reason: it finds its row void.
    async fn break_row(
        &self,
        name: &LockName,
        seen: &Participant,
        policy: &RetryPolicy,
    ) -> Result<BreakOutcome, Failure> {
        let void = RowWrite::break_row(seen.nonce, seen.beat, seen.tickets);
        let void = || queue::write(&self.store, name, seen.ticket, &void);
        let (answer, is_in_doubt) = self.requests.retry_in_doubt(policy, void).await?;
        let answer = answer.value;
        // A try without an answer may have made the row void.
        let may_be_ours = answer.is_applied() || is_in_doubt;
        let is_void = match answer.shown().map(|row| row.state) {
            Some(RowState::Waiting(entry)) if entry.nonce == seen.nonce => {
                return Ok(BreakOutcome::Changed);
            }
            Some(RowState::Void(Some(nonce))) => nonce == seen.nonce,
            _ => false,
        };
        let item = match is_void {
            // No poll that saw the row as it was can give the ticket a slot after this. If one did so before, the item shows it.
            true => {
                let leave = LockWrite::leave(all_of(name), seen.ticket);
                let leave = || self.store.write(name, &leave);
                self.requests.retry(policy, leave).await?.value.shown()
            }
            // Its owner may have found the row void, and deleted it.
            false if may_be_ours => {
                let read = || self.store.read_lock(name);
                self.requests.retry(policy, read).await?.value
            }
            false => None,
        };
        Ok(match item {
            Some(item) if stands_on(&item, seen) => BreakOutcome::Changed,
            Some(item) if may_be_ours => BreakOutcome::Broken {
                next: holder::shown(&item),
            },
            _ => BreakOutcome::Gone,
        })
    }

    /// Each round of the loop but the last has seen that the lock changed hands, or that another client asked, between the read and the
    /// write.
    async fn ask(&self, name: &LockName, reason: String) -> Result<usize, Failure> {
        let policy = self.policy_of_few(self.closed.clone());
        for _ in 0..ROUNDS {
            let read = || self.store.read_lock(name);
            let Some(item) = self.requests.retry(&policy, read).await?.value else {
                break;
            };
            let tickets = item.holders().map(|holder| (holder.first(), holder.ticket));
            let all = tickets.reduce(|(from, to), (first, last)| (from.min(first), to.max(last)));
            let Some((from, to)) = all else { break };
            let name = &name.with_permits(item.permits);
            let notice = self.notice(from, to, reason.clone());
            let ask = LockWrite::ask(all_of(name), Arc::clone(&notice), item.asks);
            let ask = || self.store.write(name, &ask);
            let (answer, is_in_doubt) = self.requests.retry_in_doubt(&policy, ask).await?;
            let after = answer.value.shown();
            let own = item.asks.saturating_add(1);
            // A refusal may be due to this very request, whose answer was lost. Where newer requests may have replaced it, they stand.
            let stands = |after: &LockItem| match after.asks == own {
                true => after.asked.as_ref() == Some(&notice),
                false => is_in_doubt && after.asks > own,
            };
            let asked = after.filter(stands).as_ref().map_or(0, are_asked);
            if asked > 0 {
                return Ok(asked);
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_two_characters() {
        assert_eq!(shortened("a".repeat(200)).len(), 128);
        assert_eq!(shortened(format!("{}é", "a".repeat(127))).len(), 127);
        assert_eq!(shortened("é".to_owned()), "é");
    }
}
