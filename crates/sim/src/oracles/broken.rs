//! A holder on a healthy link hears that its hold was broken within a heartbeat and a request time-out.

use std::collections::BTreeMap;

use super::Oracle;
use crate::agenda::At;
use crate::seen::Seen;

/// The tickets of holds whose callers believe.
#[derive(Default)]
pub(crate) struct Told(BTreeMap<u32, u64>);

impl Oracle for Told {
    fn name(&self) -> &'static str {
        "told of a break"
    }

    fn see(&mut self, _: At, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Granted(it) => _ = self.0.insert(it.hold, it.ticket),
            Seen::Ended { hold, .. } => _ = self.0.remove(hold),
            Seen::ShouldKnow { hold, .. } => {
                if let Some(ticket) = self.0.get(hold) {
                    return Err(format!("{ticket} does not know that it was broken"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
