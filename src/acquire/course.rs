//! The course of one place: its machine says what is next, and this does it.

use std::sync::Arc;
use std::time::Duration;

use super::Acquisition;
use super::queued::Queued;
use crate::client_inner::{Departure, Refused, Turnstile};
use crate::counter;
use crate::hold::Hold;
use crate::queue::{self, Joined};
use crate::reclaim::Reclaim;
use crate::slots::{Asked, Taken};
use crate::snapshot::Snapshot;
use crate::state;
use crate::store::{Attempt, Failure, Store, Timed, Wish};
use fairlock_protocol::doorway::Seen;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::lease;
use fairlock_protocol::place::{Act, Claim, Found, Place};
use fairlock_protocol::step::Refusal;
use fairlock_protocol::ticket::Ticket;

/// Requests before a ticket is drawn: each was refused because the lock had just become free, or because the queue of one who bounds it
/// grew.
const TRIES_AT_THE_DOOR: u8 = 6;
/// The first pause for one who is on the way to a free lock, doubled twice. All of them are enough for its draw, its row
/// and its slot over any network that is fit for locks, and no wait to speak of if it died on the way.
const ON_ITS_WAY: Duration = Duration::from_millis(20);

/// What came of a place.
pub(super) enum End {
    Granted(Arc<Hold>),
    /// Nothing: another one is asked for.
    Again,
    /// The same, for its row came after others had closed the gap.
    TooSlow,
}

/// One place, from the first request to the grant.
pub(super) struct Course<'a> {
    to: &'a Acquisition,
    place: Place,
    /// So many times the usual time-out for its draw and its row, after one that came too late.
    time: u32,
    turnstile: &'a mut Option<Turnstile>,
    /// The lock item as the last answer showed it, before there is a ticket.
    seen: Option<LockItem>,
    /// How many permits the one in the first slot has, where one was seen.
    first: Option<u64>,
    pauses: u32,
    has: Has,
    is_too_slow: bool,
}

/// What a place has in the table.
enum Has {
    Nothing,
    /// A hold, as the answer to its first request shows.
    Taken(Attempt, Box<Taken>),
    /// A ticket, as the answer to its draw shows.
    Drawn(Attempt, Box<Timed<LockItem>>),
    Queued(Queued),
}

impl<'a> Course<'a> {
    pub(super) fn new(
        to: &'a Acquisition,
        time: u32,
        turnstile: &'a mut Option<Turnstile>,
    ) -> Self {
        let claim = Claim {
            waits: to.claim.waits,
            shares: Some(to.claim.permits) != to.name.permits(),
            max_tries: TRIES_AT_THE_DOOR,
        };
        Course {
            to,
            place: Place::new(claim),
            time,
            turnstile,
            seen: None,
            first: None,
            pauses: 0,
            has: Has::Nothing,
            is_too_slow: false,
        }
    }

    /// Each turn of the loop is a step of the machine: the caller's policy bounds them.
    ///
    /// All but the first request is boxed: a turn at a lock that nobody else wants has no room for it, and one who waits in queue none
    /// for what comes before.
    pub(super) async fn run(mut self) -> Result<End, Refused> {
        let mut act = self.sets_out();
        loop {
            let next = match act {
                Act::Enter => self.enter().await,
                Act::Hold | Act::Again | Act::Refused | Act::Over => break,
                act => match &mut self.has {
                    Has::Queued(queue) => Box::pin(queue.does(self.to, &mut self.place, act)).await,
                    _ => Box::pin(self.does(act)).await,
                },
            };
            act = match next {
                Ok(act) => act,
                Err(refused) => return Err(self.leaves(refused)),
            };
        }
        // The next may come.
        self.turnstile.take();
        match act {
            Act::Hold => self.granted().await,
            Act::Refused => Err(self.turned_away()),
            _ => Ok(self.came_to_nothing()),
        }
    }

