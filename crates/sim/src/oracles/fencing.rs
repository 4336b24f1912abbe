//! The resource that a lock protects accepts what a believing holder writes whose hold no operator has broken, and no token of two holds.

use super::Oracle;
use crate::agenda::At;
use crate::seen::Seen;

/// The newest token that each resource accepted, and the hold that it is of.
pub(crate) struct Fencing {
    newest: Vec<(u64, u32)>,
    broken: Vec<Vec<u64>>,
}

impl Fencing {
    pub(super) fn new(locks: usize) -> Self {
        Fencing {
            newest: vec![(0, 0); locks],
            broken: vec![Vec::new(); locks],
        }
    }
}

impl Oracle for Fencing {
    fn name(&self) -> &'static str {
        "fencing"
    }

    fn see(&mut self, _: At, seen: &Seen) -> Result<(), String> {
        match *seen {
            Seen::Broken { lock, ticket } => self.broken[lock].push(ticket),
            Seen::Removed {
                lock,
                is_promised: false,
            } => self.newest[lock] = (0, 0),
            Seen::Wrote {
                hold,
                lock,
                token,
                place,
                accepted,
                believes,
            } => {
                let (newest, of) = self.newest[lock];
                let is_wrong = match accepted {
                    true => token < newest || (token == newest && hold != of),
                    false => believes && !self.broken[lock].contains(&place),
                };
                if is_wrong {
                    return Err(format!("{token} after {newest}: accepted {accepted}"));
                }
                if accepted {
                    self.newest[lock] = (token, hold);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
