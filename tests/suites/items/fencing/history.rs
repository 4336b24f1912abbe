//! Several clients count an item up, turn after turn, while they lose the lock without noticing.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use fairlock::embedded::Faults;
use fairlock::{LockGuard, RecordWait};
use futures::future::join_all;

use super::items::{applied, number, raise, set, things};
use fairlock_testkit::lab::{Host, Lab, cut_off};

/// Whether the counting client fences its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
    Fenced,
    Unfenced,
}

/// Returns how many increments the clients believe they made, and the value of the counter. A difference is a lost update.
pub(crate) async fn counted(writes: Writes, seed: u64) -> (u64, u64) {
    let lab = Lab::new().await;
    let things = things(&lab).await;
    // A host with a slow clock believes in its hold when another client already holds the lock.
    let hosts = [0.3, 1.0, 1.0].map(|rate| {
        let clock = lab.clock.clone().at_rate(rate);
        lab.host_with(|builder| builder.clock(clock))
    });
    let (lab, things) = (&lab, &things);
    let counts = hosts.iter().zip(0..).map(|(host, who)| async move {
        let mut rng = fastrand::Rng::with_seed(3 * seed + who);
        let mut count = 0;
        for _ in 0..4 {
            count += u64::from(counts_up(lab, things, host, writes, &mut rng).await);
        }
        count
    });
    let known = join_all(counts).await.into_iter().sum();
    (known, number(things, "value").await.unwrap_or(0))
}

/// Takes one turn: reads, takes its time, and writes one more. Returns whether it did, as far as it knows.
async fn counts_up(
    lab: &Lab,
    things: &Client,
    host: &Host,
    writes: Writes,
    rng: &mut fastrand::Rng,
) -> bool {
    let guard = host.lock().acquire(RecordWait::Infinite).await.unwrap();
    if rng.bool() {
        host.network.set_faults(cut_off());
    }
    let work = Duration::from_secs(rng.u64(1..90));
    let did = match writes {
        Writes::Fenced => fenced(lab, things, &guard, work).await,
        Writes::Unfenced => {
            let seen = number(things, "value").await.unwrap_or(0);
            lab.wait(work).await;
            applied(set(things, seen + 1).send().await)
        }
    };
    host.network.set_faults(Faults::default());
    drop(guard);
    did
}

async fn fenced(lab: &Lab, things: &Client, guard: &LockGuard, work: Duration) -> bool {
    let fence = guard.fence("fence");
    if !applied(fence.on(raise(things)).send().await) {
        return false;
    }
    let seen = number(things, "value").await.unwrap_or(0);
    lab.wait(work).await;
    applied(fence.on(set(things, seen + 1)).send().await)
}
