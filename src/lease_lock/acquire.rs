//! How a lease is taken: at once, or in turn.

use std::sync::Arc;
use std::time::Duration;

use super::{Lease, LeaseLock, TRIES, handle, lease_of};
use crate::attempt::Attempt;
use crate::client_state::SoughtLease;
use crate::counter::{Asked, Counter, EnterTerms};
use crate::error::Error;
use crate::holder;
use crate::reclaim::Reclaim;
use crate::store::denies;
use crate::wait::RecordWait;
use fairlock_protocol::doorway::{Seen, Sight};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{At, LockItem};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::place::{Act, Claim, Found, Place};
use fairlock_protocol::stamps::Reading;
use fairlock_protocol::ticket::Ticket;

/// The hold of the lease's own name, and whether its item stays for long enough.
type Own = ((At, Entry), bool);

impl LeaseLock {
    pub(super) async fn take_at_once(&self, id: &str, span: Duration) -> Result<Lease, Error> {
        match self.is_exclusive() {
            true => self.in_time("acquire", self.take_alone(id, span)).await,
            false => self.take_beside(id, span).await,
        }
    }

    /// Takes the lease at once if it can be had, and waits for its turn otherwise, also if the try met what a wait puts up with. Each round but
    /// the last has found that another process was granted a lease under this name, or that the hold was lost before it became one.
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
            let refused = match self.by("acquire", late, self.take_at_once(id, span)).await {
                Err(refused) if may_wait(&refused) => refused,
                done => return done,
            };
            let Some(wait) = self.left_of(wait, started) else {
                return Err(refused);
            };
            let sought = Arc::new(SoughtLease::new(id, self.permits));
            let turn = self.lock.seeking(&sought);
            let guard = tokio::select! {
                biased;
                granted = turn.acquire_permits(self.permits, wait) => granted?,
                () = sought.found() => continue,
            };
            match guard.into_lease(id, span).await {
                Err(Error::Lost { .. }) => {}
                done => return done,
            }
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

    /// Takes a lease beside others, if that is possible now: permits by the request of any caller, which then become the lease.
    async fn take_beside(&self, id: &str, span: Duration) -> Result<Lease, Error> {
        let goes_on = async {
            // Before anything is taken: where no clock could tell when the lease ends, nothing is.
            self.know_the_past("acquire a lease").await?;
            self.goes_on(id, span).await
        };
        if let Some(lease) = self.in_time("acquire", goes_on).await? {
            return Ok(lease);
        }
        let guard = self
            .lock
            .acquire_permits(self.permits, RecordWait::NoWait)
            .await?;
        guard.into_lease(id, span).await
    }

