//! What an operator does to the callers of a lock: asks the holders to give way, or breaks a place.

use std::sync::Arc;

use crate::client::LockClient;
use crate::client_inner::ClientInner;
use crate::config::{MAX_NOTICE, unusable};
use crate::error::{Error, Holder, Invalid};
use crate::hold;
use crate::name::LockName;
use crate::state::Participant;
use crate::store::Failure;
use fairlock_protocol::entry::Entry;
use fairlock_protocol::item::{ItemPosition, LockItem, Notice};
use fairlock_protocol::ticket::Ticket;

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
    /// The place is gone.
    Broken {
        /// The holder now, if there is one.
        next: Option<Holder>,
    },
    /// The place is still there, and is not as it was seen: its owner has renewed it, or it has moved up in the queue. Nothing was changed.
    Changed,
    /// The place was gone before.
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
    /// Removes exactly what was seen, by one conditional write. If the owner has renewed the place since, nothing is changed, and the outcome
    /// is [`BreakOutcome::Changed`]. A waiter that is alive learns of it by its next poll or renewal, and draws another ticket. So does a successor. The callers
    /// of a client that form a batch have one place, which goes as a whole. Costs two requests, and four for a waiter without a slot.
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
    /// many places hold the lock, or zero if it is free, and then asks nobody.
    ///
    /// The newest request stands on the lock item. A later one replaces it, also for a holder that has not seen it yet. Costs two requests.
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
        false => Err(unusable(
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
        let policy = self.policy_of_few(self.closed.clone());
        let read = || self.store.read_lock(name);
        let Some(item) = self.store.retry(&policy, read).await?.value else {
            return Ok(BreakOutcome::Gone);
        };
        let name = &name.with_permits(item.permits);
        let position = item.position_of_place(seen.nonce, seen.ticket);
        let (at, entry) = match position {
            Some(ItemPosition::Has(at, entry)) => (at, entry),
            Some(ItemPosition::Successor(index, entry)) => (item.at_successor(index), entry),
            None if seen.ticket > item.watermark => {
                let place = seen.place_id_in(name);
                self.give_up_place(name, &place).await?;
                let next = hold::shown(&item);
                return Ok(BreakOutcome::Broken { next });
            }
            None => return Ok(BreakOutcome::Gone),
        };
        if entry.beat != seen.beat {
            return Ok(BreakOutcome::Changed);
        }
        let (place, notice) = (
            (at, entry, matches!(position, Some(ItemPosition::Has(..)))),
            self.notice(seen.first(), seen.ticket, reason),
        );
        tracing::warn!(lock = %name, ticket = %entry.ticket, owner = %entry.owner, reason = notice.reason, "breaks a place");
        let write = || self.store.break_place(name, &item, place, &notice);
        let answer = self.store.retry(&policy, write).await?.value;
        let (is_applied, after) = (answer.is_applied(), answer.shown());
        let there = |item: &LockItem| item.position_of_place(seen.nonce, seen.ticket).is_some();
        match after {
            Some(after) if !there(&after) => {
                self.tell_of_break(name, entry, &after);
                let is_ours = is_applied || after.broken.as_ref() == Some(&notice);
                Ok(match is_ours {
                    true => BreakOutcome::Broken {
                        next: hold::shown(&after),
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

    async fn ask(&self, name: &LockName, reason: String) -> Result<usize, Failure> {
        let policy = self.policy_of_few(self.closed.clone());
        let read = || self.store.read_lock(name);
        let Some(item) = self.store.retry(&policy, read).await?.value else {
            return Ok(0);
        };
        let tickets = item.holders().map(|holder| (holder.first(), holder.ticket));
        let Some((from, to)) =
            tickets.reduce(|(from, to), (first, last)| (from.min(first), to.max(last)))
        else {
            return Ok(0);
        };
        let name = &name.with_permits(item.permits);
        let notice = self.notice(from, to, reason);
        let ask = || self.store.ask(name, &notice);
        self.store.retry(&policy, ask).await?;
        Ok(item.holders().count())
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
