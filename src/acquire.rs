//! One acquisition, from the doorway to the grant: whatever it puts into the table it also settles.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::core::Core;
use crate::counter;
use crate::guard::LockGuard;
use crate::hold::Hold;
use crate::item::{LockItem, Spot};
use crate::lease::{self, Beats};
use crate::lock::Seen;
use crate::look::Look;
use crate::moment::Moment;
use crate::name::LockName;
use crate::passing::{self, Way};
use crate::queue::{self, Joined, Turn, Waiter};
use crate::seats::{Asked, Seats, Taken};
use crate::store::{Attempt, Failure, Limit, Patience, Refusals, Store, Timed, Write};
use crate::ticket::Ticket;

/// Attempts at a request while nothing of ours is in the table yet: a wrong endpoint must show itself quickly.
const ATTEMPTS_AT_THE_DOOR: usize = 4;
/// Tries to enter or to sit before a ticket is drawn: each failed because others came first.
const TRIES_AT_THE_DOOR: u32 = 6;
/// The first pause for one who is on the way to a free lock, doubled twice. All of them are enough for its draw, its row
/// and its seat over any network that is fit for locks, and no wait to speak of if it died on the way.
const ON_ITS_WAY: Duration = Duration::from_millis(20);
/// A client that is told "too slow" again and again doubles its time-out up to this factor.
const MOST_TIME: u32 = 8;

/// Why an acquisition ended without the lock.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The caller stopped waiting, or does not wait and would have to.
    GaveUp,
    /// The runtime of the client is gone, and the acquisition with it.
    Gone,
    Failed(Failure),
}

impl Refused {
    fn is_newer_format(&self) -> bool {
        matches!(self, Refused::Failed(failure) if failure.is_newer_format())
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        Refused::Failed(failure)
    }
}

/// One call's way to the lock.
pub(crate) struct Acquisition {
    pub(crate) core: Arc<Core>,
    pub(crate) name: LockName,
    pub(crate) waits: bool,
    pub(crate) started: Moment,
    pub(crate) until: Option<Moment>,
    /// Cancelled when the caller stops waiting: no new step is made then but those that clean up.
    pub(crate) stop: CancellationToken,
    pub(crate) seen: Arc<Seen>,
}

/// What came of asking for a place: it, for this attempt, or what stood in the way.
enum Tried {
    Taken(Attempt, Taken),
    Busy(Option<LockItem>),
}

/// What the doorway gave.
enum Door {
    Granted(Attempt, Box<Taken>),
    Waiting(Box<Waiter>),
    /// The ticket was void before its row came.
    TooSlow,
    /// The lock item went away meanwhile.
    Again,
}

impl Acquisition {
    /// Runs to the end and tells the caller; one that has gone drops the guard that it is told of, which releases.
    pub(crate) async fn run(self, tell: oneshot::Sender<Result<LockGuard, Refused>>) {
        let ended = if self.waits {
            self.wait().await
        } else {
            self.at_once().await
        };
        let _ = tell.send(ended);
    }

