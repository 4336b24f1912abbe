//! At any instant of virtual time, the callers that believe in their holds have no more permits together than the lock has.

use std::collections::BTreeMap;

use super::Events;
use crate::history::Event;

pub(super) fn check(events: &Events) -> Result<(), String> {
    // Lock, ticket and permits of each hold.
    let mut inside: BTreeMap<usize, (&str, u64, u64)> = BTreeMap::new();
    for (at, event) in events {
        match event {
            Event::Granted {
                hold,
                lock,
                ticket,
                share,
                ..
            } => {
                let others = inside.values().filter(|(of, ..)| of == lock);
                let others: Vec<_> = others.collect();
                let taken: u64 = others.iter().map(|(.., permits)| permits).sum();
                if taken + share.permits > share.of {
                    return Err(format!(
                        "{at:?}: {ticket} has {share:?} of {lock} while {others:?} believe that they do"
                    ));
                }
                inside.insert(*hold, (lock, *ticket, share.permits));
            }
            Event::Downgraded { hold } => {
                inside.entry(*hold).and_modify(|(.., permits)| *permits = 1);
            }
            Event::Ended { hold, .. } => _ = inside.remove(hold),
            _ => {}
        }
    }
    Ok(())
}
