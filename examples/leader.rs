//! Two candidates of one lock: the first is cut off from the network and stops, the second takes over.
//!
//! `cargo run --example leader`
//!
//! It runs on tokio's paused clock, so that leases of thirty seconds pass at once.

use std::error::Error;
use std::ops::ControlFlow;
use std::time::Duration;

use fairlock::embedded::{Engine, Faults, Network};
use fairlock::{Candidate, Clock, LeadershipEvent, LockClient, LockGuard};
use tokio::time::{Instant, sleep};

const MINUTE: Duration = Duration::from_secs(60);

/// In production each is a process of its own, with a client for AWS.
struct Host {
    name: &'static str,
    network: Network,
    locks: LockClient,
}

impl Host {
    fn new(name: &'static str, engine: &Engine, clock: &Clock) -> Result<Host, fairlock::Error> {
        let network = Network::to(engine);
        let locks = LockClient::builder(network.client()).owner(name);
        let locks = locks.clock(clock.clone()).build()?;
        Ok(Host {
            name,
            network,
            locks,
        })
    }

    /// Makes a candidate that stands for election for `stands`, and prints what becomes of it.
    fn candidate(&self, started: Instant, stands: Duration) -> Result<Candidate, fairlock::Error> {
        let name = self.name;
        let candidate = self.locks.fair_lock("feed/leader")?.candidate();
        let candidate = candidate.until(sleep(stands));
        Ok(candidate.observed(move |news| match news {
            LeadershipEvent::Began { ticket } => {
                say(started, &format!("{name} leads under token {ticket}"));
            }
            LeadershipEvent::Ended { .. } => {
                say(started, &format!("{name} leads no more: stopped"))
            }
            LeadershipEvent::Lost { reason, .. } => {
                say(started, &format!("{name} leads no more: {reason}"));
            }
            _ => {}
        }))
    }
}

fn say(started: Instant, what: &str) {
    println!("{:3} s  {what}", started.elapsed().as_secs());
}

/// The work that only the leader does. If the lock is lost, it is dropped where it awaits.
async fn publish(guard: &LockGuard) -> ControlFlow<()> {
    loop {
        // The receiver compares tickets, and refuses a late one.
        let _token = guard.ticket();
        sleep(Duration::from_secs(10)).await;
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Clock::of_tokio(Duration::from_secs(1_700_000_000));
    let engine = Engine::memory()?.with_clock(clock.clone());
    let first = Host::new("first", &engine, &clock)?;
    let second = Host::new("second", &engine, &clock)?;
    first.locks.create_table().await?;

    let started = Instant::now();
    let weather = async {
        sleep(MINUTE).await;
        say(started, "first is cut off from the network");
        first.network.set_faults(Faults {
            lost_requests: 1.0,
            ..Faults::default()
        });
        sleep(MINUTE).await;
        say(started, "first is back");
        first.network.set_faults(Faults::default());
    };
    let (one, other, ()) = tokio::join!(
        first.candidate(started, 3 * MINUTE)?.lead(publish),
        second.candidate(started, 4 * MINUTE)?.lead(publish),
        weather,
    );
    one?;
    other?;
    Ok(())
}