    /// What the client's own release saw of the queue a moment ago chooses the first request.
    fn sets_out(&mut self) -> Act {
        if !self.to.claim.waits {
            return self.place.sets_out(Seen::Unknown);
        }
        // So many are before each of them at the least.
        self.to.batch.turn_away(0);
        self.seen = self.to.inner.hint(&self.to.name);
        let known = match &self.seen {
            Some(item) => self.to.sight(item),
            None => Seen::Unknown,
        };
        self.place.sets_out(known)
    }

    /// What is to be done before it stands in the queue.
    async fn does(&mut self, act: Act) -> Result<Act, Refused> {
        match act {
            Act::Share => self.share().await,
            Act::Clear => self.clear().await,
            Act::Pause => {
                let span = ON_ITS_WAY * 2_u32.pow(self.pauses.min(2));
                self.pauses += 1;
                self.to.pause(span).await;
                self.read().await
            }
            Act::Read => self.read().await,
            Act::Draw => self.draw().await,
            Act::Join => self.join().await,
            // It has nothing to poll for, or to settle.
            _ => Ok(Act::Again),
        }
    }

    fn sees(&self) -> Seen {
        self.seen
            .as_ref()
            .map_or(Seen::Nobody, |item| self.to.sight(item))
    }

    async fn read(&mut self) -> Result<Act, Refused> {
        self.to.check()?;
        let policy = self.to.policy_at_the_door();
        let read = || self.to.store().read_lock(&self.to.name);
        self.seen = self.to.store().retry(&policy, read).await?.value;
        self.seen.iter().for_each(|item| self.to.saw(item, None));
        Ok(self.place.read(self.sees()))
    }

    /// Clears what is over out of the way. Those for whom the queue is too long all the same are refused.
    async fn clear(&mut self) -> Result<Act, Refused> {
        self.to.check()?;
        let Some(item) = self.seen.take() else {
            return Ok(self.place.clears(Refusal::Free, Seen::Nobody));
        };
        let (to, policy) = (self.to, self.to.policy_at_the_door());
        let mut way = Reclaim::of(to.store(), &to.name, &policy, to.claim.permits, item);
        let (mut place, mut is_taken) = (self.place, false);
        let judged = |refusal: &Refusal, item: &LockItem| {
            is_taken = *refusal == Refusal::Taken;
            if is_taken && to.is_too_long(item) {
                to.batch.turn_away(state::turns(item));
            }
            to.sight(item)
        };
        let act = way.run(&mut place, judged).await?;
        self.place = place;
        let snapshot = way.snapshot;
        self.first = first_of(&snapshot.item);
        if act == Act::EnterOver {
            return self.enter_over(snapshot).await;
        }
        self.seen = is_taken.then_some(snapshot.item);
        Ok(act)
    }

    /// Beside the one in the first slot, as it was seen; else as if that one had as much as this one asks for, if there is as much.
    async fn share(&mut self) -> Result<Act, Refused> {
        self.to.check()?;
        let (attempt, policy) = (self.to.attempt(), self.to.policy_at_the_door());
        let all = self.to.name.permits().unwrap_or_default();
        let others = all.saturating_sub(attempt.permits).max(1);
        let first = self.seen.as_ref().map_or(self.first, first_of);
        let first = first.unwrap_or(attempt.permits.min(others));
        let asked = self.to.slots(&policy).share(&attempt, first).await;
        self.asked(attempt, asked)
    }

    /// One who bounds the queue, and has not seen it, asks for a free lock.
    ///
    /// Of a request that was not answered a copy may have had the lock, and have lost it, when another one takes a slot after a
    /// whole lease. No place of a nonce is believed in after that: the slot is given up, and asked for again.
    async fn enter(&mut self) -> Result<Act, Refused> {
        self.to.check()?;
        let seen = self.seen.take();
        let most = self.to.most_drawn(seen.as_ref());
        let stays_until = seen.as_ref().map(|item| item.expires_at);
        if most.is_none() && seen.is_some() {
            self.seen = seen;
            return Ok(self.place.asked(Found::Nowhere, self.sees()));
        }
        let wish = Wish {
            most: most.unwrap_or(Ticket::new(u64::MAX)),
            waits: self.to.claim.waits && most.is_some(),
            stays_until,
        };
        let (attempt, policy) = (self.to.attempt(), self.to.policy_at_the_door());
        let (store, first_sent) = (self.to.store(), self.to.store().now());
        let asked = self.to.slots(&policy).enter(&attempt, wish).await;
        let over = first_sent + lease::believed(store.config().lease);
        match asked {
            Ok(Asked::Taken(taken)) if attempt.is_in_doubt() && over <= store.now() => {
                self.to.batch.is_answered();
                self.gives_back(attempt, taken);
                Ok(self.place.asked(Found::Nowhere, Seen::Unknown))
            }
            asked => self.asked(attempt, asked),
        }
    }

