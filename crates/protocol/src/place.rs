//! A place in a lock, from the first request for it to the last: the last answer determines the next request.
//!
//! The library and the models of the queue drive this same machine, up to the grant and on the way out. It knows neither time nor items:
//! its driver sends what it asks for, judges what a poll shows, and tells it the result. A request that is retried until it is answered is
//! one request here. The machine does not deal with renewals.

use crate::doorway::{Ask, Seen, Sight, next_ask};
use crate::item::ItemPosition;
use crate::step::{ClearingStep, Filling, QueuePosition, Removal, Step};

/// How a place is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Whether it waits in the queue. A claim that does not wait is refused if a live entry is in its way.
    pub waits: bool,
    /// Whether it asks for a part of the lock.
    pub shares: bool,
    /// How often the claim may be refused before it has a ticket, by a condition or because a live entry is in its way. Then a claim that
    /// waits draws a ticket, and one that does not wait gives in.
    pub max_tries: u8,
}

/// A place, at the request that it asked for last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    claim: Claim,
    stage: Stage,
    tries: u8,
    /// Whether it is on its way out for good: its turn is finished, or is not wanted any more.
    is_leaving: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Has nothing yet.
    Entering,
    /// Has nothing yet, and clears what has ended out of its way.
    Clearing,
    Drawing,
    /// Has a ticket, and no row.
    Joining,
    /// Has a row or a slot, and waits.
    Waiting,
    Holding,
    Downgrading,
    /// Makes its row void, and then counts its departure.
    Voiding,
    Departing,
    /// Gives back whatever the lock item shows of it.
    GivingBack,
    Ended,
}

/// What a place does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Ask for the slot behind all others, under a new nonce; answered by [`Place::asked`].
    Enter,
    /// Ask for a free lock whose tickets are all settled, as the newest poll shows, under a new nonce; answered by [`Place::asked`].
    EnterOver,
    /// Ask for a part of the lock, under a new nonce; answered by [`Place::asked`].
    Share,
    /// Draw a ticket; answered by [`Place::drew`].
    Draw,
    /// Put the row of the ticket into the queue; answered by [`Place::joined`].
    Join,
    /// Pause for as long as a caller takes that is on its way to a free lock. Then [`Act::Read`].
    Pause,
    /// Read the lock item; answered by [`Place::read`].
    Read,
    /// Judge by [`next_refusal`](crate::step::next_refusal) what the newest poll shows; answered by [`Place::clears`].
    Clear,
    /// Judge by [`next_step`](crate::step::next_step) what the newest poll shows; answered by [`Place::steps`].
    Decide,
    /// Read more rows; answered by [`Place::polled`].
    ReadOn,
    /// Remove what has ended; answered by [`Place::polled`], as each of the following is.
    Remove(Removal),
    /// Give this many of the first successors what they wait for.
    Admit(usize),
    /// Give slots to these tickets.
    Fill(Filling),
    /// Nothing now: poll and renew when it is time. Answered by [`Place::polled`].
    Wait(QueuePosition),
    /// The lock is held. Goes on with [`Place::leaves`], [`Place::downgrades`] or [`Place::declines`].
    Hold,
    /// Keep one permit; answered by [`Place::downgraded`].
    Downgrade,
    /// Make the row of its own ticket void; answered by [`Place::voided`].
    VoidOwn,
    /// Count the departure, unless the ticket was given a slot before; answered by [`Place::departed`].
    Depart,
    /// Find out where the lock item shows the place; answered by [`Place::stands`].
    Find,
    /// Give the slot back; answered by [`Place::gave_back`].
    GiveUp,
    /// End the hold; answered by [`Place::gave_back`].
    Release,
    /// This place came to nothing: ask for another one.
    Again,
    /// A live entry is in the way of a claim that does not wait, or the claim has tried as often as it may.
    Refused,
    /// Nothing of the place is left.
    Over,
}

/// Where a lock item shows a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// It holds the lock, or its part.
    Holds,
    /// It waits in a slot.
    Waits,
    /// The item does not show it.
    Nowhere,
}