    /// Takes tickets until one is granted. Each turn of the loop needs a ticket that was void or lost, and the
    /// caller's patience bounds them.
    async fn wait(&self) -> Result<LockGuard, Refused> {
        let mut time = 1;
        loop {
            self.check()?;
            let granted = match self.door(time).await? {
                Door::Granted(attempt, taken) => self.grant_taken(attempt, *taken).await?,
                Door::Waiting(waiter) => self.in_line(*waiter).await?,
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

    /// Gets a place: the lock itself, a seat, or a ticket with its row. Who knows of a line skips the enter.
    async fn door(&self, time: u32) -> Result<Door, Refused> {
        let mut seen = self.core.hint(&self.name);
        for tried in 0..TRIES_AT_THE_DOOR {
            self.check()?;
            let asked = match seen {
                Some(item) if item.is_being_taken() => self.on_its_way(item, tried).await?,
                Some(item) if item.has_open_seat(self.store().config().seats) => {
                    self.sit(&item).await?
                }
                Some(item) if !item.is_idle() => break,
                _ => self.enter().await?,
            };
            match asked {
                Tried::Taken(attempt, taken) => return Ok(self.place(attempt, taken)),
                Tried::Busy(item) => seen = item,
            }
        }
        self.check()?;
        self.draw(time).await
    }

    /// The lock is free and tickets are open: nobody is left who holds one, or somebody is on the way to it. To look again
    /// when that one has it, and sit down behind it, is one write, and to stand in line five.
    async fn on_its_way(&self, item: LockItem, tried: u32) -> Result<Tried, Refused> {
        let patience = self.patience_at_the_door();
        match passing::clear(self.store(), &self.name, &patience, item).await? {
            Way::Free => Ok(Tried::Busy(None)),
            Way::Settled(look) => self.enter_over(look).await,
            Way::Taken(item) if item.is_being_taken() => {
                self.pause(ON_ITS_WAY * 2_u32.pow(tried.min(2))).await;
                self.check()?;
                let read = || self.store().read_lock(&self.name);
                let item = self.store().persist(&patience, read).await?.value;
                item.iter().for_each(|item| self.saw(item, None));
                Ok(Tried::Busy(item))
            }
            Way::Taken(item) => Ok(Tried::Busy(Some(item))),
        }
    }

    async fn enter(&self) -> Result<Tried, Refused> {
        let (attempt, patience) = (self.core.attempt(), self.patience_at_the_door());
        let asked = self.seats(&patience).enter(&attempt).await;
        self.asked(attempt, asked)
    }

    async fn sit(&self, seen: &LockItem) -> Result<Tried, Refused> {
        let (attempt, patience) = (self.core.attempt(), self.patience_at_the_door());
        let asked = self.seats(&patience).sit(&attempt, seen).await;
        self.asked(attempt, asked)
    }

    /// Enters over tickets that are settled, and has their rows deleted.
    async fn enter_over(&self, look: Look) -> Result<Tried, Refused> {
        let (attempt, patience) = (self.core.attempt(), self.patience_at_the_door());
        let asked = self.seats(&patience).enter_over(&attempt, &look.item).await;
        let tried = self.asked(attempt, asked)?;
        if let Tried::Taken(_, taken) = &tried {
            let litter = look.litter(taken.ticket).map(|row| row.ticket);
            self.core.clean(&self.name, litter.collect());
        }
        Ok(tried)
    }

    /// An attempt that was not given its place may get it yet, by a request that is still under way.
    fn asked(&self, attempt: Attempt, asked: Result<Asked, Failure>) -> Result<Tried, Refused> {
        match asked {
            Ok(Asked::Taken(taken)) => {
                self.saw(&taken.answer.value, None);
                Ok(Tried::Taken(attempt, taken))
            }
            Ok(Asked::Busy(item)) => {
                item.iter().for_each(|item| self.saw(item, None));
                self.core.forget(&self.name, &attempt);
                Ok(Tried::Busy(item))
            }
            Err(failure) => {
                if attempt.is_in_doubt() {
                    self.core.give_up_unseen(&self.name, attempt);
                }
                Err(failure.into())
            }
        }
    }

    fn place(&self, attempt: Attempt, taken: Taken) -> Door {
        match taken.answer.value.place_of(attempt.nonce) {
            Some(Spot::Holder(_)) => Door::Granted(attempt, Box::new(taken)),
            _ => Door::Waiting(self.waiter(attempt, taken.ticket, taken.beats, taken.answer)),
        }
    }

    /// Draws a ticket and puts its row into the line. From the draw on the ticket is settled whatever happens.
    async fn draw(&self, time: u32) -> Result<Door, Refused> {
        let store = if time > 1 {
            self.store().with_more_time(time)
        } else {
            self.store().clone()
        };
        let drawn = counter::draw(&store, &self.name, &self.patience_at_the_door()).await?;
        let Some(drawn) = drawn else {
            return Ok(Door::Again);
        };
        let ticket = drawn.value.last;
        self.saw(&drawn.value, None);
        let attempt = self.core.attempt();
        match queue::join(&store, &self.name, &self.patience(), &attempt, ticket).await {
            Ok(Joined::Waiting(beats, row)) => {
                tracing::debug!(lock = %self.name, %ticket, "joined the line");
                let mut waiter = self.waiter(attempt, ticket, beats, drawn);
                waiter.row = Some(row);
                Ok(Door::Waiting(waiter))
            }
            Ok(Joined::TooSlow) => {
                tracing::info!(lock = %self.name, %ticket, "too slow to join the line: draws again");
                self.core.leave(&self.name, attempt, ticket, drawn.value);
                Ok(Door::TooSlow)
            }
            Err(failure) => {
                self.core.leave(&self.name, attempt, ticket, drawn.value);
                Err(failure.into())
            }
        }
    }

    fn waiter(
        &self,
        attempt: Attempt,
        ticket: Ticket,
        beats: Beats,
        answer: Timed<LockItem>,
    ) -> Box<Waiter> {
        Box::new(Waiter::new(
            self.store().clone(),
            self.name.clone(),
            attempt,
            ticket,
            beats,
            answer,
            self.core.pace(&self.name),
        ))
    }

    /// Waits for the ticket's turn. None: it will never be granted, and the caller draws another.
    async fn in_line(&self, mut waiter: Waiter) -> Result<Option<LockGuard>, Refused> {
        let turn = self.turn(&mut waiter).await;
        self.core.clean_later(&self.name, waiter.take_litter());
        self.core.learnt(&self.name, waiter.pace.clone());
        let (
            seen,
            Waiter {
                attempt,
                ticket,
                beats,
                ..
            },
        ) = (waiter.item().clone(), waiter);
        match turn {
            Ok(Some(item)) => self.grant(attempt, ticket, beats, &item).await,
            Ok(None) => {
                tracing::info!(lock = %self.name, %ticket, "was passed in line: draws again");
                self.core.forget(&self.name, &attempt);
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
                self.core.leave(&self.name, attempt, ticket, seen);
                Err(refused)
            }
        }
    }

    /// Looks and does what each look asks for. Ends with the turn, the ticket, or the caller's patience.
    async fn turn(&self, waiter: &mut Waiter) -> Result<Option<LockItem>, Refused> {
        let patience = self.patience();
        let cohort = &self.core.cohort;
        let membership = cohort.join(&self.name, waiter.ticket, waiter.attempt.nonce);
        loop {
            self.saw(waiter.item(), Some(waiter.place()));
            if waiter.place() > 0 {
                self.check()?;
            }
            membership.shows(&waiter.row);
            waiter.knows(|seated, most| cohort.rows(&self.name, seated, most));
            let turn = waiter.step(&patience).await;
            self.tidy(waiter);
            match turn? {
                Turn::Mine(item) => return Ok(Some(item)),
                Turn::Retire if !waiter.retire(&patience).await? => return Ok(None),
                Turn::Retire | Turn::Again => {}
                Turn::Wait(span) => {
                    let told = tokio::select! {
                        biased;
                        item = membership.told() => Some(item),
                        () = self.pause(self.longer(span, waiter)) => None,
                    };
                    self.check()?;
                    if let Some(item) = told {
                        waiter.hear(item);
                    } else if waiter.look_again(&patience).await?.is_none() {
                        // The lock item was deleted; the row must not stay.
                        waiter.retire(&patience).await?;
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
        let end = waiter.item().last.next().unwrap_or_default();
        if self.core.surrounds(&self.name, waiter.item(), end) {
            self.core.clean_later(&self.name, litter);
        } else {
            self.core.clean(&self.name, litter);
        }
    }

    /// Who is told of the hand-over need not look for it.
    fn longer(&self, span: Duration, waiter: &Waiter) -> Duration {
        if self
            .core
            .surrounds(&self.name, waiter.item(), waiter.ticket)
        {
            span.max(waiter.at_leisure())
        } else {
            span
        }
    }

    async fn pause(&self, span: Duration) {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = self.store().config().clock.sleep(span) => {}
        }
    }

    /// One request when somebody has the lock; a few more to get past those whose time is over.
    async fn at_once(&self) -> Result<LockGuard, Refused> {
        for _ in 0..TRIES_AT_THE_DOOR {
            self.check()?;
            let item = match self.enter().await? {
                Tried::Taken(attempt, taken) => {
                    return self
                        .grant_taken(attempt, taken)
                        .await?
                        .ok_or(Refused::GaveUp);
                }
                Tried::Busy(Some(item)) => item,
                Tried::Busy(None) => continue,
            };
            match passing::clear(self.store(), &self.name, &self.patience_at_the_door(), item)
                .await?
            {
                Way::Free => {}
                Way::Settled(look) => {
                    if let Tried::Taken(attempt, taken) = self.enter_over(look).await?
                        && let Some(guard) = self.grant_taken(attempt, taken).await?
                    {
                        return Ok(guard);
                    }
                }
                Way::Taken(item) => {
                    self.saw(&item, None);
                    return Err(Refused::GaveUp);
                }
            }
        }
        Err(Refused::GaveUp)
    }

    async fn grant_taken(
        &self,
        attempt: Attempt,
        taken: Taken,
    ) -> Result<Option<LockGuard>, Refused> {
        self.grant(attempt, taken.ticket, taken.beats, &taken.answer.value)
            .await
    }

    /// Turns a place as holder into a guard, with at least half a lease to start with: being promoted starts none. Nor is
    /// it held with the long lease of a place far back, which others would have to wait for.
    /// A hold whose lease is already over is given up, never returned.
    async fn grant(
        &self,
        attempt: Attempt,
        ticket: Ticket,
        mut beats: Beats,
        item: &LockItem,
    ) -> Result<Option<LockGuard>, Refused> {
        let lease = self.store().config().lease;
        let Some(Spot::Holder(mut entry)) = item.place_of(attempt.nonce) else {
            return Ok(None);
        };
        let until = beats.believed_until(entry.beat, entry.lease);
        let until = until.unwrap_or_default();
        let left = until.since(self.store().now());
        if left.is_zero() {
            tracing::warn!(lock = %self.name, %ticket, "granted after its lease was over: gives the lock up");
            self.core
                .give_up(&self.name, attempt, ticket, Some(item.clone()));
            return Ok(None);
        }
        let renewed;
        if lease::is_short(lease, left) || entry.lease > lease {
            let Some((item, sent)) = self.renew(&attempt, ticket, until).await? else {
                return Ok(None);
            };
            renewed = item;
            let Some(Spot::Holder(now)) = renewed.place_of(attempt.nonce) else {
                return Ok(None);
            };
            entry = now;
            beats.renewed(entry.beat, sent);
        }
        let waited = self.store().now().since(self.started);
        tracing::debug!(lock = %self.name, %ticket, ?waited, "granted");
        let hold = Hold::new(
            self.name.clone(),
            attempt,
            entry,
            lease,
            self.store().config().clock.clone(),
            beats,
        );
        let guard = LockGuard::new(Arc::clone(&self.core), hold);
        // Either `shutdown` saw the hold, or it was called before this: then nobody is to have the guard.
        if self.core.closed.is_cancelled() {
            return Err(Refused::GaveUp);
        }
        Ok(Some(guard))
    }

    /// Renews a hold before it is returned. None: it is not ours any more.
    async fn renew(
        &self,
        attempt: &Attempt,
        ticket: Ticket,
        until: Moment,
    ) -> Result<Option<(LockItem, Moment)>, Refused> {
        let patience = Patience {
            until: Some(until),
            ..self.patience()
        };
        let (store, lease) = (self.store(), self.store().config().lease);
        match store
            .insist(&patience, || {
                store.renew_hold(&self.name, attempt.nonce, lease)
            })
            .await
        {
            Ok(Timed {
                value: Write::Applied(item),
                sent,
                ..
            }) => Ok(Some((item, sent))),
            Ok(Timed {
                value: Write::Refused(_),
                ..
            }) => Ok(None),
            Err(failure) => {
                tracing::warn!(lock = %self.name, %ticket, %failure, "could not renew the hold that it was granted");
                self.core
                    .give_up_unseen(&self.name, Attempt::new(attempt.nonce));
                Err(failure.into())
            }
        }
    }

    fn check(&self) -> Result<(), Refused> {
        if self.stop.is_cancelled() {
            Err(Refused::GaveUp)
        } else {
            Ok(())
        }
    }

    fn saw(&self, item: &LockItem, place: Option<usize>) {
        self.seen.note(item, place);
        self.core.saw(&self.name, item);
    }

    fn store(&self) -> &Store {
        &self.core.store
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
            until: self.until,
            limit: Limit::None,
            refusals: Refusals::Final,
            stop: self.stop.clone(),
        }
    }

    /// Being too busy is an answer, and backing off a part of waiting. Who does not wait backs off too, but not for
    /// longer than so many requests without an answer would take.
    fn patience_at_the_door(&self) -> Patience {
        let attempts = ATTEMPTS_AT_THE_DOOR;
        if self.waits {
            return Patience {
                limit: Limit::Unanswered(attempts),
                ..self.patience()
            };
        }
        let timeout = self.store().config().request_timeout;
        Patience {
            limit: Limit::Attempts(attempts),
            until: Some(self.started + timeout * attempts as u32),
            ..self.patience()
        }
    }
}
