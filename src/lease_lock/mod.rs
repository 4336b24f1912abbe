//! A lock that is held for a time by a name, across processes: nothing runs in the background.

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
use fairlock_protocol::item::Held;
use fairlock_protocol::item::{At, Footing, LockItem};
use fairlock_protocol::place::{Act, Claim, Found, Place};
use fairlock_protocol::ticket::Ticket;

pub use handle::Lease;
use handle::check_id;

/// DynamoDB's dates have whole seconds.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(24 * 3600);
/// Reads for the time, where answers tell it and do not agree.
const MAX_READS: usize = 4 * READS;
const DISCORD: &str = "no two of its answers agree in their `Date`, and leases end by it";
/// Tries to enter: each failed because somebody was in the way who is gone now.
const TRIES: u8 = 6;

/// A lock that is held by a name of the caller's own for a time that it says, across processes: for Lambdas and jobs that end
/// before their work does. Nothing runs in the background, and nothing is released when a handle is dropped.
///
/// It is the same lock as the [fair lock](crate::LockClient::fair_lock) of its name: whoever waits in its queue waits for the
/// lease to be released or to end, and this never goes before those who wait. Only a lease that is over and that nobody
/// has taken yet begins again for its own name.
///
/// **A lease is over by DynamoDB's own clock.** Others take the lock when the time is over, and by the allowance of the common
/// clock and its grain later at the latest (12 s by default), those who wait in the queue too. Who has it counts with
/// [`Lease::expires_at`], which is early by as much as hosts' clocks may run apart and by the grain of that clock (2 % of the time
/// that was asked for), and fences what must not be written late with the [`ticket`](Lease::ticket).
///
/// A call returns within five request time-outs; with [`Error::Unavailable`] where its requests together took longer, and then what
/// is under way may be applied all the same.
///
/// Nobody is left to undo what a request does that the network held up. A request that took the lock may come a second time after
/// the release. A request of a call that failed, or was told [`Error::NotGranted`], may come after that call. Then the lock is
/// taken for that time, unless the lease is [found](Self::find) under its name and released. This client does not give it up by
/// itself, for another process may have asked under the same name and been told that it has the lease. So take no longer times
/// than the work needs, and extend.
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
/// let handle = lease.to_string(); // to be kept, in a message or a workflow's state
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

    /// The same lock, whose leases [say this of themselves](crate::FairLock::attributes) as long as they last.
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

    /// Takes the lock if it can be had now, under this name and for so long, from one second to a day, and to half of
    /// the [idle retention](crate::LockClientBuilder::idle_retention). One request if it is free; two
    /// more where no two answers told this client the time within the last 25 s, and up to sixteen each time that answers disagree.
    ///
    /// The same name again is recognised: whoever has the lock under it gets the lease as it stands, not a longer one; one that
    /// is over, and that nobody has taken, begins again.
    /// So a name is for one piece of work, and a retried step may ask again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the lock was taken: ask again with the same name, or leave it to the lease.
    ///
    /// # Errors
    ///
    /// [`Error::NotGranted`] if somebody else has it, or waits for it. [`Error::Refused`] where answers have no `Date`, as those of
    /// DynamoDB Local: by whose clock the lease ends nobody could tell. [`Error::Unavailable`] also where no two of sixteen answers tell
    /// the same time: then it may have the lock for as long, and the same name finds it again. [`Error::Invalid`] for a name that is empty or longer than
    /// 256 bytes, or a time out of its range. Else as [`FairLock::acquire`](crate::FairLock::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn step(lock: fairlock::LeaseLock) -> Result<(), fairlock::Error> {
    /// match lock.acquire("transaction-1234", std::time::Duration::from_secs(60)).await {
    ///     Ok(lease) => println!("until {:?}", lease.expires_at()),
    ///     Err(fairlock::Error::NotGranted { .. }) => {} // another is at it
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
            (own, seen) = Box::pin(self.inner.told(self.enter(&id, span))).await?;
            let Some((entry, is_kept)) = own else { break };
            let lease = Lease::of(&self.name, &entry).filter(|_| is_kept);
            match lease {
                Some(lease) if self.is_before(lease.expires).await => return Ok(lease),
                // One of this name that was over, and that nobody has taken; or DynamoDB may delete the item too soon.
                _ => match self.prolong(entry, span).await {
                    // Somebody has taken it, or the item is deleted: nobody was told of this lease.
                    Err(Error::Lost { .. }) => {}
                    done => return done,
                },
            }
        }
        let waited = self.inner.store.now().since(started);
        Err(hold::not_granted(&self.name, seen.as_ref(), None, waited))
    }

    /// The lease under this name, if it has the lock now: also one that is over, as long as nobody has taken the lock. One read.
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

    /// Has the lease last for so long from now on, or for as long as it does, if that is longer: whoever has it in another
    /// process may believe in what it was told there. Two requests, and one more where no two answers
    /// told this client the time within the last 25 s; where answers disagree, up to sixteen more.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether it lasts longer.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if it does not have the lock any more, which is as it was then. [`Error::Invalid`] if the time is out of
    /// its range, or the lease is of another lock. Else as [`acquire`](Self::acquire).
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

    /// Hands the lock over. One request; where that had no answer, or finds that the lease does not have the lock any more, as many more
    /// as it takes to know the time.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether it is released.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if it does not have the lock any more, which is as it was then: with
    /// [`LossReason::Released`](crate::LossReason::Released) if it was released before and its time is not over. Also if its time is
    /// over and a request that had no answer may have released it. [`Error::Invalid`] if the lease is of another lock. Else as
    /// [`acquire`](Self::acquire).
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
        let held = Held {
            footing: Footing {
                at: At::Slot(0),
                ticket: lease.ticket,
                expires_at: 0,
            },
            permits,
        };
        let policy = self.inner.policy_of_few(self.inner.closed.clone());
        let slots = self.inner.slots(&self.name, &policy);
        let ended = Box::pin(self.inner.told(slots.release(&attempt, held))).await?;
        match ended {
            Ended::HandedOver(item) => {
                self.inner.saw(&self.name, &item);
                self.inner.admit(&self.name, &item);
                Ok(())
            }
            Ended::PassedOn => Ok(()),
            // Released by the request that had no answer, unless the lease was over, and others could end it.
            Ended::Before(_) if self.is_before(lease.expires).await => Ok(()),
            Ended::Before(item) | Ended::NotOurs(item) => {
                Err(self.lost(lease.ticket, Some(lease.expires), item).await)
            }
        }
    }

    /// However its requests fare, a call returns in the time that one has which does not wait. What is under way then may be
    /// applied all the same.
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

    /// The entry that has the lock under this name, and whether its item stays for long enough; and the item, which is in the way
    /// if there is no such entry.
    ///
    /// An attempt that was not given the lock may get it yet, by a request that is still under way. It is found again by its
    /// name, and is not given up when it is seen: this process or another may have asked again under that name, and been
    /// told that it has the lease.
    async fn enter(
        &self,
        id: &str,
        lease: Duration,
    ) -> Result<(Option<(Entry, bool)>, Option<LockItem>), Failure> {
        let policy = self.inner.policy_of_few(self.inner.closed.clone());
        let slots = self.inner.slots(&self.name, &policy);
        let permits = self.name.permits().unwrap_or_default();
        // Nobody renews what waits: it asks for a free lock.
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

    /// Whoever has the lock under this name, and whether its item stays for long enough.
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

    /// Each turn of the loop, another has extended the lease meanwhile.
    async fn prolong(&self, mut seen: Entry, by: Duration) -> Result<Lease, Error> {
        let policy = self.inner.policy_of_few(CancellationToken::new());
        loop {
            let past = self.know_the_past("extend a lease").await?;
            let extend = || self.inner.store.extend(&self.name, &seen, by, past);
            let extended = self.inner.store.retry(&policy, extend);
            let answer = Box::pin(self.inner.told(extended)).await?.value;
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

    /// By answers, if none have told it lately: a time by which a lease may begin.
    async fn know_the_past(&self, verb: &'static str) -> Result<ServerTime, Error> {
        let (store, started) = (&self.inner.store, self.inner.store.now());
        self.ask_for_the_time(|| store.past().is_some()).await?;
        let waited = store.now().since(started);
        store.past().ok_or_else(|| match store.is_told_no_time() {
            true => dateless(verb).into_error(&store.config().table, waited),
            false => self.inner.unavailable(verb, waited, DISCORD),
        })
    }

    /// Whether that is still to come. Where nothing tells, which costs its caller no more than an error that says less.
    async fn is_before(&self, then: ServerTime) -> bool {
        let store = &self.inner.store;
        let asked = self.ask_for_the_time(|| store.knows_the_date()).await;
        asked.is_ok() && store.is_before(then)
    }

    /// Front ends that are wrong, each by something else, are asked until two agree; where no answer tells any time, nobody asks on.
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
        Ok(Box::pin(self.inner.told(read)).await?.value)
    }

    /// Nothing renews the item's TTL, which is by the clock of a host, before the lease is over.
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

    /// Before its time is over nobody takes the lock from a lease: then it was released.
    async fn lost(
        &self,
        ticket: Ticket,
        expires: Option<ServerTime>,
        item: Option<LockItem>,
    ) -> Error {
        let reason = match (&item, expires) {
            (Some(_), Some(end)) if self.is_before(end).await => LossReason::Released,
            _ => hold::evicted(item),
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

/// Where an answer shows an attempt, and what it shows.
fn shown(asked: Asked, attempt: &Attempt) -> (Found, Option<LockItem>) {
    match asked {
        Asked::Taken(taken) => {
            let item = taken.answer.value;
            let found = item.standing(attempt.nonce, taken.ticket).into();
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
