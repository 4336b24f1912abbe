//! Where the tables are, and networks to them that share nothing.

use aws_sdk_dynamodb::Client;
use fairlock::embedded::{Engine, Network};

use crate::endpoint;
use crate::failure::Failure;
use crate::soak::options::Options;

pub(crate) enum Place {
    Here(Engine),
    There(String),
}

impl Place {
    pub(crate) fn open(options: &Options) -> Result<Place, Failure> {
        if let Some(url) = &options.endpoint_url {
            return Ok(Place::There(url.clone()));
        }
        let engine = match &options.local {
            Some(path) => Engine::file(path),
            None => Engine::memory(),
        };
        let engine = engine.map_err(|error| Failure::usage("no tables", error))?;
        Ok(Place::Here(engine))
    }

    /// A network of its own, with connections of its own.
    pub(crate) fn network(&self) -> Network {
        match self {
            Place::Here(engine) => Network::to(engine),
            Place::There(_) => Network::over(endpoint::https()),
        }
    }

    pub(crate) fn client(&self, network: &Network) -> Client {
        match self {
            Place::Here(_) => network.client(),
            Place::There(url) => endpoint::client(url, network),
        }
    }
}
