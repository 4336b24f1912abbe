//! The doorway: to a slot, of which the first is the lock itself, or into the line.

use std::time::Duration;

use super::Acquisition;
use crate::core::{ATTEMPTS_AT_ONCE, Holding, Refused, Turnstile};
use crate::counter;
use crate::look::Look;
use crate::offer::Granted;
use crate::passing::{self, Way};
use crate::queue::{self, Joined};
use crate::seats::{Asked, Taken};
use crate::state;
use crate::store::{Attempt, Failure, Limit, Patience, Timed, Wish};
use crate::waiter::Waiter;
use fairlock_protocol::doorway::{Ask, Seen, Sight, next_ask};
use fairlock_protocol::item::{LockItem, Spot};
use fairlock_protocol::lease::{self, Beats};
use fairlock_protocol::ticket::{Sequence, Ticket};

/// Attempts at a draw. Each that is applied unseen leaves a gap, so after these the way into the line begins anew, with
/// requests that leave nothing.
const ATTEMPTS_TO_DRAW: usize = 4;
/// Tries before a ticket is drawn: each was refused because the lock had just become free, or because the line of one who bounds it
/// grew.
const TRIES_AT_THE_DOOR: u32 = 6;
/// The first pause for one who is on the way to a free lock, doubled twice. All of them are enough for its draw, its row
/// and its seat over any network that is fit for locks, and no wait to speak of if it died on the way.
const ON_ITS_WAY: Duration = Duration::from_millis(20);

/// What came of entrance for a place: it, for this attempt, or what stood in the way.
enum Tried {
    Taken(Attempt, Taken),
    Busy(Option<LockItem>),
}

/// What the doorway gave.
pub(super) enum Door {
    Granted(Attempt, Box<Taken>),
    Waiting(Box<Waiter>),
    /// The ticket was void before its row came.
    TooSlow,
    /// The lock item went away meanwhile.
    Again,
}

impl Acquisition {
    /// Gets a place: a slot, a part of the lock, or a ticket with its row.
    ///
    /// All but the first request is boxed, so that a turn at a lock that nobody else wants has no room for it.
    pub(super) async fn door(
        &self,
        time: u32,
        turnstile: &mut Option<Turnstile>,
    ) -> Result<Door, Refused> {
        // So many are before each of them at the least.
        self.party.turn_away(0);
        let mut shown = self.hint().await?;
        let mut seen = shown.as_ref().map_or(Seen::Unknown, |item| self.seen(item));
        for tried in 0..TRIES_AT_THE_DOOR {
            self.check()?;
            let ask = next_ask(seen, self.shares());
            let asked = match shown.take() {
                Some(item) if ask == Ask::Look || self.is_too_long(&item) => {
                    Box::pin(self.at_its_end(item, tried)).await?
                }
                item if ask == Ask::Share => Box::pin(self.share(first_of(item.as_ref()))).await?,
                item if ask == Ask::Enter => self.enter(item).await?,
                item => {
                    shown = item;
                    break;
                }
            };
            match asked {
                Tried::Taken(attempt, taken) => return Ok(self.place(attempt, taken)),
                Tried::Busy(item) => shown = item,
            }
            seen = shown.as_ref().map_or(Seen::Nobody, |item| self.seen(item));
        }
        self.check()?;
        Box::pin(self.draw(time, shown, turnstile)).await
    }

    fn seen(&self, item: &LockItem) -> Seen {
        let seats = self.store().config().seats;
        Seen::Item(Sight::of(item, self.claim.permits, seats))
    }

    /// What the client's own release saw of the line a moment ago: it chooses the first request.
    ///
    /// Where it shows that a ticket must be drawn, the lock item is read anew. The client that has just had the lock would draw with its
    /// first request else, before those who asked earlier and whose first request found out that they must. And a caller that
    /// bounds the line is never refused by a line that may be gone since.
    async fn hint(&self) -> Result<Option<LockItem>, Refused> {
        let hint = self.core.hint(&self.name);
        let must_draw = |item| {
            matches!(
                next_ask(self.seen(item), self.shares()),
                Ask::Draw | Ask::Look
            )
        };
        match &hint {
            Some(item) if must_draw(item) || self.is_too_long(item) => Box::pin(self.look()).await,
            _ => Ok(hint),
        }
    }

    async fn look(&self) -> Result<Option<LockItem>, Refused> {
        self.check()?;
        let patience = self.patience_at_the_door();
        let read = || self.store().read_lock(&self.name);
        let item = self.store().persist(&patience, read).await?.value;
        item.iter().for_each(|item| self.saw(item, None));
        Ok(item)
    }

    /// Whether somebody will not wait at the end of this line.
    fn is_too_long(&self, item: &LockItem) -> bool {
        let most = self.party.most_before();
        most.is_some_and(|most| most < state::turns(item))
    }

