//! Where the tables are, and the ways to them.

use std::fs::create_dir_all;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, Region};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use fairlock::embedded::{Engine, Faults, Latency, Network};
use fairlock::{FairLock, LockClient, LockClientBuilder};

use crate::failure::Failure;
use crate::options::Options;
use crate::traffic::Counter;

pub(crate) struct Backend {
    /// For what is no part of a turn: neither slowed down nor counted.
    pub(crate) plain: Client,
    counted: Client,
    pub(crate) counter: Counter,
}

pub(crate) fn open(options: &Options) -> Result<Backend, Failure> {
    match &options.endpoint_url {
        Some(url) => Ok(over_http(url)),
        None => embedded(options),
    }
}

fn embedded(options: &Options) -> Result<Backend, Failure> {
    let engine = match &options.local {
        Some(path) => {
            // The README's command runs before anything else has made `target`.
            if let Some(folder) = path.parent() {
                let told =
                    |error| Failure::usage(&format!("no folder {}", folder.display()), error);
                create_dir_all(folder).map_err(told)?;
            }
            Engine::file(path)
        }
        None => Engine::memory(),
    };
    let engine = engine.map_err(|error| Failure::usage("no tables", error))?;
    let round_trip = Latency::Constant(options.rtt_ms.unwrap_or_default());
    let slowed = Faults {
        round_trip,
        ..Faults::default()
    };
    let counter = Counter::default();
    let network = counter.on(Network::to(&engine).faults(slowed));
    Ok(Backend {
        plain: engine.client(),
        counted: network.client(),
        counter,
    })
}

fn over_http(url: &str) -> Backend {
    let https = Builder::new().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
    let https = https.build_https();
    let counter = Counter::default();
    Backend {
        plain: at(url, &Network::over(https.clone())),
        counted: at(url, &counter.on(Network::over(https))),
        counter,
    }
}

fn at(url: &str, network: &Network) -> Client {
    let config = network.client().config().to_builder();
    let config = config.endpoint_url(url).region(region());
    Client::from_conf(config.credentials_provider(credentials()).build())
}

/// A local DynamoDB takes any.
fn region() -> Region {
    let named = set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION"));
    Region::new(named.unwrap_or_else(|| "us-east-1".into()))
}

/// A local DynamoDB takes any.
fn credentials() -> Credentials {
    let id = set("AWS_ACCESS_KEY_ID").unwrap_or_else(|| "nobody".into());
    let secret = set("AWS_SECRET_ACCESS_KEY").unwrap_or_else(|| "nothing".into());
    Credentials::new(id, secret, set("AWS_SESSION_TOKEN"), None, "contend")
}

fn set(variable: &str) -> Option<String> {
    std::env::var(variable)
        .ok()
        .filter(|value| !value.is_empty())
}

impl Backend {
    /// A worker's own client, as if it were on a machine of its own.
    pub(crate) fn locks(&self, options: &Options, worker: u32) -> Result<LockClient, Failure> {
        built(
            LockClient::builder(self.counted.clone()).owner(format!("worker {worker}")),
            options,
        )
    }

    /// A client whose requests are part of no turn.
    pub(crate) fn upkeep(&self, options: &Options) -> Result<LockClient, Failure> {
        built(LockClient::builder(self.plain.clone()), options)
    }
}

fn built(builder: LockClientBuilder, options: &Options) -> Result<LockClient, Failure> {
    let locks = builder.table(&options.table).lease(options.lease).build();
    locks.map_err(|error| Failure::usage("no client by this --lease and --table", error))
}

pub(crate) fn lock(options: &Options, locks: &LockClient) -> Result<FairLock, Failure> {
    let named = locks.fair_lock(&options.lock);
    named.map_err(|error| Failure::usage("no lock by this --lock", error))
}
