//! A call returns when it promises, whatever happens to its requests: granted, or with an error.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Events;
use crate::history::{Asked, Event, Granted};

pub(super) fn check(events: &Events) -> Result<(), String> {
    let mut due: BTreeMap<usize, (Duration, &Asked)> = BTreeMap::new();
    for (at, event) in events {
        match event {
            Event::Asked(asked) => {
                let ends = asked.ends.map(|ends| (asked.call, (ends, asked)));
                due.extend(ends);
            }
            Event::Granted(Granted { call, .. }) | Event::Gone(call) => {
                if let Some((ends, asked)) = due.remove(call)
                    && ends < *at
                {
                    return Err(format!("at {at:?}, not by {ends:?}: {asked:?}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
