//! The places that an operator has broken, and what their owners are told.
//!
//! A broken holder works on until it learns of that, so little is claimed of it: only that its tokens are refused once there is a newer one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Events;
use crate::history::{Break, Event, Share};

/// Broken places by lock and newest ticket: the first ticket, and when the break was asked for.
#[derive(Default)]
pub(super) struct Broken<'a>(BTreeMap<(&'a str, u64), (u64, Duration)>);

impl<'a> Broken<'a> {
    /// All places of which it is not certain that the break found them changed, or gone.
    pub(super) fn of(events: &'a Events) -> Self {
        let mut broken = Broken::default();
        for (it, at) in breaks(events) {
            let (first, last) = it.tickets;
            broken.0.entry((&it.lock, last)).or_insert((first, at));
        }
        broken
    }

    /// Whether the ticket's place may have been broken by then.
    pub(super) fn is(&self, lock: &str, ticket: u64, at: Duration) -> bool {
        let mut from = self.0.range((lock, ticket)..=(lock, u64::MAX));
        let place = from.next();
        place.is_some_and(|(_, (first, since))| *first <= ticket && *since <= at)
    }
}

/// The largest number of permits that an operator has asked for, of each lock.
#[derive(Default)]
pub(super) struct MostPermits<'a>(BTreeMap<&'a str, u64>);

impl<'a> MostPermits<'a> {
    pub(super) fn note(&mut self, event: &'a Event) {
        if let Event::Resizes { lock, permits } = event {
            let most = self.0.entry(lock).or_default();
            *most = (*most).max(*permits);
        }
    }

    /// How many permits a lock may have, of which this share was had.
    pub(super) fn of(&self, lock: &str, share: Share) -> u64 {
        let asked_for = self.0.get(lock).copied();
        asked_for.unwrap_or_default().max(share.of)
    }
}

/// All breaks but those that have changed nothing, and when each was asked for. Each has a reason of its own.
fn breaks(events: &Events) -> impl Iterator<Item = (&Break, Duration)> {
    let spared = events.iter().filter_map(|(_, event)| match event {
        Event::Spared(reason) => Some(reason),
        _ => None,
    });
    let spared: BTreeSet<_> = spared.collect();
    events.iter().filter_map(move |(at, event)| match event {
        Event::Broken(it) if !spared.contains(&it.reason) => Some((it, *at)),
        _ => None,
    })
}

/// The places that may have been broken: their host, their newest ticket, and when the break was asked for.
pub(super) fn places(events: &Events) -> impl Iterator<Item = (&str, usize, u64, Duration)> {
    breaks(events).filter_map(|(it, at)| Some((it.lock.as_str(), it.host?, it.tickets.1, at)))
}

/// A holder is told of a break of its own hold, by the reason that the operator gave. It is told of a request to give way that was made at
/// its lock.
pub(super) fn told(events: &Events) -> Result<(), String> {
    let (mut breaks, mut asks) = (BTreeMap::new(), BTreeSet::new());
    for (at, event) in events {
        let is_true = match event {
            Event::Broken(it) => {
                breaks.insert(&it.reason, it);
                true
            }
            Event::AsksToYield { lock, reason } => {
                asks.insert((lock, reason));
                true
            }
            Event::ToldBroken {
                lock,
                ticket,
                reason,
            } => breaks.get(reason).is_some_and(|it| {
                let (first, last) = it.tickets;
                it.lock == *lock && (first..=last).contains(ticket)
            }),
            Event::ToldToYield { lock, reason } => asks.contains(&(lock, reason)),
            _ => true,
        };
        if !is_true {
            return Err(format!("{at:?}: {event:?}"));
        }
    }
    Ok(())
}
