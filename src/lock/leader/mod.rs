//! Leadership for as long as a lock is held: a candidate stands in the queue, leads, loses the lock or resigns, and stands again.

mod backoff;

use std::fmt;
use std::future::{Future, pending};
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};

use crate::agent::Stand;
use crate::lock::fair_lock::FairLock;
use crate::lock::guard::LockGuard;
use crate::lock::run::while_held;
use crate::runtime::clock::Clock;
use crate::runtime::watched::Watched;
use crate::vocabulary::error::{Error, LockLost, LossReason};
use crate::vocabulary::state::Outage;
use crate::vocabulary::wait::RecordWait;
use fairlock_protocol::outage::OutageKind;
use fairlock_protocol::ticket::Ticket;

use backoff::Rests;

/// The first and the longest pause after DynamoDB did not answer. Jitter makes each up to twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(15);

/// A candidate that leads whenever it holds the lock, until it is stopped or its work is done.
///
/// At most one candidate of a lock considers itself the leader, as at most one caller considers itself the exclusive holder. Each
/// term has a ticket, greater than that of every term before. It is the fencing token of that term. The loss of the lock does not
/// stop work that does not await, as [`FairLock::run`] says.
///
/// # Examples
///
/// ```
/// # async fn publish(_: fairlock::Ticket) {}
/// # async fn shutdown_asked() {}
/// # async fn serve(locks: fairlock::LockClient) -> Result<(), fairlock::Error> {
/// use std::time::Duration;
///
/// let candidate = locks.fair_lock("feed/leader")?.candidate().until(shutdown_asked());
/// let stopped = candidate.lead::<()>(async |guard| {
///     loop {
///         publish(guard.ticket()).await; // the loss of the lock drops the work here
///         tokio::time::sleep(Duration::from_secs(10)).await;
///     }
/// });
/// stopped.await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a candidate does not stand until it is told to lead"]
pub struct Candidate {
    campaign: Campaign,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// What all terms of a candidate have in common.
struct Campaign {
    lock: FairLock,
    observer: Option<LeadershipObserver>,
    resigns_in_danger: bool,
}

type LeadershipObserver = Box<dyn Fn(&LeadershipEvent) + Send + Sync>;

/// An event of a candidate, as its observer sees it.
///
/// # Examples
///
/// ```
/// use fairlock::LeadershipEvent;
///
/// fn is_leading(news: &LeadershipEvent) -> bool {
///     matches!(news, LeadershipEvent::Began { .. })
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum LeadershipEvent {
    /// The candidate leads from now on.
    Began {
        /// The fencing token of this term.
        ticket: Ticket,
    },
    /// The candidate no longer leads: the work returned or was told to stop, and the lock was given back.
    Ended {
        /// The fencing token of the term that ended.
        ticket: Ticket,
        /// How the release went, as [`LockGuard::release`] says.
        released: Result<(), Error>,
    },
    /// The candidate no longer leads: the lock was lost, and the work was dropped.
    Lost {
        /// The fencing token of the term that ended.
        ticket: Ticket,
        /// Why the lock was lost.
        reason: LossReason,
    },
    /// The candidate leads no more, because its hold is [in danger](Candidate::resigns_in_danger). The work was dropped. `Ended` follows
    /// when the release has an answer, or the lease is over.
    InDanger {
        /// The fencing token of the term.
        ticket: Ticket,
    },
    /// DynamoDB does not answer or serve the candidate while it waits to lead, or does so for another reason than before. The candidate
    /// keeps its place in the queue, if it has one, and goes on trying.
    OutageBegan {
        /// When the outage began, and why.
        outage: Outage,
    },
    /// DynamoDB answers again.
    OutageEnded,
    /// The queue is as long as [`max_waiters`](crate::FairLock::max_waiters) allows. The candidate stands again after a pause.
    Unavailable {
        /// What went wrong.
        error: Error,
        /// How long the candidate waits before it tries again.
        pause: Duration,
    },
}

/// How a term ended.
enum Term<T> {
    Stopped,
    InDanger,
    Done(ControlFlow<T>),
    Lost(LockLost),
}

impl FairLock {
    /// Returns a candidate that leads whenever it holds this lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn stand(lock: &fairlock::FairLock) {
    /// let candidate = lock.candidate().observed(|news| eprintln!("{news:?}"));
    /// # drop(candidate);
    /// # }
    /// ```
    pub fn candidate(&self) -> Candidate {
        let campaign = Campaign {
            // A term that has ended may still be giving the lock back.
            lock: self.with_self_wait(),
            observer: None,
            resigns_in_danger: false,
        };
        Candidate {
            campaign,
            stop: Box::pin(pending()),
        }
    }
}

impl Candidate {
    /// Sets a future that stops the candidate when it resolves, whether the candidate leads or waits. [`lead`](Self::lead) then
    /// returns `None`. Of several such calls the last counts.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn stand(lock: fairlock::FairLock, mut asked: tokio::sync::oneshot::Receiver<()>) {
    /// let candidate = lock.candidate().until(async move {
    ///     let _ = asked.await;
    /// });
    /// # drop(candidate);
    /// # }
    /// ```
    pub fn until(mut self, stop: impl Future<Output = ()> + Send + 'static) -> Self {
        self.stop = Box::pin(stop);
        self
    }

