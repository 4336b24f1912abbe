//! Checks that every read by which a client may decide asks for strong consistency.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::sync::{Arc, Mutex};

use fairlock::embedded::{Exchange, Network, Request};

/// Fails the test as it is dropped, if a watched network saw a read that is not strongly consistent.
#[derive(Default)]
pub struct Reads(Arc<Mutex<Vec<String>>>);

impl Reads {
    /// Watches what clients on this network send from now on.
    pub fn watch(&self, network: Network) -> Network {
        let careless = self.0.clone();
        network.observe(move |exchange: &Exchange<'_>| {
            let request = exchange.request();
            if !is_consistent(request) {
                let read = format!("{} {}", request.operation(), request.body());
                careless.lock().unwrap().push(read);
            }
        })
    }
}

/// A scan need not be consistent: no client decides by what it shows.
fn is_consistent(request: &Request) -> bool {
    match request.operation() {
        "GetItem" | "Query" => request.body()["ConsistentRead"] == true,
        "BatchGetItem" | "TransactGetItems" => false,
        _ => true,
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let careless = self.0.lock().unwrap();
            assert!(
                careless.is_empty(),
                "reads that are not consistent: {careless:?}"
            );
        }
    }
}
