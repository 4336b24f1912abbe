//! Drives one place up to its grant. The state machine `fairlock_protocol::place` says what to do next, and this module does it.

use std::sync::Arc;
use std::time::Duration;

use super::Acquisition;
use super::queued::Queued;
use crate::attempt::Attempt;
use crate::client_state::{Departure, DoorwayTurn, Refused};
use crate::counter::{Asked, Counter, EnterTerms, Taken};
use crate::hold::Hold;
use crate::queue::{self, JoinOutcome};
use crate::reclaim::Reclaim;
use crate::requests::{Requests, RetryPolicy};
use crate::snapshot::Snapshot;
use crate::state;
use crate::store::Timed;
use fairlock_protocol::doorway::Seen;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::lease;
use fairlock_protocol::place::{Act, Claim, Found, Place};
use fairlock_protocol::stamps::Reading;
use fairlock_protocol::step::ClearingStep;
use fairlock_protocol::ticket::Ticket;

/// A refusal by a condition counts as one try, and so does a live entry in the way. After this many tries, a place that waits draws a ticket,
/// and a place that does not wait gives up.
const TRIES_AT_THE_DOOR: u8 = 6;
/// While another caller is on its way to a free lock, a place pauses for 20 ms, then for 40 ms, and then for 80 ms each time. Meanwhile that
/// caller draws, writes its row and gets its slot. If it crashed on the way, these pauses are lost.
const ON_ITS_WAY: Duration = Duration::from_millis(20);

/// The outcome of one place.
pub(super) enum End {
    Granted(Arc<Hold>),
    /// The place came to nothing. The task asks for another place.
    Again,
    /// As `Again`: its row arrived too late, when other clients had already made its ticket void.
    TooSlow,
}

/// A place, from the first request to the grant.
pub(super) struct Driver<'a> {
    acquisition: &'a Acquisition,
    place: Place,
    /// Factor on the usual time-out of its draw and its row. Above 1 after a row that came too late.
    timeout_factor: u32,
    doorway_turn: &'a mut Option<DoorwayTurn>,
    /// The lock item as the last answer showed it, while the place has no ticket.
    seen: Option<LockItem>,
    /// What that answer told of the time.
    reading: Reading,
    /// How many permits the entry in the first slot has, if an entry was seen there.
    first: Option<u64>,
    pauses: u32,
    acquired: Acquired,
    is_too_slow: bool,
}

/// What a place has in the table.
enum Acquired {
    Nothing,
    /// A hold, as the answer to an enter or a share shows.
    Taken(Attempt, Box<Taken>),
    /// A ticket, as the answer to its draw shows.
    Drawn(Attempt, Box<Timed<LockItem>>),
    Queued(Queued),
}

impl<'a> Driver<'a> {
    pub(super) fn new(
        acquisition: &'a Acquisition,
        timeout_factor: u32,
        doorway_turn: &'a mut Option<DoorwayTurn>,
    ) -> Self {
        let claim = Claim {
            waits: acquisition.claim.waits,
            shares: Some(acquisition.claim.permits) != acquisition.name.permits(),
            max_tries: TRIES_AT_THE_DOOR,
        };
        Driver {
            acquisition,
            place: Place::new(claim),
            timeout_factor,
            doorway_turn,
            seen: None,
            reading: Reading::UNTOLD,
            first: None,
            pauses: 0,
            acquired: Acquired::Nothing,
            is_too_slow: false,
        }
    }

