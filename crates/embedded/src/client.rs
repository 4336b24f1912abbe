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
    /// Returns a client on this network, with credentials and a region that mean nothing, and with the SDK's own retries and time-outs.
    /// Over another transport than an engine, its requests go to `http://localhost:8000`, the usual address of a local DynamoDB.
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
            .credentials_provider(Credentials::new(
                "nobody", "nothing", None, None, "embedded",
            ))
            .endpoint_url("http://localhost:8000")
            .http_client(self.http_client());
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