    /// In the background. The next request asks as if nothing was seen: no answer has shown the lock item without the slot yet.
    fn gives_back(&self, attempt: Attempt, taken: Taken) {
        let (ticket, seen) = (taken.ticket, taken.answer.value);
        self.to.saw(&seen, None);
        let departure = Departure::of(Place::of_another(), attempt, ticket, seen);
        self.to.leaves(departure);
    }

    /// Takes the first slot over tickets that are settled, and has their rows deleted.
    async fn enter_over(&mut self, snapshot: Snapshot) -> Result<Act, Refused> {
        self.to.check()?;
        let (attempt, policy) = (self.to.attempt(), self.to.policy_at_the_door());
        let slots = self.to.slots(&policy);
        let asked = slots.enter_over(&attempt, &snapshot.item).await;
        if let Ok(Asked::Taken(taken)) = &asked {
            let settled_rows = snapshot.settled_rows(taken.ticket).map(|row| row.ticket);
            self.to.inner.clean(&self.to.name, settled_rows.collect());
        }
        self.asked(attempt, asked)
    }

    /// An attempt that was not given its place may get it yet, by a request that is still under way.
    fn asked(&mut self, attempt: Attempt, asked: Result<Asked, Failure>) -> Result<Act, Refused> {
        match asked {
            Ok(Asked::Taken(taken)) => {
                self.to.batch.is_answered();
                self.to.saw(&taken.answer.value, None);
                let found = taken.answer.value.standing(attempt.nonce, taken.ticket);
                let act = self.place.asked(found.into(), Seen::Unknown);
                self.has = match act {
                    Act::Hold => Has::Taken(attempt, Box::new(taken)),
                    Act::Decide => {
                        // The next may come: their tickets are newer.
                        self.turnstile.take();
                        Has::Queued(self.to.queues_up(attempt, taken, None))
                    }
                    _ => {
                        let (ticket, seen) = (taken.ticket, taken.answer.value);
                        let departure = Departure::of(self.place, attempt, ticket, seen);
                        self.to.leaves(departure);
                        return Ok(Act::Refused);
                    }
                };
                Ok(act)
            }
            Ok(Asked::Busy(item)) => {
                self.to.inner.forget(&attempt);
                self.refused(item)
            }
            Err(failure) => {
                if attempt.is_in_doubt() {
                    self.to.leaves(Departure::unseen(self.place, attempt));
                }
                Err(failure.into())
            }
        }
    }

    fn refused(&mut self, item: Option<LockItem>) -> Result<Act, Refused> {
        self.to.batch.is_answered();
        item.iter().for_each(|item| self.to.saw(item, None));
        self.seen = item;
        Ok(self.place.asked(Found::Nowhere, self.sees()))
    }

    /// Draws a ticket. From the draw on it is settled whatever happens.
    async fn draw(&mut self) -> Result<Act, Refused> {
        self.to.check()?;
        let seen = self.seen.take();
        let Some(most) = self.to.most_drawn(seen.as_ref()) else {
            return Ok(self.place.drew(false));
        };
        let (store, attempt) = (self.store(), self.to.attempt());
        let policy = self.to.batch.policy_to_draw();
        let (name, tickets) = (&self.to.name, attempt.tickets);
        let drawn = counter::draw(&store, name, &policy, tickets, most, seen.as_ref()).await;
        let drawn = match drawn {
            Ok(drawn) => drawn,
            Err(failure) if failure.is_transient() && store.has_patience(&policy) => None,
            Err(failure) => return Err(failure.into()),
        };
        let act = self.place.drew(drawn.is_some());
        if let Some(drawn) = drawn {
            self.turnstile.take();
            self.to.saw(&drawn.value, None);
            self.has = Has::Drawn(attempt, Box::new(drawn));
        }
        Ok(act)
    }

