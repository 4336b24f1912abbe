//! At any instant of virtual time, the callers that believe in their holds have no more permits together than the lock has. A holder whose
//! hold an operator has broken may believe in it until it learns of that.
//!
//! Where an operator changes how many permits there are, the largest number counts. A caller that takes all permits that its program names
//! has the lock alone in any case.

use std::collections::BTreeMap;

use super::Events;
use super::broken::{Broken, MostPermits};
use crate::history::{Event, Share};

pub(super) fn check(events: &Events) -> Result<(), String> {
    let broken = Broken::of(events);
    // Lock, ticket and share of each hold.
    let mut inside: BTreeMap<usize, (&str, u64, Share)> = BTreeMap::new();
    let mut permits = MostPermits::default();
    for (at, event) in events {
        permits.note(event);
        match event {
            Event::Granted(it) => {
                let (lock, ticket, share) = (it.lock.as_str(), it.ticket, it.share);
                let others = inside.values().filter(|(of, ..)| *of == lock);
                let others = others.filter(|(_, other, _)| !broken.is(lock, *other, *at));
                let others: Vec<_> = others.collect();
                let shares = others.iter().map(|(.., share)| *share);
                let most = permits.of(lock, share);
                if !fits(share, shares, most) && !broken.is(lock, ticket, *at) {
                    return Err(format!(
                        "{at:?}: {ticket} has {share:?} of {lock} while {others:?} believe that they do"
                    ));
                }
                inside.insert(it.hold, (lock, ticket, share));
            }
            Event::Keeps(hold, permits) => {
                let keeps = |(.., share): &mut (_, _, Share)| share.permits = *permits;
                inside.entry(*hold).and_modify(keeps);
            }
            Event::Ended(hold, _) => _ = inside.remove(hold),
            _ => {}
        }
    }
    Ok(())
}

/// Whether a share can be had beside others of a lock that has as many permits.
fn fits(share: Share, others: impl Iterator<Item = Share> + Clone, of: u64) -> bool {
    let is_alone = share.is_alone() || others.clone().any(Share::is_alone);
    let taken: u64 = others.clone().map(|other| other.permits).sum();
    match is_alone {
        true => others.count() == 0,
        false => taken + share.permits <= of,
    }
}
