//! Where the tables are, and networks to them that share nothing.

use aws_sdk_dynamodb::Client;
use fairlock::embedded::{Engine, Network};
use fairlock_testkit::http;

use crate::endpoint;
use crate::failure::Failure;
use crate::soak::options::Options;

pub(crate) enum Location {
    Here(Engine),
    There(String),
}

impl Location {
    pub(crate) fn open(options: &Options) -> Result<Location, Failure> {
        if let Some(url) = &options.endpoint_url {
            return Ok(Location::There(url.clone()));
        }
        let engine = match &options.local {
            Some(path) => Engine::file(path),
            None => Engine::memory(),
        };
        let engine = engine.map_err(|error| Failure::usage("no tables", error))?;
        Ok(Location::Here(engine))
    }

    /// A network of its own, with connections of its own.
    pub(crate) fn network(&self) -> Network {
        match self {
            Location::Here(engine) => Network::to(engine),
            Location::There(_) => http::network(),
        }
    }

    pub(crate) fn client(&self, network: &Network) -> Client {
        match self {
            Location::Here(_) => network.client(),
            Location::There(url) => endpoint::client(url, network),
        }
    }
}
