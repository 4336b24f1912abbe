//! What a seed decides before anything runs: the locks, the hosts and their clocks, and what will go wrong.

use std::time::Duration;

use fairlock::embedded::Latency;
use fastrand::Rng;

use crate::faults::Rates;
use crate::link::{SKEW, Weather, WrongFor};
use crate::mischief::Kind;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Requests that a seed sends before its faults stop.
pub(crate) const REQUESTS: u64 = 500;
/// No outage time-out may be shorter.
const TIMER_GRAIN: Duration = MS;
/// By no more days the wall clock of any host is off.
pub(crate) const DAYS_OFF: i32 = 30;
/// No other host's clock is further ahead of another's.
pub(crate) const APART: Duration = Duration::from_secs(6 * 3600);

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) locks: Vec<String>,
    pub(crate) hosts: Vec<HostPlan>,
    pub(crate) latency: Latency,
    pub(crate) weather: Weather,
    pub(crate) mischief: Vec<Kind>,
    /// So many are sent at least before the faults stop.
    pub(crate) requests: u64,
    /// How often the whole is done, the table being cleaned and the hosts new each time.
    epochs: u64,
    /// It is done twice, with days of silence in between, after which the same hosts go on while TTL deletes what is idle.
    pub(crate) is_silent: bool,
    /// The hardest calls wait for ever, the others for a time or not at all.
    pub(crate) only_infinite: bool,
    /// Idle locks are removed by a sweep, else by DynamoDB's TTL.
    pub(crate) swept_when_idle: bool,
    /// What callers want of the locks.
    pub(crate) sharing: Sharing,
    /// One turn in so many is by a lease that nobody renews; none if zero.
    pub(crate) leases: u8,
    /// Holders leave data on the locks.
    pub(crate) has_data: bool,
    /// Holders write with a check that they have the lock.
    pub(crate) has_checks: bool,
    /// One turn in so many is long, up to one and a half leases.
    pub(crate) long_turns: u8,
    /// The front ends of DynamoDB differ in what time it is, and one is wrong for so long.
    pub(crate) skew: Option<WrongFor>,
    /// Some turns are with several of the locks at once.
    pub(crate) has_several: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Each wants a lock alone.
    None,
    /// Half of them share.
    Readers,
    /// The locks have so many permits, and each wants some.
    Permits(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct HostPlan {
    pub(crate) lease: Duration,
    pub(crate) timeout: Duration,
    pub(crate) slots: usize,
    /// Closes gaps as soon as its settings allow, which is too soon for hosts whose time-outs are longer.
    pub(crate) is_hasty: bool,
    pub(crate) workers: usize,
    /// So many callers at the most come with a worker at once.
    pub(crate) crowd: usize,
    pub(crate) ahead: Duration,
    /// Its wall clock is off by so many days besides, which nothing but DynamoDB's own deletion could be harmed by.
    pub(crate) days_off: i32,
    pub(crate) rate: f64,
    /// How much longer than its lease it takes one for alive by the server clock.
    pub(crate) allowance: Duration,
    /// Its calls without end put up with an outage for so long.
    pub(crate) outage_timeout: Option<Duration>,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Plan {
        let mut rng = Rng::with_seed(seed);
        let locks = if rng.bool() { 1 } else { rng.usize(2..5) };
        let hosts = rng.usize(3..6);
        let mut plan = Plan {
            seed,
            locks: (0..locks).map(|lock| format!("lock-{lock}")).collect(),
            hosts: (0..hosts).map(|_| HostPlan::draw(&mut rng)).collect(),
            latency: Latency::HeavyTailed {
                median: rng.u32(2..15) * MS,
                p99: rng.u32(40..250) * MS,
            },
            weather: Weather {
                rates: Rates::draw(&mut rng),
                slow: slow(&mut rng),
                slow_writes: 0.8,
            },
            mischief: Kind::some(&mut rng),
            requests: REQUESTS,
            epochs: if rng.u8(0..4) == 0 { 2 } else { 1 },
            only_infinite: rng.u8(0..3) == 0,
            swept_when_idle: rng.bool(),
            long_turns: rng.u8(1..10),
            is_silent: rng.u8(0..3) == 0,
            sharing: Sharing::None,
            leases: 0,
            has_data: false,
            has_checks: false,
            skew: None,
            has_several: false,
        };
        if rng.u8(0..4) == 0 {
            plan.lose_holds();
        }
        plan.sharing = match rng.u8(0..6) {
            0 | 1 => Sharing::Readers,
            2 => Sharing::Permits(rng.u64(2..=4)),
            _ => Sharing::None,
        };
        let takes_leases = !matches!(plan.sharing, Sharing::Permits(_)) && rng.u8(0..3) == 0;
        plan.leases = if takes_leases { 4 } else { 0 };
        plan.has_data = rng.u8(0..3) == 0;
        plan.set_clocks(&mut rng);
        plan.has_checks = rng.u8(0..3) == 0;
        let has_fair_locks = !matches!(plan.sharing, Sharing::Permits(_)) && plan.locks.len() > 1;
        plan.has_several = has_fair_locks && rng.bool();
        if rng.u8(0..4) == 0 {
            for host in &mut plan.hosts {
                let most = host.timeout.mul_f64(rng.f64() * 8.0);
                host.outage_timeout = Some(most.max(TIMER_GRAIN));
            }
        }
        plan
    }

    /// In some seeds TTL comes by all the time, and the wall clocks of some hosts are off by weeks; in some front ends differ.
    /// Hosts differ in what they allow for that.
    fn set_clocks(&mut self, rng: &mut Rng) {
        if rng.u8(0..4) == 0 {
            self.mischief.push(Kind::Expire);
            for host in &mut self.hosts {
                let is_off = rng.bool();
                host.days_off = if is_off {
                    rng.i32(-DAYS_OFF..=DAYS_OFF)
                } else {
                    0
                };
            }
        }
        self.skew = match rng.u8(0..8) {
            0 => Some(WrongFor::Answer),
            1 => Some(WrongFor::Connection),
            _ => None,
        };
        // As "Limitations first" in the protocol has it.
        let apart = match self.skew {
            Some(_) => 2 * self.skew() + 3 * SECOND,
            None => 2 * SECOND,
        };
        for host in &mut self.hosts {
            if self.skew.is_some() && rng.bool() {
                // A wall clock that confirms what most front ends tell.
                host.ahead = APART / 2;
            }
        }
        for host in &mut self.hosts {
            // Dates are carried on from one heartbeat to the next, or for a lease where renewals come late.
            let least = apart + host.lease / 10;
            host.allowance = [least, 10 * SECOND, 20 * SECOND][rng.usize(0..3)].max(least);
        }
    }

    /// Turns at one lock are long, leases short, and its two hosts cannot renew them: holds are lost that others of the same
    /// place wait behind.
    fn lose_holds(&mut self) {
        self.mischief = vec![Kind::Freeze, Kind::Crash, Kind::CutOff, Kind::Freeze];
        self.hosts.truncate(2);
        self.long_turns = 1;
        self.locks.truncate(1);
        for host in &mut self.hosts {
            (host.lease, host.timeout) = (2 * SECOND, SECOND / 3);
            host.crowd = 6;
        }
    }

    pub(crate) fn epochs(&self) -> u64 {
        if self.is_silent { 2 } else { self.epochs }
    }

    /// By how much the clocks of front ends differ from the time, but for one that is wrong altogether.
    pub(crate) fn skew(&self) -> Duration {
        match self.skew {
            Some(_) => Duration::from_secs(SKEW.cast_unsigned()),
            None => Duration::ZERO,
        }
    }

    pub(crate) fn longest_lease(&self) -> Duration {
        let leases = self.hosts.iter().map(|host| host.lease);
        leases.max().unwrap_or_default()
    }

    pub(crate) fn longest_grace(&self) -> Duration {
        let graces = self.hosts.iter().map(HostPlan::grace);
        graces.max().unwrap_or_default()
    }

    pub(crate) fn longest_allowance(&self) -> Duration {
        let allowances = self.hosts.iter().map(|host| host.allowance);
        allowances.max().unwrap_or_default()
    }

    pub(crate) fn shortest_grace(&self) -> Duration {
        let graces = self.hosts.iter().map(HostPlan::grace);
        graces.min().unwrap_or_default()
    }

    pub(crate) fn workers(&self) -> u32 {
        let workers = self.hosts.iter().map(|host| host.workers as u32);
        workers.sum()
    }

    pub(crate) fn rng(&self, salt: u64) -> Rng {
        Rng::with_seed(
            self.seed
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .wrapping_add(salt),
        )
    }
}

/// In every third seed two of the verbs that close a race are slow, or the looks before them.
fn slow(rng: &mut Rng) -> Vec<&'static str> {
    let verbs = [
        "join",
        "void gap",
        "void dead",
        "fill",
        "evict",
        "evict_successor",
        "release",
        "leave",
        "read lock",
        "read queue",
    ];
    let count = if rng.u8(0..3) == 0 { 2 } else { 0 };
    (0..count)
        .map(|_| verbs[rng.usize(0..verbs.len())])
        .collect()
}

