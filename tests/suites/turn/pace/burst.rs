//! Processes that all start at once, each for one turn, while requests are slow at first: connections are opened, credentials are fetched,
//! and machines are busy.

use std::time::Duration;

use fairlock::RecordWait;
use futures::future::{join, join_all};
use tokio::time::Instant;

use super::contest::{RTT, distant};
use fairlock_testkit::lab::{Host, Lab, acquire, away};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    pub(crate) processes: usize,
    /// How long a round trip takes at first, and until when.
    pub(crate) slow: Duration,
    pub(crate) until: Duration,
    pub(crate) hold: Duration,
}

/// The figures of a burst, from the moment when requests became fast.
#[derive(Debug)]
pub(crate) struct Drained {
    /// The time from each requested release to the next grant, sorted.
    pub(crate) handoffs: Vec<Duration>,
    /// The time until all had had their turns.
    pub(crate) lasted: Duration,
    pub(crate) requests_a_turn: f64,
}

impl Burst {
    pub(crate) async fn run(self) -> Drained {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..self.processes).map(|_| lab.host()).collect();
        let began = Instant::now();
        let speed = |round_trip| {
            for host in &hosts {
                host.network.set_faults(away(round_trip));
            }
        };
        speed(self.slow);
        let speeds_up = async {
            lab.wait(self.until).await;
            speed(RTT);
        };
        let turns = join_all(hosts.iter().map(|host| turn(&lab, host, self.hold)));
        let ((), mut turns) = join(speeds_up, turns).await;
        turns.sort();
        let fast = began + self.until;
        let late = turns.windows(2).filter(|pair| fast < pair[0].1);
        let mut handoffs: Vec<_> = late.map(|pair| pair[1].0 - pair[0].1).collect();
        handoffs.sort();
        let requests = hosts.iter().map(|host| host.network.counts().requests());
        Drained {
            handoffs,
            lasted: turns[turns.len() - 1].1.saturating_duration_since(fast),
            requests_a_turn: requests.sum::<u64>() as f64 / turns.len() as f64,
        }
    }
}

/// Many processes, each of which holds the lock for `turn`, after one holder that holds it for long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Behind {
    pub(crate) processes: usize,
    pub(crate) hold: Duration,
    pub(crate) turn: Duration,
}

impl Behind {
    /// How long it takes from the release of the long hold until all have had their turns.
    pub(crate) async fn run(self) -> Duration {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..=self.processes).map(|_| distant(&lab)).collect();
        let guard = acquire(&hosts[0]).await;
        let releases = async {
            lab.wait(self.hold).await;
            let released = Instant::now();
            guard.release().await.unwrap();
            released
        };
        let asks = async |number: usize, host| {
            // One after the other in the first half of the hold. Otherwise all of them would poll at the same moments.
            lab.wait(self.hold * number as u32 / (2 * self.processes as u32))
                .await;
            turn(&lab, host, self.turn).await
        };
        let hosts = hosts[1..].iter().enumerate();
        let turns = join_all(hosts.map(|(number, host)| asks(number, host)));
        let (released, turns) = join(releases, turns).await;
        let ends = turns.into_iter().map(|(_, ended)| ended);
        ends.max().unwrap() - released
    }
}

/// Takes a turn. Returns when it began, and when it ended.
async fn turn(lab: &Lab, host: &Host, hold: Duration) -> (Instant, Instant) {
    let guard = host.lock().acquire(RecordWait::Infinite).await.unwrap();
    let granted = Instant::now();
    lab.wait(hold).await;
    let released = Instant::now();
    guard.release().await.unwrap();
    (granted, released)
}