    /// Puts the row of the ticket into the queue.
    async fn join(&mut self) -> Result<Act, Refused> {
        let Has::Drawn(attempt, drawn) = &self.has else {
            return Ok(Act::Again);
        };
        let (to, ticket) = (self.to, drawn.value.last);
        let joined = queue::join(&self.store(), &to.name, &to.policy(), attempt, ticket).await?;
        let Has::Drawn(attempt, drawn) = std::mem::replace(&mut self.has, Has::Nothing) else {
            return Ok(Act::Again);
        };
        match joined {
            Joined::Waiting(beats, row) => {
                tracing::debug!(lock = %to.name, %ticket, "joined the queue");
                let answer = *drawn;
                let taken = Taken {
                    ticket,
                    beats,
                    answer,
                };
                self.has = Has::Queued(to.queues_up(attempt, taken, Some(row)));
                Ok(self.place.joined(true))
            }
            Joined::TooSlow => {
                tracing::info!(lock = %to.name, %ticket, "too slow to join the queue: draws again");
                self.is_too_slow = true;
                self.place.joined(false);
                // It leaves in the background, and another one is asked for at once.
                let departure = Departure::of(self.place, attempt, ticket, drawn.value);
                to.leaves(departure);
                Ok(Act::Again)
            }
        }
    }

    fn store(&self) -> Store {
        match self.time {
            1 => self.to.store().clone(),
            time => self.to.store().with_more_time(time),
        }
    }

    async fn granted(self) -> Result<End, Refused> {
        let to = self.to;
        let granted = match self.has {
            Has::Taken(attempt, taken) => {
                let Taken {
                    ticket,
                    beats,
                    answer,
                } = *taken;
                let (place, item) = (self.place, &answer.value);
                Box::pin(to.grant(place, attempt, (ticket, beats), item)).await?
            }
            Has::Queued(queue) => Box::pin(queue.granted(to, self.place)).await?,
            Has::Nothing | Has::Drawn(..) => None,
        };
        match granted {
            Some(granted) => Ok(End::Granted(granted)),
            None if to.claim.waits => Ok(End::Again),
            None => Err(Refused::GaveUp),
        }
    }

    /// Somebody alive is in the way of a claim that does not wait.
    fn turned_away(self) -> Refused {
        let Some(item) = &self.seen else {
            return Refused::GaveUp;
        };
        self.to.saw(item, None);
        match item.is_free() {
            // Its queue was not looked at to the end.
            true => self.to.check().err().unwrap_or(Refused::GaveUp),
            false => Refused::GaveUp,
        }
    }

    fn came_to_nothing(self) -> End {
        if let Has::Queued(queue) = self.has {
            queue.passed(self.to);
        }
        match self.is_too_slow {
            true => End::TooSlow,
            false => End::Again,
        }
    }

    /// The callers have gone, or the table does not answer: whatever the place has in it is given back.
    fn leaves(self, refused: Refused) -> Refused {
        self.turnstile.take();
        match self.has {
            Has::Nothing => {}
            Has::Taken(attempt, taken) => {
                let seen = taken.answer.value;
                let departure = Departure::of(self.place, attempt, taken.ticket, seen);
                self.to.leaves(departure);
            }
            Has::Drawn(attempt, drawn) => {
                let (ticket, seen) = (drawn.value.last, drawn.value);
                let departure = Departure::of(self.place, attempt, ticket, seen);
                self.to.leaves(departure);
            }
            Has::Queued(queue) => queue.leaves(self.to, self.place, &refused),
        }
        refused
    }
}

fn first_of(item: &LockItem) -> Option<u64> {
    Some(item.slots.first()?.permits)
}
