//! One place in a lock, from the first request for it to the last: what is sent next, by what was answered.
//!
//! The product and the models of the queue drive this same machine, up to the grant and on the way out. It knows neither time nor
//! items: whoever drives it sends what it asks for, judges what a poll shows, and tells it what came of that. A request that is
//! retried until it is answered is one request here. Renewals are not its business.

use crate::doorway::{Ask, Seen, next_ask};
use crate::item::Spot;
use crate::step::{Filling, Has, Refusal, Standing, Step, Unsettled};

/// How a place is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    /// Waits in the queue. A claim that does not wait is refused by whoever is in the way.
    pub waits: bool,
    /// Asks for a part of the lock.
    pub shares: bool,
    /// So often may it be refused before it has a ticket, by a condition or because somebody is in its way. A claim that waits draws
    /// one then, the other gives in.
    pub max_tries: u8,
}

/// One place. It is at the request that it asked for last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    claim: Claim,
    stage: Stage,
    tries: u8,
    /// On its way out for good: its turn was had, or is not wanted any more.
    is_leaving: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    /// Has nothing yet.
    Entering,
    /// Has nothing yet, and removes what is over from its way.
    Clearing,
    Drawing,
    /// Has a ticket, and no row.
    Joining,
    /// Has a row or a slot, and waits.
    Waiting,
    Holding,
    Downgrading,
    /// Settles its ticket: makes its row void, then counts the departure.
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
    /// Ask for a free lock whose every ticket is settled, as the newest poll shows, under a new nonce; answered by
    /// [`Place::asked`].
    EnterOver,
    /// Ask for a part of the lock, under a new nonce; answered by [`Place::asked`].
    Share,
    /// Draw a ticket; answered by [`Place::drew`].
    Draw,
    /// Put the row of the ticket into the queue; answered by [`Place::joined`].
    Join,
    /// Pause for as long as somebody takes who is on the way to a free lock. Then [`Act::Read`].
    Pause,
    /// Read the lock item; answered by [`Place::read`].
    Read,
    /// Judge by [`next_refusal`](crate::step::next_refusal) what the newest poll shows; answered by [`Place::clears`].
    Clear,
    /// Judge by [`next_step`](crate::step::next_step) what the newest poll shows; answered by [`Place::steps`].
    Decide,
    /// Read more rows; answered by [`Place::polled`].
    ReadOn,
    /// End the hold of somebody who is dead; answered by [`Place::polled`], as each of the following is.
    Evict(Has),
    /// Take a slot from somebody who is dead.
    EvictSuccessor(usize),
    /// Give so many of the first successors what they wait for.
    Admit(usize),
    /// Make these void.
    Settle(Vec<Unsettled>),
    /// Give slots to these.
    Fill(Filling),
    /// Every ticket up to this one is settled: say so on the lock item.
    Pass(crate::ticket::Ticket),
    /// Nothing now: poll when it is time to, and renew. Answered by [`Place::polled`].
    Wait(Standing),
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
    /// Somebody alive is in the way of a claim that does not wait, or it has tried as often as it may.
    Refused,
    /// Nothing of the place is left.
    Over,
}

/// Where a lock item shows a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Holds the lock, or its part.
    Holds,
    /// Waits in a slot.
    Waits,
    /// It does not show it.
    Nowhere,
}

impl From<Option<Spot<'_>>> for Found {
    fn from(spot: Option<Spot<'_>>) -> Self {
        match spot {
            Some(Spot::Has(..)) => Found::Holds,
            Some(Spot::Successor(..)) => Found::Waits,
            None => Found::Nowhere,
        }
    }
}

impl Place {
    /// A place that is yet to be asked for.
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

    /// The first request, by what is known of the lock. Before a ticket is drawn because of what was known, the lock item is read:
    /// a client that has just had the lock would draw with its first request else, before those who asked earlier and whose first request
    /// found out that they must.
    pub fn sets_out(&mut self, known: Seen) -> Act {
        match next_ask(known, self.claim.shares) {
            Ask::Draw | Ask::Snapshot => Act::Read,
            Ask::Enter | Ask::Share => self.asks(known),
        }
    }

