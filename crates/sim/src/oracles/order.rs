//! Grants of one lock are in the order of their tickets, also over a removal of its item by clocks that are right. Those who share it learn
//! of their grants in any order.

use super::Oracle;
use crate::agenda::At;
use crate::host::PERMITS;
use crate::seen::Seen;

/// The newest tickets that were granted of each lock: alone, and at all.
pub(crate) struct Order {
    newest: Vec<(u64, u64)>,
    broken: Vec<Vec<u64>>,
}

impl Order {
    pub(super) fn new(locks: usize) -> Self {
        Order {
            newest: vec![(0, 0); locks],
            broken: vec![Vec::new(); locks],
        }
    }
}

impl Oracle for Order {
    fn name(&self) -> &'static str {
        "order"
    }

    fn see(&mut self, _: At, seen: &Seen) -> Result<(), String> {
        match seen {
            // A client may learn that it has the lock when that is over, because an operator broke it.
            Seen::Granted(it) if !self.broken[it.lock].contains(&it.place) => {
                let (alone, newest) = &mut self.newest[it.lock];
                let before = match it.permits {
                    PERMITS => std::mem::replace(alone, it.ticket).max(*newest),
                    _ => *alone,
                };
                *newest = it.ticket.max(*newest);
                if before >= it.ticket {
                    return Err(format!("{} is granted after {before}", it.ticket));
                }
            }
            Seen::Broken { lock, ticket } => self.broken[*lock].push(*ticket),
            Seen::Removed {
                lock,
                is_promised: false,
            } => self.newest[*lock] = (0, 0),
            _ => {}
        }
        Ok(())
    }
}
