//! Processes that take turns at one lock over a network of constant latency, timed in virtual time.

use std::sync::Mutex;
use std::time::Duration;

use fairlock::{LockClientBuilder, RecordWait};
use futures::future::{join, join_all};
use tokio::time::Instant;

use fairlock_testkit::lab::{Host, Lab, away};

/// The time of one round trip.
pub(crate) const RTT: Duration = Duration::from_millis(10);

/// Workers that ask again as soon as they have released, spread over `processes` processes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    pub(crate) workers: usize,
    pub(crate) processes: usize,
    pub(crate) turns: usize,
    /// How many milliseconds the lock is held in each turn, repeated cyclically.
    pub(crate) holds: &'static [u64],
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    asked: Instant,
    granted: Instant,
    released: Instant,
}

/// The figures of a contest, without its first turns, in which the workers find their order and learn the pace.
#[derive(Debug)]
pub(crate) struct Course {
    turns: Vec<Turn>,
    requests: u64,
    lasted: Duration,
}

impl Contest {
    pub(crate) async fn run(self) -> Course {
        self.run_on(distant).await
    }

    /// Runs with processes that `host` makes.
    pub(crate) async fn run_on(self, host: impl Fn(&Lab) -> Host) -> Course {
        let lab = Lab::new().await;
        let hosts: Vec<_> = (0..self.processes).map(|_| host(&lab)).collect();
        let log = Mutex::new(Vec::new());
        let requests = || hosts.iter().map(|host| host.network.counts().requests());
        let opening = async {
            while log.lock().unwrap().len() < self.workers * 2 {
                lab.wait(RTT).await;
            }
            let turns = log.lock().unwrap().len();
            (turns, requests().sum::<u64>())
        };
        let workers = hosts.iter().cycle().take(self.workers);
        let work = join_all(workers.map(|host| self.work(&lab, host, &log)));
        let ((opening, before), _) = join(opening, work).await;
        let mut turns: Vec<Turn> = log.lock().unwrap().clone();
        let lasted = turns[turns.len() - 1].released - turns[opening - 1].released;
        Course {
            turns: turns.split_off(opening),
            requests: requests().sum::<u64>() - before,
            lasted,
        }
    }

    async fn work(&self, lab: &Lab, host: &Host, log: &Mutex<Vec<Turn>>) {
        let lock = host.lock();
        let mut so_far = 0;
        while so_far + self.workers <= self.turns {
            let asked = Instant::now();
            let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
            let granted = Instant::now();
            so_far = log.lock().unwrap().len();
            let hold = Duration::from_millis(self.holds[so_far % self.holds.len()]);
            lab.wait(hold).await;
            let released = Instant::now();
            log.lock().unwrap().push(Turn {
                asked,
                granted,
                released,
            });
            guard.release().await.unwrap();
        }
    }
}

/// A process one round trip away from the table.
pub(crate) fn distant(lab: &Lab) -> Host {
    // As by default.
    distant_with(lab, |builder| builder)
}

/// A process one round trip away from the table, with a client that is built so.
pub(crate) fn distant_with(
    lab: &Lab,
    build: impl FnOnce(LockClientBuilder) -> LockClientBuilder,
) -> Host {
    let host = lab.host_with(build);
    host.network.set_faults(away(RTT));
    host
}

impl Course {
    /// The time from the requested release to the next grant, in round trips: the longest of this share of all handoffs.
    pub(crate) fn handoff(&self, share: f64) -> f64 {
        let pairs = self.turns.windows(2);
        let mut spans: Vec<_> = pairs
            .map(|pair| pair[1].granted - pair[0].released)
            .collect();
        spans.sort();
        in_round_trips(spans[(share * (spans.len() - 1) as f64) as usize])
    }

    pub(crate) fn requests_a_turn(&self) -> f64 {
        self.requests as f64 / self.turns.len() as f64
    }

    pub(crate) fn turns_a_round_trip(&self) -> f64 {
        self.turns.len() as f64 / in_round_trips(self.lasted)
    }

    /// The longest wait divided by the mean.
    pub(crate) fn unevenness(&self) -> f64 {
        let waits = || self.turns.iter().map(|turn| turn.granted - turn.asked);
        let mean = waits().sum::<Duration>() / self.turns.len() as u32;
        waits().max().unwrap().div_duration_f64(mean)
    }
}

fn in_round_trips(span: Duration) -> f64 {
    span.div_duration_f64(RTT)
}
