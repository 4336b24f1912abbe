//! A client of the library, on a network with faults of its own, and how clients are replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlock::{HeldLocks, LockClient, LockClientBuilder};
use fastrand::Rng;

use crate::endpoint;
use crate::failure::Failure;
use crate::soak::stage::Soak;
use crate::soak::weather::Weather;

/// The leases of the clients in seconds. There is one client for each.
pub(crate) const LEASES: [u64; 4] = [3, 4, 6, 8];
/// How long a client's background work may take at its end. It may meet faults too.
const TO_FINISH: Duration = Duration::from_secs(10);

pub(crate) struct Host {
    pub(crate) locks: LockClient,
    pub(crate) lease: Duration,
    weather: Arc<Weather>,
    is_leaving: AtomicBool,
}

impl Host {
    /// The client for this place among [`LEASES`].
    pub(crate) fn new(soak: &Soak, place: usize, seed: u64) -> Result<Arc<Host>, Failure> {
        let lease = Duration::from_secs(LEASES[place]);
        let weather = Weather::new(&soak.climate, seed);
        let network = soak
            .turns
            .on(weather.on(soak.location.network().seeded(seed)));
        let builder = LockClient::builder(soak.location.client(&network));
        let builder = builder
            .lease_duration(lease)
            .owner(format!("host {place}, {seed:x}"));
        let builder = endpoint::notified(builder, soak.options.notify)?;
        Ok(Arc::new(Host {
            locks: built(soak, builder)?,
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
pub(crate) fn built(soak: &Soak, builder: LockClientBuilder) -> Result<LockClient, Failure> {
    let builder = builder.table(&soak.options.table);
    // A caller that comes after a death need not wait long for it.
    let builder = builder.server_clock_allowance(Duration::from_secs(3));
    builder
        .build()
        .map_err(|error| Failure::usage("no client", error))
}

/// Now and then cuts a client off for up to two leases, or shuts it down and puts a new one in its place.
pub(crate) async fn come_and_go(soak: &Soak, place: usize, mut rng: Rng) {
    while soak
        .goes_on(Duration::from_millis(rng.u64(4_000..16_000)))
        .await
    {
        if rng.u8(0..3) == 0 {
            let host = soak.host(place);
            host.weather.cut_off(true);
            soak.goes_on(host.lease.mul_f64(2.0 * rng.f64())).await;
            host.weather.cut_off(false);
            soak.tally.outcome("client cut off");
        } else {
            replace(soak, place, &mut rng).await;
        }
    }
}

async fn replace(soak: &Soak, place: usize, rng: &mut Rng) {
    let new = match Host::new(soak, place, rng.u64(..)) {
        Ok(new) => new,
        Err(failure) => return soak.findings.add(format!("surprise: {failure}")),
    };
    let old = soak.exchange(place, new);
    let (held, word) = match rng.bool() {
        true => (HeldLocks::Keep, "client shut down, locks kept"),
        false => (HeldLocks::Release, "client shut down, locks released"),
    };
    let unfinished = old.leave(held, TO_FINISH).await;
    soak.tally.outcome(word);
    unfinished
        .iter()
        .for_each(|_| soak.tally.outcome("not finished at a shutdown"));
}