    /// Clears what is over out of the line, and refuses those for whom it is too long all the same.
    ///
    /// If the lock is free and tickets are open, nobody is left who holds one, or somebody is on the way to it. To look again
    /// when that one has it, and take the slot behind it, is one write, and to stand in line five.
    async fn at_its_end(&self, item: LockItem, tried: u32) -> Result<Tried, Refused> {
        let patience = self.patience_at_the_door();
        match passing::clear(
            self.store(),
            &self.name,
            &patience,
            self.claim.permits,
            item,
        )
        .await?
        {
            Way::Free => Ok(Tried::Busy(None)),
            Way::Settled(look) => self.enter_over(look).await,
            Way::Taken(item) if self.is_too_long(&item) => {
                self.party.turn_away(state::turns(&item));
                Ok(Tried::Busy(Some(item)))
            }
            Way::Taken(item) if item.is_being_taken() => {
                self.pause(ON_ITS_WAY * 2_u32.pow(tried.min(2))).await;
                Ok(Tried::Busy(self.look().await?))
            }
            Way::Taken(item) => Ok(Tried::Busy(Some(item))),
        }
    }

    /// Whether others may have the lock at the same time.
    fn shares(&self) -> bool {
        Some(self.claim.permits) != self.name.permits()
    }

    /// Beside the one in the first slot, as it was seen; else as if that one had as much as this one asks for, if there is as much.
    async fn share(&self, first: Option<u64>) -> Result<Tried, Refused> {
        let (attempt, patience) = (self.attempt(), self.patience_at_the_door());
        let all = self.name.permits().unwrap_or_default();
        let others = all.saturating_sub(attempt.permits).max(1);
        let first = first.unwrap_or(attempt.permits.min(others));
        let asked = self.seats(&patience).share(&attempt, first).await;
        self.asked(attempt, asked)
    }

    /// One who bounds the line, and has not seen it, asks for a free lock.
    ///
    /// Of a request that was not answered a copy may have had the lock, and have lost it, when another one takes a slot after a
    /// whole lease. No place of a nonce is believed in after that: the slot is given up, and asked for again.
    async fn enter(&self, seen: Option<LockItem>) -> Result<Tried, Refused> {
        let most = self.most_drawn(seen.as_ref());
        let stays_until = seen.as_ref().map(|item| item.expires_at);
        if most.is_none() && seen.is_some() {
            return Ok(Tried::Busy(seen));
        }
        let wish = Wish {
            most: most.unwrap_or(Ticket::new(u64::MAX)),
            waits: self.claim.waits && most.is_some(),
            stays_until,
        };
        let (attempt, patience) = (self.attempt(), self.patience_at_the_door());
        let (seats, first_sent) = (self.seats(&patience), self.store().now());
        let asked = seats.enter(&attempt, wish).await;
        let tried = self.asked(attempt, asked)?;
        let over = first_sent + lease::believed(self.store().config().lease);
        match tried {
            Tried::Taken(attempt, taken) if attempt.is_in_doubt() && over <= self.store().now() => {
                Ok(Tried::Busy(Some(self.gives_back(attempt, taken))))
            }
            tried => Ok(tried),
        }
    }

    /// The lock item as it is without the slot.
    fn gives_back(&self, attempt: Attempt, taken: Taken) -> LockItem {
        let (mut item, nonce) = (taken.answer.value, attempt.nonce);
        let seen = Some(item.clone());
        self.leaves(self.core.give_up(&self.name, attempt, taken.ticket, seen));
        item.slots.retain(|entry| entry.nonce != nonce);
        item
    }

    /// Takes the first slot over tickets that are settled, and has their rows deleted.
    async fn enter_over(&self, look: Look) -> Result<Tried, Refused> {
        let (attempt, patience) = (self.attempt(), self.patience_at_the_door());
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
        if asked.is_ok() {
            self.party.is_answered();
        }
        match asked {
            Ok(Asked::Taken(taken)) => {
                self.saw(&taken.answer.value, None);
                Ok(Tried::Taken(attempt, taken))
            }
            Ok(Asked::Busy(item)) => {
                item.iter().for_each(|item| self.saw(item, None));
                self.core.forget(&attempt);
                Ok(Tried::Busy(item))
            }
            Err(failure) => {
                if attempt.is_in_doubt() {
                    self.leaves(self.core.give_up_unseen(&self.name, attempt));
                }
                Err(failure.into())
            }
        }
    }

    fn attempt(&self) -> Attempt {
        let attempt = self.core.attempt(self.party.size(), self.claim.permits);
        attempt.described(&self.claim.attributes)
    }

    fn place(&self, attempt: Attempt, taken: Taken) -> Door {
        match taken.answer.value.standing(attempt.nonce, taken.ticket) {
            Some(Spot::Has(..)) => Door::Granted(attempt, Box::new(taken)),
            _ => Door::Waiting(self.waiter(attempt, taken.ticket, taken.beats, taken.answer)),
        }
    }

