//! A holder finds the data that was left last on its lock. A holder that had lost the lock when another was granted it cannot have left
//! that data.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Events;
use super::broken::Broken;
use crate::history::{Event, Left};

/// After this time without a write, the item and its data may have been removed as idle.
const IDLE: Duration = Duration::from_secs(12 * 3600);

#[derive(Default)]
struct Lock {
    /// All data that may be there.
    leaving: BTreeSet<Left>,
    /// The newest data that is certainly there, and since when.
    left: Option<(Left, Duration)>,
    /// The ticket that found data last, and that data.
    found: Option<(u64, Option<Left>)>,
}

pub(super) fn check(events: &Events) -> Result<(), String> {
    let mut locks: BTreeMap<&str, Lock> = BTreeMap::new();
    let broken = Broken::of(events);
    for (at, event) in events {
        match event {
            Event::Leaving { lock, left } => {
                let lock = locks.entry(lock).or_default();
                lock.leaving.insert(*left);
            }
            Event::LeftThere { lock, left } => {
                let lock = locks.entry(lock).or_default();
                lock.left = lock.left.max(Some((*left, *at)));
            }
            // A deletion is of what its client saw, so it takes no data along that came later.
            Event::MayBeDeleted(lock) => {
                locks.entry(lock).or_default().left = None;
            }
            Event::Found {
                lock,
                ticket,
                is_held,
                left,
            } => {
                let name = lock;
                let lock = locks.entry(lock).or_default();
                let now = (*is_held && !broken.is(name, *ticket, *at)).then_some(*at);
                let wrong = lock.finds(*ticket, *left, now);
                wrong.map_err(|wrong| {
                    format!("{at:?}: {ticket} finds {left:?} on {name}: {wrong}")
                })?;
            }
            _ => {}
        }
    }
    Ok(())
}

impl Lock {
    /// If the hold ended before its caller read the data, the oracle does not know which data was there last.
    fn finds(
        &mut self,
        ticket: u64,
        left: Option<Left>,
        now: Option<Duration>,
    ) -> Result<(), String> {
        let is_there = |since: Duration| now.is_some_and(|now| now < since + IDLE);
        let newest = self.left.filter(|(_, since)| is_there(*since));
        if left.is_some_and(|left| !self.leaving.contains(&left)) {
            return Err("nobody left that".to_owned());
        }
        if newest.is_some_and(|(newest, _)| left < Some(newest)) {
            return Err(format!("{newest:?} was there"));
        }
        // If holders share a lock, a smaller ticket may read later.
        let before = self.found.filter(|(before, _)| *before < ticket);
        if let (Some((before, found)), Some(left)) = (before, left)
            && found != Some(left)
            && left.0 < before
        {
            return Err(format!("{before} found {found:?}, and that came after it"));
        }
        self.found = self.found.max(Some((ticket, left)));
        Ok(())
    }
}
