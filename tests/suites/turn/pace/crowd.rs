//! A crowd that comes to a lock which is held: its partition bears less than the crowd asks for.
use std::collections::BTreeMap;
use std::time::Duration;

use fairlock::Error;
use fairlock_testkit::lab::{Lab, acquire};
use fairlock_testkit::partition_budget::PartitionBudget;
use futures::future::{join, join_all};

use super::contest::distant;

/// Callers of a process each, all at the same moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    pub(crate) callers: usize,
    pub(crate) write_units: f64,
    pub(crate) read_units: f64,
    /// For how long the holder before them holds the lock.
    pub(crate) hold: Duration,
    pub(crate) turn: Duration,
}

/// What became of a crowd.
#[derive(Debug)]
pub(crate) struct Dissolved {
    /// What the holder before the crowd was told at the end.
    pub(crate) released: Result<(), Error>,
    /// By step.
    pub(crate) throttled: BTreeMap<&'static str, u64>,
    pub(crate) turns: usize,
}

impl Crowd {
    pub(crate) async fn run(self) -> Dissolved {
        let lab = Lab::new().await;
        let budget = PartitionBudget::of(self.write_units, self.read_units);
        let host = || {
            let host = distant(&lab);
            let _ = budget.on(host.network.clone());
            host
        };
        let holder = host();
        let guard = acquire(&holder).await;
        let hosts: Vec<_> = (0..self.callers).map(|_| host()).collect();
        let turns = join_all(hosts.iter().map(|host| async {
            let guard = acquire(host).await;
            lab.wait(self.turn).await;
            guard.release().await
        }));
        let holds = async {
            lab.wait(self.hold).await;
            guard.release().await
        };
        let (released, turns) = join(holds, turns).await;
        Dissolved {
            released,
            throttled: budget.throttled("a"),
            turns: turns.iter().filter(|turn| turn.is_ok()).count(),
        }
    }
}
