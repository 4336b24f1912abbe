//! A lock that a name holds for a time, across processes: nothing runs in the background.

mod handle;

use std::fmt;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::client_inner::{ClientHandle, READS};
use crate::config::unusable;
use crate::error::{Error, Invalid, LossReason};
use crate::hold;
use crate::lock::check_attributes;
use crate::name::LockName;
use crate::reclaim::Reclaim;
use crate::slots::{Asked, Ended};
use crate::store::{Attempt, Failure, Wish, dateless};
use fairlock_protocol::doorway::{Seen, Sight};
use fairlock_protocol::entry::{Attributes, Entry, Nonce, ServerTime};
use fairlock_protocol::item::ItemHold;
use fairlock_protocol::item::{At, Footing, LockItem};
use fairlock_protocol::place::{Act, Claim, Found, Place};
use fairlock_protocol::ticket::Ticket;

pub use handle::Lease;
use handle::check_id;

/// DynamoDB's dates have whole seconds.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// The most reads that find out the time, where answers tell it and do not agree.
const MAX_READS: usize = 4 * READS;
const DISCORD: &str = "no two of its answers agree in their `Date`, and leases end by it";
/// The most tries to enter. A try is repeated if the participant that was in its way is gone by now.
const TRIES: u8 = 6;

/// A lock that a name of the caller's choice holds for a time of the caller's choice, across processes: for Lambdas and jobs that
/// end before their work does. Nothing runs in the background, and dropping a handle releases nothing.
///
/// It is the same lock as the [fair lock](crate::LockClient::fair_lock) of its name. Callers in its queue wait until the lease is
/// released or ends, and a lease never goes before callers that wait. Only a lease that has expired and that no other caller has
/// taken yet begins again for its own name.
///
/// **A lease expires by DynamoDB's own clock.** Other callers, those in the queue included, take the lock when the lease's time
/// has ended. They take it at the latest one allowance of the server clock and its grain later (12 s by default). The owner goes
/// by [`Lease::expires_at`]. That is early by as much as hosts' clocks may run apart and by the grain of that clock (2 % of the
/// time that was asked for). The owner fences with the [`ticket`](Lease::ticket) what must not be written late.
///
/// A call returns within five request time-outs. If its requests together take longer, it returns [`Error::Unavailable`], and
/// DynamoDB may still apply the request that is under way.
///
/// No task is left to undo what a delayed request does. A request that took the lock may arrive a second time after the release.
/// A request of a call that failed, or that returned [`Error::NotGranted`], may arrive after that call. The name then holds the
/// lock for the lease's time, unless a caller [finds](Self::find) the lease under its name and releases it. This client does not
/// give it up by itself, because another process may have asked under the same name and been told that it holds the lease. So
/// take leases no longer than the work needs, and extend them.
///
/// # Examples
///
/// ```
/// # async fn step(locks: fairlock::LockClient) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use fairlock::Lease;
///
/// let lock = locks.lease_lock("import/7")?;
/// let lease = lock.acquire("transaction-1234", Duration::from_secs(300)).await?;
/// let handle = lease.to_string(); // keep it in a message or a workflow's state
///
/// // another process, later
/// let lease: Lease = handle.parse()?;
/// let lease = lock.extend(&lease, Duration::from_secs(300)).await?;
/// lock.release(&lease).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "naming a lock does not acquire it"]
pub struct LeaseLock {
    inner: ClientHandle,
    name: LockName,
    attributes: Attributes,
}

impl LeaseLock {
    pub(crate) fn new(inner: ClientHandle, name: LockName) -> Self {
        LeaseLock {
            inner,
            name,
            attributes: Attributes::default(),
        }
    }

