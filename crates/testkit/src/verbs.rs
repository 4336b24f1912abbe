//! Which step of the protocol a request is, and faults that meet one of the steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::steps;
use fairlock::embedded::{Fault, Gate, Network, Request, When};

/// Returns the step that a request is.
pub fn verb(request: &Request) -> &'static str {
    steps::step(request.operation(), request.body())
}

/// Lets the first `times` requests of a verb meet a fault from now on; all others pass. Returns the count of those that met it.
pub fn meets(
    network: &Network,
    what: &'static str,
    times: usize,
    fault: Fault,
) -> Arc<AtomicUsize> {
    let met = Arc::new(AtomicUsize::new(0));
    let count = met.clone();
    let _ = network.clone().script(move |request| {
        let hit = verb(request) == what && count.load(Ordering::SeqCst) < times;
        hit.then(|| {
            count.fetch_add(1, Ordering::SeqCst);
            fault.clone()
        })
    });
    met
}

/// Holds up the first `times` requests of a verb from now on, on their way there or back. Returns the gate at which they stand.
pub fn held(network: &Network, what: &'static str, times: usize, when: When) -> Gate {
    let gate = Gate::closed();
    meets(network, what, times, Fault::Hold(when, gate.clone()));
    gate
}
