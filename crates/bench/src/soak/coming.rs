//! Clients that are cut off for a while, and clients that take the place of others.

use std::time::Duration;

use fairlock::HeldLocks;
use fastrand::Rng;

use crate::soak::host::Host;
use crate::soak::stage::Soak;

/// How long a client's background work may take at its end. It may meet faults too.
const TO_FINISH: Duration = Duration::from_secs(10);

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
    let new = match Host::new(&soak.ground, place, rng.u64(..)) {
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
