//! How a lease is taken: at once, or in turn.

use std::time::Duration;

use super::{Lease, LeaseLock, TRIES, handle};
use crate::lock::fair_lock::{Turn, Wish};
use crate::store::denies;
use crate::vocabulary::error::Error;
use crate::vocabulary::holder;
use crate::vocabulary::wait::RecordWait;
use fairlock_protocol::agent::LeaseTerm;
use fairlock_protocol::entry::Entry;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::stamps::Reading;

const VERB: &str = "acquire";

impl LeaseLock {
    /// Takes the lease if it can be had now. A lease that holds the lock alone is found by the answer to the request that would take it.
    pub(super) async fn take_at_once(&self, id: &str, span: Duration) -> Result<Lease, Error> {
        self.in_time(VERB, self.take(id, span)).await
    }

    async fn take(&self, id: &str, span: Duration) -> Result<Lease, Error> {
        let wish = self.wish(id, span, RecordWait::NoWait).await?;
        if !self.is_exclusive() {
            let answer = self.read().await?;
            let item = answer.value.as_ref();
            let entry = item.and_then(|item| item.leases_of(id, self.permits).next());
            if let Some((item, entry)) = item.zip(entry)
                && let Some(lease) = self.goes_on(entry, span, (item, answer.reading)).await?
            {
                return Ok(lease);
            }
        }
        let started = self.inner().store.now();
        for _ in 0..TRIES {
            if let Some(lease) = self.comes_to(wish.clone(), id, span).await? {
                return Ok(lease);
            }
        }
        let waited = self.inner().store.now().since(started);
        Err(holder::not_granted(self.name(), None, None, waited))
    }

    /// Takes the lease at once if it can be had, and waits for its turn otherwise, also if the try met what a wait puts up with. Each round but
    /// the last has found that the lease of this name was over before it could go on, or that the hold was lost before it became one.
    pub(super) async fn take_in_turn(
        &self,
        id: &str,
        span: Duration,
        wait: RecordWait,
    ) -> Result<Lease, Error> {
        let started = self.inner().store.now();
        let late = match wait {
            RecordWait::Timeout(span) => {
                Some(started + span + self.inner().store.config().request_timeout)
            }
            RecordWait::NoWait | RecordWait::Infinite => None,
        };
        loop {
            let refused = match self.by(VERB, late, self.take_at_once(id, span)).await {
                Err(refused) if may_wait(&refused) => refused,
                done => return done,
            };
            let Some(wait) = self.left_of(wait, started) else {
                return Err(refused);
            };
            let wish = self.wish(id, span, wait).await?;
            if let Some(lease) = self.comes_to(wish, id, span).await? {
                return Ok(lease);
            }
        }
    }

    /// What a call for the lease asks for. Where no clock could tell when the lease ends, nothing is taken.
    async fn wish(&self, id: &str, span: Duration, wait: RecordWait) -> Result<Wish, Error> {
        let past = self.know_the_past("acquire a lease").await?;
        let id = id.into();
        Ok(Wish {
            permits: self.permits,
            wait,
            lease: Some(LeaseTerm { id, span, past }),
        })
    }

    /// The lease that the call comes to. `None` if it was over before the call could have it.
    async fn comes_to(&self, wish: Wish, id: &str, span: Duration) -> Result<Option<Lease>, Error> {
        match Box::pin(self.lock.comes_to(wish)).await? {
            Turn::Leased(item, nonce, reading) => {
                let Some(entry) = item.holders().find(|it| it.nonce == nonce) else {
                    return Ok(None);
                };
                self.goes_on(entry, span, (&item, reading)).await
            }
            Turn::Held(guard) => match guard.into_lease(id, span).await {
                Err(Error::Lost { .. }) => Ok(None),
                done => done.map(Some),
            },
        }
    }

    /// What is left of a wait that began at `started`. `None` if nothing is.
    fn left_of(&self, wait: RecordWait, started: Moment) -> Option<RecordWait> {
        match wait {
            RecordWait::NoWait => None,
            RecordWait::Timeout(span) => {
                let left = (started + span).since(self.inner().store.now());
                (!left.is_zero()).then_some(RecordWait::Timeout(left))
            }
            RecordWait::Infinite => Some(wait),
        }
    }

    /// Returns the lease that this item shows. If it has expired, and no other caller has taken its permits, it begins again. So it does if
    /// DynamoDB may delete its item too soon.
    async fn goes_on(
        &self,
        entry: &Entry,
        span: Duration,
        (item, reading): (&LockItem, Reading),
    ) -> Result<Option<Lease>, Error> {
        let Some((at, entry)) = item.hold_of(entry.nonce, entry.ticket) else {
            return Ok(None);
        };
        let lease = Lease::of(self.name(), entry);
        if let Some(lease) = lease.filter(|_| self.inner().store.is_kept(item.expires_at))
            && self.lasts(entry).await
        {
            return Ok(Some(lease));
        }
        match self.prolong((at, entry.clone()), span, reading).await {
            // Another caller has taken the permits, or the item is deleted.
            Err(Error::Lost { .. }) => Ok(None),
            done => done.map(Some),
        }
    }

    /// Whether the time of a lease has not ended.
    async fn lasts(&self, entry: &Entry) -> bool {
        match handle::ends(entry) {
            Some(end) => self.is_before(end).await,
            None => false,
        }
    }
}

/// Whether a call that waits goes on after this error of its first try: the place in the queue puts up with the same.
fn may_wait(refused: &Error) -> bool {
    match refused {
        Error::NotGranted { .. } | Error::Unavailable { .. } => true,
        Error::Refused { source, .. } => denies(source),
        _ => false,
    }
}