    /// The lock item was read at the door.
    pub fn read(&mut self, seen: Seen) -> Act {
        self.asks(seen)
    }

    /// A slot or a part was asked for: where the answer shows the place, and else the lock.
    pub fn asked(&mut self, found: Found, seen: Seen) -> Act {
        match found {
            Found::Holds => self.holds(),
            Found::Waits if self.claim.waits => self.waits(),
            // It asked for no slot behind others, and does not keep one.
            Found::Waits => {
                self.is_leaving = true;
                self.at(Stage::GivingBack, Act::Find)
            }
            Found::Nowhere => {
                self.tries = self.tries.saturating_add(1);
                match seen {
                    Seen::Item(_) if !self.claim.waits => self.is_in_the_way(),
                    seen => self.asks(seen),
                }
            }
        }
    }

    /// A draw was answered. Not applied: the lock item went away, or more tickets were drawn than the claim would wait behind.
    pub fn drew(&mut self, is_drawn: bool) -> Act {
        match is_drawn {
            true => self.at(Stage::Joining, Act::Join),
            false => self.ends(),
        }
    }

    /// The row was put into the queue, or others had closed the gap already.
    pub fn joined(&mut self, is_waiting: bool) -> Act {
        match is_waiting {
            true => self.waits(),
            false => self.retires(),
        }
    }

    /// The next step of a place that waits, as its newest poll was judged.
    pub fn steps(&mut self, step: Step) -> Act {
        match step {
            Step::Enter => self.holds(),
            Step::Passed => self.ends(),
            Step::Retire => self.retires(),
            Step::Wait(standing) => Act::Wait(standing),
            Step::ReadOn => Act::ReadOn,
            Step::Evict(has) => Act::Evict(has),
            Step::EvictSuccessor(index) => Act::EvictSuccessor(index),
            Step::Admit(successors) => Act::Admit(successors),
            Step::Settle(unsettled) => Act::Settle(unsettled),
            Step::Fill(filling) => Act::Fill(filling),
        }
    }

    /// The next step of a claim at a lock that is not to be had, as its newest poll was judged.
    pub fn clears(&mut self, refusal: Refusal, seen: Seen) -> Act {
        match refusal {
            Refusal::Free => self.asks(Seen::Unknown),
            Refusal::Settled if !self.claim.waits && self.has_tried_enough() => {
                self.at(Stage::Ended, Act::Refused)
            }
            Refusal::Settled => self.at(Stage::Entering, Act::EnterOver),
            Refusal::Taken => self.is_refused(seen),
            Refusal::ReadOn => Act::ReadOn,
            Refusal::Evict(has) => Act::Evict(has),
            Refusal::EvictSuccessor(index) => Act::EvictSuccessor(index),
            Refusal::Settle(unsettled) => Act::Settle(unsettled),
            Refusal::Pass(upto) => Act::Pass(upto),
        }
    }

    /// The lock was polled, by a read or by the answer to a write.
    pub fn polled(&self) -> Act {
        match self.stage {
            Stage::Clearing => Act::Clear,
            _ => Act::Decide,
        }
    }

    /// There is no lock item any more. The row of an open ticket must not stay.
    pub fn is_gone(&mut self, is_settled: bool) -> Act {
        match self.stage {
            Stage::Clearing => self.asks(Seen::Nobody),
            _ if is_settled => self.ends(),
            _ => self.retires(),
        }
    }

    /// The row is void: no poll can give the ticket a slot any more.
    pub fn voided(&mut self) -> Act {
        self.at(Stage::Departing, Act::Depart)
    }

    /// The departure was counted; or it was not, because the ticket was given a slot before, which a place that wants its turn keeps.
    pub fn departed(&mut self, is_applied: bool, found: Found) -> Act {
        match found {
            _ if is_applied => self.ends(),
            Found::Nowhere => self.ends(),
            found if self.is_leaving => self.stands(found),
            Found::Holds => self.holds(),
            Found::Waits => self.waits(),
        }
    }

    /// Where the lock item shows a place that gives back what it has.
    pub fn stands(&mut self, found: Found) -> Act {
        match found {
            Found::Holds => self.at(Stage::GivingBack, Act::Release),
            Found::Waits => self.at(Stage::GivingBack, Act::GiveUp),
            Found::Nowhere => self.ends(),
        }
    }