    /// Runs the place until it is granted or has ended. Each pass of the loop is a step of the machine. Also ends on a final failure, or
    /// when no caller waits any more (`Acquisition::ensure_wanted`).
    ///
    /// Every request but *enter* is boxed. So the task of an uncontended turn reserves no memory for the others.
    pub(super) async fn run(mut self) -> Result<End, Refused> {
        let mut act = self.first_act();
        loop {
            let next = match act {
                Act::Enter => self.enter().await,
                Act::Hold | Act::Again | Act::Refused | Act::Over => break,
                act => match &mut self.acquired {
                    Acquired::Queued(queue) => {
                        Box::pin(queue.carry_out(self.acquisition, &mut self.place, act)).await
                    }
                    _ => Box::pin(self.carry_out(act)).await,
                },
            };
            act = match next {
                Ok(act) => act,
                Err(refused) => return Err(self.leaves(refused)),
            };
        }
        // Opens the doorway for the next batch of this client.
        self.doorway_turn.take();
        match act {
            Act::Hold => self.granted().await,
            Act::Refused => Err(self.turned_away()),
            _ => Ok(self.came_to_nothing()),
        }
    }

    /// Chooses the first request. If this client released the lock a moment ago, it still knows the queue from that answer.
    fn first_act(&mut self) -> Act {
        if !self.acquisition.claim.waits {
            return self.place.sets_out(Seen::Unknown);
        }
        // The callers of the batch stand behind each other. Refuses those for which that alone is too long a queue.
        self.acquisition.batch.turn_away(0);
        self.seen = self.acquisition.inner.hint(&self.acquisition.name);
        let known = match &self.seen {
            Some(item) => self.acquisition.sight(item),
            None => Seen::Unknown,
        };
        self.place.sets_out(known)
    }

    /// Carries out a step of a place that is not in the queue yet.
    async fn carry_out(&mut self, act: Act) -> Result<Act, Refused> {
        match act {
            Act::Share => self.share().await,
            Act::Clear => self.clear().await,
            Act::Pause => {
                let span = ON_ITS_WAY * 2_u32.pow(self.pauses.min(2));
                self.pauses += 1;
                self.acquisition.pause(span).await;
                self.read().await
            }
            Act::Read => self.read().await,
            Act::Draw => self.draw().await,
            Act::Join => self.join().await,
            // No other act reaches a place outside the queue. If one does, the task asks again.
            _ => Ok(Act::Again),
        }
    }

    /// What the refusal of its last request shows to the place.
    fn sees(&self) -> Seen {
        let refusal = self.seen.as_ref();
        refusal.map_or(Seen::Nobody, |item| self.acquisition.sight_of_refusal(item))
    }

    async fn read(&mut self) -> Result<Act, Refused> {
        self.acquisition.ensure_wanted()?;
        let policy = self.acquisition.policy_at_the_door();
        let read = || self.acquisition.store().read_lock(&self.acquisition.name);
        let read = self.acquisition.requests.retry_read(&policy, read);
        let answer = read.await?;
        (self.seen, self.reading) = (answer.value, answer.reading);
        self.seen
            .iter()
            .for_each(|item| self.acquisition.saw(item, None));
        let seen = self.seen.as_ref();
        let seen = seen.map_or(Seen::Nobody, |item| self.acquisition.sight(item));
        Ok(self.place.read(seen))
    }

    /// Reclaims what has expired in the way of this place. Refuses the callers for which the queue is too long even so.
    async fn clear(&mut self) -> Result<Act, Refused> {
        self.acquisition.ensure_wanted()?;
        let Some(item) = self.seen.take() else {
            return Ok(self.place.clears(ClearingStep::Free, Seen::Nobody));
        };
        let (acquisition, policy) = (self.acquisition, self.acquisition.policy_at_the_door());
        let mut way = Reclaim::of(
            &acquisition.requests,
            &acquisition.name,
            &policy,
            acquisition.claim.permits,
            (item, self.reading),
        );
        let (mut place, mut is_taken) = (self.place, false);
        let judged = |refusal: &ClearingStep, item: &LockItem| {
            is_taken = *refusal == ClearingStep::Taken;
            if is_taken && acquisition.is_too_long(item) {
                acquisition.batch.turn_away(state::turns(item));
            }
            acquisition.sight(item)
        };
        let act = way.run(&mut place, judged).await?;
        self.place = place;
        let snapshot = way.snapshot;
        self.first = first_of(&snapshot.item);
        if act == Act::EnterOver {
            return self.enter_over(snapshot).await;
        }
        self.seen = is_taken.then(|| Arc::unwrap_or_clone(snapshot.item));
        Ok(act)
    }

