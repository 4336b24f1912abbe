//! Each call is answered once, in time. No caller is kept out by what was over before it asked, and a turn that nothing disturbs takes two
//! requests.

use std::collections::BTreeMap;

use super::Oracle;
use crate::agenda::{At, MS};
use crate::seen::Seen;

/// The calls that are not answered yet: when they should be, and how late their host had been before.
#[derive(Default)]
pub(crate) struct Calls(BTreeMap<u32, (At, At)>);

impl Oracle for Calls {
    fn name(&self) -> &'static str {
        "calls"
    }

    fn see(&mut self, at: At, seen: &Seen) -> Result<(), String> {
        match *seen {
            Seen::Asked {
                call, due, late, ..
            } => _ = self.0.insert(call, (due, late)),
            Seen::Answered { call, late, .. } => {
                let Some((due, before)) = self.0.remove(&call) else {
                    return Err(format!("call {call} is answered twice"));
                };
                let due = due + late.saturating_sub(before);
                if at > due {
                    return Err(format!(
                        "call {call} is answered {} ms late",
                        (at - due) / MS
                    ));
                }
            }
            Seen::Left { call } => _ = self.0.remove(&call),
            Seen::KeptOut { ticket, .. } => {
                return Err(format!(
                    "a caller is kept out by {ticket}, which was over before it asked"
                ));
            }
            Seen::Cost { requests, most, .. } if requests > most => {
                return Err(format!(
                    "{requests} requests, where nothing disturbed and {most} are enough"
                ));
            }
            _ => {}
        }
        Ok(())
    }

    fn rests(&mut self, _: At) -> Result<(), String> {
        match self.0.first_key_value() {
            Some((call, _)) => Err(format!("call {call} is never answered")),
            None => Ok(()),
        }
    }
}
