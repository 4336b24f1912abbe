//! The model of a dead owner: two newcomers whose clocks are ahead or behind by anything poll at any time, and each ends the entry within
//! a bound from its own first poll on.

use std::time::Duration;

use fairlock_protocol::moment::{HostTime, ServerTime};
use fairlock_protocol::stamps::{Reading, Stamps, Wall};
use stateright::{Model, Property};

use super::rules::{Rules, millis};

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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Newcomer {
    dates: i64,
    walls: i64,
    since: Option<u8>,
}

#[derive(Clone, Debug, Hash)]
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
        vec![World {
            now: 0,
            table: None,
            newcomers: Vec::new(),
            is_broken: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.newcomers.len() < 2 {
            let walls = |dates: i64| self.clocks[1].iter().map(move |walls| (dates, *walls));
            let both = self.clocks[0].iter().flat_map(|dates| walls(*dates));
            actions.extend(both.map(|(dates, walls)| {
                let since = None;
                Action::Come(Newcomer {
                    dates,
                    walls,
                    since,
                })
            }));
        } else if world.now == 0 && world.table.is_none() {
            let time = |off: i64| millis(self.rules.time(0) + off);
            let hosts = |dates: Option<i64>| {
                self.stamps[1].iter().map(move |walls| Stamps {
                    server: dates.map(|off| ServerTime(time(off))),
                    host: walls.map(|off| HostTime(time(off))),
                })
            };
            let left = self.stamps[0].iter().flat_map(|dates| hosts(*dates));
            actions.extend(left.map(Action::Leave));
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
        let newcomer = self.newcomers.get_mut(who)?;
        let since = *newcomer.since.get_or_insert(now);
        let time = rules.time(now);
        let read = Reading {
            date: Some(ServerTime(millis(time + newcomer.dates))),
            wall: Wall::Shows(HostTime(millis(time + newcomer.walls))),
        };
        let shows = self.table?;
        if rules.is_over(shows, setup.lease, setup.is_given_back, read) {
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
