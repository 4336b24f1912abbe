//! The model of a dead owner: two newcomers whose clocks are ahead or behind by anything poll at any time, and each ends the entry within
//! a bound from its own first poll on.

use std::time::Duration;

use fairlock_protocol::moment::HostTime;
use fairlock_protocol::stamps::{Stamps, Wall};
use stateright::{Model, Property};

use super::rules::{Rules, millis};
use crate::blank::{both, reads};

pub(crate) const BOUNDED: &str = "a newcomer ends what is dead in time";
pub(crate) const LAST: &str = "an entry is ended as late as may be";

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) lease: Duration,
    pub(crate) is_given_back: bool,
    /// What the owner's stamps may be off by, in milliseconds; absent if it knew no time.
    pub(crate) stamps: [&'static [Option<i64>]; 2],
    /// What the clocks of a newcomer may be off by, for good.
    pub(crate) clocks: [&'static [i64]; 2],
    /// How long after its lease a newcomer must have ended the entry, from its first poll on, or from the last write of the owner.
    pub(crate) within: i64,
    pub(crate) from_the_end: bool,
    pub(crate) horizon: u8,
    pub(crate) rules: Rules,
}

/// What its `Date`s and its wall clock are off by, and when it polled first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Newcomer(i64, i64, Option<u8>);

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct World {
    now: u8,
    table: Option<Stamps>,
    newcomers: Vec<Newcomer>,
    is_broken: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// What the owner left.
    Leave(Stamps),
    /// The clocks of the next newcomer.
    Come(Newcomer),
    Tick,
    /// A newcomer polls, and what it writes is applied.
    Poll(usize),
}

impl Model for Setup {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::default()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.newcomers.len() < 2 {
            for dates in self.clocks[0] {
                let comes = |walls| Action::Come(Newcomer(*dates, walls, None));
                actions.extend(self.clocks[1].iter().copied().map(comes));
            }
        } else if world.now == 0 && world.table.is_none() {
            let time = |off: i64| millis(self.rules.time(0) + off);
            for dates in self.stamps[0] {
                let leaves =
                    |walls: &Option<i64>| Action::Leave(both(dates.map(time), walls.map(time)));
                actions.extend(self.stamps[1].iter().map(leaves));
            }
        } else if world.table.is_some() && !world.is_broken {
            actions.extend((world.now < self.horizon).then_some(Action::Tick));
            actions.extend([Action::Poll(0), Action::Poll(1)]);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Leave(stamps) => world.table = Some(stamps),
            Action::Come(newcomer) => world.newcomers.push(newcomer),
            Action::Tick => world.now += 1,
            Action::Poll(who) => world.poll(who, self)?,
        }
        // An entry that was ended is no entry that was not left yet.
        world.now = world.now.max(u8::from(
            world.table.is_none() && world.newcomers.len() == 2 && last.table.is_some(),
        ));
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(BOUNDED, |_, world| !world.is_broken),
            Property::<Self>::sometimes(LAST, |setup, world| {
                world.table.is_none() && world.now == setup.horizon
            }),
        ]
    }
}

impl World {
    fn poll(&mut self, who: usize, setup: &Setup) -> Option<()> {
        let (now, rules) = (self.now, &setup.rules);
        let Newcomer(dates, walls, since) = self.newcomers.get_mut(who)?;
        let (since, time) = (*since.get_or_insert(now), rules.time(now));
        let wall = Wall::Shows(HostTime(millis(time + *walls)));
        let read = reads(Some(millis(time + *dates)), wall);
        let shows = self.table?;
        if rules.is_over((shows, setup.lease, setup.is_given_back), read) {
            self.table = None;
            return Some(());
        }
        let passed = time - rules.time(if setup.from_the_end { 0 } else { since });
        self.is_broken = passed > rules.whole(setup.lease) + setup.within;
        let redated = rules.redated(shows, read);
        self.table = Some(redated.unwrap_or(shows));
        Some(())
    }
}
