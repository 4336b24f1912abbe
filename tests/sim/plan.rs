//! What a seed decides before anything runs: the locks, the hosts and their clocks, and what will go wrong.

use std::time::Duration;

use fairlock::embedded::Latency;
use fairlock_testkit::datagram_network::PostFaults;
use fairlock_testkit::lying_notifier::Lie;
use fastrand::Rng;

use crate::faults::Rates;
use crate::front_ends::{Dates, FURTHEST};
use crate::link::Weather;
use crate::mischief::Kind;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// How many requests a seed sends before its faults stop.
pub(crate) const REQUESTS: u64 = 500;
/// The shortest outage time-out.
const TIMER_GRAIN: Duration = MS;
/// In milliseconds, as clocks are off.
pub(crate) const HOUR: i64 = 3_600_000;
/// By how many days the wall clock of any host is off at most.
const DAYS_OFF: i64 = 30;
/// How far one host's clock may be ahead of another's.
pub(crate) const APART: Duration = Duration::from_secs(6 * 3600);

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) locks: Vec<String>,
    pub(crate) hosts: Vec<HostPlan>,
    pub(crate) latency: Latency,
    pub(crate) weather: Weather,
    pub(crate) mischief: Vec<Kind>,
    /// How many requests are sent at least before the faults stop.
    pub(crate) requests: u64,
    /// How often the whole run is repeated. Each time the table is cleaned and the hosts are new.
    epochs: u64,
    /// The run is done twice, with days of silence in between. Then the same hosts go on while TTL deletes idle items.
    pub(crate) is_silent: bool,
    /// Every call waits for ever. Otherwise some wait for a time or not at all.
    pub(crate) only_infinite: bool,
    /// A sweep removes idle locks. Otherwise DynamoDB's TTL does.
    pub(crate) swept_when_idle: bool,
    /// What callers want of the locks.
    pub(crate) sharing: Sharing,
    /// Every n-th turn, on average, is by a lease that is not renewed. Zero means none.
    pub(crate) leases: u8,
    /// Calls for leases wait, share locks and take permits, and some leases come of guards.
    pub(crate) leases_wait: bool,
    /// Holders leave data on the locks.
    pub(crate) has_data: bool,
    /// Holders write with a check that they hold the lock.
    pub(crate) has_checks: bool,
    /// Every n-th turn, on average, is long: up to one and a half leases.
    pub(crate) long_turns: u8,
    /// What DynamoDB's front ends tell of the time. Unless that is wrong, wall clocks are.
    pub(crate) dates: Dates,
    /// Some turns take several of the locks at once.
    pub(crate) has_several: bool,
    /// Hosts notify each other when to poll, and this happens to what they send.
    pub(crate) notifies: Option<PostFaults>,
    /// What hosts that notify each other hear in place of the truth.
    pub(crate) lie: Option<Lie>,
    /// Some callers bound their holds.
    pub(crate) bounds: bool,
    /// Some callers give a part of their permits back, or split their guards.
    pub(crate) parts: bool,
    /// An operator breaks places, asks holders to give way, changes how many permits there are, and deletes locks.
    pub(crate) operates: bool,
    /// The wall clocks of hosts are set while their clients live.
    pub(crate) steps: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Each caller wants a lock exclusively.
    None,
    /// Half of the callers share.
    Readers,
    /// The locks have this many permits, and each caller wants some of them.
    Permits(u64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct HostPlan {
    pub(crate) lease: Duration,
    pub(crate) timeout: Duration,
    /// How many slots the queue fills.
    pub(crate) slots: usize,
    /// How many slots there are besides, for crowds.
    pub(crate) spare_slots: usize,
    /// Closes gaps as soon as its settings allow, which is too soon for hosts with longer time-outs.
    pub(crate) is_hasty: bool,
    pub(crate) workers: usize,
    /// How many callers come at once with a worker, at most.
    pub(crate) crowd: usize,
    /// By how many milliseconds its wall clock is ahead of DynamoDB's.
    pub(crate) off: i64,
    pub(crate) rate: f64,
    /// By how much its client stops believing before a lease ends, in plans with bounds. `lease` is what it believes in.
    pub(crate) margin: Duration,
    /// How long its calls without a time limit tolerate an outage.
    pub(crate) outage_timeout: Option<Duration>,
}

/// In one of three seeds hosts notify each other. Drawn apart, so that all else in a seed is as it would be without.
fn notifies(seed: u64) -> Option<PostFaults> {
    let mut rng = Rng::with_seed(!seed);
    let share = |rng: &mut Rng| [0.0, 0.0, 0.1, 0.5, 1.0][rng.usize(0..5)];
    (rng.u8(0..3) == 0).then(|| PostFaults {
        lost: share(&mut rng),
        doubled: share(&mut rng),
        delay: [0, 1, 10, 500][rng.usize(0..4)] * MS,
        forged: share(&mut rng),
        deafens_odd: rng.u8(0..8) == 0,
    })
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
            leases_wait: seed % 2 == 1,
            has_data: false,
            has_checks: false,
            dates: Dates::Near(0),
            has_several: false,
            notifies: notifies(seed),
            lie: None,
            bounds: false,
            parts: false,
            operates: false,
            steps: false,
        };
        plan.set_claims();
        if rng.u8(0..4) == 0 {
            plan.lose_holds();
        }
        plan.sharing = match rng.u8(0..6) {
            0 | 1 => Sharing::Readers,
            2 => Sharing::Permits(rng.u64(2..=4)),
            _ => Sharing::None,
        };
        let takes_leases = match plan.sharing {
            Sharing::Permits(_) => seed % 4 == 1,
            Sharing::None | Sharing::Readers => rng.u8(0..3) == 0,
        };
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

    /// In one of three seeds callers bound their holds, and half of the clients have a safety margin. In one of three there is an operator,
    /// and in one of three wall clocks are set. Drawn apart, as `notifies` is.
    fn set_claims(&mut self) {
        let mut rng = Rng::with_seed(self.seed.rotate_left(32) ^ 0x00c1_a1a5);
        self.bounds = rng.u8(0..3) == 0;
        self.parts = rng.u8(0..3) == 0;
        self.operates = rng.u8(0..3) == 0;
        self.steps = rng.u8(0..3) == 0;
        if self.bounds {
            self.set_margins(&mut rng);
        }
    }

    pub(crate) fn set_margins(&mut self, rng: &mut Rng) {
        for host in &mut self.hosts {
            let share = 0.05 + rng.f64() * 0.95;
            host.margin = if rng.bool() {
                host.lease.mul_f64(share)
            } else {
                Duration::ZERO
            };
        }
    }

    /// How much longer than its lease, or than its caller wants it, a hold is kept at most.
    pub(crate) fn longest_bound(&self) -> Duration {
        match self.bounds {
            true => self.longest_lease(),
            false => Duration::ZERO,
        }
    }

    /// Sets the clocks. In some seeds TTL runs all the time, and the wall clocks of some hosts are off by weeks. In some, front ends
    /// differ a little.
    fn set_clocks(&mut self, rng: &mut Rng) {
        if rng.u8(0..4) == 0 {
            self.mischief.push(Kind::Expire);
            for host in &mut self.hosts {
                if rng.bool() {
                    host.off = hours_and_days(rng);
                }
            }
        }
        if rng.u8(0..4) == 0 {
            self.dates = Dates::Near(1);
        }
    }

    /// In one of three seeds all front ends are wrong. Drawn apart, as `notifies` is.
    pub(crate) fn set_dates(&mut self) {
        let mut rng = Rng::with_seed(self.seed.rotate_left(16) ^ 0x00da_7e5a);
        let every = [1, 3, 30, 1_000][rng.usize(0..4)];
        if rng.u8(0..3) == 0 {
            self.is_told_wrong(every);
        }
    }

    /// Makes all front ends wrong, and all wall clocks right within two seconds.
    pub(crate) fn is_told_wrong(&mut self, every: u32) {
        (self.dates, self.steps) = (Dates::Wrong(every), false);
        let offs = [-1_900, 1_900, 0, -1_300, 1_300].into_iter().cycle();
        self.hosts
            .iter_mut()
            .zip(offs)
            .for_each(|(host, off)| host.off = off);
    }

    /// Makes turns at one lock long and leases short. Its two hosts often cannot renew, so holds are lost while other callers of the same
    /// place wait behind them.
    pub(crate) fn lose_holds(&mut self) {
        self.mischief = vec![Kind::Freeze, Kind::Crash, Kind::CutOff, Kind::Freeze];
        self.hosts.truncate(2);
        self.long_turns = 1;
        self.locks.truncate(1);
        self.each(|host| host.lasts(2).crowd = 6);
    }

    pub(crate) fn each(&mut self, bend: impl Fn(&mut HostPlan)) {
        self.hosts.iter_mut().for_each(bend);
    }

    pub(crate) fn epochs(&self) -> u64 {
        if self.is_silent { 2 } else { self.epochs }
    }

    /// How far ahead of the time an owner may find the end of what it holds by right clocks.
    pub(crate) fn skew(&self) -> Duration {
        match self.dates {
            Dates::Near(most) => most * SECOND,
            Dates::Wrong(_) => 2 * SECOND,
        }
    }

    pub(crate) fn has_right_dates(&self) -> bool {
        !matches!(self.dates, Dates::Wrong(_))
    }

    /// How far any clock may be ahead of DynamoDB's, or a sweeper's behind.
    pub(crate) fn longest_ahead(&self) -> Duration {
        if !self.has_right_dates() {
            return FURTHEST;
        }
        let off = self.hosts.iter().map(|host| host.off).max();
        let steps = 48 * HOUR * i64::from(self.steps);
        APART + Duration::from_millis((off.unwrap_or_default().max(0) + steps).unsigned_abs())
    }

    pub(crate) fn longest_lease(&self) -> Duration {
        let leases = self.hosts.iter().map(|host| host.lease + host.margin);
        leases.max().unwrap_or_default()
    }

    pub(crate) fn longest_grace(&self) -> Duration {
        let graces = self.hosts.iter().map(HostPlan::grace);
        graces.max().unwrap_or_default()
    }

    pub(crate) fn shortest_grace(&self) -> Duration {
        let graces = self.hosts.iter().map(HostPlan::grace);
        graces.min().unwrap_or_default()
    }

    pub(crate) fn workers(&self) -> u32 {
        let workers = self.hosts.iter().map(|host| host.workers as u32);
        workers.sum()
    }

    /// How many callers there are at one time at most.
    pub(crate) fn callers(&self) -> u32 {
        let callers = self.hosts.iter().map(|host| host.workers * host.crowd);
        u32::try_from(callers.sum::<usize>()).unwrap_or(u32::MAX)
    }

    pub(crate) fn rng(&self, salt: u64) -> Rng {
        Rng::with_seed(
            self.seed
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .wrapping_add(salt),
        )
    }
}

