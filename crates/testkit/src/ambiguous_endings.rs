//! What may befall a request: endings by which its sender cannot tell an applied request from one that was not applied.

use std::sync::atomic::{AtomicBool, Ordering};

use fairlock::embedded::{Fault, Network, When};

/// Every way in which a request may be applied without its sender knowing.
pub fn applied_unseen() -> [Fault; 5] {
    [
        Fault::CutShort,
        Fault::Lose(When::After),
        Fault::Close(When::After),
        Fault::ServerError(When::After),
        Fault::Hang(When::After),
    ]
}

/// Every way in which a request may fail to be applied without its sender knowing.
pub fn lost_unseen() -> [Fault; 4] {
    [
        Fault::Lose(When::Before),
        Fault::Close(When::Before),
        Fault::ServerError(When::Before),
        Fault::Hang(When::Before),
    ]
}

/// Lets the first request of an operation meet a fault, and no other request.
pub fn first(network: &Network, operation: &'static str, fault: Fault) {
    let met = AtomicBool::new(false);
    let _ = network.clone().script(move |request| {
        let is_it = request.operation() == operation;
        let hit = is_it && !met.swap(true, Ordering::SeqCst);
        hit.then(|| fault.clone())
    });
}
