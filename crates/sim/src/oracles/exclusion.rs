//! Never do callers believe that they have more permits of a lock than there are, and no entry ends whose owner believes in it. A hold that an operator broke
//! counts for nothing from then on.

use super::Oracle;
use crate::agenda::At;
use crate::host::PERMITS;
use crate::seen::{Grant, Seen};

struct Believer {
    hold: u32,
    ticket: u64,
    place: u64,
    permits: u64,
    until: At,
    /// No client watches over it, and none ends it before.
    is_lease: bool,
}

/// Who believes, of each lock.
pub(crate) struct Exclusion {
    believers: Vec<Vec<Believer>>,
    broken: Vec<Vec<u64>>,
}

impl Exclusion {
    pub(super) fn new(locks: usize) -> Self {
        Exclusion {
            believers: (0..locks).map(|_| Vec::new()).collect(),
            broken: vec![Vec::new(); locks],
        }
    }

    /// The ticket of another that believes now, if others leave fewer permits than these.
    fn other(&self, at: At, lock: usize, (hold, permits): (u32, u64)) -> Option<u64> {
        let believers = self.believers[lock].iter();
        let others = believers.filter(|it| it.hold != hold && it.until > at);
        let others = others.filter(|it| !self.broken[lock].contains(&it.place));
        let taken: u64 = others.clone().map(|it| it.permits).sum();
        let mut others = others.filter(|_| taken + permits > PERMITS);
        others.next().map(|it| it.ticket)
    }

    fn granted(&mut self, at: At, grant: &Grant) -> Result<(), String> {
        let (lock, ticket) = (grant.lock, grant.ticket);
        let is_broken = self.broken[lock].contains(&grant.place);
        let other = self.other(at, lock, (grant.hold, grant.permits));
        if let Some(other) = other.filter(|_| !is_broken) {
            return Err(format!(
                "{ticket} has the lock while {other} believes that it does"
            ));
        }
        self.believers[lock].push(Believer {
            hold: grant.hold,
            ticket,
            place: grant.place,
            permits: grant.permits,
            until: grant.until,
            is_lease: false,
        });
        match grant.until <= at {
            true => Err(format!("{ticket} is granted when its time is over")),
            false => Ok(()),
        }
    }

    /// Each of those who ask for a lease by its name may be told of it.
    fn leased(&mut self, at: At, lock: usize, lease: Believer) -> Result<(), String> {
        let place = lease.place;
        self.believers[lock].retain(|it| !it.is_lease || it.place != place);
        let other = self.other(at, lock, (lease.hold, lease.permits));
        if let Some(other) = other.filter(|_| !self.broken[lock].contains(&place)) {
            return Err(format!("{place} is a lease while {other} believes"));
        }
        self.believers[lock].push(lease);
        Ok(())
    }
}

impl Oracle for Exclusion {
    fn name(&self) -> &'static str {
        "exclusion"
    }

    fn see(&mut self, at: At, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Granted(grant) => return self.granted(at, grant),
            Seen::Extended { hold, lock, until } => {
                let mut believers = self.believers[*lock].iter_mut();
                if let Some(believer) = believers.find(|it| it.hold == *hold) {
                    if believer.until <= at {
                        return Err(format!(
                            "{} believes again after its deadline",
                            believer.ticket
                        ));
                    }
                    believer.until = *until;
                }
            }
            Seen::Parted { hold, lock, keeps } => {
                let mut believers = self.believers[*lock].iter_mut();
                if let Some(believer) = believers.find(|it| it.hold == *hold) {
                    believer.permits = *keeps;
                }
            }
            Seen::Leased {
                hold,
                lock,
                place,
                permits,
                until,
            } => {
                let lease = Believer {
                    hold: *hold,
                    ticket: *place,
                    place: *place,
                    permits: *permits,
                    until: *until,
                    is_lease: true,
                };
                return self.leased(at, *lock, lease);
            }
            Seen::Ended { hold, lock, .. } => self.believers[*lock].retain(|it| it.hold != *hold),
            Seen::Broken { lock, ticket } => self.broken[*lock].push(*ticket),
            Seen::Unseated {
                lock,
                ticket,
                by_release,
            } => {
                let mut believers = self.believers[*lock].iter();
                let believes = believers
                    .any(|it| it.place == *ticket && it.until > at && (it.is_lease || !by_release));
                if believes && !self.broken[*lock].contains(ticket) {
                    return Err(format!("the entry of {ticket} ended, which believes in it"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