impl From<Option<ItemPosition<'_>>> for Found {
    fn from(position: Option<ItemPosition<'_>>) -> Self {
        match position {
            Some(ItemPosition::Has(..)) => Found::Holds,
            Some(ItemPosition::Successor(..)) => Found::Waits,
            None => Found::Nowhere,
        }
    }
}

impl Place {
    /// A place that no request has asked for yet.
    pub fn new(claim: Claim) -> Self {
        Place {
            claim,
            stage: Stage::Entering,
            tries: 0,
            is_leaving: false,
        }
    }

    /// A place of which only this is known: it was asked for, and may wait, or hold.
    pub fn of_another() -> Self {
        Place::met_at(Stage::Waiting)
    }

    /// A place of which only this is known: it holds.
    pub fn holding() -> Self {
        Place::met_at(Stage::Holding)
    }

    fn met_at(stage: Stage) -> Self {
        let claim = Claim {
            waits: true,
            shares: false,
            max_tries: 0,
        };
        Place {
            stage,
            ..Place::new(claim)
        }
    }

    /// Returns the first request, by what is known of the lock. Before it draws a ticket because of what is known, the place reads the lock
    /// item. Otherwise a client that has just held the lock would draw with its first request. It would come before callers that asked
    /// earlier, and whose first request only found out that they must draw.
    pub fn sets_out(&mut self, known: Seen) -> Act {
        match next_ask(known, self.claim.shares) {
            Ask::Draw | Ask::Nothing => Act::Read,
            Ask::Enter | Ask::Share => self.asks(known),
        }
    }

    /// Takes in the lock item as it was read before a request for a place.
    pub fn read(&mut self, seen: Seen) -> Act {
        self.asks(seen)
    }

    /// Takes in the answer to a request for a slot or a part: where the answer shows the place, or else the lock.
    pub fn asked(&mut self, found: Found, seen: Seen) -> Act {
        match found {
            Found::Holds => self.holds(),
            Found::Waits if self.claim.waits => self.waits(),
            // The claim asked for no slot behind others, and does not keep one.
            Found::Waits => {
                self.is_leaving = true;
                self.at(Stage::GivingBack, Act::Find)
            }
            Found::Nowhere => {
                self.tries = self.tries.saturating_add(1);
                match seen {
                    Seen::Item(_) if !self.claim.waits => self.starts_clearing(),
                    seen => self.asks(seen),
                }
            }
        }
    }

    /// Takes in the answer to a draw. If the draw was not applied, the lock item went away, or more tickets were drawn than the claim would
    /// wait behind.
    pub fn drew(&mut self, is_drawn: bool) -> Act {
        match is_drawn {
            true => self.at(Stage::Joining, Act::Join),
            false => self.ends(),
        }
    }

    /// Takes in that the row was put into the queue, or that other clients had closed the gap already.
    pub fn joined(&mut self, is_waiting: bool) -> Act {
        match is_waiting {
            true => self.waits(),
            false => self.retires(),
        }
    }

    /// Returns the next step of a place that waits, as its newest poll was judged.
    pub fn steps(&mut self, step: Step) -> Act {
        match step {
            Step::Hold => self.holds(),
            Step::Passed => self.ends(),
            Step::Retire => self.retires(),
            Step::Wait(position) => Act::Wait(position),
            Step::ReadOn => Act::ReadOn,
            Step::Remove(removal) => Act::Remove(removal),
            Step::Admit(successors) => Act::Admit(successors),
            Step::Fill(filling) => Act::Fill(filling),
        }
    }

    /// Returns the next step of a claim at a lock that it cannot have yet, as its newest poll was judged.
    pub fn clears(&mut self, refusal: ClearingStep, seen: Seen) -> Act {
        match refusal {
            // A part of a free lock can be asked for again only if there are as many permits by now.
            ClearingStep::Free => self.asks(match seen {
                Seen::Item(Sight {
                    is_free: true,
                    has_room: false,
                    ..
                }) => seen,
                _ => Seen::Unknown,
            }),
            ClearingStep::Settled if !self.claim.waits && self.has_tried_enough() => {
                self.at(Stage::Ended, Act::Refused)
            }
            ClearingStep::Settled => self.at(Stage::Entering, Act::EnterOver),
            ClearingStep::Taken => self.meets_live_entry(seen),
            ClearingStep::ReadOn => Act::ReadOn,
            ClearingStep::Remove(removal) => Act::Remove(removal),
        }
    }