impl HostPlan {
    /// What its wall clock is off by against DynamoDB's, in seconds.
    pub(crate) fn off(&self) -> i64 {
        let day = 24 * 3600;
        let ahead = self.ahead.as_secs().cast_signed() - (APART / 2).as_secs().cast_signed();
        i64::from(self.days_off) * day + ahead
    }

    /// At least two time-outs, or the client would not be built.
    pub(crate) fn grace(&self) -> Duration {
        let shortest = 2 * self.timeout;
        match self.is_hasty {
            true => shortest,
            false => shortest.max(5 * SECOND),
        }
    }

    /// Rates keep a tenth of a percent below the one that the margin allows for: timers have a grain.
    fn draw(rng: &mut Rng) -> HostPlan {
        let leases = [2, 3, 6, 9, 15];
        let slots = [1, 2, 4, 4, 8];
        let crowds = [1, 1, 1, 3, 4, 6];
        let lease = leases[rng.usize(0..leases.len())] * SECOND;
        HostPlan {
            lease,
            timeout: lease.mul_f64(if rng.u8(0..4) == 0 { 0.3 } else { 1.0 / 6.0 }),
            slots: slots[rng.usize(0..slots.len())],
            is_hasty: rng.bool(),
            workers: rng.usize(1..4),
            ahead: rng.u32(0..=6) * HOUR,
            days_off: 0,
            rate: 0.991 + rng.f64() * 0.018,
            allowance: 10 * SECOND,
            outage_timeout: None,
            crowd: crowds[rng.usize(0..crowds.len())],
        }
    }
}
