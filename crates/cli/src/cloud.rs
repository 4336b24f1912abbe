//! Connects to DynamoDB: reads the AWS configuration, and tells the user which of its variables and files decided.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use aws_config::SdkConfig;
use aws_credential_types::Credentials;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::SharedCredentialsProvider;
use tokio::time::sleep;

use crate::credentials::{CORRECTED, Provider, Source};
use crate::endpoint::Endpoint;
use crate::environment::{profile, set_of};
use crate::failure::{Failure, say};
use crate::location::Location;
use crate::metadata::Metadata;
use crate::table_identity::TableIdentity;
use crate::trust::Trust;

/// A load that takes longer is told.
const SLOW: Duration = Duration::from_secs(5);

const REGIONS: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];
const ENDPOINTS: [&str; 2] = ["AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"];

/// The AWS configuration of this process.
pub(crate) struct Cloud {
    source: Source,
    config: SdkConfig,
    metadata: Option<Metadata>,
    credentials: Arc<Provider>,
}

/// Returns a client for the place, which then knows where it is, and what to check when nothing answers there.
pub(crate) async fn connect(location: &Location) -> Result<Client, Failure> {
    let loads = async {
        let cloud = Cloud::load(location.endpoint_url.as_deref()).await?;
        // Before the first request: nothing can be sent without them.
        cloud.region()?;
        let credentials = cloud.credentials().await?;
        Ok((cloud, credentials))
    };
    let (cloud, credentials) = told_if_slow(location, loads).await?;
    cloud.client(location, &credentials).await
}

/// Loads, and says once if that takes long.
pub(crate) async fn told_if_slow<T>(location: &Location, loads: impl Future<Output = T>) -> T {
    let mut loads = pin!(loads);
    tokio::select! {
        biased;
        loaded = &mut loads => return loaded,
        () = sleep(SLOW) => {}
    }
    if location.is_news_that_it_is_slow() {
        say(&format!(
            "waits for AWS credentials ({}): what gives them has not answered for {SLOW:?}",
            profile()
        ));
    }
    loads.await
}

impl Cloud {
    pub(crate) async fn load(url: Option<&str>) -> Result<Cloud, Failure> {
        // With an empty URL the SDK would panic at the first request.
        let is_empty = |name: &&str| std::env::var_os(name).is_some_and(|value| value.is_empty());
        if let Some(name) = ENDPOINTS.into_iter().find(is_empty) {
            let text = format!("the variable {name} is empty: unset it, or give it a URL");
            return Err(Failure::unavailable(text));
        }
        let source = Source {
            url: url.map(str::to_owned),
            trust: Trust::load()?,
        };
        let (config, metadata) = source.load().await;
        Ok(Cloud {
            config,
            metadata,
            credentials: Arc::new(Provider::new(source.clone())),
            source,
        })
    }

    /// A client of DynamoDB with these credentials, and with those that follow them.
    pub(crate) async fn client(
        &self,
        location: &Location,
        credentials: &Credentials,
    ) -> Result<Client, Failure> {
        let provider: Arc<dyn aws_sdk_dynamodb::config::ProvideCredentials> =
            Arc::clone(&self.credentials) as _;
        let config = self.config.to_builder();
        let config = config.credentials_provider(SharedCredentialsProvider::from(provider));
        let client = Client::new(&config.build());
        let endpoint = Endpoint::of(&client, &location.table).await;
        if endpoint.as_ref().is_some_and(Endpoint::is_encrypted) {
            self.source.trust.check()?;
        }
        let region = self.config.region().map(AsRef::as_ref).unwrap_or_default();
        location.note_way(self.way(region, endpoint.as_ref()));
        location.note_identity(TableIdentity::in_cloud(
            (&location.table, &location.namespace),
            region,
            endpoint.as_ref(),
            credentials,
        ));
        Ok(client)
    }

    /// The region, and what gives it.
    pub(crate) fn region(&self) -> Result<(String, String), Failure> {
        let named = REGIONS
            .into_iter()
            .find(|name| std::env::var_os(name).is_some());
        let named = named.map_or_else(profile, str::to_owned);
        match self.config.region().map(AsRef::as_ref) {
            Some(region) if is_region(region) => Ok((region.to_owned(), named)),
            Some(region) => Err(Failure::unavailable(format!(
                "{region:?}, given by {named}, is no AWS region: one is eu-west-1"
            ))),
            None => Err(self.regionless()),
        }
    }

    fn regionless(&self) -> Failure {
        let text = format!(
            "no AWS region: set AWS_REGION, or `region` in {}",
            profile()
        );
        match self.metadata.as_ref().and_then(Metadata::regionless) {
            Some(not_given) if not_given.is_there => {
                Failure::unavailable(format!("{text} ({})", not_given.why)).passing(Duration::MAX)
            }
            _ => Failure::unavailable(text).passing(CORRECTED),
        }
    }

    /// The credentials, or why there are none.
    pub(crate) async fn credentials(&self) -> Result<Credentials, Failure> {
        let loaded = self.credentials.load().await;
        loaded.map_err(|failure| match self.source.trust.check() {
            Ok(()) => failure,
            Err(reason) => failure.because(reason.text()),
        })
    }

    /// What to check if nothing answers.
    fn way(&self, region: &str, endpoint: Option<&Endpoint>) -> String {
        let Some(endpoint) = endpoint else {
            return "see whether the network is up".to_owned();
        };
        let (url, named) = (endpoint.url(), set_of(ENDPOINTS));
        let way = match (&self.source.url, named) {
            (Some(url), _) => format!("see whether {url} is right, and what answers there"),
            (None, _) if endpoint.is_of_aws(region) => format!(
                "see whether the network is up, and whether {region}, given by {}, is the right AWS region: its DynamoDB is {}",
                given_region(),
                endpoint.host()
            ),
            (None, named) => {
                let named = named.map_or_else(profile, str::to_owned);
                format!("see whether {url}, given by {named}, is right, and what answers there")
            }
        };
        match endpoint.proxy() {
            Some((proxy, variable)) => format!(
                "{way}; requests go through the proxy {proxy}, given by {variable}: see whether it is right, or name {} in NO_PROXY",
                endpoint.host()
            ),
            None => way,
        }
    }
}

/// What gives the region.
fn given_region() -> String {
    set_of(REGIONS).map_or_else(profile, str::to_owned)
}

/// The region becomes a part of a host's name.
fn is_region(name: &str) -> bool {
    let is_of_a_host = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !name.is_empty() && name.bytes().all(is_of_a_host)
}
