//! The model of the server clock: an owner, a caller, front ends that disagree, and true time.

use stateright::{Model, Property};

use super::caller::{Caller, Flight as Write};
use super::owner::{Course, Flight, Owner, What};
use super::rules::{FrontEnd, Mutant, Rules, Way};
use super::table::Mark;

use fairlock_protocol::write::Dating;

pub(crate) const STOPPED: &str = "who is evicted has stopped believing";
pub(crate) const HELD: &str = "somebody believes it holds";
pub(crate) const EVICTED: &str = "somebody is evicted";
pub(crate) const DATED: &str = "a caller dates an entry";
pub(crate) const MISLED: &str = "somebody is told the time by the front end that is wrong";

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) asks: u8,
    pub(crate) renewals: u8,
    pub(crate) losses: u8,
    /// Whether the owner turns its hold into a lease in the end.
    pub(crate) leases_out: bool,
    /// Polls of one process of the caller: the next process knows nothing.
    pub(crate) polls: u8,
    /// The last tick at which the owner sends a request.
    pub(crate) sends_until: u8,
    /// More ticks than the dates of an entry can differ from the time, its lease and the allowance included.
    pub(crate) long: u8,
    pub(crate) rules: Rules,
}

impl World {
    /// Whether the dead owner is evicted, or its write never came to the table.
    pub(crate) fn is_end(&self) -> bool {
        self.was_evicted || self.owner.lost && self.table.is_none()
    }
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct World {
    now: u8,
    /// By how much the wrong front end is wrong, once a client met it.
    wrong: Option<i16>,
    table: Option<Mark>,
    owner: Owner,
    caller: Caller,
    was_dated: bool,
    /// Whether time has not yet gone by since the owner was gone, or since the entry was given its date.
    may_rest: bool,
    pub(crate) was_evicted: bool,
    evicted_a_believer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    Tick,
    Ask(Way),
    Begin(What),
    Serve(Way),
    Hear,
    /// No answer arrives.
    Lose,
    Late,
    Snapshot(Way),
    /// The write that the caller has under way is applied.
    Apply,
    /// The owner is gone, and time goes by.
    Rest,
}

impl Action {
    /// Whether a dead owner must be evicted in the end without this action.
    pub(crate) fn is_fault(&self) -> bool {
        let is_wrong = self
            .way()
            .is_some_and(|way| matches!(way, Way::New(FrontEnd::Wrong(_))));
        is_wrong || *self == Action::Lose
    }

    fn way(self) -> Option<Way> {
        match self {
            Action::Ask(way) | Action::Serve(way) | Action::Snapshot(way) => Some(way),
            _ => None,
        }
    }
}

impl Model for Setup {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            now: 0,
            wrong: None,
            table: None,
            owner: Owner {
                asks: self.asks,
                renewals: self.renewals,
                losses: self.losses,
                leases_out: self.leases_out,
                ..Owner::default()
            },
            caller: Caller::new(self.polls),
            was_dated: false,
            may_rest: true,
            was_evicted: false,
            evicted_a_believer: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.was_evicted {
            return;
        }
        if world.owner.lost {
            if world.may_rest {
                actions.push(Action::Rest);
            }
        } else if world.owner.has_entered || world.now < self.sends_until {
            actions.push(Action::Tick);
        }
        world.of_the_owner(self, actions);
        world.of_the_caller(self, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        let rules = &self.rules;
        if let Some(Way::New(FrontEnd::Wrong(by))) = action.way() {
            world.wrong = Some(by);
        }
        match action {
            Action::Tick => world.now += 1,
            Action::Ask(way) => world.owner.ask(way, world.now),
            Action::Begin(what) => {
                match what {
                    What::Renew(beat) => {
                        world.owner.renewals -= 1;
                        world.owner.renewed = beat;
                    }
                    What::LeaseOut(beat) => world.owner.renewed = beat,
                    What::Ask | What::Enter => {}
                }
                world.owner.begin(what, world.now, rules);
            }
            Action::Serve(way) => world.serve(way, rules),
            Action::Hear => world.owner.hear(world.now, rules),
            Action::Lose => world.owner.lose(),
            Action::Late => world.late(rules),
            Action::Snapshot(way) => world.caller.poll(way, world.table?, world.now, rules),
            Action::Apply => world.apply(rules),
            Action::Rest => {
                world.may_rest = false;
                world.now += self.long;
                world.caller = Caller::new(self.polls);
            }
        }
        world.owner.watch_the_clock(world.now, rules);
        if world.caller.is_through() {
            world.caller = Caller::new(self.polls);
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(STOPPED, |_, world| !world.evicted_a_believer),
            Property::<Self>::sometimes(HELD, |_, world| world.owner.believes()),
            Property::<Self>::sometimes(EVICTED, |_, world| world.was_evicted),
            Property::<Self>::sometimes(DATED, |_, world| world.was_dated),
            Property::<Self>::sometimes(MISLED, |_, world| world.wrong.is_some()),
        ]
    }
}

impl World {
    fn of_the_owner(&self, setup: &Setup, actions: &mut Vec<Action>) {
        let owner = &self.owner;
        let ways = || owner.client.ways(self.wrong, &setup.rules).into_iter();
        let sends = self.now <= setup.sends_until && owner.client.has_room();
        match owner.flight.map(|flight| flight.course) {
            None if sends => {
                let stamps_more = owner.renewals > 0 || owner.leases_out;
                if owner.asks > 0 && (!owner.has_entered || stamps_more) {
                    actions.extend(ways().map(Action::Ask));
                }
                if !owner.has_entered {
                    actions.push(Action::Begin(What::Enter));
                } else if owner.renewals > 0 && owner.believes() {
                    actions.push(Action::Begin(What::Renew(owner.renewed + 1)));
                } else if owner.leases_out && owner.believes() {
                    actions.push(Action::Begin(What::LeaseOut(owner.renewed + 1)));
                }
            }
            None => {}
            Some(Course::Sent) => actions.extend(ways().map(Action::Serve)),
            Some(Course::Served { .. }) => actions.push(Action::Hear),
        }
        if owner.losses > 0 && owner.late.is_none() {
            actions.extend(owner.flight.map(|_| Action::Lose));
        }
        actions.extend(owner.late.map(|_| Action::Late));
    }

