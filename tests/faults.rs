//! Many clients on a bad network, in virtual time, one seed deciding everything: nobody overlaps, everybody gets
//! through, and nothing stays behind.
//!
//! `FAIRLOCK_FAULT_SEEDS=N` runs more seeds, `FAIRLOCK_FAULT_SEED=N` replays one.
#![cfg(feature = "embedded")]

mod common;
#[path = "common/lab.rs"]
mod lab;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::virtual_time;
use fairlock::embedded::{Faults, Latency};
use fairlock::{Error, LockGuard, RecordWait, Ticket};
use futures::future::join_all;
use lab::{Host, Lab};

const MS: Duration = Duration::from_millis(1);
const LEASE: Duration = Duration::from_secs(9);
const WORKERS: usize = 6;
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
        virtual_time(run(seed));
    }
}

fn seeds() -> Vec<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().unwrap());
    match number("FAIRLOCK_FAULT_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("FAIRLOCK_FAULT_SEEDS").unwrap_or(150)).collect(),
    }
}

async fn run(seed: u64) {
    let lab = Arc::new(Lab::new().await);
    let mut rng = fastrand::Rng::with_seed(seed);
    let history = Arc::new(Mutex::new(History::default()));
    let hosts: Vec<_> = (0..WORKERS)
        .map(|_| Arc::new(bad_host(&lab, &mut rng)))
        .collect();
    let work = hosts
        .iter()
        .map(|host| worker(lab.clone(), host.clone(), history.clone(), rng.fork()));
    join_all(work).await;
    for host in &hosts {
        host.network.set_faults(Faults::default());
    }
    lab.wait(4 * LEASE).await;
    let last = lab.host_with(|builder| builder.lease(LEASE));
    let guard = last
        .locks
        .fair_lock("a")
        .unwrap()
        .acquire(RecordWait::Timeout(3 * LEASE))
        .await
        .unwrap();
    history.lock().unwrap().enter(&guard);
    history.lock().unwrap().leave(&guard);
    guard.release().await.unwrap();
    let history = history.lock().unwrap();
    assert!(
        history.granted.len() >= WORKERS * TURNS / 2,
        "{} lost, {} refused",
        history.lost,
        history.refused
    );
}

fn bad_host(lab: &Lab, rng: &mut fastrand::Rng) -> Host {
    let host = lab.host_with(|builder| builder.lease(LEASE));
    let rate = |rng: &mut fastrand::Rng| rng.f64() * 0.06;
    host.network.set_faults(Faults {
        round_trip: Latency::HeavyTailed {
            median: 8 * MS,
            p99: 400 * MS,
        },
        lost_requests: rate(rng),
        lost_answers: rate(rng),
        errors_before: rate(rng),
        errors_after: rate(rng),
        hangs_before: rate(rng) / 4.0,
        hangs_after: rate(rng) / 4.0,
        throttles: rate(rng),
        conflicts: rate(rng),
        duplicates: rate(rng),
        duplicate_within: Duration::from_secs(60),
    });
    host
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
                history.lock().unwrap().refused += 1
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
