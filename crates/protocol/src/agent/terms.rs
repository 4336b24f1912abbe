//! What a client, and each of its calls, asks for.

use std::sync::Arc;
use std::time::Duration;

use super::Clocks;
use crate::entry::Attributes;
use crate::lease;
use crate::moment::Moment;
use crate::stamps::Stamps;

/// A lock, as its callers state it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Lock {
    /// Its name.
    pub name: Arc<str>,
    /// How many permits it has.
    pub permits: u64,
}

/// The settings of a client.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Terms {
    /// What entries say of their owner.
    pub owner: Arc<str>,
    /// Where other clients can notify this one.
    pub address: Option<Arc<str>>,
    /// The lease of a hold, without the margin.
    pub lease: Duration,
    /// How long before the end of a lease in the table its owner stops believing.
    pub margin: Duration,
    /// The time from one renewal to the next.
    pub heartbeat: Duration,
    /// How long the driver waits for an answer.
    pub request_timeout: Duration,
    /// How long a drawn ticket may take to get its row.
    pub join_timeout: Duration,
    /// How long an idle item stays.
    pub retention: Duration,
    /// How long a call that waits goes on while nothing is answered. `None` if for as long as it waits.
    pub outage: Option<Duration>,
    /// The shortest and the longest time between two polls.
    pub polls: (Duration, Duration),
    /// How many slots there are behind the first.
    pub slots: usize,
    /// How many of them the queue fills.
    pub filled_slots: usize,
}

impl Terms {
    /// The lease that stands in the table where its owner asks for `lease`.
    pub fn in_table(&self, lease: Duration) -> Duration {
        lease.saturating_add(self.margin)
    }

    /// When a call stops trying that does not wait and began then. Its tries take so long if none is answered, and a little longer: the last one
    /// has reported its failure before.
    pub(super) fn no_wait_ends(&self, began: Moment) -> Moment {
        let timeout = self.request_timeout;
        began + (timeout * TRIES_AT_ONCE).saturating_sub(timeout / 10)
    }

    /// When the callers of a place are answered at the latest whose time was over then, and whose first request was sent when it began.
    pub(super) fn answers_by(&self, over: Moment, claim: &Claim, began: Moment) -> Moment {
        let soon = over + self.request_timeout;
        match claim.waits() {
            true => soon,
            false => soon.min(began + self.no_wait_lasts()),
        }
    }

    /// How long a call lasts at most that does not wait, whatever becomes of its last try.
    pub fn no_wait_lasts(&self) -> Duration {
        self.request_timeout * (TRIES_AT_ONCE + 1)
    }

    /// The shortest and the longest time between two polls, unless something else is said.
    pub fn usual_polls(heartbeat: Duration) -> (Duration, Duration) {
        let shortest = MIN_POLL.min(heartbeat);
        (shortest, heartbeat.min(MAX_POLL).max(shortest))
    }

    /// How long a call at the door rests at most where DynamoDB is too busy.
    pub(super) fn rest(&self) -> Duration {
        self.heartbeat * 2
    }

    /// The longest lease of a place far back in the queue.
    pub(super) fn longest_lease(&self) -> Duration {
        lease::longest(self.lease, self.heartbeat)
    }

    /// How often a lease is renewed, which may be a stretched one.
    pub(super) fn heartbeat_of(&self, lease: Duration) -> Duration {
        self.heartbeat.mul_f64(lease.div_duration_f64(self.lease))
    }

    /// For how long the client tries to release what is over.
    pub(super) fn to_release(&self) -> Duration {
        self.lease / TO_RELEASE
    }
}

/// Tries of a request of a caller that does not wait.
pub(super) const TRIES_AT_ONCE: u32 = 4;
/// A lease that ends with a bound of the hold lasts longer by this share of the client's lease. In that time a live client releases.
const TO_RELEASE: u32 = 10;

/// The shortest time between two polls, unless a heartbeat is shorter.
const MIN_POLL: Duration = Duration::from_millis(2);
/// The longest, unless a heartbeat is shorter.
const MAX_POLL: Duration = Duration::from_secs(1);