    /// A slot or a hold was given back; or it was not, for it is elsewhere, or has another number of permits.
    pub fn gave_back(&mut self, is_applied: bool, found: Found) -> Act {
        match is_applied {
            true => self.ends(),
            false => self.stands(found),
        }
    }

    /// Keeps one permit of what it holds.
    pub fn downgrades(&mut self) -> Act {
        self.at(Stage::Downgrading, Act::Downgrade)
    }

    /// Where the answer shows a hold that keeps one permit.
    pub fn downgraded(&mut self, found: Found) -> Act {
        self.is_leaving = found != Found::Holds;
        match found {
            Found::Holds => self.holds(),
            Found::Waits | Found::Nowhere => self.ends(),
        }
    }

    /// The lease of what it was granted is over already: it is given back, and asked for again.
    pub fn declines(&mut self) -> Act {
        self.at(Stage::GivingBack, Act::Find)
    }

    /// The turn was had, or is not wanted any more. Whatever was sent is answered, or will not be.
    ///
    /// `is_settled`: every ticket up to its own is settled or has a slot, as last seen.
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

    /// The same of one whose last request for a slot was not answered: it may have got a place, or get it yet.
    pub fn leaves_unseen(&mut self) -> Act {
        self.is_leaving = true;
        self.at(Stage::GivingBack, Act::Find)
    }

    /// Whether it is on its way out for good.
    pub fn is_leaving(&self) -> bool {
        self.is_leaving
    }

    /// Whether it gives back whatever the lock item shows of it, be it another place of its nonce.
    pub fn gives_back(&self) -> bool {
        self.is_leaving || self.stage == Stage::GivingBack
    }

    /// Whether it holds what it was for, or is on its way out for good.
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
            Ask::Draw | Ask::Snapshot => self.is_in_the_way(),
        }
    }

    fn has_tried_enough(&self) -> bool {
        self.tries >= self.claim.max_tries
    }

    fn is_in_the_way(&mut self) -> Act {
        self.at(Stage::Clearing, Act::Clear)
    }

    /// Somebody alive is in the way. Where the lock is free, that one is on its way to it: to ask again when it has the lock is one
    /// write, and to draw a ticket and wait for it five.
    fn is_refused(&mut self, seen: Seen) -> Act {
        if !self.claim.waits {
            return self.at(Stage::Ended, Act::Refused);
        }
        self.tries = self.tries.saturating_add(1);
        match next_ask(seen, self.claim.shares) {
            Ask::Snapshot if !self.has_tried_enough() => self.at(Stage::Entering, Act::Pause),
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
    /// Somebody has it, and there is a slot.
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
            place.steps(Step::Wait(Standing::Queue)),
            Act::Wait(Standing::Queue)
        );
        assert_eq!(place.polled(), Act::Decide);
        assert_eq!(place.steps(Step::Enter), Act::Hold);
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
        assert_eq!(waits.clears(Refusal::Taken, OPEN), Act::Draw);
        let mut tries = Place::new(TRIES);
        tries.sets_out(Seen::Unknown);
        assert_eq!(tries.asked(Found::Nowhere, HELD), Act::Clear);
        assert_eq!(tries.clears(Refusal::Free, HELD), Act::Enter);
        assert_eq!(tries.asked(Found::Nowhere, HELD), Act::Clear);
        assert_eq!(tries.clears(Refusal::Free, HELD), Act::Refused);
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
        assert_eq!(place.clears(Refusal::Taken, OPEN), Act::Pause);
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
        assert!(!place.gives_back());
        assert_eq!(place.declines(), Act::Find);
        assert!(place.gives_back() && !place.has_held());
        assert_eq!(place.stands(Found::Holds), Act::Release);
        assert_eq!(place.gave_back(true, Found::Nowhere), Act::Again);
        let mut place = Place::new(WAITS);
        place.sets_out(Seen::Unknown);
        assert_eq!(place.leaves_unseen(), Act::Find);
        assert_eq!(place.stands(Found::Nowhere), Act::Over);
    }
}