    /// Sets an observer of the candidate's events. The lock's own [observer](FairLock::observed) learns how far the candidate has
    /// come in the queue.
    ///
    /// The observer runs where [`lead`](Self::lead) is polled, so it must be quick and never block. If it panics, `lead` panics.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn stand(lock: &fairlock::FairLock) {
    /// use fairlock::LeadershipEvent;
    ///
    /// let candidate = lock.candidate().observed(|news| match news {
    ///     LeadershipEvent::Began { ticket } => println!("leads under token {ticket}"),
    ///     LeadershipEvent::Lost { reason, .. } => println!("leads no more: {reason}"),
    ///     _ => {}
    /// });
    /// # drop(candidate);
    /// # }
    /// ```
    pub fn observed(mut self, observer: impl Fn(&LeadershipEvent) + Send + Sync + 'static) -> Self {
        self.campaign.observer = Some(Box::new(observer));
        self
    }

    /// Ends a term as soon as its hold is in danger, and not only when the lock is lost. A hold is in danger when renewals fail and two
    /// thirds of its lease are over, as [`LockGuard::in_danger`] says. The work is dropped then, with a third of the lease to spare.
    ///
    /// For work that must have ended when another candidate leads, and that takes a while to end. The lock is given back as soon as DynamoDB
    /// answers, and the candidate stands again. Without this, a hold that is renewed after a danger goes on.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn stand(lock: &fairlock::FairLock) {
    /// let candidate = lock.candidate().resigns_in_danger();
    /// # drop(candidate);
    /// # }
    /// ```
    pub fn resigns_in_danger(mut self) -> Self {
        self.campaign.resigns_in_danger = true;
        self
    }