    fn of_the_caller(&self, setup: &Setup, actions: &mut Vec<Action>) {
        let caller = &self.caller;
        if self.table.is_some() && caller.may_poll() {
            let ways = caller.client.ways(self.wrong, &setup.rules);
            actions.extend(ways.into_iter().map(Action::Snapshot));
        }
        actions.extend(caller.flight.map(|_| Action::Apply));
    }

    /// The request that the owner has under way is applied.
    fn serve(&mut self, way: Way, rules: &Rules) {
        if let Some(flight) = self.owner.flight {
            let shows = self.write(flight, rules);
            let course = self.owner.served(way, shows, self.now);
            self.owner.flight = Some(Flight { course, ..flight });
        }
    }

    /// A copy is applied whose answer the owner never hears.
    fn late(&mut self, rules: &Rules) {
        let Some(late) = self.owner.late.take() else {
            return;
        };
        self.write(late, rules);
        if let (Dating::By(date), true) = (late.dating, rules.broken(Mutant::LateCopiesDate)) {
            let date = Some(date);
            self.table = self.table.map(|mark| Mark { date, ..mark });
        }
    }

    /// Applies a write of the owner to the table. Returns what the table shows then, or `None` if a later date stands there.
    fn write(&mut self, flight: Flight, rules: &Rules) -> Option<Mark> {
        match (flight.what, self.table) {
            (What::Enter, None) => {
                let date = match flight.dating {
                    Dating::By(date) => Some(date),
                    _ => None,
                };
                self.table = Some(Mark {
                    beat: 0,
                    date,
                    named: false,
                });
            }
            (What::Renew(beat), Some(mark)) => {
                let renewed = mark.renewed(beat, rules.lease, flight.dating);
                self.table = renewed.or(self.table);
                // Refused with its own beat there: the renewal came twice.
                return self.table.filter(|mark| mark.beat >= beat);
            }
            (What::LeaseOut(beat), Some(mark)) => {
                let Dating::By(date) = flight.dating else {
                    return None;
                };
                let leased = mark.leased_out(beat, rules.lease, date);
                self.table = leased.or(self.table);
                return leased;
            }
            _ => {}
        }
        self.table
    }

    fn apply(&mut self, rules: &Rules) {
        let (Some(write), Some(mark)) = (self.caller.flight.take(), self.table) else {
            return;
        };
        match write {
            Write::Date(seen, date) => {
                let dated = mark.dated(seen, rules.lease, date);
                self.was_dated |= dated.is_some();
                self.may_rest |= dated.is_some();
                self.table = dated.or(self.table);
            }
            Write::Evict(seen) if mark.is_evicted(seen, rules.lease) => {
                self.was_evicted = true;
                self.evicted_a_believer = self.owner.may_believe(self.now, rules);
            }
            Write::Evict(_) => self.caller.refused(mark, self.now, rules),
        }
    }
}