/// In every third seed, two of the verbs that close a race are slow, or the reads before them.
fn slow(rng: &mut Rng) -> Vec<&'static str> {
    let verbs = [
        "join",
        "void gap",
        "void dead",
        "fill",
        "evict",
        "evict a successor",
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

fn hours(rng: &mut Rng) -> i64 {
    (i64::from(rng.u32(0..=6)) - 3) * HOUR
}

/// How far a wall clock may be off.
pub(crate) fn hours_and_days(rng: &mut Rng) -> i64 {
    hours(rng) + rng.i64(-DAYS_OFF..=DAYS_OFF) * 24 * HOUR
}

impl HostPlan {
    /// Makes leases so many seconds long.
    pub(crate) fn lasts(&mut self, seconds: u32) -> &mut HostPlan {
        (self.lease, self.timeout) = (seconds * SECOND, seconds * SECOND / 6);
        self
    }

    /// At least two time-outs, or the client could not be built.
    pub(crate) fn grace(&self) -> Duration {
        let shortest = 2 * self.timeout;
        match self.is_hasty {
            true => shortest,
            false => shortest.max(5 * SECOND),
        }
    }

    pub(crate) fn successor_slots(&self) -> usize {
        match self.crowd {
            1 => self.slots,
            _ => self.slots + self.spare_slots,
        }
    }

    /// Rates stay a tenth of a percent below the limit of the margin, because timers have a grain.
    fn draw(rng: &mut Rng) -> HostPlan {
        let leases = [2, 3, 6, 9, 15];
        let slots = [1, 2, 4, 4, 8];
        let crowds = [1, 1, 1, 3, 4, 6];
        let lease = leases[rng.usize(0..leases.len())] * SECOND;
        let timeout = lease.mul_f64(if rng.u8(0..4) == 0 { 0.3 } else { 1.0 / 6.0 });
        let slots = slots[rng.usize(0..slots.len())];
        HostPlan {
            lease,
            timeout,
            slots,
            spare_slots: 3 * slots,
            is_hasty: rng.bool(),
            workers: rng.usize(1..4),
            off: hours(rng),
            rate: 0.991 + rng.f64() * 0.018,
            margin: Duration::ZERO,
            outage_timeout: None,
            crowd: crowds[rng.usize(0..crowds.len())],
        }
    }
}