    /// Returns the lease under this name if it holds the lock now. If it has expired, and no other caller has taken its permits, it begins
    /// again.
    async fn goes_on(&self, id: &str, span: Duration) -> Result<Option<Lease>, Error> {
        let answer = self.read().await?;
        let Some(item) = answer.value else {
            return Ok(None);
        };
        let hold =
            lease_of(&item, id, self.permits).and_then(|it| item.hold_of(it.nonce, it.ticket));
        let Some((at, entry)) = hold else {
            return Ok(None);
        };
        let lease = Lease::of(self.name(), entry);
        if let Some(lease) = lease.filter(|_| self.inner().store.is_kept(item.expires_at))
            && self.lasts(entry).await
        {
            return Ok(Some(lease));
        }
        match self
            .prolong((at, entry.clone()), span, answer.reading)
            .await
        {
            Ok(lease) => Ok(Some(lease)),
            // Another caller has taken the permits, or the item is deleted.
            Err(Error::Lost { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes the lock if the lease would hold it alone: by the request that enters, which names the lease already.
    async fn take_alone(&self, id: &str, span: Duration) -> Result<Lease, Error> {
        let started = self.inner().store.now();
        self.know_the_past("acquire a lease").await?;
        let mut seen = None;
        for _ in 0..TRIES {
            let (own, reading);
            (own, seen, reading) = Box::pin(self.inner().for_caller(self.enter(id, span))).await?;
            let Some((hold, is_kept)) = own else { break };
            let lease = Lease::of(self.name(), &hold.1).filter(|_| is_kept);
            match lease {
                Some(lease) if self.lasts(&hold.1).await => return Ok(lease),
                // A lease of this name that has expired and that no other caller has taken, or one whose item DynamoDB may delete
                // too soon.
                _ => match self.prolong(hold, span, reading).await {
                    // Another caller has taken the lock, or the item is deleted: no caller was told of this lease.
                    Err(Error::Lost { .. }) => {}
                    done => return done,
                },
            }
        }
        let waited = self.inner().store.now().since(started);
        Err(holder::not_granted(
            self.name(),
            seen.as_ref(),
            None,
            waited,
        ))
    }

    /// Returns the entry that holds the lock under this name, and whether its item stays for long enough. Returns the item too,
    /// which is in the way if there is no such entry.
    ///
    /// An attempt that was refused may still get the lock, by a request that is under way. The lease is then found by its name.
    /// The client does not give it up when it sees it: this process or another may have asked again under that name, and been
    /// told that it holds the lease.
    async fn enter(
        &self,
        id: &str,
        lease: Duration,
    ) -> Result<(Option<Own>, Option<LockItem>, Reading), Failure> {
        let policy = self.inner().policy_of_few(self.inner().closed.clone());
        let counter = Counter {
            requests: &self.inner().requests,
            name: self.name(),
            policy: &policy,
        };
        let permits = self.name().permits().unwrap_or_default();
        // No task renews a place in the queue here, so the claim is for a free lock only.
        let wish = EnterTerms {
            most: Ticket::new(u64::MAX),
            waits: false,
            stays_until: None,
        };
        let mut place = Place::new(Claim {
            waits: false,
            shares: false,
            max_tries: TRIES,
        });
        let (mut act, mut seen) = (place.sets_out(Seen::Unknown), None);
        let mut reading = Reading::UNTOLD;
        loop {
            let attempt = self.attempt(permits, id, lease);
            let asked = match (act, seen) {
                (Act::Enter, _) => counter.enter(&attempt, wish).await?,
                (Act::EnterOver, Some(item)) => counter.enter_over(&attempt, &item).await?,
                (Act::Clear, Some(item)) => {
                    let seen_then = (item, reading);
                    let mut way =
                        Reclaim::of(counter.requests, self.name(), &policy, permits, seen_then);
                    act = way.run(&mut place, |_, item| self.sight(item)).await?;
                    (seen, reading) = (Some(Arc::unwrap_or_clone(way.snapshot.item)), way.reading);
                    continue;
                }
                (_, seen) => return Ok((self.own(id, seen.as_ref()), seen, reading)),
            };
            let found;
            (found, seen, reading) = shown(asked, &attempt);
            let sight = seen.as_ref().map_or(Seen::Nobody, |item| self.sight(item));
            act = place.asked(found, sight);
        }
    }

    fn sight(&self, item: &LockItem) -> Seen {
        let permits = self.name().permits().unwrap_or_default();
        Seen::Item(Sight::of(
            item,
            permits,
            self.inner().store.config().filled_slots,
        ))
    }

    /// Returns the entry that holds the lock under this name, and whether its item stays for long enough.
    fn own(&self, id: &str, seen: Option<&LockItem>) -> Option<Own> {
        let item = seen?;
        let holder = item.holder()?;
        let own = lease_of(item, id, self.permits).filter(|own| own.nonce == holder.nonce)?;
        let is_kept = self.inner().store.is_kept(item.expires_at);
        Some(((At::Slot(0), own.clone()), is_kept))
    }

    /// Whether the time of a lease has not ended.
    async fn lasts(&self, entry: &Entry) -> bool {
        match handle::ends(entry) {
            Some(end) => self.is_before(end).await,
            None => false,
        }
    }

    fn attempt(&self, permits: u64, id: &str, lease: Duration) -> Attempt {
        let attempt = self.inner().attempt(1, permits);
        let attempt = attempt.described(self.lock.said());
        attempt.lasting(id.to_owned(), lease)
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

/// Where an answer shows an attempt's place, and the item that it shows.
fn shown(asked: Asked, attempt: &Attempt) -> (Found, Option<LockItem>, Reading) {
    match asked {
        Asked::Taken(taken) => {
            let (item, reading) = (taken.answer.value, taken.answer.reading);
            let found = item.position_of_place(attempt.nonce, taken.ticket).into();
            (found, Some(item), reading)
        }
        Asked::InTheWay(item, reading) => (Found::Nowhere, item, reading),
    }
}
