//! How the drivers' clients reach DynamoDB, or a service that speaks its protocol, over HTTP, and each other.

use std::net::IpAddr;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, Region};
use fairlock::embedded::Network;
use fairlock::{LockClientBuilder, UdpNotifier};

use crate::failure::Failure;

/// These drivers use only these variables, and not all that the SDK's own configuration would look for.
pub(crate) const ENVIRONMENT: &str = "\
With --endpoint-url, credentials come from the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
AWS_SESSION_TOKEN only, not from a profile or a role, and the region from AWS_REGION or AWS_DEFAULT_REGION.
Placeholders that a local engine takes stand in for what is not set.";

/// The builder with a notifier at an address of this host, if there is one.
pub(crate) fn notified(
    builder: LockClientBuilder,
    address: Option<IpAddr>,
) -> Result<LockClientBuilder, Failure> {
    let Some(address) = address else {
        return Ok(builder);
    };
    let cannot = |error| Failure::usage("cannot listen at this --notify", error);
    let notifier = UdpNotifier::bind((address, 0)).map_err(cannot)?;
    Ok(builder.notifier(notifier))
}

/// A client of the service at this URL.
pub(crate) fn client(url: &str, network: &Network) -> Client {
    let config = network.client().config().to_builder();
    let config = config.endpoint_url(url).region(region());
    Client::from_conf(config.credentials_provider(credentials()).build())
}

/// A local DynamoDB accepts any region.
fn region() -> Region {
    let named = set("AWS_REGION").or_else(|| set("AWS_DEFAULT_REGION"));
    Region::new(named.unwrap_or_else(|| "us-east-1".into()))
}

/// A local DynamoDB accepts any credentials.
fn credentials() -> Credentials {
    let id = set("AWS_ACCESS_KEY_ID").unwrap_or_else(|| "nobody".into());
    let secret = set("AWS_SECRET_ACCESS_KEY").unwrap_or_else(|| "nothing".into());
    Credentials::new(id, secret, set("AWS_SESSION_TOKEN"), None, "fairlock-bench")
}

fn set(variable: &str) -> Option<String> {
    std::env::var(variable)
        .ok()
        .filter(|value| !value.is_empty())
}