    /// Asks for permits beside the entry in the first slot. The write applies only if that entry has at most as many permits as the place
    /// saw there. If the place saw no entry, the limit is `min(own, all - own)`, and at least 1.
    async fn share(&mut self) -> Result<Act, Refused> {
        self.acquisition.ensure_wanted()?;
        let (attempt, policy) = (self.acquisition.attempt(), self.policy_to_ask());
        let all = self.acquisition.name.permits().unwrap_or_default();
        let others = all.saturating_sub(attempt.permits).max(1);
        let first = self.seen.as_ref().map_or(self.first, first_of);
        let first = first.unwrap_or(attempt.permits.min(others));
        let counter = self.acquisition.counter(&policy);
        let asked = counter.share(&attempt, first).await;
        self.asked(attempt, asked).await
    }

    /// Asks for a slot. A caller that bounds the queue, and has not seen it, asks for a free lock only.
    ///
    /// DynamoDB may have applied an earlier copy of this request. That copy may have held the lock until another client evicted it. So after a
    /// lease, the place gives this slot back and asks again.
    async fn enter(&mut self) -> Result<Act, Refused> {
        self.acquisition.ensure_wanted()?;
        let seen = self.seen.take();
        let most = self.acquisition.most_drawn(seen.as_ref());
        let stays_until = seen.as_ref().map(|item| item.expires_at);
        if most.is_none() && seen.is_some() {
            self.seen = seen;
            return Ok(self.place.asked(Found::Nowhere, self.sees()));
        }
        let wish = EnterTerms {
            most: most.unwrap_or(Ticket::new(u64::MAX)),
            waits: self.acquisition.claim.waits && most.is_some(),
            stays_until,
        };
        let (attempt, policy) = (self.acquisition.attempt(), self.policy_to_ask());
        let (store, first_sent) = (self.acquisition.store(), self.acquisition.store().now());
        let counter = self.acquisition.counter(&policy);
        let asked = counter.enter(&attempt, wish).await;
        let over = first_sent + lease::believed(store.config().lease);
        match asked {
            Ok(Asked::Taken(taken)) if attempt.is_in_doubt() && over <= store.now() => {
                self.acquisition.batch.note_answered();
                self.gives_back(attempt, taken);
                Ok(self.place.asked(Found::Nowhere, Seen::Unknown))
            }
            asked => self.asked(attempt, asked).await,
        }
    }

    /// Gives a slot back in the background. The next request asks as if nothing was seen, because what was seen has the slot in it.
    fn gives_back(&self, attempt: Attempt, taken: Taken) {
        let (ticket, seen) = (taken.ticket, taken.answer.value);
        self.acquisition.saw(&seen, None);
        let departure = Departure::of(Place::of_another(), attempt, ticket, seen);
        self.acquisition.leaves(departure);
    }

    /// Takes the first slot of a free lock whose tickets are all settled, and has their rows deleted.
    async fn enter_over(&mut self, snapshot: Snapshot) -> Result<Act, Refused> {
        self.acquisition.ensure_wanted()?;
        let (attempt, policy) = (self.acquisition.attempt(), self.policy_to_ask());
        let counter = self.acquisition.counter(&policy);
        let asked = counter.enter_over(&attempt, &snapshot.item).await;
        if let Ok(Asked::Taken(taken)) = &asked {
            let settled_rows = snapshot.settled_rows(taken.ticket).map(|row| row.ticket);
            self.acquisition
                .inner
                .clean(&self.acquisition.name, settled_rows.collect());
        }
        self.asked(attempt, asked).await
    }

