//! Where a demo takes place: a temporary directory with the file of the lock's table and the ledger.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fairlock::embedded::{Engine, Faults, Latency, Network};
use fairlock::{LockClient, LockClientBuilder};
use fairlock_cli::contention::error_chain::told;
use tempfile::TempDir;

use super::ledger::Ledger;
use crate::failure::Failure;
use crate::notify::Notify;

/// Short, so that the other workers do not wait long for a killed worker.
const LEASE: Duration = Duration::from_secs(5);

/// The directory is also removed when this is dropped.
pub(crate) struct Workspace(TempDir);

impl Workspace {
    pub(crate) fn build() -> Result<Workspace, Failure> {
        let made = tempfile::Builder::new().prefix("fairlock-demo-").tempdir();
        let failed = |error| Failure::unavailable(format!("no temporary directory: {error}"));
        made.map(Workspace).map_err(failed)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.path().join("locks.db")
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::at(self.0.path().join("ledger"))
    }

    pub(crate) async fn create_table(&self) -> Result<(), Failure> {
        let locks = locks(&self.file(), "demo".into())?;
        let made = locks.create_table().await;
        made.map_err(|error| failed(&error))
    }

    pub(crate) fn clear(self) -> Result<(), Failure> {
        let place = self.0.path().display().to_string();
        let failed = |error| Failure::internal(format!("cannot remove {place}: {error}"));
        self.0.close().map_err(failed)
    }
}

/// A client that behaves as if it were on a machine of its own.
pub(crate) fn locks(file: &Path, owner: String) -> Result<LockClient, Failure> {
    built(LockClient::builder(engine(file)?.client()), owner)
}

/// A network on which each request and its answer take that long together.
pub(crate) fn network(file: &Path, round_trip: Duration) -> Result<Network, Failure> {
    let slowed = Faults {
        round_trip: Latency::Constant(round_trip),
        ..Faults::default()
    };
    let network = Network::to(&engine(file)?);
    Ok(network.with_exact_delays().faults(slowed))
}

/// The same client as that of [`locks`], over a network, and notified if there is an address for that.
pub(crate) fn locks_over(
    network: &Network,
    owner: String,
    notify: Option<Notify>,
) -> Result<LockClient, Failure> {
    let builder = LockClient::builder(network.client());
    let builder = match notify {
        Some(notify) => builder.notifier(notify.listen(true)?),
        None => builder,
    };
    built(builder, owner)
}

fn engine(file: &Path) -> Result<Engine, Failure> {
    Engine::file(file).map_err(|error| failed(&error))
}

fn built(builder: LockClientBuilder, owner: String) -> Result<LockClient, Failure> {
    let built = builder.owner(owner).lease_duration(LEASE).build();
    built.map_err(|error| failed(&error))
}

fn failed(error: &dyn std::error::Error) -> Failure {
    Failure::internal(told(error))
}
