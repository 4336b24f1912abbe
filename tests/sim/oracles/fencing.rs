//! The register accepts no token after a newer one, and no token of two holds. It accepts whatever a believing holder writes whose hold no operator has broken. No write with
//! a check of its hold is applied after such a write of a newer hold.
//!
//! This needs no assumption about clocks, except for the last part.

use std::collections::{BTreeMap, BTreeSet};

use super::Events;
use super::broken::Broken;
use crate::history::Event;

pub(super) fn check(events: &Events) -> Result<(), String> {
    let mut newest: BTreeMap<&str, (u64, usize)> = BTreeMap::new();
    let broken = Broken::of(events);
    let mut believing = BTreeSet::new();
    let mut checked: BTreeMap<&str, u64> = BTreeMap::new();
    for (at, event) in events {
        match event {
            Event::Granted(it) => _ = believing.insert(it.hold),
            Event::Ended(hold, _) => _ = believing.remove(hold),
            Event::Wrote {
                hold,
                lock,
                token,
                accepted,
            } => {
                let before = newest.get(lock.as_str()).copied().unwrap_or_default();
                let wrong = match accepted {
                    true => *token < before.0 || (*token == before.0 && *hold != before.1),
                    false => believing.contains(hold) && !broken.is(lock, *token, *at),
                };
                if wrong {
                    return Err(format!(
                        "{at:?}: {token} to {lock} after {before:?}: {accepted}"
                    ));
                }
                if *accepted {
                    newest.insert(lock, (*token, *hold));
                }
            }
            Event::Applied(applied) => {
                let newest = checked.entry(&applied.lock).or_default();
                if let Some(token) = applied.token.filter(|token| token < newest) {
                    return Err(format!("{at:?}: {token} after {newest}, with a check"));
                }
                *newest = applied.token.unwrap_or_default().max(*newest);
            }
            _ => {}
        }
    }
    Ok(())
}
