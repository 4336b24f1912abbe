//! The metadata service of an instance: the region and the credentials that it gives, and why it gives none.

use std::error::Error as StdError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_config::Region;
use aws_config::imds::credentials::ImdsCredentialsProvider;
use aws_config::imds::{self, client::error::ImdsError};
use aws_config::meta::region::{self, ProvideRegion};
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{self, future};
use aws_sdk_dynamodb::config::ProvideCredentials;

use crate::environment::{in_profile, set};
use crate::failure::deepest;

/// A service that answers for many at once, or that has just started, takes longer than the second that the SDK gives it.
const CONNECT: Duration = Duration::from_secs(2);
const READ: Duration = Duration::from_secs(10);
/// With the pauses between them, these attempts take seconds. Then it is told that the service fails.
const ATTEMPTS: u32 = 3;
const REGION: &str = "/latest/meta-data/placement/region";
/// The words of errors that are all that is known where there is no such service, or where it is switched off.
const NOBODY: [&str; 4] = [
    "connect timeout",
    "unreachable",
    "No route",
    "IMDS is disabled",
];

/// The metadata service, which is asked where nothing else says something.
#[derive(Clone, Debug)]
pub(crate) struct Metadata {
    client: imds::Client,
    credentials: Arc<ImdsCredentialsProvider>,
    url: String,
    /// A setting names it, so it is there.
    is_named: bool,
    /// Why it gave no region.
    regionless: Arc<Mutex<Option<NotGiven>>>,
}

/// Why the service gave nothing.
#[derive(Clone, Debug)]
pub(crate) struct NotGiven {
    pub(crate) why: String,
    /// There is such a service, as far as one can see, so it may give it yet.
    pub(crate) is_there: bool,
}

impl Metadata {
    /// Returns `None` if it is not to be asked.
    pub(crate) fn new(config: &ProviderConfig) -> Option<Metadata> {
        let is_off = set("AWS_EC2_METADATA_DISABLED");
        if is_off.is_some_and(|it| it.eq_ignore_ascii_case("true")) {
            return None;
        }
        let named = set("AWS_EC2_METADATA_SERVICE_ENDPOINT")
            .or_else(|| in_profile("ec2_metadata_service_endpoint"));
        let client = imds::Client::builder()
            .configure(config)
            .connect_timeout(CONNECT)
            .read_timeout(READ)
            .max_attempts(ATTEMPTS)
            .build();
        let credentials = ImdsCredentialsProvider::builder()
            .configure(config)
            .imds_client(client.clone());
        Some(Metadata {
            client,
            credentials: Arc::new(credentials.build()),
            is_named: named.is_some(),
            url: named.unwrap_or_else(|| usual().to_owned()),
            regionless: Arc::default(),
        })
    }

    /// Why it gave no region, if it was asked.
    pub(crate) fn regionless(&self) -> Option<NotGiven> {
        let regionless = self.regionless.lock();
        regionless.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn not_given(&self, error: &(dyn StdError + 'static)) -> NotGiven {
        // The whole answer may follow.
        let cause = deepest(error).to_string();
        let (url, cause) = (
            &self.url,
            cause.split(". Response").next().unwrap_or_default(),
        );
        NotGiven {
            is_there: self.is_named || !NOBODY.iter().any(|words| cause.contains(words)),
            why: format!("the metadata service at {url}: {cause}"),
        }
    }

    async fn provide(&self) -> provider::Result {
        match self.credentials.provide_credentials().await {
            Ok(credentials) => Ok(credentials),
            Err(error @ CredentialsError::InvalidConfiguration(_)) => Err(error),
            Err(error) => {
                let NotGiven { why, is_there } = self.not_given(&error);
                Err(match is_there {
                    true => CredentialsError::provider_error(why),
                    false => CredentialsError::not_loaded(why),
                })
            }
        }
    }

    async fn placement(&self) -> Option<Region> {
        let not_given = match self.client.get(REGION).await {
            Ok(region) => return Some(Region::new(String::from(region))),
            Err(ImdsError::ErrorResponse(answer)) => {
                let status = answer.response().status().as_u16();
                self.not_given(&CredentialsError::provider_error(format!(
                    "it answered with {status}"
                )))
            }
            Err(error) => self.not_given(&error),
        };
        let regionless = self.regionless.lock();
        *regionless.unwrap_or_else(PoisonError::into_inner) = Some(not_given);
        None
    }
}

/// The address of each instance's service.
fn usual() -> &'static str {
    let mode = set("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    match mode.is_some_and(|mode| mode.eq_ignore_ascii_case("IPv6")) {
        true => "http://[fd00:ec2::254]",
        false => "http://169.254.169.254",
    }
}

impl ProvideCredentials for Metadata {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(self.provide())
    }
}

impl ProvideRegion for Metadata {
    fn region(&self) -> region::future::ProvideRegion<'_> {
        region::future::ProvideRegion::new(self.placement())
    }
}