    /// Waits for the candidate's turn, runs `work` for as long as the lock is held, and starts over.
    ///
    /// A term ends when its work returns. Upon [`ControlFlow::Break`], `lead` returns the value. Upon [`ControlFlow::Continue`],
    /// the candidate gives the lock back and stands at the end of the queue, so that other candidates lead if there are any.
    ///
    /// So work resigns by returning, for example when [asked to give way](LockGuard::asked_to_yield).
    ///
    /// A term also ends when the lock is lost, and when the candidate is [stopped](Self::until). The work is then dropped where it awaits,
    /// and before the lock is given back. A term whose lock was lost before its work returned is lost, whatever the work returned, and the
    /// candidate stands again.
    ///
    /// While DynamoDB does not answer, the candidate keeps its place in the queue and goes on trying. When the queue is
    /// [too long for it](FairLock::max_waiters), the candidate pauses for one to two seconds, and then for twice as long each
    /// time, up to 30 s.
    ///
    /// After a term shorter than 100 ms, the candidate pauses for 10 to 20 ms before it stands again. Each further short term
    /// doubles the pause, up to two seconds, until a term lasts longer. So work that returns at once does not spend the table's
    /// capacity on terms. Work that has many small jobs does several of them in a term.
    ///
    /// In a spawned task, the work must own what it uses, as `async move` closures do.
    ///
    /// Returns `None` if the candidate was stopped. The lock is released then, and a place in the queue is given up in the
    /// background. If a release fails, the candidate logs it and tells the observer: the next leader then waits for the lease to
    /// end.
    ///
    /// # Fairness
    ///
    /// As [`FairLock::acquire`]: candidates lead in the order in which they came.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, and then gives up the lock, or the place in the queue, in the background. A panic of
    /// the work does the same, and reaches the caller.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`], [`Error::InvalidItem`], [`Error::Invalid`] and [`Error::ShutDown`], for what another try
    /// would not mend.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn next_job(_: fairlock::Ticket) -> Option<u32> { None }
    /// # async fn work_off(lock: fairlock::FairLock) -> Result<(), fairlock::Error> {
    /// use std::ops::ControlFlow;
    ///
    /// // Does one job a term, and ends when there is none.
    /// let candidate = lock.candidate();
    /// let ended = candidate.lead(async |guard| match next_job(guard.ticket()).await {
    ///     Some(_) => ControlFlow::Continue(()),
    ///     None => ControlFlow::Break("all done"),
    /// });
    /// assert_eq!(ended.await?, Some("all done"));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lead<T>(
        self,
        mut work: impl AsyncFnMut(&LockGuard) -> ControlFlow<T>,
    ) -> Result<Option<T>, Error> {
        let Candidate { campaign, mut stop } = self;
        let mut rests = campaign.rests();
        // Ends when the candidate is stopped, by the work, or by an error.
        loop {
            let guard = tokio::select! {
                biased;
                () = &mut stop => return Ok(None),
                guard = campaign.stand() => guard?,
            };
            let began = campaign.clock().now();
            match campaign.term(guard, &mut stop, &mut work).await {
                Term::Done(ControlFlow::Break(value)) => return Ok(Some(value)),
                Term::Stopped => return Ok(None),
                Term::Done(ControlFlow::Continue(())) | Term::InDanger | Term::Lost(_) => {}
            }
            let rest = rests.after(campaign.clock().now().since(began));
            tokio::select! {
                biased;
                () = &mut stop => return Ok(None),
                () = campaign.clock().sleep(rest) => {}
            }
        }
    }
}

impl Campaign {
    fn clock(&self) -> &Clock {
        &self.lock.inner.store.config().clock
    }

    fn rests(&self) -> Rests {
        Rests::new(self.lock.inner.store.config().random_source.clone())
    }

    /// Waits for the lock once, and reports outages meanwhile.
    async fn stand_once(&self) -> Result<LockGuard, Error> {
        let outages = Arc::new(Watched::new(None));
        let noted = Arc::clone(&outages);
        let lock = self.lock.also_observed(move |waiting| {
            noted.change(|outage| {
                let was = kind(outage);
                outage.clone_from(&waiting.outage);
                kind(outage) != was
            });
        });
        let mut acquiring = pin!(lock.acquire(RecordWait::Infinite));
        let mut told = None;
        // Ends with the acquisition.
        loop {
            let outage = tokio::select! {
                biased;
                ended = &mut acquiring => {
                    if told.is_some() && ended.is_ok() {
                        self.tell(&LeadershipEvent::OutageEnded);
                    }
                    return ended;
                }
                outage = outages.wait_for(|outage| (kind(outage) != told).then(|| outage.clone())) => outage,
            };
            told = kind(&outage);
            self.tell(&outage.map_or(LeadershipEvent::OutageEnded, |outage| {
                LeadershipEvent::OutageBegan { outage }
            }));
        }
    }

