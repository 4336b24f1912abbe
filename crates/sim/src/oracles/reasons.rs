//! A hold that ends by itself ends for its caller once, for a reason that is true.

use std::collections::{BTreeMap, BTreeSet};

use super::Oracle;
use crate::agenda::{At, MS};
use crate::seen::{Grant, How, Seen, Why};

/// The holds that have not ended, and what happened to their locks.
#[derive(Default)]
pub(crate) struct Reasons {
    holds: BTreeMap<u32, (Grant, At)>,
    broken: BTreeSet<(usize, u64)>,
    removed: BTreeSet<usize>,
    /// Entries that went from an item without a release.
    unseated: BTreeSet<(usize, u64)>,
}

impl Reasons {
    fn is_true(&self, why: Why, at: At, grant: &Grant, began: At) -> bool {
        let of = (grant.lock, grant.place);
        match why {
            Why::Expired | Why::Unreachable => at + MS >= grant.until,
            Why::Broken => self.broken.contains(&of),
            Why::Deleted => self.removed.contains(&grant.lock),
            Why::Evicted => self.unseated.contains(&of) || self.removed.contains(&grant.lock),
            // The lease ends at the longest time at the latest.
            Why::MaxHold => grant
                .max
                .is_some_and(|max| at + 10 * MS + max / 50 >= began + max),
            Why::ShutDown => true,
        }
    }
}

impl Oracle for Reasons {
    fn name(&self) -> &'static str {
        "told once, with its reason"
    }

    fn see(&mut self, at: At, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Granted(grant) => _ = self.holds.insert(grant.hold, (grant.clone(), at)),
            Seen::Begun { hold } => {
                if let Some((_, began)) = self.holds.get_mut(hold) {
                    *began = at;
                }
            }
            Seen::Extended { hold, until, .. } => {
                if let Some((grant, _)) = self.holds.get_mut(hold) {
                    grant.until = *until;
                }
            }
            Seen::Ended { hold, how, .. } => {
                let Some((grant, began)) = self.holds.remove(hold) else {
                    return Err(format!("hold {hold} ends twice"));
                };
                if let How::Lost(why) = how
                    && !self.is_true(*why, at, &grant, began)
                {
                    return Err(format!("{} is told {why:?}, which is not so", grant.ticket));
                }
            }
            Seen::Broken { lock, ticket } => _ = self.broken.insert((*lock, *ticket)),
            Seen::Removed { lock, .. } => _ = self.removed.insert(*lock),
            Seen::Unseated { lock, ticket, .. } => _ = self.unseated.insert((*lock, *ticket)),
            _ => {}
        }
        Ok(())
    }
}
