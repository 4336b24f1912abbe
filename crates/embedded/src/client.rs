//! Clients of the SDK whose requests go to an engine, or over a network.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region, SharedHttpClient};

use crate::connector::Line;
use crate::engine::Engine;
use crate::network::Network;

impl Engine {
    /// Returns a client on a perfect network: nothing is late or lost. See [`Network`] for any other network.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = fairlock_embedded::Engine::memory()?.client();
    /// client.list_tables().send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn client(&self) -> Client {
        Network::to(self).client()
    }
}

impl Network {
    /// Returns a client on this network, with a region that means nothing, and with the SDK's own retries and time-outs. Requests to an engine
    /// are not signed. Requests over another transport are signed with credentials that mean nothing, and go to `http://localhost:8000`, the
    /// usual address of a local DynamoDB.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use fairlock_embedded::{Engine, Network};
    ///
    /// let client = Network::to(&Engine::memory()?).client();
    /// client.list_tables().send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn client(&self) -> Client {
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::from_static("us-east-1"))
            .endpoint_url("http://localhost:8000")
            .http_client(self.http_client());
        let nobody = || Credentials::new("nobody", "nothing", None, None, "embedded");
        let config = match self.leads_to_engine() {
            // An engine in this process looks at no signature.
            true => config.allow_no_auth(),
            false => config.credentials_provider(nobody()),
        };
        Client::from_conf(config.build())
    }

    /// Returns the transport alone, for the caller's own configuration.
    ///
    /// # Examples
    ///
    /// ```
    /// use aws_sdk_dynamodb::{Client, config::retry::RetryConfig};
    /// use fairlock_embedded::{Engine, Network};
    ///
    /// let network = Network::to(&Engine::memory()?);
    /// let config = network.client().config().to_builder();
    /// let config = config.retry_config(RetryConfig::disabled()).http_client(network.http_client());
    /// let client = Client::from_conf(config.build());
    /// # Ok::<(), fairlock_embedded::EngineError>(())
    /// ```
    pub fn http_client(&self) -> SharedHttpClient {
        SharedHttpClient::new(Line(self.clone()))
    }
}