    /// Waits for the lock, also while DynamoDB does not answer or the queue is full. Returns with the lock, or with an error for
    /// good.
    async fn stand(&self) -> Result<LockGuard, Error> {
        let config = self.lock.inner.store.config();
        let mut pauses = ExponentialBuilder::new()
            .with_min_delay(FIRST_PAUSE)
            .with_max_delay(MAX_PAUSE)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(config.random_source.seed())
            .build();
        loop {
            let error = match self.stand_once().await {
                // The lock was given back, because this candidate was not polled in time. Each such round took a grant.
                Err(Error::NotGranted { .. }) => continue,
                Err(error @ (Error::Unavailable { .. } | Error::QueueFull { .. })) => error,
                granted_or_refused => return granted_or_refused,
            };
            let pause = pauses.next().unwrap_or(MAX_PAUSE);
            tracing::warn!(lock = %self.lock.name, %error, ?pause, "cannot stand for leader: tries again");
            self.tell(&LeadershipEvent::Unavailable { error, pause });
            config.clock.sleep(pause).await;
        }
    }

    /// Leads until the term ends, and gives the lock back.
    async fn term<T>(
        &self,
        guard: LockGuard,
        stop: &mut (impl Future<Output = ()> + Unpin),
        work: &mut impl AsyncFnMut(&LockGuard) -> ControlFlow<T>,
    ) -> Term<T> {
        let ticket = guard.ticket();
        tracing::info!(lock = guard.name(), %ticket, "leads");
        self.tell(&LeadershipEvent::Began { ticket });
        let term = tokio::select! {
            biased;
            () = stop => Term::Stopped,
            () = danger(&guard), if self.resigns_in_danger => Term::InDanger,
            done = while_held(&guard, work(&guard)) => done.map_or_else(Term::Lost, Term::Done),
        };
        // A candidate whose runtime stood still may see both at one time.
        let term = match (&term, guard.loss()) {
            (Term::InDanger, Some(lost)) => Term::Lost(lost),
            _ => term,
        };
        if matches!(term, Term::InDanger) {
            tracing::warn!(lock = guard.name(), %ticket, "leads no more: its hold is in danger");
            self.tell(&LeadershipEvent::InDanger { ticket });
        }
        if let Term::Lost(LockLost { reason, .. }) = &term {
            tracing::info!(lock = guard.name(), %ticket, %reason, "leads no more");
            let reason = reason.clone();
            self.tell(&LeadershipEvent::Lost { ticket, reason });
        } else {
            self.step_down(guard).await;
        }
        term
    }

    async fn step_down(&self, guard: LockGuard) {
        let (lock, ticket) = (guard.name().to_owned(), guard.ticket());
        let released = guard.release().await;
        match &released {
            Ok(()) => tracing::info!(lock, %ticket, "leads no more"),
            Err(error) => {
                tracing::warn!(lock, %ticket, %error, "leads no more, and could not release")
            }
        }
        self.tell(&LeadershipEvent::Ended { ticket, released });
    }

    fn tell(&self, news: &LeadershipEvent) {
        if let Some(observer) = &self.observer {
            observer(news);
        }
    }
}

fn kind(outage: &Option<Outage>) -> Option<OutageKind> {
    outage.as_ref().map(|outage| outage.kind)
}

/// Waits until a hold is in danger. Does not end if the hold ends before.
async fn danger(guard: &LockGuard) {
    if !matches!(
        guard.watch().news(false).await,
        Stand::Offered | Stand::Held
    ) {
        pending::<()>().await;
    }
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate")
            .field("lock", &self.campaign.lock.name())
            .finish_non_exhaustive()
    }
}
