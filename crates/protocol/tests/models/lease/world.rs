//! The model of time: one owner, one observer, somebody who seats, and a clock that ticks between any two steps.

use stateright::{Model, Property};

use super::observer::{Look as Sight, Observer};
use super::owner::{Course, Flight, Look, Mark, Owner, Write};
use super::rules::{Mutant, Rules};

pub(crate) const STOPPED: &str = "who is evicted has stopped believing";
pub(crate) const HELD: &str = "somebody believes it holds";
pub(crate) const EVICTED: &str = "somebody is evicted";
pub(crate) const SEATED_OLD: &str = "a seat shows an older beat than the row";

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) first: Write,
    pub(crate) renewals: u8,
    /// Looks of the owner; the observer's are not counted.
    pub(crate) looks: u8,
    pub(crate) copies: u8,
    pub(crate) horizon: u8,
    /// The row may be renewed for a longer lease too.
    pub(crate) stretches: bool,
    pub(crate) rules: Rules,
}

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct World {
    now: u8,
    /// What the table shows of the owner.
    row: Option<Mark>,
    item: Option<Mark>,
    owner: Owner,
    observer: Observer,
    /// What a seat on its way copies.
    seating: Option<Mark>,
    was_seated: bool,
    /// The row was asked to be renewed for a longer lease.
    stretched: bool,
    /// A copy of a request whose answer nobody hears.
    late: Option<(Write, u8)>,
    copies: u8,
    was_evicted: bool,
    evicted_a_believer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Tick,
    Renew(Write),
    Apply(Write),
    Answer(Write),
    /// No answer came in time: sent once more, the first copy still under way.
    Retry(Write),
    Late,
    Look,
    ReadLook,
    HearLook,
    ReadRowToSeat,
    Seat,
    RemoveRow,
    Observe,
    ObserveItem,
    ObserveRow,
    HearObservation,
    SendEviction,
    Evict,
}

impl Model for Setup {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut world = World {
            copies: self.copies,
            ..World::default()
        };
        world.owner.renewals = self.renewals;
        world.owner.looks = self.looks;
        world.owner.send(self.first, 0);
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.now < self.horizon && !world.was_evicted {
            actions.push(Action::Tick);
            world.of_the_owner(self, actions);
            world.of_others(actions);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        let rules = &self.rules;
        match action {
            Action::Tick => {
                world.now += 1;
                world.owner.watch_the_clock(world.now, rules);
            }
            Action::Renew(write) => {
                world.owner.renewals -= 1;
                world.stretched |= write == Write::StretchRow;
                world.owner.send(write, world.now);
            }
            Action::Apply(write) => world.apply(write, rules),
            Action::Answer(write) => world.answer(write, rules),
            Action::Retry(write) => world.retry(write, rules),
            Action::Late => {
                let late = world.late.take();
                late.map(|(write, beat)| world.write(write, beat, rules));
            }
            Action::Look | Action::ReadLook | Action::HearLook => world.owner_looks(rules),
            Action::ReadRowToSeat => world.seating = world.row,
            Action::Seat => {
                world.item = world.seating.take();
                world.was_seated = true;
            }
            Action::RemoveRow => world.row = None,
            Action::SendEviction => world.observer.judge(world.now, rules),
            Action::Evict => world.evict(rules),
            _ => world.observe(action, rules),
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            Property::<Self>::always(STOPPED, |_, world| !world.evicted_a_believer),
            Property::<Self>::sometimes(HELD, |_, world| world.owner.believes()),
            Property::<Self>::sometimes(EVICTED, |_, world| world.was_evicted),
        ];
        if self.first == Write::Join {
            all.push(Property::<Self>::sometimes(SEATED_OLD, |_, world| {
                let beat = |mark: Option<Mark>| mark.map(|mark| mark.beat);
                world.item.is_some() && beat(world.item) < beat(world.row)
            }));
        }
        all
    }
}

impl World {
    fn of_the_owner(&self, setup: &Setup, actions: &mut Vec<Action>) {
        let owner = &self.owner;
        for flight in owner.row.iter().chain(&owner.seat) {
            actions.push(match flight.course {
                Course::Sent => Action::Apply(flight.write),
                _ => Action::Answer(flight.write),
            });
            if self.copies > 0 && self.late.is_none() {
                actions.push(Action::Retry(flight.write));
            }
        }
        if owner.renewals > 0 && owner.beats.is_some() {
            // The row is renewed until the seat is seen, the seat from then on.
            let in_row = self.was_seated || self.row.is_some();
            if owner.row.is_none() && owner.held.is_none() && in_row {
                actions.push(Action::Renew(Write::RenewRow));
                if setup.stretches {
                    actions.push(Action::Renew(Write::StretchRow));
                }
            }
            if owner.seat.is_none() && owner.held.is_some() {
                actions.push(Action::Renew(Write::RenewSeat));
            }
        }
        actions.extend(match owner.look {
            None if owner.looks > 0 && owner.beats.is_some() => Some(Action::Look),
            None => None,
            Some(Look::Sent) => Some(Action::ReadLook),
            Some(Look::Read(_)) => Some(Action::HearLook),
        });
    }