    /// Takes in that the lock was polled, by a read or by the answer to a write.
    pub fn polled(&self) -> Act {
        match self.stage {
            Stage::Clearing => Act::Clear,
            _ => Act::Decide,
        }
    }

    /// Takes in that there is no lock item any more. The row of an open ticket must not stay.
    pub fn lock_gone(&mut self, is_settled: bool) -> Act {
        match self.stage {
            Stage::Clearing => self.asks(Seen::Nobody),
            _ if is_settled => self.ends(),
            _ => self.retires(),
        }
    }

    /// Takes in that the row is void: no snapshot can give the ticket a slot any more.
    pub fn voided(&mut self) -> Act {
        self.at(Stage::Departing, Act::Depart)
    }

    /// Takes in that the departure was counted, or was not because the ticket was given a slot before. A place that wants its turn keeps
    /// that slot.
    pub fn departed(&mut self, is_applied: bool, found: Found) -> Act {
        match found {
            _ if is_applied => self.ends(),
            Found::Nowhere => self.ends(),
            found if self.is_leaving => self.stands(found),
            Found::Holds => self.holds(),
            Found::Waits => self.waits(),
        }
    }

    /// Takes in where the lock item shows a place that gives back what it has.
    pub fn stands(&mut self, found: Found) -> Act {
        match found {
            Found::Holds => self.at(Stage::GivingBack, Act::Release),
            Found::Waits => self.at(Stage::GivingBack, Act::GiveUp),
            Found::Nowhere => self.ends(),
        }
    }

    /// Takes in that a slot or a hold was given back. If it was not, it is elsewhere, or has another number of permits.
    pub fn gave_back(&mut self, is_applied: bool, found: Found) -> Act {
        match is_applied {
            true => self.ends(),
            false => self.stands(found),
        }
    }

    /// Keeps some permits of the hold.
    pub fn downgrades(&mut self) -> Act {
        self.at(Stage::Downgrading, Act::Downgrade)
    }

    /// Takes in where the answer shows a hold that keeps some of its permits.
    pub fn downgraded(&mut self, found: Found) -> Act {
        self.is_leaving = found != Found::Holds;
        match found {
            Found::Holds => self.holds(),
            Found::Waits | Found::Nowhere => self.ends(),
        }
    }

    /// Gives the grant back and asks again, because the granted lease has ended already.
    pub fn declines(&mut self) -> Act {
        self.at(Stage::GivingBack, Act::Find)
    }

    /// Leaves: the turn is finished, or is not wanted any more. Every request that was sent has been answered, or will not be.
    ///
    /// `is_settled`: every ticket up to the place's own is settled or has a slot, as last seen.
    pub fn leaves(&mut self, is_settled: bool) -> Act {
        self.is_leaving = true;
        match self.stage {
            Stage::Entering | Stage::Clearing | Stage::Drawing => self.ends(),
            Stage::Joining => self.retires(),
            Stage::Waiting if !is_settled => self.retires(),
            Stage::Voiding => Act::VoidOwn,
            Stage::Departing => Act::Depart,
            Stage::Holding | Stage::Downgrading => self.at(Stage::GivingBack, Act::Release),
            Stage::Waiting | Stage::GivingBack => self.at(Stage::GivingBack, Act::Find),
            Stage::Ended => Act::Over,
        }
    }

    /// Leaves a place whose last request for a slot was not answered: it may have got a place, or may get one yet.
    pub fn leaves_unseen(&mut self) -> Act {
        self.is_leaving = true;
        self.at(Stage::GivingBack, Act::Find)
    }

    /// Whether it is on its way out for good.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Whether it gives back whatever the lock item shows of it, even another place of its nonce.
    pub fn is_giving_back(&self) -> bool {
        self.is_leaving || self.stage == Stage::GivingBack
    }

