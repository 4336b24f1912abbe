//! What all tasks of the soak share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairlock::LockClient;
use fairlock_testkit::request_counts::Counter;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::soak::findings::Findings;
use crate::soak::ground::Ground;
use crate::soak::host::{self, Host, LEASES};
use crate::soak::location::Location;
use crate::soak::names::Names;
use crate::soak::options::{Options, Plant};
use crate::soak::oracle::Oracle;
use crate::soak::register::Fence;
use crate::soak::table::Table;
use crate::soak::tally::Tally;
use crate::soak::weather::{Climate, Weather};

pub(crate) struct Soak {
    pub(crate) ground: Ground,
    pub(crate) oracle: Oracle,
    pub(crate) findings: Arc<Findings>,
    pub(crate) tally: Tally,
    pub(crate) names: Names,
    /// No task begins anything new.
    pub(crate) stop: CancellationToken,
    hosts: Mutex<Vec<Arc<Host>>>,
}

impl Soak {
    /// Opens the soak, with a table and one client for each of [`LEASES`].
    pub(crate) async fn open(
        options: &Options,
        findings: &Arc<Findings>,
    ) -> Result<Arc<Soak>, Failure> {
        let fence = match options.plant {
            Some(Plant::Stale) => Fence::Open,
            _ => Fence::Closed,
        };
        let soak = Soak {
            ground: Ground {
                options: options.clone(),
                location: Location::open(options)?,
                climate: Climate::new(options.faults_per_mille),
                turns: Counter::default(),
            },
            oracle: Oracle::new(fence, findings),
            findings: Arc::clone(findings),
            tally: Tally::default(),
            names: Names::default(),
            stop: CancellationToken::new(),
            hosts: Mutex::default(),
        };
        let made = soak.steady()?.create_table().await;
        made.map_err(|error| Failure::run("no table to lock in", error))?;
        for nth in 0..LEASES.len() {
            let host = Host::new(&soak.ground, nth, options.seed ^ nth as u64)?;
            soak.hosts().push(host);
        }
        Ok(Arc::new(soak))
    }

    /// A client whose requests meet no faults.
    pub(crate) fn steady(&self) -> Result<LockClient, Failure> {
        host::built(&self.ground, LockClient::builder(self.table().dynamodb))
    }

    /// A client of its own, whose requests meet the same faults as all others.
    pub(crate) fn onlooker(&self, seed: u64) -> Result<LockClient, Failure> {
        let weather = Weather::new(&self.ground.climate, seed);
        let network = weather.on(self.ground.location.network().seeded(seed));
        host::built(
            &self.ground,
            LockClient::builder(self.ground.location.client(&network)),
        )
    }

    pub(crate) fn table(&self) -> Table {
        Table {
            dynamodb: self.ground.location.client(&self.ground.location.network()),
            name: self.ground.options.table.clone(),
        }
    }

    pub(crate) fn host(&self, location: usize) -> Arc<Host> {
        Arc::clone(&self.hosts()[location])
    }

    /// Replaces the client in this place, and returns the old one.
    pub(crate) fn exchange(&self, location: usize, new: Arc<Host>) -> Arc<Host> {
        std::mem::replace(&mut self.hosts()[location], new)
    }

    /// Lets time pass, unless the soak ends before. Returns whether the soak goes on.
    pub(crate) async fn goes_on(&self, span: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            () = tokio::time::sleep(span) => true,
        }
    }

    fn hosts(&self) -> MutexGuard<'_, Vec<Arc<Host>>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts a task that runs by itself.
#[expect(clippy::disallowed_methods, reason = "the task is the soak's own")]
pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(work);
}