    /// Sets attributes that leases of the returned handle [publish about themselves](crate::FairLock::attributes) as long as they
    /// last.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn step(lock: fairlock::LeaseLock) -> Result<(), fairlock::Error> {
    /// let lock = lock.attributes([("workflow", "import")]);
    /// let lease = lock.acquire("transaction-1234", std::time::Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn attributes<N: Into<String>, V: Into<String>>(
        mut self,
        attributes: impl IntoIterator<Item = (N, V)>,
    ) -> LeaseLock {
        self.attributes = Attributes::said(attributes);
        self
    }

    /// Takes the lock if it is available now, under the name `id` and for `span`: from one second to a day, and at most half of
    /// the [idle retention](crate::LockClientBuilder::idle_retention). A single request if the lock is free. Two more where no
    /// two answers told this client the time within the last 25 s, and up to sixteen each time that answers disagree.
    ///
    /// A call under the same name again is recognised. If the name holds the lock, the call returns the lease as it stands, not a
    /// longer one. A lease that has expired, and that no other caller has taken, begins again. So a name is for one piece of
    /// work, and a retried step may ask again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the lock was taken: ask again with the same name, or let the lease expire.
    ///
    /// # Errors
    ///
    /// [`Error::NotGranted`] if another caller holds the lock, or waits for it. [`Error::Refused`] where answers have no `Date`,
    /// as those of DynamoDB Local: no clock could tell then when the lease ends. [`Error::Unavailable`] also where no two of
    /// sixteen answers tell the same time. The name may then hold the lock for the lease's time, and a call under the same name
    /// finds it again. [`Error::Invalid`] for a name that is empty or longer than 256 bytes, or a time out of its range. Else as
    /// [`FairLock::acquire`](crate::FairLock::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn step(lock: fairlock::LeaseLock) -> Result<(), fairlock::Error> {
    /// match lock.acquire("transaction-1234", std::time::Duration::from_secs(60)).await {
    ///     Ok(lease) => println!("until {:?}", lease.expires_at()),
    ///     Err(fairlock::Error::NotGranted { .. }) => {} // another caller holds the lock
    ///     Err(other) => return Err(other),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn acquire(&self, id: impl Into<String>, span: Duration) -> Result<Lease, Error> {
        let id = id.into();
        check_id(&id)?;
        self.check_span(span)?;
        check_attributes(&self.attributes)?;
        self.in_time("acquire", self.take(id, span)).await
    }

    async fn take(&self, id: String, span: Duration) -> Result<Lease, Error> {
        let started = self.inner.store.now();
        self.know_the_past("acquire a lease").await?;
        let mut seen = None;
        for _ in 0..TRIES {
            let own;
            (own, seen) = Box::pin(self.inner.for_caller(self.enter(&id, span))).await?;
            let Some((entry, is_kept)) = own else { break };
            let lease = Lease::of(&self.name, &entry).filter(|_| is_kept);
            match lease {
                Some(lease) if self.is_before(lease.expires).await => return Ok(lease),
                // A lease of this name that has expired and that no other caller has taken, or one whose item DynamoDB may delete
                // too soon.
                _ => match self.prolong(entry, span).await {
                    // Another caller has taken the lock, or the item is deleted: no caller was told of this lease.
                    Err(Error::Lost { .. }) => {}
                    done => return done,
                },
            }
        }
        let waited = self.inner.store.now().since(started);
        Err(hold::not_granted(&self.name, seen.as_ref(), None, waited))
    }

    /// Returns the lease under this name if it holds the lock now. That includes an expired lease, as long as no other caller has
    /// taken the lock. Costs a single read.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`FairLock::inspect`](crate::FairLock::inspect).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn undo(lock: fairlock::LeaseLock) -> Result<(), fairlock::Error> {
    /// if let Some(lease) = lock.find("transaction-1234").await? {
    ///     lock.release(&lease).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn find(&self, id: &str) -> Result<Option<Lease>, Error> {
        let item = self.in_time("find", self.read()).await?;
        let holder = item.and_then(|item| item.holder().cloned());
        Ok(holder.and_then(|holder| Lease::of(&self.name, &holder).filter(|it| it.id == id)))
    }

    /// Extends the lease to `by` from now. Never shortens it: another process may rely on the later expiry. Two requests, and one
    /// more where no two answers told this client the time within the last 25 s. Where answers disagree, up to sixteen more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the lease was extended.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease no longer holds the lock; the lock is then as it was. [`Error::Invalid`] if the time is out
    /// of its range, or the lease is of another lock. Else as [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn step(lock: fairlock::LeaseLock, lease: fairlock::Lease) -> Result<(), fairlock::Error> {
    /// let lease = lock.extend(&lease, std::time::Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn extend(&self, lease: &Lease, by: Duration) -> Result<Lease, Error> {
        self.check(lease)?;
        self.check_span(by)?;
        self.in_time("extend", self.go_on(lease, by)).await
    }

    async fn go_on(&self, lease: &Lease, by: Duration) -> Result<Lease, Error> {
        let (item, expires) = (self.read().await?, Some(lease.expires));
        let seen = self
            .holder_of(lease.nonce, lease.ticket, expires, item)
            .await?;
        self.prolong(seen, by).await
    }

    /// Releases the lease and hands the lock off. A single request. If that had no answer, or finds that the lease no longer
    /// holds the lock, as many more as it takes to know the time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the lease was released.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the lease no longer holds the lock; the lock is then as it was. The reason is
    /// [`LossReason::Released`](crate::LossReason::Released) if the lease was released before and its time has not ended. Also
    /// [`Error::Lost`] if its time has ended and a request that had no answer may have released it. [`Error::Invalid`] if the
    /// lease is of another lock. Else as [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn done(lock: fairlock::LeaseLock, lease: fairlock::Lease) -> Result<(), fairlock::Error> {
    /// lock.release(&lease).await
    /// # }
    /// ```
    pub async fn release(&self, lease: &Lease) -> Result<(), Error> {
        self.check(lease)?;
        self.in_time("release", self.give_back(lease)).await
    }

    async fn give_back(&self, lease: &Lease) -> Result<(), Error> {
        let permits = self.name.permits().unwrap_or_default();
        let attempt = Attempt::new(lease.nonce, 1, permits);
        let held = ItemHold {
            footing: Footing {
                at: At::Slot(0),
                ticket: lease.ticket,
                expires_at: 0,
            },
            permits,
        };
        let policy = self.inner.policy_of_few(self.inner.closed.clone());
        let slots = self.inner.slots(&self.name, &policy);
        let ended = Box::pin(self.inner.for_caller(slots.release(&attempt, held))).await?;
        match ended {
            Ended::HandedOff(item) => {
                self.inner.saw(&self.name, &item);
                self.inner.admit(&self.name, &item);
                Ok(())
            }
            Ended::PassedOn | Ended::KeptOn => Ok(()),
            // The request that had no answer released it, unless the lease had expired and others could end it.
            Ended::Before(_) if self.is_before(lease.expires).await => Ok(()),
            Ended::Before(item) | Ended::NotOurs(item) => {
                Err(self.lost(lease.ticket, Some(lease.expires), item).await)
            }
        }
    }

    /// Bounds a call by the time of one that does not wait, whatever becomes of its requests. DynamoDB may still apply the
    /// request that is under way then.
    async fn in_time<T>(
        &self,
        verb: &'static str,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let (inner, started) = (&self.inner, self.inner.store.now());
        tokio::select! {
            biased;
            done = Box::pin(work) => done,
            () = inner.store.config().clock.sleep(inner.no_wait_lasts()) => {
                let waited = inner.store.now().since(started);
                Err(inner.unavailable(verb, waited, "its requests together took too long"))
            }
        }
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
    ) -> Result<(Option<(Entry, bool)>, Option<LockItem>), Failure> {
        let policy = self.inner.policy_of_few(self.inner.closed.clone());
        let slots = self.inner.slots(&self.name, &policy);
        let permits = self.name.permits().unwrap_or_default();
        // No task renews a place in the queue here, so the claim is for a free lock only.
        let wish = Wish {
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
        loop {
            let attempt = self.attempt(permits, id, lease);
            let asked = match (act, seen) {
                (Act::Enter, _) => slots.enter(&attempt, wish).await?,
                (Act::EnterOver, Some(item)) => slots.enter_over(&attempt, &item).await?,
                (Act::Clear, Some(item)) => {
                    let mut way = Reclaim::of(slots.store, &self.name, &policy, permits, item);
                    act = way.run(&mut place, |_, item| self.sight(item)).await?;
                    seen = Some(way.snapshot.item);
                    continue;
                }
                (_, seen) => return Ok((self.own(id, seen.as_ref()), seen)),
            };
            let found;
            (found, seen) = shown(asked, &attempt);
            let sight = seen.as_ref().map_or(Seen::Nobody, |item| self.sight(item));
            act = place.asked(found, sight);
        }
    }

    fn sight(&self, item: &LockItem) -> Seen {
        let permits = self.name.permits().unwrap_or_default();
        Seen::Item(Sight::of(item, permits, self.inner.store.config().slots))
    }

    /// Returns the entry that holds the lock under this name, and whether its item stays for long enough.
    fn own(&self, id: &str, seen: Option<&LockItem>) -> Option<(Entry, bool)> {
        let item = seen?;
        let own = item.holder().filter(|holder| is_of(holder, id))?;
        Some((own.clone(), self.inner.store.is_kept(item.expires_at)))
    }

    fn attempt(&self, permits: u64, id: &str, lease: Duration) -> Attempt {
        let attempt = self.inner.attempt(1, permits);
        let attempt = attempt.described(&self.attributes);
        attempt.lasting(id.to_owned(), lease)
    }

    /// Each further round of the loop means that another caller has extended the lease meanwhile.
    async fn prolong(&self, mut seen: Entry, by: Duration) -> Result<Lease, Error> {
        let policy = self.inner.policy_of_few(CancellationToken::new());
        loop {
            let past = self.know_the_past("extend a lease").await?;
            let extend = || self.inner.store.extend(&self.name, &seen, by, past);
            let extended = self.inner.store.retry(&policy, extend);
            let answer = Box::pin(self.inner.for_caller(extended)).await?.value;
            let is_done = answer.is_applied();
            let expires = Lease::of(&self.name, &seen).map(|lease| lease.expires);
            let shown = answer.shown();
            seen = self
                .holder_of(seen.nonce, seen.ticket, expires, shown)
                .await?;
            if is_done {
                return match Lease::of(&self.name, &seen) {
                    Some(lease) => Ok(lease),
                    None => Err(self.lost(seen.ticket, None, None).await),
                };
            }
        }
    }

    async fn holder_of(
        &self,
        nonce: Nonce,
        ticket: Ticket,
        expires: Option<ServerTime>,
        item: Option<LockItem>,
    ) -> Result<Entry, Error> {
        let holder = item.as_ref().and_then(LockItem::holder);
        match holder.filter(|holder| holder.nonce == nonce && holder.ticket == ticket) {
            Some(holder) => Ok(holder.clone()),
            None => Err(self.lost(ticket, expires, item).await),
        }
    }

    /// Returns a time at which a lease may begin. Reads the lock to learn it, if no answers have told it lately.
    async fn know_the_past(&self, verb: &'static str) -> Result<ServerTime, Error> {
        let (store, started) = (&self.inner.store, self.inner.store.now());
        self.ask_for_the_time(|| store.past().is_some()).await?;
        let waited = store.now().since(started);
        store.past().ok_or_else(|| match store.is_told_no_time() {
            true => dateless(verb).into_error(&store.config().table, waited),
            false => self.inner.unavailable(verb, waited, DISCORD),
        })
    }

    /// Whether `then` is still to come. Returns `false` where nothing tells, which costs the caller no more than an error that
    /// says less.
    async fn is_before(&self, then: ServerTime) -> bool {
        let store = &self.inner.store;
        let asked = self.ask_for_the_time(|| store.knows_the_date()).await;
        asked.is_ok() && store.is_before(then)
    }

    /// Reads the lock until the time is known, because several front ends may be wrong, each by another amount. Stops early if no
    /// answer tells any time.
    async fn ask_for_the_time(&self, is_known: impl Fn() -> bool) -> Result<(), Error> {
        for read in 0..MAX_READS {
            if is_known() || read >= READS && self.inner.store.is_told_no_time() {
                break;
            }
            self.read().await?;
        }
        Ok(())
    }

    async fn read(&self) -> Result<Option<LockItem>, Error> {
        let policy = self.inner.policy_of_few(self.inner.closed.clone());
        let read = || self.inner.store.read_lock(&self.name);
        let read = self.inner.store.retry(&policy, read);
        Ok(Box::pin(self.inner.for_caller(read)).await?.value)
    }

    /// No task renews the item's TTL while the lease lasts, so the lease must end before DynamoDB may delete the item.
    fn check_span(&self, lease: Duration) -> Result<(), Invalid> {
        let setting = "the time of a lease";
        if lease < SHORTEST {
            return Err(Invalid::TooShort {
                setting,
                value: lease,
                bound: "the grain of DynamoDB's dates",
                bound_value: SHORTEST,
            });
        }
        let kept = self.inner.store.config().idle_retention / 2;
        let (bound, bound_value) = match kept < LONGEST {
            true => ("half of the idle retention", kept),
            false => ("the longest lease", LONGEST),
        };
        if lease > bound_value {
            return Err(Invalid::TooLong {
                setting,
                value: lease,
                bound,
                bound_value,
            });
        }
        Ok(())
    }

    /// Before a lease's time ends, no caller takes the lock from it. So a lease that is gone earlier was released.
    async fn lost(
        &self,
        ticket: Ticket,
        expires: Option<ServerTime>,
        item: Option<LockItem>,
    ) -> Error {
        let is_in = item.is_some();
        let reason = match (hold::evicted(item, ticket), expires) {
            (broken @ LossReason::Broken { .. }, _) => broken,
            (_, Some(end)) if is_in && self.is_before(end).await => LossReason::Released,
            (evicted, _) => evicted,
        };
        Error::Lost {
            lock: self.name.to_string(),
            ticket,
            reason,
        }
    }

    fn check(&self, lease: &Lease) -> Result<(), Invalid> {
        if lease.lock == self.name.lock() {
            Ok(())
        } else {
            Err(unusable(
                "a lease of lock",
                &lease.lock,
                "must be of this lock",
            ))
        }
    }
}

/// Where an answer shows an attempt's place, and the item that it shows.
fn shown(asked: Asked, attempt: &Attempt) -> (Found, Option<LockItem>) {
    match asked {
        Asked::Taken(taken) => {
            let item = taken.answer.value;
            let found = item.position_of_place(attempt.nonce, taken.ticket).into();
            (found, Some(item))
        }
        Asked::Busy(item) => (Found::Nowhere, item),
    }
}

fn is_of(entry: &Entry, id: &str) -> bool {
    entry.id.as_deref() == Some(id)
}

impl fmt::Debug for LeaseLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaseLock")
            .field("lock", &self.name.lock())
            .finish_non_exhaustive()
    }
}