    /// Whether it holds the lock or its part, or is on its way out for good.
    pub fn has_held(&self) -> bool {
        self.is_leaving || matches!(self.stage, Stage::Holding | Stage::Downgrading)
    }

    fn asks(&mut self, seen: Seen) -> Act {
        match next_ask(seen, self.claim.shares) {
            Ask::Draw if self.claim.waits => self.at(Stage::Drawing, Act::Draw),
            _ if self.has_tried_enough() && self.claim.waits => self.at(Stage::Drawing, Act::Draw),
            _ if self.has_tried_enough() => self.at(Stage::Ended, Act::Refused),
            Ask::Enter => self.at(Stage::Entering, Act::Enter),
            Ask::Share => self.at(Stage::Entering, Act::Share),
            Ask::Draw | Ask::Nothing => self.starts_clearing(),
        }
    }

    fn has_tried_enough(&self) -> bool {
        self.tries >= self.claim.max_tries
    }

    fn starts_clearing(&mut self) -> Act {
        self.at(Stage::Clearing, Act::Clear)
    }

    /// A live entry is in the way. If the lock is free, the owner of that entry is on its way to it. Asking again once it holds the lock
    /// takes one write; drawing a ticket and waiting for it takes five.
    fn meets_live_entry(&mut self, seen: Seen) -> Act {
        if !self.claim.waits {
            return self.at(Stage::Ended, Act::Refused);
        }
        self.tries = self.tries.saturating_add(1);
        match next_ask(seen, self.claim.shares) {
            Ask::Nothing if !self.has_tried_enough() => self.at(Stage::Entering, Act::Pause),
            _ => self.asks(seen),
        }
    }

    fn waits(&mut self) -> Act {
        self.at(Stage::Waiting, Act::Decide)
    }

    fn holds(&mut self) -> Act {
        self.at(Stage::Holding, Act::Hold)
    }

    fn retires(&mut self) -> Act {
        self.at(Stage::Voiding, Act::VoidOwn)
    }

    fn ends(&mut self) -> Act {
        let act = if self.is_leaving {
            Act::Over
        } else {
            Act::Again
        };
        self.at(Stage::Ended, act)
    }

