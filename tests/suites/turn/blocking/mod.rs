//! The locks for programs without a runtime: real threads, which block, on an engine in this process.

mod background;
mod contexts;
mod ends;
mod turns;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use fairlock::LockClientBuilder;
use fairlock::blocking::{FairLock, LockClient, LockGuard};
use fairlock::embedded::{Engine, Exchange, Network};
use fairlock_testkit::blocking;
use fairlock_testkit::verbs::verb;

/// Longer than anything takes. A test that waits so long has failed.
const LONG: Duration = Duration::from_secs(120);

/// An engine in memory with the table of some blocking clients.
struct Table(Engine);

/// Runs a test on real threads, with a table and as many clients of it as it names.
fn on_table<const N: usize>(test: impl FnOnce(&Table, [LockClient; N])) {
    blocking(|| {
        let table = Table::new();
        let clients = [(); N].map(|()| table.client());
        test(&table, clients);
    });
}

impl Table {
    fn new() -> Table {
        let table = Table(Engine::memory().unwrap());
        let maker = table.client();
        maker.create_table().unwrap();
        table
    }

    fn builder(&self) -> LockClientBuilder {
        fairlock::LockClient::builder(self.0.client())
    }

    fn client(&self) -> LockClient {
        LockClient::new(self.builder()).unwrap()
    }

    /// A client with the defaults, and the network that its requests go over.
    fn host(&self) -> (LockClient, Network) {
        self.host_with(|builder| builder)
    }

    fn host_with(
        &self,
        set: impl FnOnce(LockClientBuilder) -> LockClientBuilder,
    ) -> (LockClient, Network) {
        let network = Network::to(&self.0);
        let builder = fairlock::LockClient::builder(network.client());
        (LockClient::new(set(builder)).unwrap(), network)
    }

    /// Whether a caller that does not wait is granted lock `a`.
    fn is_free(&self) -> bool {
        let guard = lock(&self.client()).try_acquire().unwrap();
        guard.map(LockGuard::release).transpose().unwrap().is_some()
    }
}

fn lock(locks: &LockClient) -> FairLock {
    locks.fair_lock("a").unwrap()
}

/// Tells of each request of this step when it is answered.
fn answers(network: &Network, step: &'static str) -> Receiver<()> {
    let (tell, told) = channel();
    observe(network, step, tell);
    told
}

fn observe(network: &Network, step: &'static str, tell: Sender<()>) {
    let _ = network.clone().observe(move |exchange: &Exchange<'_>| {
        if verb(exchange.request()) == step {
            // A test that has seen enough does not listen any more.
            let _ = tell.send(());
        }
    });
}
