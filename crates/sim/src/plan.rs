//! What a seed decides before anything runs: the locks, the hosts, their settings and clocks, and what will go wrong.

use std::sync::Arc;
use std::time::Duration;

use fairlock_protocol::agent::Terms;
use fairlock_protocol::lease;
use fastrand::Rng;

use crate::agenda::{At, HOUR, MS, SECOND};
use crate::clocks::{Dates, OFF, anything};

/// How many requests are sent at least before the faults stop, and how many turns there are.
const REQUESTS: u64 = 700;
const TURNS: u64 = 33;
/// After so many requests the faults stop, however few turns there were.
const ENOUGH: u64 = 1_650;
/// How many requests a history has in which one is met by a fault.
const SHORT: u64 = 40;
/// A day, the shortest time for which idle items stay.
const DAY: Duration = Duration::from_secs(86_400);

/// The plan of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) locks: usize,
    pub(crate) hosts: Vec<HostPlan>,
    /// What front ends tell. Wall clocks are wrong only where front ends are not.
    pub(crate) dates: Dates,
    pub(crate) walls_are_wrong: bool,
    /// Clocks are set while they live, those that may be wrong.
    pub(crate) steps: bool,
    pub(crate) rates: Rates,
    /// The median of what a request takes one way.
    pub(crate) latency: At,
    /// By how many seconds the clock of TTL is ahead, and how often it looks.
    pub(crate) ttl: (i64, At),
    /// Nobody asks for so long in the middle.
    pub(crate) silence: At,
    /// How long callers rest.
    pub(crate) rest: At,
    /// Callers ask at the same time, at multiples of this.
    pub(crate) beat: At,
    pub(crate) has_limits: bool,
    pub(crate) has_data: bool,
    pub(crate) has_bounds: bool,
    /// Holders give parts back, or make leases.
    pub(crate) has_parts: bool,
    pub(crate) has_leases: bool,
    /// Some callers want a part of the permits.
    pub(crate) has_shares: bool,
    pub(crate) waiters: usize,
    /// How many requests are sent at least, or at most, and how many turns there are at least.
    pub(crate) requests: u64,
    pub(crate) enough: u64,
    pub(crate) turns: u64,
    /// Some dead processes leave more rows than a page has.
    pub(crate) has_long_queues: bool,
    /// One in so many turns is long.
    pub(crate) long_turns: u32,
}

/// How often something goes wrong: the share of requests, or spans between two of a kind. Zero means never.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rates {
    pub(crate) lost_before: f64,
    pub(crate) lost_after: f64,
    pub(crate) doubled: f64,
    pub(crate) late: f64,
    /// Of datagrams that are lost, and of those that somebody forges.
    pub(crate) datagrams_lost: f64,
    pub(crate) datagrams_forged: f64,
    pub(crate) conflict: f64,
    pub(crate) crash_at_request: f64,
    pub(crate) mail_lag: f64,
    pub(crate) wake_lag: f64,
    pub(crate) moods: At,
    pub(crate) crashes: At,
    pub(crate) closes: At,
    pub(crate) stops: At,
    pub(crate) operates: At,
    pub(crate) plants: At,
    pub(crate) formats: At,
}

/// A host.
#[derive(Clone, Debug)]
pub(crate) struct HostPlan {
    pub(crate) terms: Arc<Terms>,
    pub(crate) callers: usize,
    pub(crate) rate: f64,
    /// By how many nanoseconds its wall clock is ahead.
    pub(crate) ahead: i64,
    /// It reads items of the newer format.
    pub(crate) reads_newer: bool,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Plan {
        let mut rng = Rng::with_seed(seed ^ 0x5eed_0fa9_1a4f);
        let rng = &mut rng;
        let locks = [1, 1, 1, 2, 2, 3][rng.usize(0..6)];
        let (dates, walls_are_wrong) = match rng.u8(0..13) {
            0..4 => (Dates::Right, false),
            4..7 => (Dates::Right, true),
            7..11 => (Dates::Wrong, false),
            11 => (Dates::OfOneMachine, false),
            _ => (Dates::Absent, false),
        };
        let terms = TermsPlan::draw(rng);
        let hosts = rng.usize(2..6);
        Plan {
            locks,
            hosts: (0..hosts)
                .map(|host| HostPlan::draw(host, &terms, walls_are_wrong, rng))
                .collect(),
            dates,
            walls_are_wrong,
            steps: rng.bool(),
            rates: Rates::draw(rng),
            latency: rng.u64(0..20) * MS,
            ttl: (rng.i64(-6 * 3600..=6 * 3600), rng.u64(1..8) * HOUR),
            silence: match rng.u8(0..4) {
                0 => rng.u64(1..100) * HOUR,
                _ => 0,
            },
            rest: [50, 300, 1000, 3000][rng.usize(0..4)] * MS,
            beat: [1, SECOND, 10 * SECOND, 30 * SECOND][rng.usize(0..4)],
            has_limits: rng.u8(0..4) == 0,
            has_data: rng.u8(0..3) == 0,
            has_bounds: rng.u8(0..3) == 0,
            waiters: [0, 0, 1, 2][rng.usize(0..4)],
            requests: REQUESTS,
            enough: ENOUGH,
            turns: TURNS,
            has_long_queues: rng.u8(0..8) == 0,
            long_turns: rng.u32(3..12),
            has_parts: rng.u8(0..4) == 0,
            has_leases: rng.u8(0..5) == 0,
            has_shares: rng.u8(0..4) == 0,
        }
    }