    /// Takes in the answer to a request for a place. If no answer came, DynamoDB may still apply the request. Then the task gives back
    /// whatever place the request takes.
    async fn asked(
        &mut self,
        attempt: Attempt,
        asked: Result<Asked, Failure>,
    ) -> Result<Act, Refused> {
        match asked {
            Err(failure) if failure.is_busy() && self.may_give_way(&attempt) => {
                self.acquisition.gives_way().await;
                Ok(Act::Read)
            }
            Ok(Asked::Taken(taken)) => {
                self.acquisition.batch.note_answered();
                self.acquisition.saw(&taken.answer.value, None);
                let found = taken
                    .answer
                    .value
                    .position_of_place(attempt.nonce, taken.ticket);
                let act = self.place.asked(found.into(), Seen::Unknown);
                self.acquired = match act {
                    Act::Hold => Acquired::Taken(attempt, Box::new(taken)),
                    Act::Decide => {
                        // Opens the doorway for the next batch: its tickets are newer.
                        self.doorway_turn.take();
                        Acquired::Queued(self.acquisition.queues_up(attempt, taken, None))
                    }
                    _ => {
                        let (ticket, seen) = (taken.ticket, taken.answer.value);
                        let departure = Departure::of(self.place, attempt, ticket, seen);
                        self.acquisition.leaves(departure);
                        return Ok(Act::Refused);
                    }
                };
                Ok(act)
            }
            Ok(Asked::InTheWay(item, reading)) => {
                self.reading = reading;
                self.acquisition.inner.forget(&attempt);
                self.refused(item)
            }
            Err(failure) => {
                if attempt.is_in_doubt() {
                    self.acquisition
                        .leaves(Departure::unseen(self.place, attempt));
                }
                Err(failure.into())
            }
        }
    }

    fn policy_to_ask(&self) -> RetryPolicy {
        let policy = self.acquisition.policy_at_the_door();
        self.acquisition.policy_to_write(policy)
    }

    fn may_give_way(&self, attempt: &Attempt) -> bool {
        let (acquisition, policy) = (self.acquisition, self.policy_to_ask());
        let has_time_left = acquisition.requests.has_time_left(&policy);
        acquisition.claim.waits && !attempt.is_in_doubt() && has_time_left
    }

    fn refused(&mut self, item: Option<LockItem>) -> Result<Act, Refused> {
        self.acquisition.batch.note_answered();
        item.iter()
            .for_each(|item| self.acquisition.saw(item, None));
        self.seen = item;
        Ok(self.place.asked(Found::Nowhere, self.sees()))
    }

    /// Draws a ticket. From now on there is a ticket, and however the place ends, the ticket is settled.
    async fn draw(&mut self) -> Result<Act, Refused> {
        self.acquisition.ensure_wanted()?;
        let seen = self.seen.take();
        let Some(most) = self.acquisition.most_drawn(seen.as_ref()) else {
            return Ok(self.place.drew(false));
        };
        let (requests, attempt) = (self.requests(), self.acquisition.attempt());
        let policy = self.acquisition.batch.policy_to_draw();
        let policy = self.acquisition.policy_to_write(policy);
        let counter = Counter {
            requests: &requests,
            ..self.acquisition.counter(&policy)
        };
        let drawn = counter.draw(attempt.tickets, most, seen.as_ref()).await;
        let drawn = match drawn {
            Ok(drawn) => drawn,
            Err(failure) if failure.is_busy() && requests.has_time_left(&policy) => {
                self.acquisition.gives_way().await;
                return Ok(Act::Read);
            }
            Err(failure) if failure.is_transient() && requests.has_time_left(&policy) => None,
            Err(failure) => return Err(failure.into()),
        };
        let act = self.place.drew(drawn.is_some());
        if let Some(drawn) = drawn {
            self.doorway_turn.take();
            self.acquisition.saw(&drawn.value, None);
            self.acquired = Acquired::Drawn(attempt, Box::new(drawn));
        }
        Ok(act)
    }

