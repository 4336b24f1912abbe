//! Where the tables are, and the clients for them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use fairlock::embedded::{Engine, Faults, Latency, Network};
use fairlock::{FairLock, LockClient, LockClientBuilder};
use fairlock_testkit::http;
use fairlock_testkit::request_counts::Counter;

use crate::contend::options::Options;
use crate::endpoint;
use crate::failure::Failure;

pub(crate) struct Backend {
    /// For requests that belong to no turn: neither slowed down nor counted.
    pub(crate) plain: Client,
    counted: Client,
    pub(crate) counter: Counter,
    /// With --one-client, the client in use.
    shared: Mutex<Weak<LockClient>>,
}

/// A client and its users: the last of them shuts it down.
pub(crate) type Shared = Arc<LockClient>;

pub(crate) fn open(options: &Options) -> Result<Backend, Failure> {
    match &options.endpoint_url {
        Some(url) => Ok(over_http(url)),
        None => embedded(options),
    }
}

fn embedded(options: &Options) -> Result<Backend, Failure> {
    let engine = match &options.local {
        Some(path) => Engine::file(path),
        None => Engine::memory(),
    };
    let engine = engine.map_err(|error| Failure::usage("no tables", error))?;
    let round_trip = Latency::Constant(options.rtt_ms.unwrap_or_default());
    let slowed = Faults {
        round_trip,
        ..Faults::default()
    };
    let counter = Counter::default();
    let network = Network::to(&engine).with_exact_delays().faults(slowed);
    Ok(Backend {
        plain: engine.client(),
        counted: counter.metering(network).client(),
        counter,
        shared: Mutex::default(),
    })
}

fn over_http(url: &str) -> Backend {
    let https = http::transport();
    let counter = Counter::default();
    Backend {
        plain: endpoint::client(url, &Network::over(https.clone())),
        counted: endpoint::client(url, &counter.on(Network::over(https))),
        counter,
        shared: Mutex::default(),
    }
}

impl Backend {
    /// Returns a worker's client: one of its own, as if it were on a machine of its own, unless all share one.
    pub(crate) fn locks(&self, options: &Options, worker: u32) -> Result<Shared, Failure> {
        if !options.one_client {
            return self.new_locks(options, worker).map(Arc::new);
        }
        let mut known = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = known.upgrade() {
            return Ok(shared);
        }
        let shared = Arc::new(self.new_locks(options, worker)?);
        *known = Arc::downgrade(&shared);
        Ok(shared)
    }

    fn new_locks(&self, options: &Options, worker: u32) -> Result<LockClient, Failure> {
        let builder = LockClient::builder(self.counted.clone()).owner(format!("worker {worker}"));
        built(endpoint::notified(builder, options.notify)?, options)
    }

    /// Returns a client that sends each request once, and waits for its answer as long as fairlock does.
    pub(crate) fn single_requests(&self, options: &Options) -> Client {
        let timeouts = TimeoutConfig::builder().operation_attempt_timeout(options.lease / 6);
        let config = self.counted.config().to_builder();
        let config = config.retry_config(RetryConfig::disabled());
        Client::from_conf(config.timeout_config(timeouts.build()).build())
    }

    /// Returns a client whose requests belong to no turn.
    pub(crate) fn upkeep(&self, options: &Options) -> Result<LockClient, Failure> {
        built(LockClient::builder(self.plain.clone()), options)
    }
}

fn built(builder: LockClientBuilder, options: &Options) -> Result<LockClient, Failure> {
    let builder = builder.table(&options.table).lease_duration(options.lease);
    let builder = match options.slots {
        Some(slots) => builder.testing(|it| it.filled_slots = Some(slots.into())),
        None => builder,
    };
    builder
        .build()
        .map_err(|error| Failure::usage("no client by this --lease and --table", error))
}

pub(crate) fn lock(options: &Options, locks: &LockClient) -> Result<FairLock, Failure> {
    let named = locks.fair_lock(&options.lock);
    named.map_err(|error| Failure::usage("no lock by this --lock", error))
}
