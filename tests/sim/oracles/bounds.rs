//! A hold ends when its caller's longest time is over. No other caller has the lock beside it before its shortest time is over, or before the
//! safety margin after its loss is.
//!
//! Each of these times is counted by the caller's clock, which may run at another rate. The shortest time is claimed only of a hold whose
//! release has succeeded. Nothing is claimed of a hold that an operator broke, or whose place another host gave up for a dead one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Events;
use super::broken::{Broken, MostPermits};
use crate::history::{End, Event, Granted, Share};
use crate::plan::Plan;

/// The clock of a host runs at a rate within this share of the right one, and timers round up.
const DRIFT: f64 = 0.01;
const TICKS: Duration = Duration::from_millis(10);
/// A `Date` has whole seconds.
const GRAIN: Duration = Duration::from_secs(1);

/// How often the oracles had something to compare.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Compared {
    /// Holds that their longest time ended.
    pub(crate) ends: u64,
    /// Holds that were released before their shortest time was over.
    pub(crate) shortest: u64,
    /// Holds with a safety margin that were lost.
    pub(crate) margins: u64,
}

pub(super) fn longest(events: &Events) -> Result<(), String> {
    let mut due: BTreeMap<usize, (Duration, u64)> = BTreeMap::new();
    for (at, event) in events {
        if let Some((until, ticket)) = due.values().find(|(until, _)| until < at) {
            return Err(format!("{at:?}: {ticket} should have ended at {until:?}"));
        }
        match event {
            Event::Granted(it) => {
                let until = |max: Duration| *at + max.div_f64(1.0 - DRIFT) + TICKS;
                let ends = it.bounds.max.map(until);
                due.extend(ends.map(|until| (it.hold, (until, it.ticket))));
            }
            Event::Ended(hold, _) => _ = due.remove(hold),
            _ => {}
        }
    }
    Ok(())
}

/// By clocks, so it may end early by what two of them differ, and by the grain of a `Date`.
pub(super) fn shortest(plan: &Plan, events: &Events) -> Result<(), String> {
    let early = 2 * plan.skew() + GRAIN;
    kept(events, ("shortest time", early), |_| {})
}

pub(super) fn margin(events: &Events) -> Result<(), String> {
    kept(events, ("margin", Duration::ZERO), |_| {})
}

pub(crate) fn compared(events: &Events) -> Compared {
    let mut compared = Compared::default();
    let exactly = |what| (what, Duration::ZERO);
    let _ = kept(events, exactly("shortest time"), |_| compared.shortest += 1);
    let _ = kept(events, exactly("margin"), |_| compared.margins += 1);
    let mut granted = BTreeMap::new();
    for (at, event) in events {
        match event {
            Event::Granted(it) => {
                let max = it.bounds.max.unwrap_or(Duration::MAX);
                granted.insert(it.hold, at.saturating_add(max.mul_f64(1.0 - DRIFT)));
            }
            Event::Ended(hold, End::Lost) => {
                compared.ends += u64::from(granted.get(hold).is_some_and(|due| due <= at));
            }
            _ => {}
        }
    }
    compared
}

/// A hold that has ended for its caller, and that others do not have beside it yet.
struct Kept<'a> {
    of: &'a Granted,
    until: Duration,
}

impl<'a> Kept<'a> {
    /// Returns how long the hold that ended at `at` is kept for this reason, if it is.
    fn by(
        what: &str,
        of: &'a Granted,
        granted: Duration,
        (at, how): (Duration, End),
        is_released: bool,
    ) -> Option<Kept<'a>> {
        let surely = |span: Duration| span.mul_f64(1.0 - 2.0 * DRIFT);
        let until = match (what, how) {
            ("shortest time", End::GivenBack) if is_released => granted + surely(of.bounds.min?),
            ("margin", End::Lost | End::Crashed) => at + surely(of.bounds.margin?),
            _ => return None,
        };
        (at < until).then_some(Kept { of, until })
    }

    /// Whether a hold with this share cannot be had beside it, of which so many permits are left.
    fn excludes(&self, share: Share, left: u64, most: u64) -> bool {
        left == self.of.share.of || share.is_alone() || left + share.permits > most
    }
}

/// Calls `begins` with each hold that is kept for a while.
fn kept<'a>(
    events: &'a Events,
    (what, early): (&str, Duration),
    mut begins: impl FnMut(&Kept<'a>),
) -> Result<(), String> {
    let (broken, released) = (Broken::of(events), released(events));
    // With when it was granted, and how many permits of it are left.
    let mut holds: BTreeMap<usize, (&Granted, Duration, u64)> = BTreeMap::new();
    let mut kept: Vec<(Kept<'a>, u64)> = Vec::new();
    let mut permits = MostPermits::default();
    for (at, event) in events {
        permits.note(event);
        match event {
            // Permits that are given back before the shortest time is over are free once it is.
            Event::Keeps(hold, permits) if what == "margin" => {
                holds.entry(*hold).and_modify(|(.., left)| *left = *permits);
            }
            Event::Ended(hold, how) => {
                let ended = holds.remove(hold).and_then(|(of, granted, left)| {
                    let is_released = released.contains(hold);
                    Some((Kept::by(what, of, granted, (*at, *how), is_released)?, left))
                });
                ended.iter().for_each(|(it, _)| begins(it));
                kept.extend(ended);
            }
            Event::GivenUp { host, lock, ticket } => kept.retain(|(kept, _)| {
                let of = kept.of;
                (of.host, &of.lock, of.place) != (*host, lock, *ticket)
            }),
            Event::Granted(it) => {
                let (lock, ticket, share) = (&it.lock, it.ticket, it.share);
                holds.insert(it.hold, (it, *at, share.permits));
                kept.retain(|(kept, _)| {
                    *at + early < kept.until && !broken.is(&kept.of.lock, kept.of.ticket, *at)
                });
                let mut of_lock = kept.iter().filter(|(kept, _)| kept.of.lock == *lock);
                let most = permits.of(lock, share);
                let early = of_lock.find(|(kept, left)| kept.excludes(share, *left, most));
                if let Some((kept, _)) = early {
                    let (of, until) = (kept.of.ticket, kept.until);
                    return Err(format!(
                        "{at:?}: {ticket} has {lock} before {until:?}, the {what} of {of}"
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// The holds whose release has succeeded.
fn released(events: &Events) -> BTreeSet<usize> {
    let released = events.iter().filter_map(|(_, event)| match event {
        Event::Released(hold) => Some(*hold),
        _ => None,
    });
    released.collect()
}
