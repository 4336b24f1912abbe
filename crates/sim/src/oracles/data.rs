//! A holder finds the data that were left last on its lock. Of one whose hold was broken nothing is claimed.

use std::collections::BTreeSet;

use super::Oracle;
use crate::agenda::At;
use crate::seen::{Data, Seen};

#[derive(Clone, Default)]
struct Lock {
    /// All that may be there.
    leaving: BTreeSet<Data>,
    /// The newest that are certainly there.
    left: Option<Data>,
    /// What was found last, and by which ticket.
    found: Option<(u64, Option<Data>)>,
    broken: BTreeSet<u64>,
}

/// What is left on each lock.
pub(crate) struct LeftData(Vec<Lock>);

impl LeftData {
    pub(super) fn new(locks: usize) -> Self {
        LeftData(vec![Lock::default(); locks])
    }
}

impl Oracle for LeftData {
    fn name(&self) -> &'static str {
        "data"
    }

    fn see(&mut self, _: At, seen: &Seen) -> Result<(), String> {
        match *seen {
            Seen::Leaves { lock, data } => _ = self.0[lock].leaving.insert(data),
            Seen::HasLeft { lock, data } => {
                let left = &mut self.0[lock].left;
                *left = (*left).max(Some(data));
            }
            Seen::Removed { lock, .. } => {
                let lock = &mut self.0[lock];
                (lock.left, lock.found) = (None, None);
            }
            Seen::Broken { lock, ticket } => _ = self.0[lock].broken.insert(ticket),
            Seen::Found {
                lock,
                ticket,
                place,
                data,
            } if !self.0[lock].broken.contains(&place) => {
                let lock = &mut self.0[lock];
                lock.finds(ticket, data)?;
                lock.found = Some((ticket, data));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Lock {
    fn finds(&self, ticket: u64, data: Option<Data>) -> Result<(), String> {
        if data.is_some_and(|data| !self.leaving.contains(&data)) {
            return Err(format!("{ticket} finds {data:?}, which nobody left"));
        }
        if data < self.left {
            let left = self.left;
            return Err(format!("{ticket} finds {data:?}, where {left:?} was left"));
        }
        // What an earlier hold left came before another found what it found.
        match self.found {
            Some((before, found)) if found != data && data.is_none_or(|it| it.0 < before) => Err(
                format!("{ticket} finds {data:?}, and {before} had found {found:?}"),
            ),
            _ => Ok(()),
        }
    }
}
