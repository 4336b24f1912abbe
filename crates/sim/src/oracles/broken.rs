//! A holder on a healthy link hears within a heartbeat and a request time-out that its hold was broken, or that it was asked to give way.

use std::collections::BTreeMap;

use super::Oracle;
use crate::agenda::At;
use crate::seen::Seen;

/// The tickets of holds whose callers believe, and whether they know that they were asked.
#[derive(Default)]
pub(crate) struct Told(BTreeMap<u32, (u64, bool)>);

impl Oracle for Told {
    fn name(&self) -> &'static str {
        "told in time"
    }

    fn see(&mut self, _: At, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Granted(it) => _ = self.0.insert(it.hold, (it.ticket, false)),
            Seen::Ended { hold, .. } => _ = self.0.remove(hold),
            Seen::AskedToYield { hold, .. } => {
                if let Some((_, is_asked)) = self.0.get_mut(hold) {
                    *is_asked = true;
                }
            }
            Seen::ShouldKnow { hold, .. } => {
                if let Some((ticket, _)) = self.0.get(hold) {
                    return Err(format!("{ticket} does not know that it was broken"));
                }
            }
            Seen::ShouldYield { hold, .. } => {
                if let Some((ticket, false)) = self.0.get(hold) {
                    return Err(format!("{ticket} does not know that it was asked to yield"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
