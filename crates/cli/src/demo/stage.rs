//! Where a demo takes place: a temporary directory with the file of the lock's table and the ledger.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fairlock::embedded::Engine;
use fairlock::{LockClient, TableOptions};
use fairlock_cli::contest::causes::told;
use tempfile::TempDir;

use super::ledger::Ledger;
use crate::failure::Failure;

/// Short, so that the other workers do not wait long for a killed worker.
const LEASE: Duration = Duration::from_secs(5);

/// The directory is also removed when this is dropped.
pub(crate) struct Stage(TempDir);

impl Stage {
    pub(crate) fn build() -> Result<Stage, Failure> {
        let made = tempfile::Builder::new().prefix("fairlock-demo-").tempdir();
        let failed = |error| Failure::unavailable(format!("no temporary directory: {error}"));
        made.map(Stage).map_err(failed)
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.path().join("locks.db")
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::at(self.0.path().join("ledger"))
    }

    pub(crate) async fn create_table(&self) -> Result<(), Failure> {
        let locks = locks(&self.file(), "demo".into())?;
        let made = locks.create_table(&TableOptions::default()).await;
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
    let engine = Engine::file(file).map_err(|error| failed(&error))?;
    let builder = LockClient::builder(engine.client())
        .owner(owner)
        .lease_duration(LEASE);
    builder.build().map_err(|error| failed(&error))
}

fn failed(error: &dyn std::error::Error) -> Failure {
    Failure::internal(told(error))
}