    /// Puts the row of the ticket into the queue.
    async fn join(&mut self) -> Result<Act, Refused> {
        let Acquired::Drawn(attempt, drawn) = &self.acquired else {
            return Ok(Act::Again);
        };
        let (acquisition, ticket) = (self.acquisition, drawn.value.last);
        let config = acquisition.store().config();
        // Others close the gap after the join time-out.
        let join_pause = config.heartbeat.min(config.join_timeout / 4);
        let until = acquisition.store().now() + config.join_timeout / 2;
        let joined = queue::join(
            &self.requests(),
            &acquisition.name,
            &acquisition.policy().giving_way(join_pause, until),
            attempt,
            ticket,
        )
        .await?;
        let Acquired::Drawn(attempt, drawn) =
            std::mem::replace(&mut self.acquired, Acquired::Nothing)
        else {
            return Ok(Act::Again);
        };
        match joined {
            JoinOutcome::Waiting(beats, row) => {
                let answer = *drawn;
                let taken = Taken {
                    ticket,
                    beats,
                    answer,
                };
                self.acquired = Acquired::Queued(acquisition.queues_up(attempt, taken, Some(*row)));
                Ok(self.place.joined(true))
            }
            JoinOutcome::TooSlow => {
                tracing::info!(lock = %acquisition.name, %ticket, "too slow to join the queue: draws again");
                self.is_too_slow = true;
                self.place.joined(false);
                // The place leaves in the background, and the task asks for another place at once.
                let departure = Departure::of(self.place, attempt, ticket, drawn.value);
                acquisition.leaves(departure);
                Ok(Act::Again)
            }
        }
    }

    fn requests(&self) -> Requests {
        match self.timeout_factor {
            1 => self.acquisition.requests.clone(),
            factor => self.acquisition.requests.with_more_time(factor),
        }
    }

    async fn granted(self) -> Result<End, Refused> {
        let acquisition = self.acquisition;
        let granted = match self.acquired {
            Acquired::Taken(attempt, taken) => {
                let Taken {
                    ticket,
                    beats,
                    answer,
                } = *taken;
                let (place, item) = (self.place, &answer.value);
                Box::pin(acquisition.grant(place, attempt, (ticket, beats), item)).await?
            }
            Acquired::Queued(queue) => Box::pin(queue.granted(acquisition, self.place)).await?,
            Acquired::Nothing | Acquired::Drawn(..) => None,
        };
        match granted {
            Some(granted) => Ok(End::Granted(granted)),
            None if acquisition.claim.waits => Ok(End::Again),
            None => Err(Refused::NotGranted),
        }
    }

    /// The refusal of a claim that does not wait: a live client is in its way.
    fn turned_away(self) -> Refused {
        let Some(item) = &self.seen else {
            return Refused::NotGranted;
        };
        self.acquisition.saw(item, None);
        match item.is_free() {
            // The lock is free, but its open tickets were not all judged.
            true => self
                .acquisition
                .ensure_wanted()
                .err()
                .unwrap_or(Refused::NotGranted),
            false => Refused::NotGranted,
        }
    }

    fn came_to_nothing(self) -> End {
        if let Acquired::Queued(queue) = self.acquired {
            queue.passed(self.acquisition);
        }
        match self.is_too_slow {
            true => End::TooSlow,
            false => End::Again,
        }
    }

    /// Gives back whatever the place has in the table, because its callers have gone or the table does not answer.
    fn leaves(self, refused: Refused) -> Refused {
        self.doorway_turn.take();
        match self.acquired {
            Acquired::Nothing => {}
            Acquired::Taken(attempt, taken) => {
                let seen = taken.answer.value;
                let departure = Departure::of(self.place, attempt, taken.ticket, seen);
                self.acquisition.leaves(departure);
            }
            Acquired::Drawn(attempt, drawn) => {
                let (ticket, seen) = (drawn.value.last, drawn.value);
                let departure = Departure::of(self.place, attempt, ticket, seen);
                self.acquisition.leaves(departure);
            }
            Acquired::Queued(queue) => queue.leaves(self.acquisition, self.place, &refused),
        }
        refused
    }
}

fn first_of(item: &LockItem) -> Option<u64> {
    Some(item.slots.first()?.permits)
}
