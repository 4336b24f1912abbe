//! One acquisition, from the doorway to the grant: whatever it puts into the table it also settles.

mod door;
mod grant;
mod outage;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use tokio::sync::oneshot::error::TryRecvError;

use crate::background::Task;
use crate::core::{Claim, Core, Holding, Left, Party, Prospect, Refused, Turnstile};
use crate::name::LockName;
use crate::offer::Granted;
use crate::seats::Seats;
use crate::store::{Limit, Patience, Refusals, Store};
use crate::waiter::{Turn, Waiter};
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::ticket::Sequence;

use door::Door;
use outage::Doublings;

/// A client that is told "too slow" again and again doubles its time-out up to this factor.
const MOST_TIME: u32 = 8;

/// Goes for a lock, in the background.
pub(crate) fn go(
    core: &Arc<Core>,
    name: &LockName,
    party: Arc<Party>,
    claim: Claim,
    turnstile: Option<Turnstile>,
) {
    let acquisition = Acquisition::new(core, name, party, claim);
    core.spawn_then(name, None, Task::Acquire, acquisition.run(turnstile));
}

/// The way to the lock, of one call or of several that were made at once.
struct Acquisition {
    core: Arc<Core>,
    /// The client's, which tells those who wait whether DynamoDB answers.
    store: Store,
    name: LockName,
    party: Arc<Party>,
    started: Moment,
    claim: Claim,
    /// Places that are being left.
    left: Mutex<Vec<Left>>,
    is_over: bool,
    /// When the log is told of a wait that has become long.
    long: Mutex<Doublings>,
}

/// Whoever waits for an acquisition that ends with its runtime, or by a panic, is told so.
impl Drop for Acquisition {
    fn drop(&mut self) {
        if !self.is_over {
            self.party.refuse(Refused::Gone);
        }
    }
}

impl Acquisition {
    fn new(core: &Arc<Core>, name: &LockName, party: Arc<Party>, claim: Claim) -> Self {
        let store = match claim.waits {
            true => core.store.telling(outage::reach(core, name, &party)),
            false => core.store.clone(),
        };
        let started = store.now();
        Acquisition {
            core: Arc::clone(core),
            store,
            name: name.clone(),
            party,
            started,
            claim,
            left: Mutex::default(),
            is_over: false,
            long: Mutex::new(Doublings::of(started)),
        }
    }

    /// Runs to the end, and returns how it tells the callers. A guard that none of them takes is dropped, which releases.
    async fn run(mut self, mut turnstile: Option<Turnstile>) -> impl FnOnce() {
        self.party.sets_out();
        let ended = tokio::select! {
            biased;
            never = self.keep_time() => match never {},
            ended = self.work(&mut turnstile) => ended,
        };
        let ended = match ended {
            Ok(guard) => Ok(guard),
            Err(refused) => {
                let (told, refused) = refused.shared();
                self.party.will_refuse(told);
                self.has_left().await;
                Err(refused)
            }
        };
        move || {
            self.is_over = true;
            match ended {
                Ok(guard) => drop(self.party.grant(guard)),
                Err(refused) => self.party.refuse(refused),
            }
        }
    }

    async fn work(&self, turnstile: &mut Option<Turnstile>) -> Result<Granted<Holding>, Refused> {
        if self.claim.waits {
            self.wait(turnstile).await
        } else {
            Box::pin(self.at_once()).await
        }
    }

    /// Ends the wait of each call whose time is over, whether the call is polled or not. Each turn of the loop ends one.
    async fn keep_time(&self) -> Infallible {
        let clock = &self.store().config().clock;
        while let Some(until) = self.party.next_until() {
            clock.sleep_until(until).await;
            self.party.part(self.store().now());
        }
        std::future::pending().await
    }

    /// Notes what is being left in the background.
    fn leaves(&self, left: Left) {
        let mut all = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain_mut(|left| left.try_recv() == Err(TryRecvError::Empty));
        all.push(left);
    }

