//! The model of an item's time: clients that make it and use it by both clocks, DynamoDB that deletes it by its own, and a sweeper.

use std::time::Duration;

use fairlock_protocol::lease::believed;
use fairlock_protocol::stamps::{self, Reading};
use stateright::{Model, Property};

use super::rules::{Mutant, Rules, millis};
use crate::blank::{parts, reads};

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

#[derive(Clone, Debug, Default, Hash)]
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
        vec![World::default()]
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
                let read = match self.rules.broken(Mutant::SweepsByWalls) {
                    true => reads(Some(Duration::MAX), read.wall),
                    false => read,
                };
                world.sweeps = Some(item).filter(|_| stamps::is_idle(item.expiry, read));
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
            true => parts(own).into_iter().min().flatten(),
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
