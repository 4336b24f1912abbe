//! At most one caller believes that it holds a lock, at any instant of virtual time.

use std::collections::BTreeMap;

use super::Events;
use crate::history::Event;

pub(super) fn check(events: &Events) -> Result<(), String> {
    let mut inside: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for (at, event) in events {
        match event {
            Event::Granted {
                hold, lock, ticket, ..
            } => {
                if let Some((_, other)) = inside.insert(lock, (*hold, *ticket)) {
                    return Err(format!(
                        "{at:?}: {ticket} has {lock} while {other} believes that it does"
                    ));
                }
            }
            Event::Ended { hold, .. } => inside.retain(|_, (other, _)| other != hold),
            _ => {}
        }
    }
    Ok(())
}
