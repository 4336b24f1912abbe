//! A hold ends when its longest time is over. No other has the lock before its shortest time is over, or before the margin after its loss is.

use std::collections::{BTreeMap, BTreeSet};

use super::Oracle;
use crate::agenda::{At, MS};
use crate::host::PERMITS;
use crate::plan::Plan;
use crate::seen::{Grant, How, Outcome, Seen, Why};

/// Clocks of hosts run at rates within so many percent of the right one.
const DRIFT: u64 = 1;

fn at_most(span: At) -> At {
    span + span * DRIFT / 90 + 10 * MS
}

fn surely(span: At) -> At {
    span.saturating_sub(span * 2 * DRIFT / 100 + 10 * MS)
}

/// The longest time of each hold that has one, and when it began.
#[derive(Default)]
pub(crate) struct Longest(BTreeMap<u32, (At, Option<At>)>);

impl Longest {
    fn check(&self, hold: u32, until: At) -> Result<(), String> {
        match self.0.get(&hold) {
            Some((max, Some(began))) if until > began + at_most(*max) => {
                let over = (until - began - max) / MS;
                Err(format!(
                    "hold {hold} believes for {over} ms beyond its longest time"
                ))
            }
            _ => Ok(()),
        }
    }
}

impl Oracle for Longest {
    fn name(&self) -> &'static str {
        "longest hold"
    }

    fn see(&mut self, at: At, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Granted(it) => {
                let began = (!it.begins_later).then_some(at);
                self.0.extend(it.max.map(|max| (it.hold, (max, began))));
                return self.check(it.hold, it.until);
            }
            Seen::Begun { hold } => {
                if let Some((_, began)) = self.0.get_mut(hold) {
                    *began = Some(at);
                }
            }
            Seen::Extended { hold, until, .. } => return self.check(*hold, *until),
            Seen::Ended { hold, .. } => _ = self.0.remove(hold),
            _ => {}
        }
        Ok(())
    }
}

/// What keeps a lock after a hold has ended for its caller.
enum What {
    /// The shortest time, which ends early by what clocks differ.
    Shortest { early: At },
    /// The margin after a loss.
    Margin,
}

/// A hold that has not ended.
struct Own {
    grant: Grant,
    /// When its bounds began.
    began: Option<At>,
    is_used: bool,
}

/// Holds, and until when each lock is kept for one.
pub(crate) struct Kept {
    what: What,
    holds: BTreeMap<u32, Own>,
    kept: Vec<Option<(u64, At)>>,
    broken: BTreeSet<(usize, u64)>,
}

impl Kept {
    pub(super) fn shortest(locks: usize, plan: &Plan) -> Self {
        let early = plan.skew();
        Kept::new(locks, What::Shortest { early })
    }

    pub(super) fn margin(locks: usize) -> Self {
        Kept::new(locks, What::Margin)
    }

    fn new(locks: usize, what: What) -> Self {
        Kept {
            what,
            holds: BTreeMap::new(),
            kept: vec![None; locks],
            broken: BTreeSet::new(),
        }
    }

    /// What a part is kept for is in nobody's way who takes another.
    fn keep(&mut self, lock: usize, grant: &Grant, until: At) {
        let ticket = grant.place;
        if grant.permits == PERMITS && !self.broken.contains(&(lock, ticket)) {
            self.kept[lock] = Some((ticket, until));
        }
    }

    fn granted(&mut self, at: At, grant: &Grant) -> Result<(), String> {
        let began = (!grant.begins_later).then_some(at);
        let own = Own {
            grant: grant.clone(),
            began,
            is_used: false,
        };
        self.holds.insert(grant.hold, own);
        if self.broken.contains(&(grant.lock, grant.place)) {
            return Ok(());
        }
        match self.kept[grant.lock].take() {
            Some((ticket, until)) if at < until => {
                let early = (until - at) / MS;
                Err(format!(
                    "{} has the lock {early} ms before {ticket} is over",
                    grant.ticket
                ))
            }
            _ => Ok(()),
        }
    }
}

impl Oracle for Kept {
    fn name(&self) -> &'static str {
        match self.what {
            What::Shortest { .. } => "shortest hold",
            What::Margin => "margin",
        }
    }

    fn see(&mut self, at: At, seen: &Seen) -> Result<(), String> {
        match seen {
            Seen::Granted(grant) => return self.granted(at, grant),
            Seen::Begun { hold } => {
                if let Some(own) = self.holds.get_mut(hold) {
                    own.began = Some(at);
                }
            }
            Seen::Taken { hold } => {
                if let Some(own) = self.holds.get_mut(hold) {
                    own.is_used = true;
                }
            }
            Seen::Broken { lock, ticket } => {
                self.broken.insert((*lock, *ticket));
                self.kept[*lock].take_if(|(it, _)| it == ticket);
            }
            Seen::Removed { lock, .. } => self.kept[*lock] = None,
            Seen::Ended { hold, lock, how } if matches!(self.what, What::Margin) => {
                let ended = self.holds.remove(hold);
                let is_lost = matches!(
                    how,
                    How::Passed | How::Crashed | How::Lost(Why::Expired | Why::Unreachable)
                );
                let ended = ended.filter(|own| is_lost && own.is_used && own.grant.margin > 0);
                if let Some(it) = ended.map(|own| own.grant) {
                    self.keep(*lock, &it, at.min(it.until) + surely(it.margin));
                }
            }
            Seen::Extended { hold, until, .. } => {
                if let Some(own) = self.holds.get_mut(hold) {
                    own.grant.until = *until;
                }
            }
            Seen::Parted { hold, keeps, .. } => {
                if let Some(own) = self.holds.get_mut(hold) {
                    own.grant.permits = *keeps;
                }
            }
            Seen::Released {
                hold,
                lock,
                outcome,
            } => {
                let own = self.holds.remove(hold).filter(|own| own.is_used);
                if let (Some(own), What::Shortest { early }) = (own, &self.what)
                    && matches!(outcome, Outcome::HandedOff | Outcome::KeptOn)
                    && let Some((min, began)) = own.grant.min.zip(own.began)
                {
                    let until = (began + surely(min)).saturating_sub(*early);
                    self.keep(*lock, &own.grant, until);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
