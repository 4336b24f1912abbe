//! Many clients on a bad network, in virtual time, one seed deciding everything: nobody overlaps, everybody gets
//! through, and nothing stays behind.
//!
//! `FAIRLOCK_FAULT_SEEDS=N` runs more seeds, `FAIRLOCK_FAULT_SEED=N` replays one.
#![cfg(feature = "embedded")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on has failed the test"
)]

mod common;
#[path = "common/lab.rs"]
mod lab;

use std::panic::catch_unwind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::virtual_time;
use fairlock::embedded::{Faults, Latency};
use fairlock::{Clock, Error, LockGuard, RecordWait, Ticket};
use futures::future::join_all;
use lab::{Host, Lab, cut_off};

const MS: Duration = Duration::from_millis(1);
const LEASE: Duration = Duration::from_secs(9);
const TURNS: usize = 6;

/// What happened in one run, written down as it happened.
#[derive(Default)]
struct History {
    inside: Vec<Ticket>,
    granted: Vec<Ticket>,
    lost: usize,
    refused: usize,
}

#[test]
fn on_a_bad_network_nobody_overlaps_and_everybody_gets_through() {
    for seed in seeds() {
        println!("replay with FAIRLOCK_FAULT_SEED={seed}");
        virtual_time(run(seed, 1.0));
    }
}

#[test]
fn the_history_catches_a_client_whose_clock_runs_at_a_quarter_of_the_rate() {
    let caught = |seed| catch_unwind(|| virtual_time(run(seed, 0.25))).is_err();
    assert!((0..10).any(caught), "ten seeds, and nothing was noticed");
}

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().unwrap());
    match number("FAIRLOCK_FAULT_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("FAIRLOCK_FAULT_SEEDS").unwrap_or(60)).collect(),
    }
}

/// One run; the clock of one client goes at `rate`.
async fn run(seed: u64, rate: f64) {
    let lab = Arc::new(Lab::new().await);
    let mut rng = fastrand::Rng::with_seed(seed);
    let history = Arc::new(Mutex::new(History::default()));
    let clocks = [rate, 1.0, 1.0, 1.0, 1.0, 1.0].map(|rate| lab.clock.clone().at_rate(rate));
    let hosts = clocks.map(|clock| Arc::new(bad_host(&lab, clock, &mut rng)));
    let workers = hosts
        .each_ref()
        .map(|host| worker(lab.clone(), host.clone(), history.clone(), rng.fork()));
    tokio::select! {
        biased;
        _ = join_all(workers) => {}
        () = cut_hosts_off(&lab, &hosts, rng.fork()) => {}
    }
    hosts
        .iter()
        .for_each(|host| host.network.set_faults(Faults::default()));
    lab.wait(4 * LEASE).await;
    let last = lab.host_with(|builder| builder.lease(LEASE));
    let lock = last.locks.fair_lock("a").unwrap();
    let guard = lock.acquire(RecordWait::Timeout(3 * LEASE)).await.unwrap();
    let mut history = history.lock().unwrap();
    history.enter(&guard);
    let History {
        granted,
        lost,
        refused,
        ..
    } = &*history;
    assert!(
        granted.len() >= hosts.len() * TURNS / 4,
        "{lost} lost, {refused} refused"
    );
}

/// Cuts one host after another off for a while, often for longer than its lease.
async fn cut_hosts_off(lab: &Lab, hosts: &[Arc<Host>], mut rng: fastrand::Rng) {
    loop {
        lab.wait(Duration::from_millis(rng.u64(0..10_000))).await;
        let host = &hosts[rng.usize(0..hosts.len())];
        host.network.set_faults(cut_off());
        lab.wait(Duration::from_millis(rng.u64(0..20_000))).await;
        host.network.set_faults(bad_network(&mut rng));
    }
}

fn bad_host(lab: &Lab, clock: Clock, rng: &mut fastrand::Rng) -> Host {
    let host = lab.host_with(|builder| builder.lease(LEASE).clock(clock));
    host.network.set_faults(bad_network(rng));
    host
}

fn bad_network(rng: &mut fastrand::Rng) -> Faults {
    let mut rate = || rng.f64() * 0.06;
    Faults {
        round_trip: Latency::HeavyTailed {
            median: 8 * MS,
            p99: 400 * MS,
        },
        lost_requests: rate(),
        lost_answers: rate(),
        errors_before: rate(),
        errors_after: rate(),
        hangs_before: rate() / 4.0,
        hangs_after: rate() / 4.0,
        throttles: rate(),
        conflicts: rate(),
        duplicates: rate(),
        duplicate_within: Duration::from_secs(60),
    }
}

async fn worker(
    lab: Arc<Lab>,
    host: Arc<Host>,
    history: Arc<Mutex<History>>,
    mut rng: fastrand::Rng,
) {
    let lock = host.locks.fair_lock("a").unwrap();
    for _ in 0..TURNS {
        let wait = match rng.u8(0..6) {
            0 => RecordWait::NoWait,
            1 => RecordWait::Timeout(Duration::from_millis(rng.u64(1..3_000))),
            _ => RecordWait::Infinite,
        };
        let gives_up = rng.u8(0..8) == 0;
        let patience = Duration::from_millis(rng.u64(0..2_000));
        let granted = tokio::select! {
            biased;
            granted = lock.acquire(wait) => granted,
            () = lab.wait(patience), if gives_up => continue,
        };
        match granted {
            Ok(guard) => turn(&lab, guard, &history, &mut rng).await,
            Err(Error::NotGranted { .. } | Error::Unavailable { .. }) => {
                history.lock().unwrap().refused += 1;
                lab.wait(Duration::from_secs(2)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

async fn turn(lab: &Lab, guard: LockGuard, history: &Mutex<History>, rng: &mut fastrand::Rng) {
    history.lock().unwrap().enter(&guard);
    let lost = guard.lost();
    let hold = Duration::from_millis(if rng.u8(0..6) == 0 {
        rng.u64(0..20_000)
    } else {
        rng.u64(0..100)
    });
    tokio::select! {
        biased;
        _ = lost => history.lock().unwrap().lost += 1,
        () = lab.wait(hold) => {}
    }
    history.lock().unwrap().leave(&guard);
    if rng.bool() {
        drop(guard);
    } else {
        // Lost, or not answered: the next grants show whether that did any harm.
        let _ = guard.release().await;
    }
}

impl History {
    fn enter(&mut self, guard: &LockGuard) {
        assert!(
            self.inside.is_empty(),
            "{:?} is inside as {} enters",
            self.inside,
            guard.ticket()
        );
        assert!(
            self.granted.last() < Some(&guard.ticket()),
            "{:?} before {}",
            self.granted,
            guard.ticket()
        );
        self.inside.push(guard.ticket());
        self.granted.push(guard.ticket());
    }

    fn leave(&mut self, guard: &LockGuard) {
        self.inside.retain(|ticket| *ticket != guard.ticket());
    }
}
