//! A test of your own: hosts of a service on a bad network, in one process, on a clock that jumps over leases and time-outs.
//! `cargo run --example own_test`; in a test file, `main` is a function under `#[tokio::test(start_paused = true)]`.
//! In production the service gets `aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await)`, without a clock and seeds.

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use fairlock::embedded::{Engine, Faults, Latency, Network};
use fairlock::{Clock, LockClient, LockGuard, RecordWait, Ticket};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

/// The service under test: it takes a turn at the ledger.
async fn turn(locks: &LockClient, ledger: &Ledger) -> Result<(), fairlock::Error> {
    let lock = locks.fair_lock("ledger")?;
    let turn = async |guard: &LockGuard| ledger.settle(guard.ticket()).await;
    lock.run(RecordWait::Infinite, turn).await?.into_result()
}

/// Stands for the true ledger, and notes what the service does to it.
#[derive(Default)]
struct Ledger {
    inside: AtomicU32,
    overlaps: AtomicU32,
    tickets: Mutex<Vec<Ticket>>,
}

impl Ledger {
    async fn settle(&self, ticket: Ticket) {
        let others = self.inside.fetch_add(1, Relaxed);
        self.overlaps.fetch_add(others, Relaxed);
        self.tickets.lock().await.push(ticket);
        sleep(Duration::from_millis(20)).await;
        self.inside.fetch_sub(1, Relaxed);
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    // The engine and all clients need the same clock, or a live holder loses its lock.
    let clock = Clock::of_tokio(Duration::from_secs(1_700_000_000));
    let engine = Engine::memory()?.with_clock(clock.clone());
    // A host is a client with a network of its own. The seeds fix what goes wrong.
    let host = |seed| {
        let network = Network::to(&engine).seeded(seed);
        let locks = LockClient::builder(network.client()).clock(clock.clone());
        let locks = locks.seeded(seed).build()?;
        Ok::<_, fairlock::Error>((network, locks))
    };
    let hosts = [host(1)?, host(2)?, host(3)?];
    hosts[0].1.create_table().await?;
    let storm = Faults {
        round_trip: Latency::Constant(Duration::from_millis(20)),
        lost_requests: 0.05,
        lost_answers: 0.05,
        throttles: 0.05,
        ..Faults::default()
    };
    hosts
        .iter()
        .for_each(|(network, _)| network.set_faults(storm));

    let ledger = Ledger::default();
    let turns = (0..12).map(|n| turn(&hosts[n % 3].1, &ledger));
    for ended in futures::future::join_all(turns).await {
        ended?;
    }
    let overlaps = ledger.overlaps.load(Relaxed);
    let tickets = ledger.tickets.lock().await.clone();
    assert_eq!((tickets.len(), overlaps), (12, 0));
    println!("checked: 12 turns on a bad network, and no two at a time");
    assert!(tickets.is_sorted_by(|one, next| one < next), "{tickets:?}");
    println!("checked: tickets grow from turn to turn");

    let [(network, crashes), (_, goes_on), _] = &hosts;
    let stale = crashes
        .fair_lock("ledger")?
        .acquire(RecordWait::Infinite)
        .await?;
    // To the other hosts this is a crash: no request of the first host arrives any more.
    network.set_faults(Faults {
        lost_requests: 1.0,
        ..storm
    });
    let crashed = Instant::now();
    turn(goes_on, &ledger).await?;
    let waited = crashed.elapsed().as_secs();
    assert!((25..45).contains(&waited), "{waited} s");
    println!("checked: after a crash the next host waits for one lease");
    assert!(!stale.is_held() && ledger.tickets.lock().await.last() > Some(&stale.ticket()));
    println!("checked: the crashed host knows of its loss, and its token is stale");

    let state = goes_on.fair_lock("ledger")?.inspect().await?;
    assert!(state.holder.is_none() && state.waiting == 0, "{state:?}");
    println!("checked: nothing is left behind");
    Ok(())
}
