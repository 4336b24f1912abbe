//! The task keeps a hold in the table after its guard is gone: until its shortest time is over, or as a lease.

use std::sync::Arc;
use std::time::Duration;

use super::Acquisition;
use super::turns::{Done, tell};
use crate::client_state::{GiveBack, outcome};
use crate::hold::Hold;
use crate::hold_bounds;
use crate::place_writes::{self, Ended};
use crate::runtime::background::Task;
use crate::store::{Answered, Timed, Write};
use fairlock_protocol::agent::LeaseTerm;
use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;

impl Acquisition {
    /// Keeps a hold in the table until its shortest time is over. Sends one renewal, which says that the hold was given back and when it
    /// ends, and answers the caller. Then waits until that time is over, and returns the deadline for the release: others may have ended the
    /// hold a moment before. Returns the outcome of the turn if the task is not to release it: the renewal failed, the hold was no longer
    /// this client's, or the client is shut down.
    pub(super) async fn keeps_on(
        &self,
        hold: &Arc<Hold>,
        caller: Option<GiveBack>,
    ) -> Result<Moment, Done> {
        let (inner, config) = (&self.inner, self.inner.store.config());
        let done = |ended, caller| {
            hold.telemetry.released(outcome(hold.ticket, &ended));
            Done {
                ended,
                caller,
                hold: Arc::clone(hold),
            }
        };
        // Its caller's work is over, so no margin is due.
        let attempt = hold.attempt.again().with_margin(Duration::ZERO);
        let renew = || {
            let (footing, owed) = (hold.footing(), hold.owed());
            place_writes::keep_on(&inner.store, &hold.name, &attempt, (footing, owed))
        };
        let (item, answered) = match self.writes_last(hold, renew).await {
            Ok(written) => written,
            Err(ended) => return Err(done(ended, caller)),
        };
        hold.renewed(&item, answered);
        inner.saw(&hold.name, &item);
        let owed = hold.owed();
        let until = answered.sent + owed + hold_bounds::to_release(config.lease);
        tracing::debug!(lock = %hold.name, ticket = %hold.ticket, ?owed, "given back: kept for its shortest time");
        // From now on the lease ends the hold if the client does not, so the process may exit.
        self.listed.becomes(Task::Heartbeat, hold.ticket);
        if let Some(caller) = caller {
            tell(inner, caller, Ok(Ended::KeptOn));
        }
        tokio::select! {
            biased;
            () = inner.closed.cancelled() => Err(done(Ok(Ended::KeptOn), None)),
            () = config.clock.sleep(owed) => {
                self.listed.becomes(Task::Release, hold.ticket);
                Ok(until)
            }
        }
    }

    /// Turns a hold into a lease. The permits that the lease does not keep are freed first.
    pub(super) async fn leases_out(
        &self,
        hold: &Arc<Hold>,
        term: &LeaseTerm,
    ) -> Result<Ended, Failure> {
        let inner = &self.inner;
        let _one_at_a_time = hold.lock_permit_changes().await;
        let ended = match inner.free(hold, hold.permits()).await {
            Ok(Ok(())) => self.writes_as_lease(hold, term).await,
            Ok(Err(item)) => Ok(Ended::NotOurs(item)),
            Err(failure) => Err(failure),
        };
        if let Some(registration) = hold.attempt.registration() {
            registration.close();
        }
        hold.telemetry.released(outcome(hold.ticket, &ended));
        if let Ok(Ended::LeasedOut(lease)) = &ended {
            // A late copy of the enter request may come when the lease has ended. An older answer may still show the hold.
            inner.forget_upto(&hold.attempt, lease.ticket);
        }
        ended
    }

    async fn writes_as_lease(&self, hold: &Arc<Hold>, term: &LeaseTerm) -> Result<Ended, Failure> {
        let inner = &self.inner;
        let lease_out = || {
            let place = (hold.footing(), term);
            place_writes::lease_out(&inner.store, &hold.name, &hold.attempt, place)
        };
        let item = match self.writes_last(hold, lease_out).await {
            Ok((item, _)) => item,
            // A second copy of the request was answered.
            Err(Ok(Ended::NotOurs(Some(item)))) if leased(&item, hold, term).is_some() => item,
            Err(ended) => return ended,
        };
        inner.saw(&hold.name, &item);
        Ok(match leased(&item, hold, term) {
            Some(entry) => Ended::LeasedOut(Box::new(entry)),
            None => Ended::NotOurs(Some(item)),
        })
    }

    /// Sends the last write of a hold that stays: nothing else renews it any more. Returns the item that the write left, and its answer's
    /// times. Returns the outcome of the turn if the write failed, or if the hold was no longer this client's.
    async fn writes_last<Fut>(
        &self,
        hold: &Hold,
        write: impl Fn() -> Fut + Send + Sync,
    ) -> Result<(LockItem, Answered), Result<Ended, Failure>>
    where
        Fut: Future<Output = Result<Timed<Write<LockItem>>, Failure>> + Send,
    {
        let policy = self.inner.policy_until(hold.lease_until());
        // The loop repeats only when a refusal shows that the hold moved from the first slot to the sharers, which happens once.
        loop {
            let before = hold.footing().at;
            let answer = match self.inner.requests.retry_renewal(&policy, &write).await {
                Ok(answer) => answer,
                Err(failure) => return Err(Err(failure)),
            };
            let answered = answer.answered();
            match answer.value {
                Write::Applied(item) => return Ok((item, answered)),
                Write::ConditionFailed(Some(item)) if hold.takes_in_move(&item, before) => {}
                Write::ConditionFailed(item) => return Err(Ok(Ended::NotOurs(item))),
            }
        }
    }
}

/// The entry of a hold that an item shows as this lease.
fn leased(item: &LockItem, hold: &Hold, term: &LeaseTerm) -> Option<Entry> {
    let (nonce, newest) = hold.place();
    let (_, entry) = item.hold_of(nonce, newest)?;
    (entry.id.as_deref() == Some(&*term.id)).then(|| entry.clone())
}