    /// Waits until nothing of it stands in the table, so that a process may end with the error. For one request time-out at the
    /// most: what takes longer goes on in the background. A shutdown waits for that itself.
    async fn has_left(&self) {
        let left = std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner));
        let config = self.store().config();
        let mut until = self.store().now() + config.request_timeout;
        if !self.claim.waits {
            until = until.min(self.started + self.core.no_wait_lasts());
        }
        if let Some(outage) = self.store().outage_ends() {
            until = until.min(outage + config.request_timeout);
        }
        tokio::select! {
            biased;
            () = self.core.closed.cancelled() => {}
            _ended = join_all(left) => {}
            () = config.clock.sleep_until(until) => {}
        }
    }

    /// Takes tickets until one is granted. Each turn of the loop needs a ticket that was void or lost, or that others drew
    /// before a bounded line was full; and the caller's patience bounds them.
    async fn wait(&self, turnstile: &mut Option<Turnstile>) -> Result<Granted<Holding>, Refused> {
        let mut time = 1;
        loop {
            self.check()?;
            let door = Box::pin(self.door(time, turnstile)).await;
            // The next may come.
            turnstile.take();
            let granted = match door? {
                Door::Granted(attempt, taken) => {
                    Box::pin(self.grant_taken(attempt, *taken)).await?
                }
                Door::Waiting(waiter) => Box::pin(self.in_line(waiter)).await?,
                Door::TooSlow => {
                    time = (time * 2).min(MOST_TIME);
                    None
                }
                Door::Again => None,
            };
            if let Some(guard) = granted {
                return Ok(guard);
            }
        }
    }

    /// Waits for the ticket's turn. None: it will never be granted, and the caller draws another.
    async fn in_line(&self, mut waiter: Box<Waiter>) -> Result<Option<Granted<Holding>>, Refused> {
        let turn = self.turn(&mut waiter).await;
        self.core.clean_later(&self.name, waiter.take_litter());
        if let Some(look) = waiter.take_ahead() {
            let ticket = Some(waiter.ticket);
            self.core
                .spawn(&self.name, ticket, Task::Look, look.drain());
        }
        self.core.learnt(&self.name, waiter.pace.clone());
        let (
            seen,
            Waiter {
                attempt,
                ticket,
                beats,
                ..
            },
        ) = (waiter.item().clone(), *waiter);
        match turn {
            Ok(Some(item)) => Box::pin(self.grant(attempt, ticket, beats, &item)).await,
            Ok(None) => {
                tracing::info!(lock = %self.name, %ticket, "was passed in line: draws again");
                self.core.forget(&attempt);
                if ticket <= seen.seated {
                    // A join that came late may have put it there after others deleted it.
                    self.core.clean(&self.name, vec![ticket]);
                }
                Ok(None)
            }
            // It is to write nothing more, not even that it leaves: its place lapses with its lease.
            Err(refused) if refused.is_newer_format() => Err(refused),
            Err(refused) => {
                tracing::debug!(lock = %self.name, %ticket, "leaves the line");
                self.leaves(self.core.leave(&self.name, attempt, ticket, seen));
                Err(refused)
            }
        }
    }

    /// Looks and does what each look asks for. Ends with the turn, the ticket, or the caller's patience.
    async fn turn(&self, waiter: &mut Waiter) -> Result<Option<LockItem>, Refused> {
        let patience = self.patience();
        let cohort = &self.core.cohort;
        let membership = cohort.join(&self.name, waiter.ticket, &waiter.attempt);
        loop {
            self.saw(waiter.item(), Some(Prospect::of(waiter)));
            if waiter.place() > 0 {
                self.check()?;
            }
            membership.shows(&waiter.row);
            waiter.knows(|seated, most| cohort.rows(&self.name, seated, most));
            let turn = Box::pin(waiter.step(&patience)).await;
            self.tidy(waiter);
            match turn? {
                Turn::Mine(item) => {
                    let seats = self.store().config().seats;
                    cohort.came_in(&self.name, &item, seats);
                    return Ok(Some(*item));
                }
                Turn::Retire => {
                    membership.leaves();
                    if !Box::pin(waiter.retire(&patience)).await? {
                        return Ok(None);
                    }
                }
                Turn::Again => {}
                Turn::Wait(span) => {
                    let told = tokio::select! {
                        biased;
                        item = membership.told() => Some(item),
                        () = self.pause(self.longer(span, waiter)) => None,
                    };
                    self.check()?;
                    if let Some(item) = told {
                        waiter.hear(item);
                    } else if Box::pin(waiter.look_again(&patience)).await?.is_none() {
                        // The lock item was deleted; the row must not stay.
                        membership.leaves();
                        Box::pin(waiter.retire(&patience)).await?;
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// At once, so that others who look no longer read these rows, and do not clean them again; but more of them in one
    /// request where nobody else looks.
    fn tidy(&self, waiter: &mut Waiter) {
        let litter = waiter.take_litter();
        if litter.is_empty() {
            return;
        }
        let end = waiter.item().last.next().unwrap_or_default();
        if self.core.surrounds(&self.name, waiter.item(), end) {
            self.core.clean_later(&self.name, litter);
        } else {
            self.core.clean(&self.name, litter);
        }
    }

    /// Who is told of the hand-over need not look for it.
    fn longer(&self, span: Duration, waiter: &mut Waiter) -> Duration {
        if self
            .core
            .surrounds(&self.name, waiter.item(), waiter.ticket)
        {
            span.max(waiter.at_leisure())
        } else {
            span
        }
    }

    /// Sleeps, and logs meanwhile when the wait has become long. Ends with the span: each turn of the loop is one that long.
    async fn pause(&self, span: Duration) {
        let clock = &self.store().config().clock;
        let until = clock.now() + span;
        loop {
            let due = self.long().due().min(until);
            tokio::select! {
                biased;
                () = self.party.stop.cancelled() => return,
                () = clock.sleep_until(due) => {}
            }
            let waited = self.long().told(clock.now());
            if let Some(waited) = waited {
                self.party.log(&self.name, waited);
            }
            if clock.now() >= until {
                return;
            }
        }
    }

    fn long(&self) -> MutexGuard<'_, Doublings> {
        self.long.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before each step: the callers may have gone, and one that does not wait may have tried for long enough.
    fn check(&self) -> Result<(), Refused> {
        let ends = self.core.no_wait_ends(self.started);
        match () {
            () if self.party.stop.is_cancelled() => Err(Refused::GaveUp),
            () if !self.claim.waits && ends <= self.store().now() => Err(Refused::Late),
            () => Ok(()),
        }
    }

    fn saw(&self, item: &LockItem, prospect: Option<Prospect>) {
        self.party.saw(item, prospect);
        if let Some(behind) = self.core.behind_at_the_door(&self.name, &self.party) {
            behind.hears(item);
        }
        self.core.saw(&self.name, item);
    }

    fn store(&self) -> &Store {
        &self.store
    }

    fn seats<'a>(&'a self, patience: &'a Patience) -> Seats<'a> {
        Seats {
            store: self.store(),
            name: &self.name,
            patience,
        }
    }

    fn patience(&self) -> Patience {
        Patience {
            until: self.party.until(),
            limit: Limit::None,
            refusals: Refusals::Final,
            stop: self.party.stop.clone(),
        }
    }
}