    /// A short history in which nothing goes wrong by itself, but for what dead processes leave.
    pub(crate) fn short(seed: u64) -> Plan {
        let plan = Plan::of(seed);
        let plants = match seed % 2 {
            0 => 5 * SECOND,
            _ => 0,
        };
        Plan {
            locks: 1,
            rates: Rates {
                plants,
                ..Rates::default()
            },
            silence: 0,
            steps: false,
            has_long_queues: false,
            requests: SHORT,
            enough: 2 * SHORT,
            turns: 4,
            long_turns: 2,
            hosts: plan.hosts.into_iter().take(3).collect(),
            waiters: plan.waiters.min(1),
            ..plan
        }
    }

    /// By how many nanoseconds right clocks differ at most, and the grain of a `Date`.
    pub(crate) fn skew(&self) -> At {
        2 * OFF.unsigned_abs() + SECOND
    }

    /// Whether front ends and wall clocks are right.
    pub(crate) fn is_right(&self) -> bool {
        matches!(self.dates, Dates::Right | Dates::OfOneMachine) && !self.walls_are_wrong
    }

    /// The longest lease in the table.
    pub(crate) fn longest_lease(&self) -> At {
        let leases = self
            .hosts
            .iter()
            .map(|host| host.terms.in_table(host.terms.lease));
        leases.max().map_or(0, nanos)
    }

    /// The longest lease of a place far back in the queue.
    pub(crate) fn longest_stretched(&self) -> At {
        let terms = self.hosts.iter().map(|host| &host.terms);
        let leases = terms.map(|it| it.in_table(lease::longest(it.lease, it.heartbeat)));
        leases.max().map_or(0, nanos)
    }

    /// The longest time of a drawn ticket to join.
    pub(crate) fn longest_join(&self) -> At {
        let joins = self.hosts.iter().map(|host| host.terms.join_timeout);
        joins.max().map_or(0, nanos)
    }
}

pub(crate) fn nanos(span: Duration) -> At {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

impl Rates {
    fn draw(rng: &mut Rng) -> Rates {
        let share = |rng: &mut Rng| [0.0, 0.0, 0.01, 0.05, 0.15][rng.usize(0..5)];
        let every = |rng: &mut Rng, chance: u8| match rng.u8(0..chance) {
            0 => rng.u64(5..60) * SECOND,
            _ => 0,
        };
        if rng.u8(0..6) == 0 {
            return Rates {
                plants: every(rng, 2),
                crashes: every(rng, 2),
                operates: every(rng, 2),
                ..Rates::default()
            };
        }
        Rates {
            lost_before: share(rng),
            lost_after: share(rng),
            doubled: share(rng),
            late: share(rng) / 2.0,
            datagrams_lost: share(rng) * 2.0,
            datagrams_forged: share(rng),
            conflict: share(rng),
            crash_at_request: share(rng) / 20.0,
            mail_lag: share(rng),
            wake_lag: share(rng),
            moods: every(rng, 2),
            crashes: every(rng, 3),
            closes: every(rng, 2),
            stops: every(rng, 3),
            operates: every(rng, 3),
            plants: every(rng, 3) / 4,
            formats: every(rng, 8),
        }
    }
}

/// What the settings of all hosts are near.
struct TermsPlan {
    lease: Duration,
    differ: bool,
    has_margins: bool,
    has_addresses: bool,
}

impl TermsPlan {
    fn draw(rng: &mut Rng) -> TermsPlan {
        TermsPlan {
            lease: Duration::from_millis([2_000, 5_000, 10_000, 30_000][rng.usize(0..4)]),
            differ: rng.bool(),
            has_margins: rng.u8(0..3) == 0,
            has_addresses: rng.bool(),
        }
    }

    fn terms(&self, host: usize, rng: &mut Rng) -> Terms {
        let lease = match self.differ {
            true => self.lease.mul_f64(0.5 + rng.f64()),
            false => self.lease,
        };
        let timeout = (lease / 6).min(Duration::from_secs(2));
        let margin = match self.has_margins && rng.bool() {
            true => lease / rng.u32(4..10),
            false => Duration::ZERO,
        };
        let heartbeat = (lease / rng.u32(3..6)).min(Duration::from_secs(10));
        Terms {
            owner: format!("host-{host}").into(),
            address: self.has_addresses.then(|| format!("{host}").into()),
            lease,
            margin,
            heartbeat,
            request_timeout: timeout,
            join_timeout: Duration::from_secs([1, 2, 5, 20][rng.usize(0..4)]),
            outage: [None, None, None, Some(timeout * 4)][rng.usize(0..4)],
            polls: Terms::usual_polls(heartbeat),
            retention: DAY * rng.u32(1..4),
            slots: 8,
            filled_slots: 8,
        }
    }
}

impl HostPlan {
    fn draw(host: usize, terms: &TermsPlan, walls_are_wrong: bool, rng: &mut Rng) -> HostPlan {
        HostPlan {
            terms: Arc::new(terms.terms(host, rng)),
            callers: [1, 1, 2, 3, 5, 10][rng.usize(0..6)],
            rate: 1.0 + (rng.f64() - 0.5) / 50.0,
            ahead: match walls_are_wrong {
                true => anything(rng),
                false => rng.i64(-OFF..=OFF),
            },
            reads_newer: rng.bool(),
        }
    }
}