/// How a caller asks for a lock.
#[derive(Clone, Debug, Default)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Claim {
    /// Whether it waits.
    pub wait: Wait,
    /// How many permits it takes. `None` if it wants the lock alone.
    pub permits: Option<u64>,
    /// The most turns that may come before its own.
    pub max_waiters: Option<u64>,
    /// How long its hold lasts.
    pub bounds: Bounds,
    /// What its entry says besides.
    pub attributes: Attributes,
    /// It is told how it stands while it waits.
    pub is_observed: bool,
    /// It does not wait for a hold of its own client.
    pub denies_self_wait: bool,
    /// The lease that it asks for. A lease of that name that has the lock, whoever asked for it, answers the call. If the call does not
    /// wait, its entry bears that name and lasts so long, and no client watches over it.
    pub lease: Option<LeaseTerm>,
}

/// How long a caller waits for its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub enum Wait {
    /// It does not.
    #[default]
    No,
    /// Until then.
    Until(Moment),
    /// For as long as it takes.
    Forever,
}

impl Claim {
    pub(super) fn waits(&self) -> bool {
        self.wait != Wait::No
    }

    /// How many permits it takes.
    pub(super) fn takes(&self, lock: &Lock) -> u64 {
        self.permits.unwrap_or(lock.permits)
    }

    /// The lease that its entry is from the first write on.
    pub(super) fn enters_as(&self) -> Option<&LeaseTerm> {
        self.lease.as_ref().filter(|_| !self.waits())
    }

    /// Whether others may hold the lock beside it.
    pub(super) fn shares(&self, lock: &Lock) -> bool {
        self.takes(lock) != lock.permits
    }
}

/// How long a hold lasts at least and at most, counted from its grant, or from [`BeginBounds`](super::Order::BeginBounds).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Bounds {
    /// At least.
    pub min: Option<Duration>,
    /// At most.
    pub max: Option<Duration>,
    /// They do not begin with the grant.
    pub begin_later: bool,
}

impl Bounds {
    /// The lease of a hold that is granted with these bounds.
    pub(super) fn lease(self, terms: &Terms) -> Duration {
        let max = self.max.filter(|_| !self.begin_later);
        max.map_or(terms.lease, |max| ending_after(max, terms))
    }
}

/// The lease of a renewal of a hold that ends after `left`: its owner believes in it for so long, and has time for the release.
pub(super) fn ending_after(left: Duration, terms: &Terms) -> Duration {
    let lasting = lease::believed_for(left).saturating_add(terms.to_release());
    terms.lease.min(lasting)
}

/// What a lease says that a hold becomes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct LeaseTerm {
    /// The name by which any process finds it.
    pub id: Arc<str>,
    /// For how long it lasts.
    pub span: Duration,
    /// A time that has passed, unless the client knows a later one.
    pub past: Stamps,
}

impl LeaseTerm {
    /// From when its owner counts: a time that has passed, so that it never lasts longer than others believe.
    pub(super) fn begins(&self, clocks: &Clocks) -> Stamps {
        clocks.past().unwrap_or(self.past)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    impl Terms {
        pub(crate) fn of_tests() -> Terms {
            Terms {
                owner: "host".into(),
                address: None,
                lease: SECOND * 30,
                margin: Duration::ZERO,
                heartbeat: SECOND * 10,
                request_timeout: SECOND * 2,
                outage: None,
                polls: Terms::usual_polls(SECOND * 10),
                join_timeout: SECOND * 5,
                retention: SECOND * 100_000,
                slots: 8,
                filled_slots: 8,
            }
        }
    }

    #[test]
    fn a_lease_ends_soon_after_the_hold_and_is_no_longer_than_that_of_others() {
        let terms = Terms::of_tests();
        let bounded = |max| Bounds {
            max: Some(max),
            ..Bounds::default()
        };
        let short = bounded(SECOND * 5).lease(&terms);
        assert!(lease::believed(short) > SECOND * 7, "{short:?}");
        assert!(short < SECOND * 9, "{short:?}");
        for long in [SECOND * 60, Duration::MAX] {
            assert_eq!(bounded(long).lease(&terms), terms.lease);
        }
        assert_eq!(Bounds::default().lease(&terms), terms.lease);
        let long = Terms {
            lease: SECOND * 7_200,
            ..terms
        };
        assert!(lease::believed(ending_after(SECOND * 3_600, &long)) > SECOND * 3_600);
    }
}
