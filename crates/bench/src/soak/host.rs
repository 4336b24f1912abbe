//! A client of the library, on a network with faults of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlock::{HeldLocks, LockClient, LockClientBuilder};

use crate::endpoint;
use crate::failure::Failure;
use crate::soak::ground::Ground;
use crate::soak::weather::Weather;

/// The leases of the clients in seconds. There is one client for each.
pub(crate) const LEASES: [u64; 4] = [3, 4, 6, 8];

pub(crate) struct Host {
    pub(crate) locks: LockClient,
    pub(crate) lease: Duration,
    pub(crate) weather: Arc<Weather>,
    is_leaving: AtomicBool,
}

impl Host {
    /// The client for this place among [`LEASES`].
    pub(crate) fn new(ground: &Ground, place: usize, seed: u64) -> Result<Arc<Host>, Failure> {
        let lease = Duration::from_secs(LEASES[place]);
        let weather = Weather::new(&ground.climate, seed);
        let network = ground
            .turns
            .on(weather.on(ground.location.network().seeded(seed)));
        let builder = LockClient::builder(ground.location.client(&network));
        let builder = builder
            .lease_duration(lease)
            .owner(format!("host {place}, {seed:x}"));
        let builder = endpoint::notified(builder, ground.options.notify)?;
        Ok(Arc::new(Host {
            locks: built(ground, builder)?,
            lease,
            weather,
            is_leaving: AtomicBool::new(false),
        }))
    }

    /// Whether its callers may be told that it was shut down.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::SeqCst)
    }

    /// Planted: cuts the client off, and the end of all faults does not bring it back.
    pub(crate) fn strand(&self) {
        self.weather.strand();
    }

    /// Shuts the client down. Returns its work that was not done in time.
    pub(crate) async fn leave(&self, held: HeldLocks, within: Duration) -> Vec<String> {
        self.is_leaving.store(true, Ordering::SeqCst);
        let report = self.locks.shutdown(held, within).await;
        report.unfinished.iter().map(ToString::to_string).collect()
    }
}

/// A client on the soak's table.
pub(crate) fn built(ground: &Ground, builder: LockClientBuilder) -> Result<LockClient, Failure> {
    let builder = builder.table(&ground.options.table);
    builder
        .build()
        .map_err(|error| Failure::usage("no client", error))
}
