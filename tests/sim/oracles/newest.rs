//! Each hold has its own nonce. A late copy of an enter may bring a nonce back, but no caller believes in that hold. While it stands there,
//! nothing is applied that was sent for the hold before it.
//!
//! This case is allowed: an operator broke the first hold before its client had an answer, so that no caller has ever believed in it.

use std::collections::BTreeMap;

use super::Events;
use super::broken::Broken;
use crate::applied::{Act, Applied};
use crate::history::Event;
use crate::shown::Shown;

/// What the server's answers showed of one lock.
#[derive(Default)]
struct Lock<'a> {
    /// The newest ticket of its item.
    last: Option<u64>,
    /// All places that ever existed: by their newest ticket, the first ticket and the nonce.
    places: BTreeMap<u64, (u64, &'a str)>,
    /// The first and the newest ticket under which a nonce held the lock, since its item was created.
    holds: BTreeMap<&'a str, (u64, u64)>,
    /// How often a nonce held the lock again, under another ticket.
    revived: u64,
    /// The ticket under which a caller has believed in a nonce.
    believed: BTreeMap<&'a str, u64>,
}

pub(super) fn check(events: &Events) -> Result<(), String> {
    let mut locks: BTreeMap<&str, Lock<'_>> = BTreeMap::new();
    let broken = Broken::of(events);
    for (at, event) in events {
        let done = match event {
            Event::Applied(applied) => locks.entry(&applied.lock).or_default().applies(applied),
            Event::Granted(it) => {
                let is_broken = |ticket| broken.is(&it.lock, ticket, *at);
                let lock = locks.entry(&it.lock).or_default();
                lock.is_believed(it.ticket, is_broken)
            }
            _ => Ok(()),
        };
        done.map_err(|wrong| format!("{at:?}: {wrong}"))?;
    }
    Ok(())
}

/// How often a hold came back to life, under the nonce of a hold that had ended.
pub(crate) fn revived(events: &Events) -> u64 {
    let mut locks: BTreeMap<&str, Lock<'_>> = BTreeMap::new();
    for (_, event) in events {
        if let Event::Applied(applied) = event {
            locks.entry(&applied.lock).or_default().shows(applied);
        }
    }
    locks.values().map(|lock| lock.revived).sum()
}

impl<'a> Lock<'a> {
    fn applies(&mut self, applied: &'a Applied) -> Result<(), String> {
        let done = applied.act.as_ref().map_or(Ok(()), |act| self.acts(act));
        self.shows(applied);
        done.map_err(|wrong| format!("{} on {}: {wrong}", applied.verb, applied.lock))
    }

    fn acts(&self, Act { nonce, ticket }: &Act) -> Result<(), String> {
        match self.holds.get(nonce.as_str()) {
            Some((_, newest)) if newest == ticket => Ok(()),
            holds => Err(format!(
                "for {ticket}, and {nonce} has had it with {holds:?}"
            )),
        }
    }

    fn shows(&mut self, applied: &'a Applied) {
        let Some(shown) = &applied.shown else { return };
        if self.is_made_anew(shown) {
            // Places on the deleted item ended with it. A client that entered there and received no answer may enter here.
            self.holds.clear();
        }
        self.last = Some(shown.last);
        for place in shown.places() {
            let position_of = (place.first, place.nonce.as_str());
            self.places.entry(place.ticket).or_insert(position_of);
        }
        for hold in shown.holders() {
            let holds = self.holds.entry(&hold.nonce);
            let (first, newest) = holds.or_insert((hold.ticket, hold.ticket));
            self.revived += u64::from(*newest < hold.ticket);
            (*first, *newest) = (hold.ticket.min(*first), hold.ticket.max(*newest));
        }
    }

    /// Whether the item was created again: the first tickets of a new item do not continue those of the item before it.
    fn is_made_anew(&self, shown: &Shown) -> bool {
        let next = self.last.map_or(0, |last| last + 1);
        let drawn = shown.places().map(|place| place.first);
        let newest = drawn.filter(|first| next <= *first).min();
        newest.is_some_and(|first| first != next)
    }

    fn is_believed(&mut self, ticket: u64, is_broken: impl Fn(u64) -> bool) -> Result<(), String> {
        let place = self.places.range(ticket..).next();
        let place = place.filter(|(_, (first, _))| *first <= ticket);
        let Some((&newest, &(_, nonce))) = place else {
            return Err(format!("{ticket} is believed in, and never had a place"));
        };
        let (holds, before) = (
            self.holds.get(nonce),
            *self.believed.entry(nonce).or_insert(newest),
        );
        match holds {
            Some((first, last))
                if before == newest
                    && (*first == newest || (*last == newest && is_broken(*first))) =>
            {
                Ok(())
            }
            holds => Err(format!(
                "{ticket} is believed in, and its nonce {nonce} had the lock with {holds:?}, and was believed in with {before}"
            )),
        }
    }
}