    fn at(&mut self, stage: Stage, act: Act) -> Act {
        self.stage = stage;
        act
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doorway::Sight;

    const WAITS: Claim = Claim {
        waits: true,
        shares: false,
        max_tries: 2,
    };
    const TRIES: Claim = Claim {
        waits: false,
        ..WAITS
    };
    /// Another client holds the lock, and a slot is open.
    const TAKEN: Sight = Sight {
        is_free: false,
        is_settled: true,
        has_room: false,
        has_slot: true,
        is_too_long: false,
    };
    const HELD: Seen = Seen::Item(TAKEN);
    /// Free, with an open ticket.
    const OPEN: Seen = Seen::Item(Sight {
        is_free: true,
        is_settled: false,
        ..TAKEN
    });
    const FULL: Seen = Seen::Item(Sight {
        is_settled: false,
        has_slot: false,
        ..TAKEN
    });

    #[test]
    fn a_free_lock_takes_a_request_to_enter_and_one_to_release() {
        let mut place = Place::new(WAITS);
        assert_eq!(place.sets_out(Seen::Unknown), Act::Enter);
        assert_eq!(place.asked(Found::Holds, HELD), Act::Hold);
        assert_eq!(place.leaves(true), Act::Release);
        assert_eq!(place.gave_back(true, Found::Nowhere), Act::Over);
    }

    #[test]
    fn a_refused_request_for_a_slot_is_followed_by_a_ticket() {
        let mut place = Place::new(WAITS);
        place.sets_out(Seen::Unknown);
        assert_eq!(place.asked(Found::Nowhere, FULL), Act::Draw);
        assert_eq!(place.drew(true), Act::Join);
        assert_eq!(place.joined(true), Act::Decide);
        assert_eq!(
            place.steps(Step::Wait(QueuePosition::Queue)),
            Act::Wait(QueuePosition::Queue)
        );
        assert_eq!(place.polled(), Act::Decide);
        assert_eq!(place.steps(Step::Hold), Act::Hold);
    }

    #[test]
    fn a_client_that_knows_of_a_queue_reads_before_it_draws() {
        let mut place = Place::new(WAITS);
        assert_eq!(place.sets_out(FULL), Act::Read);
        assert_eq!(place.read(HELD), Act::Enter);
        assert_eq!(place.asked(Found::Waits, HELD), Act::Decide);
    }

    #[test]
    fn tries_at_the_door_come_to_an_end() {
        let mut waits = Place::new(WAITS);
        waits.sets_out(Seen::Unknown);
        assert_eq!(waits.asked(Found::Nowhere, OPEN), Act::Clear);
        assert_eq!(waits.clears(ClearingStep::Taken, OPEN), Act::Draw);
        let mut tries = Place::new(TRIES);
        tries.sets_out(Seen::Unknown);
        assert_eq!(tries.asked(Found::Nowhere, HELD), Act::Clear);
        assert_eq!(tries.clears(ClearingStep::Free, HELD), Act::Enter);
        assert_eq!(tries.asked(Found::Nowhere, HELD), Act::Clear);
        assert_eq!(tries.clears(ClearingStep::Free, HELD), Act::Refused);
    }

    #[test]
    fn a_claim_that_does_not_wait_keeps_no_slot() {
        let mut place = Place::new(TRIES);
        place.sets_out(Seen::Unknown);
        assert_eq!(place.asked(Found::Waits, HELD), Act::Find);
        assert_eq!(place.stands(Found::Waits), Act::GiveUp);
        assert_eq!(place.gave_back(true, Found::Nowhere), Act::Over);
    }

    #[test]
    fn somebody_on_the_way_to_a_free_lock_is_waited_for() {
        let mut place = Place::new(WAITS);
        place.sets_out(Seen::Unknown);
        assert_eq!(place.asked(Found::Nowhere, Seen::Nobody), Act::Enter);
        let mut place = Place::new(WAITS);
        assert_eq!(place.sets_out(OPEN), Act::Read);
        assert_eq!(place.read(OPEN), Act::Clear);
        assert_eq!(place.polled(), Act::Clear);
        assert_eq!(place.clears(ClearingStep::Taken, OPEN), Act::Pause);
        assert_eq!(place.read(HELD), Act::Enter);
    }

    #[test]
    fn a_slot_given_before_the_departure_is_kept_by_one_who_wants_its_turn() {
        let queued = || {
            let mut place = Place::new(Claim {
                max_tries: 0,
                ..WAITS
            });
            assert_eq!(place.sets_out(Seen::Unknown), Act::Draw);
            place.drew(true);
            place.joined(true);
            place
        };
        let mut place = queued();
        assert_eq!(place.steps(Step::Retire), Act::VoidOwn);
        assert_eq!(place.voided(), Act::Depart);
        assert_eq!(place.departed(false, Found::Waits), Act::Decide);
        let mut place = queued();
        assert_eq!(place.leaves(false), Act::VoidOwn);
        assert_eq!(place.voided(), Act::Depart);
        assert_eq!(place.departed(false, Found::Waits), Act::GiveUp);
        assert_eq!(place.gave_back(false, Found::Holds), Act::Release);
        assert_eq!(place.gave_back(true, Found::Nowhere), Act::Over);
    }

    #[test]
    fn a_place_that_came_to_nothing_is_asked_for_again_unless_nobody_wants_it() {
        let mut place = Place::new(WAITS);
        place.sets_out(Seen::Unknown);
        place.asked(Found::Holds, HELD);
        assert!(!place.is_giving_back());
        assert_eq!(place.declines(), Act::Find);
        assert!(place.is_giving_back() && !place.has_held());
        assert_eq!(place.stands(Found::Holds), Act::Release);
        assert_eq!(place.gave_back(true, Found::Nowhere), Act::Again);
        let mut place = Place::new(WAITS);
        place.sets_out(Seen::Unknown);
        assert_eq!(place.leaves_unseen(), Act::Find);
        assert_eq!(place.stands(Found::Nowhere), Act::Over);
    }
}