    fn of_others(&self, actions: &mut Vec<Action>) {
        actions.extend(self.late.map(|_| Action::Late));
        if self.row.is_some() && !self.was_seated && self.seating != self.row {
            actions.push(Action::ReadRowToSeat);
        }
        actions.extend(self.seating.map(|_| Action::Seat));
        // It stands behind those who are seated: a late copy may put it there again, and a renewal for another lease is refused.
        let is_renewed = self
            .owner
            .row
            .is_some_and(|flight| flight.course == Course::Sent);
        let is_told = self.late == Some((Write::Join, 0)) || self.stretched && is_renewed;
        if self.was_seated && self.row.is_some() && is_told {
            actions.push(Action::RemoveRow);
        }
        actions.push(match self.observer.look {
            None => Action::Observe,
            Some(Sight { item: None, .. }) => Action::ObserveItem,
            Some(Sight { .. }) => Action::HearObservation,
        });
        if let Some(Sight {
            item: Some(_),
            row: None,
            ..
        }) = self.observer.look
        {
            actions.push(Action::ObserveRow);
        }
        if self.observer.eviction.is_none() && self.observer.seen.is_some() {
            actions.push(Action::SendEviction);
        }
        actions.extend(self.observer.eviction.map(|_| Action::Evict));
    }

    /// What a write does to the table: what it shows then, if its condition held.
    fn write(&mut self, write: Write, beat: u8, rules: &Rules) -> Option<Mark> {
        let place = match write {
            Write::Join | Write::RenewRow | Write::StretchRow => &mut self.row,
            Write::Enter | Write::RenewSeat => &mut self.item,
        };
        let lease = write.lease();
        *place = match (write, *place) {
            // A failed condition that shows our own nonce is a success.
            (Write::Enter | Write::Join, at) => Some(at.unwrap_or(Mark { beat, lease })),
            (_, Some(mark)) if rules.broken(Mutant::BeatsCountedInTheTable) => Some(Mark {
                beat: mark.beat + 1,
                lease,
            }),
            (_, Some(mark)) if mark.beat < beat || rules.broken(Mutant::BeatsGoBack) => {
                Some(Mark { beat, lease })
            }
            (_, at) => at,
        };
        *place
    }

    fn apply(&mut self, write: Write, rules: &Rules) {
        let Some(Flight { beat, .. }) = *self.owner.flight(write) else {
            return;
        };
        let mark = self.write(write, beat, rules);
        if let Some(flight) = self.owner.flight(write) {
            flight.course = mark.map_or(Course::Failed, Course::Applied);
        }
    }

    fn answer(&mut self, write: Write, rules: &Rules) {
        if let Some(flight) = *self.owner.flight(write) {
            self.owner.answered(flight, self.now, rules);
        }
    }

    /// The first copy was applied and its answer lost, or is still under way; or both, if the network made two of it.
    fn retry(&mut self, write: Write, rules: &Rules) {
        self.copies -= 1;
        if let Some(flight) = *self.owner.flight(write) {
            self.late = Some((write, flight.beat));
            self.owner.send_again(flight, self.now, rules);
        }
    }

    fn owner_looks(&mut self, rules: &Rules) {
        match self.owner.look {
            None => {
                self.owner.looks -= 1;
                self.owner.look = Some(Look::Sent);
            }
            Some(Look::Sent) => self.owner.look = Some(Look::Read(self.item)),
            Some(Look::Read(shown)) => {
                self.owner.look = None;
                if let Some(mark) = shown {
                    self.owner.shown(mark, self.now, rules);
                }
            }
        }
    }

    fn observe(&mut self, action: Action, rules: &Rules) {
        let look = &mut self.observer.look;
        match (action, *look) {
            (Action::Observe, None) => *look = Some(Sight::sent(self.now)),
            (Action::ObserveItem, Some(sight)) => {
                let item = Some(self.item);
                *look = Some(Sight { item, ..sight });
            }
            (Action::ObserveRow, Some(sight)) => {
                let row = Some(self.row);
                *look = Some(Sight { row, ..sight });
            }
            (_, Some(sight)) => self.observer.arrived(sight, self.now, rules),
            _ => {}
        }
    }

    fn evict(&mut self, rules: &Rules) {
        let judged = self.observer.eviction.take();
        let any_beat = rules.broken(Mutant::EvictWithoutBeat) && self.item.is_some();
        if judged == self.item.map(|mark| mark.beat) || any_beat {
            self.item = None;
            self.was_evicted = true;
            self.evicted_a_believer = self.owner.believes();
        }
    }
}