    /// Draws a ticket and puts its row into the line. From the draw on the ticket is settled whatever happens.
    async fn draw(
        &self,
        time: u32,
        seen: Option<LockItem>,
        turnstile: &mut Option<Turnstile>,
    ) -> Result<Door, Refused> {
        let Some(most) = self.most_drawn(seen.as_ref()) else {
            return Ok(Door::Again);
        };
        let store = if time > 1 {
            self.store().with_more_time(time)
        } else {
            self.store().clone()
        };
        let attempt = self.attempt();
        let patience = Patience {
            limit: Limit::Unanswered(ATTEMPTS_TO_DRAW),
            ..self.patience()
        };
        let (name, tickets) = (&self.name, attempt.tickets);
        let drawn = counter::draw(&store, name, &patience, tickets, most, seen.as_ref()).await;
        let drawn = match drawn {
            Ok(Some(drawn)) => drawn,
            Ok(None) => return Ok(Door::Again),
            Err(failure) if failure.is_transient() && store.has_patience(&patience) => {
                return Ok(Door::Again);
            }
            Err(failure) => return Err(failure.into()),
        };
        // The next may come: their tickets are newer.
        turnstile.take();
        let ticket = drawn.value.last;
        self.saw(&drawn.value, None);
        match queue::join(&store, &self.name, &self.patience(), &attempt, ticket).await {
            Ok(Joined::Waiting(beats, row)) => {
                tracing::debug!(lock = %self.name, %ticket, "joined the line");
                let mut waiter = self.waiter(attempt, ticket, beats, drawn);
                waiter.row = Some(row);
                Ok(Door::Waiting(waiter))
            }
            Ok(Joined::TooSlow) => {
                tracing::info!(lock = %self.name, %ticket, "too slow to join the line: draws again");
                self.leaves(self.core.leave(&self.name, attempt, ticket, drawn.value));
                Ok(Door::TooSlow)
            }
            Err(failure) => {
                self.leaves(self.core.leave(&self.name, attempt, ticket, drawn.value));
                Err(failure.into())
            }
        }
    }

    /// The newest ticket that may have been drawn before, for nobody to wait behind more than it will: between two looks there
    /// come no more turns than tickets are drawn. None: the line is too long, or was not seen.
    fn most_drawn(&self, seen: Option<&LockItem>) -> Option<Ticket> {
        let Some(most) = self.party.most_before() else {
            return Some(Ticket::new(u64::MAX));
        };
        let more = most.checked_sub(state::turns(seen?))?;
        Some(
            seen?
                .last
                .after(more as u64)
                .unwrap_or(Ticket::new(u64::MAX)),
        )
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

    /// One request when somebody has the lock; a few more to get past those whose time is over.
    pub(super) async fn at_once(&self) -> Result<Granted<Holding>, Refused> {
        let (mut seen, mut first) = (Seen::Unknown, None);
        for _ in 0..TRIES_AT_THE_DOOR {
            self.check()?;
            let asked = match next_ask(seen, self.shares()) {
                Ask::Share => self.share(first).await?,
                _ => self.enter(None).await?,
            };
            let item = match asked {
                Tried::Taken(attempt, taken) => {
                    return self
                        .grant_taken(attempt, taken)
                        .await?
                        .ok_or(Refused::GaveUp);
                }
                Tried::Busy(Some(item)) => {
                    (seen, first) = (Seen::Unknown, first_of(Some(&item)));
                    item
                }
                Tried::Busy(None) => {
                    (seen, first) = (Seen::Nobody, None);
                    continue;
                }
            };
            let (store, patience) = (self.store(), self.patience_at_the_door());
            match passing::clear(store, &self.name, &patience, self.claim.permits, item).await? {
                Way::Free => {}
                Way::Settled(look) => {
                    self.check()?;
                    if let Tried::Taken(attempt, taken) = self.enter_over(look).await?
                        && let Some(guard) = self.grant_taken(attempt, taken).await?
                    {
                        return Ok(guard);
                    }
                }
                Way::Taken(item) => {
                    self.saw(&item, None);
                    if item.is_free() {
                        // Its line was not looked at to the end.
                        self.check()?;
                    }
                    return Err(Refused::GaveUp);
                }
            }
        }
        Err(Refused::GaveUp)
    }

    /// Who does not wait tries a few times, and for no longer than so many requests without an answer would take. Who waits
    /// tries for as long as it waits.
    fn patience_at_the_door(&self) -> Patience {
        if self.claim.waits {
            return self.patience();
        }
        Patience {
            limit: Limit::Attempts(ATTEMPTS_AT_ONCE as usize),
            until: Some(self.core.no_wait_ends(self.started)),
            ..self.patience()
        }
    }
}

/// How many permits the one in the first slot has, where one was seen.
fn first_of(seen: Option<&LockItem>) -> Option<u64> {
    Some(seen?.slots.first()?.permits)
}
