//! No holder believes for longer than its entry lasts for those who watch it, or, if it has a margin, for longer than that before its end.

use std::collections::BTreeMap;

use super::Oracle;
use crate::agenda::{At, MS};
use crate::seen::Seen;

struct Believer {
    lock: usize,
    place: u64,
    margin: At,
    until: At,
}

/// Who believes, and when their entries end.
#[derive(Default)]
pub(crate) struct Belief {
    believers: BTreeMap<u32, Believer>,
    ends: BTreeMap<(usize, u64), At>,
}

impl Belief {
    fn check(&self, believer: &Believer) -> Result<(), String> {
        let Believer {
            lock,
            place,
            margin,
            until,
        } = believer;
        match self.ends.get(&(*lock, *place)) {
            Some(ends) if until + margin > *ends => {
                let over = (until + margin - ends) / MS;
                Err(format!("{place} believes for {over} ms longer than it may"))
            }
            _ => Ok(()),
        }
    }
}

impl Oracle for Belief {
    fn name(&self) -> &'static str {
        "belief"
    }

    fn see(&mut self, _: At, seen: &Seen) -> Result<(), String> {
        match *seen {
            Seen::Granted(ref grant) => {
                let believer = Believer {
                    lock: grant.lock,
                    place: grant.place,
                    margin: grant.margin,
                    until: grant.until,
                };
                let is_kept = self.check(&believer);
                self.believers.insert(grant.hold, believer);
                return is_kept;
            }
            Seen::Extended { hold, until, .. } => {
                if let Some(believer) = self.believers.get_mut(&hold) {
                    believer.until = until;
                }
                if let Some(believer) = self.believers.get(&hold) {
                    return self.check(believer);
                }
            }
            Seen::Stands { lock, ticket, ends } => {
                self.ends.insert((lock, ticket), ends);
                let mut believers = self.believers.values();
                if let Some(believer) = believers.find(|it| (it.lock, it.place) == (lock, ticket)) {
                    return self.check(believer);
                }
            }
            Seen::Ended { hold, .. } => _ = self.believers.remove(&hold),
            Seen::Unseated { lock, ticket, .. } => _ = self.ends.remove(&(lock, ticket)),
            _ => {}
        }
        Ok(())
    }
}
