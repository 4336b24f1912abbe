//! The model of an item's time: clients that make it and use it by both clocks, DynamoDB that deletes it by its own, and a sweeper.

use std::time::Duration;

use fairlock_protocol::lease::believed;
use fairlock_protocol::moment::ServerTime;
use fairlock_protocol::stamps::{self, Reading, Stamps};
use stateright::{Model, Property};

use super::rules::{Mutant, Rules, millis};

pub(crate) const STAYS: &str = "an item stays under who believes";
pub(crate) const GROWS: &str = "an item that was deleted comes back with larger tickets";
pub(crate) const AGAIN: &str = "an item comes back";

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// How long an item stays after its use. The longest lease is half of it.
    pub(crate) retention: Duration,
    pub(crate) horizon: u8,
    pub(crate) rules: Rules,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Item {
    /// In seconds since 1970.
    expiry: u64,
    /// Until when it is held, in true time. The entry stands there until the end of its lease is seen.
    until: i64,
}

#[derive(Clone, Debug, Hash)]
pub(crate) struct World {
    now: u8,
    item: Option<Item>,
    /// The newest ticket so far: a time.
    newest: Duration,
    /// What a sweeper is about to remove.
    sweeps: Option<Item>,
    broken: Option<&'static str>,
    came_back: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Tick,
    /// A client makes the item, or takes the lock.
    Use(Reading),
    /// DynamoDB deletes it.
    Expire,
    Sweep(Reading),
    Remove,
}

impl Model for Setup {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            now: 0,
            item: None,
            newest: Duration::ZERO,
            sweeps: None,
            broken: None,
            came_back: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.broken.is_some() {
            return;
        }
        let time = self.rules.time(world.now);
        if world.now < self.horizon {
            actions.push(Action::Tick);
        }
        let is_held = |item: Item| time < item.until;
        let reads = || self.rules.readings(1, time).into_iter();
        if !world.item.is_some_and(is_held) {
            actions.extend(reads().map(Action::Use));
            let sweeps = world.item.is_some() && world.sweeps.is_none();
            actions.extend(reads().filter(|_| sweeps).map(Action::Sweep));
        }
        let is_expired = |item: Item| millis(time) >= Duration::from_secs(item.expiry);
        actions.extend(world.item.is_some_and(is_expired).then_some(Action::Expire));
        actions.extend(world.sweeps.map(|_| Action::Remove));
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        let time = self.rules.time(world.now);
        match action {
            Action::Tick => world.now += 1,
            Action::Use(read) => world.is_used(read, self)?,
            Action::Expire => {
                let item = world.item.take()?;
                world.broken = (time < item.until).then_some(STAYS);
            }
            Action::Sweep(read) => {
                let item = world.item?;
                let by_walls = Reading {
                    date: Some(ServerTime(Duration::MAX)),
                    ..read
                };
                let is_idle = match self.rules.broken(Mutant::SweepsByWalls) {
                    true => stamps::is_idle(item.expiry, by_walls),
                    false => stamps::is_idle(item.expiry, read),
                };
                world.sweeps = Some(item).filter(|_| is_idle);
            }
            Action::Remove => {
                let seen = world.sweeps.take()?;
                // Free, with the expiry that was seen.
                world.item = world.item.filter(|item| *item != seen);
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(STAYS, |_, world| world.broken != Some(STAYS)),
            Property::<Self>::always(GROWS, |_, world| world.broken != Some(GROWS)),
            Property::<Self>::sometimes(AGAIN, |_, world| world.came_back),
        ]
    }
}

impl World {
    /// A client that knows both times takes the lock, for the longest lease that there may be.
    fn is_used(&mut self, read: Reading, setup: &Setup) -> Option<()> {
        let own = read.stamps();
        let now = match setup.rules.broken(Mutant::ItemsByTheEarlier) {
            true => earlier(own),
            false => own.later(),
        }?;
        if self.item.is_none() {
            self.broken = (now <= self.newest).then_some(GROWS);
            self.came_back |= !self.newest.is_zero();
            self.newest = now;
        }
        let half = setup.retention / 2;
        let stays = |item: &Item| (now + half).as_secs() <= item.expiry;
        let stays = self.item.filter(stays).map(|item| item.expiry);
        self.item = Some(Item {
            expiry: stays.unwrap_or((now + setup.retention).as_secs()),
            until: setup.rules.time(self.now) + setup.rules.whole(believed(half)),
        });
        Some(())
    }
}

fn earlier(own: Stamps) -> Option<Duration> {
    let [server, host] = [own.server.map(|it| it.0), own.host.map(|it| it.0)];
    server.min(host)
}
