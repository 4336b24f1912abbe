//! The faults of one client's requests, and a count of those that happened.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fairlock::embedded::{Fault, Faults, Latency, Network, When};
use fastrand::Rng;

/// The longest delay of a request, and the longest time until its duplicate.
const LATEST: Duration = Duration::from_secs(2);

/// The faults of all clients.
pub(crate) struct Climate {
    per_mille: u32,
    is_calm: AtomicBool,
    befallen: Mutex<BTreeMap<&'static str, u64>>,
}

/// The faults of one client.
pub(crate) struct Weather {
    climate: Arc<Climate>,
    rng: Mutex<Rng>,
    is_cut_off: AtomicBool,
    is_stranded: AtomicBool,
}

impl Climate {
    pub(crate) fn new(per_mille: u32) -> Arc<Climate> {
        Arc::new(Climate {
            per_mille,
            is_calm: AtomicBool::new(false),
            befallen: Mutex::default(),
        })
    }

    /// Ends all faults.
    pub(crate) fn calm(&self) {
        self.is_calm.store(true, Ordering::SeqCst);
    }

    pub(crate) fn befallen(&self) -> BTreeMap<&'static str, u64> {
        let befallen = self.befallen.lock();
        befallen.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, kind: &'static str) {
        let befallen = self.befallen.lock();
        let mut befallen = befallen.unwrap_or_else(PoisonError::into_inner);
        *befallen.entry(kind).or_default() += 1;
    }
}

impl Weather {
    pub(crate) fn new(climate: &Arc<Climate>, seed: u64) -> Arc<Weather> {
        Arc::new(Weather {
            climate: Arc::clone(climate),
            rng: Mutex::new(Rng::with_seed(seed)),
            is_cut_off: AtomicBool::new(false),
            is_stranded: AtomicBool::new(false),
        })
    }

    /// Applies these faults to a network, whose round trips also take some time.
    pub(crate) fn on(self: &Arc<Self>, network: Network) -> Network {
        let weather = Arc::clone(self);
        let round_trip = Latency::HeavyTailed {
            median: Duration::from_millis(2),
            p99: Duration::from_millis(20),
        };
        let slowed = Faults {
            round_trip,
            ..Faults::default()
        };
        network
            .faults(slowed)
            .script(move |_request| weather.befall())
    }

    /// Cuts the client off, so that nothing that it sends arrives, or reconnects it.
    pub(crate) fn cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, Ordering::SeqCst);
    }

    /// Cuts the client off for good, even after all faults have ended.
    pub(crate) fn strand(&self) {
        self.is_stranded.store(true, Ordering::SeqCst);
    }

    fn befall(&self) -> Option<Fault> {
        if self.is_stranded.load(Ordering::SeqCst) {
            return Some(Fault::Lose(When::Before));
        }
        let climate = &self.climate;
        if climate.is_calm.load(Ordering::SeqCst) {
            return None;
        }
        let (kind, fault) = if self.is_cut_off.load(Ordering::SeqCst) {
            ("cut off", Fault::Lose(When::Before))
        } else {
            let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
            (rng.u32(0..1000) < climate.per_mille).then(|| fault(&mut rng))?
        };
        climate.note(kind);
        Some(fault)
    }
}

fn fault(rng: &mut Rng) -> (&'static str, Fault) {
    let after = LATEST.mul_f64(rng.f64());
    match rng.u8(0..13) {
        0 => ("request lost", Fault::Lose(When::Before)),
        1 => ("answer lost", Fault::Lose(When::After)),
        2 => ("500, not applied", Fault::ServerError(When::Before)),
        3 => ("500, applied", Fault::ServerError(When::After)),
        4 => ("no answer, not applied", Fault::Hang(When::Before)),
        5 => ("no answer, applied", Fault::Hang(When::After)),
        6 => ("throttled", Fault::Throttle),
        7 => ("answer cut short", Fault::CutShort),
        8 => ("duplicate", Fault::Duplicate { after }),
        9 => ("request late", Fault::Delay(When::Before, after)),
        10 => ("closed, not applied", Fault::Close(When::Before)),
        11 => ("closed, applied", Fault::Close(When::After)),
        _ => ("answer late", Fault::Delay(When::After, after)),
    }
}
