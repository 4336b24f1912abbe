//! An engine behind a real server, and clients of it.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, ScalarAttributeType};
use fairlock::embedded::{Engine, Network};
use fairlock::{LockClient, VersionedTable};

use super::Wire;
use super::server::{Server, Tap};
use crate::keyed_tables::{OF_LOCKS, create_table};

/// The request time-out: short, because these tests take real time.
pub const TIMEOUT: Duration = Duration::from_millis(500);

/// An engine with the tables `locks` and `things`, the server before it, and the way there.
pub struct ServedEngine {
    engine: Engine,
    /// The server, which does to connections what it is told.
    pub server: Server,
    /// The server's certificate, as PEM.
    pub certificate: String,
    wire: Wire,
    client: Client,
}

impl ServedEngine {
    /// A place whose server answers everything.
    pub async fn new(wire: Wire) -> ServedEngine {
        ServedEngine::trusting(wire, true).await
    }

    /// A place whose client does not trust the server.
    pub async fn untrusted() -> ServedEngine {
        ServedEngine::trusting(Wire::Tls, false).await
    }

    /// A place whose client has an address where no server listens.
    pub async fn nowhere(wire: Wire) -> ServedEngine {
        let mut place = ServedEngine::new(wire).await;
        // No test is given this port, as it might be a port that was free a moment ago.
        let url = format!("{}://localhost:1", wire.scheme());
        let config = place.client.config().to_builder().endpoint_url(url);
        place.client = Client::from_conf(config.build());
        place
    }

    async fn trusting(wire: Wire, is_trusted: bool) -> ServedEngine {
        ServedEngine::before(wire, is_trusted, |network| network).await
    }

    /// A place whose engine stands behind a network that does to requests what the test says.
    pub async fn before(
        wire: Wire,
        is_trusted: bool,
        set: impl FnOnce(Network) -> Network,
    ) -> ServedEngine {
        ServedEngine::around(Engine::memory().unwrap(), wire, is_trusted, set).await
    }

    /// A place whose answers have no `Date`, as those of DynamoDB Local.
    pub async fn dateless() -> ServedEngine {
        let engine = Engine::memory().unwrap().without_date();
        ServedEngine::around(engine, Wire::Tcp, true, |network| network).await
    }

    async fn around(
        engine: Engine,
        wire: Wire,
        is_trusted: bool,
        set: impl FnOnce(Network) -> Network,
    ) -> ServedEngine {
        create_table(&engine.client(), "locks", &OF_LOCKS).await;
        create_table(
            &engine.client(),
            "things",
            &[("id", ScalarAttributeType::S)],
        )
        .await;
        let sides = wire.sides(is_trusted);
        let tap = Tap::new(set(Network::to(&engine)).http_client(), sides.transport);
        let server = Server::start(sides.acceptor, tap.far()).await;
        let url = format!("{}://localhost:{}", wire.scheme(), server.port());
        let config = engine.client().config().to_builder();
        let config = config.endpoint_url(url).http_client(tap);
        ServedEngine {
            engine,
            server,
            certificate: sides.certificate,
            wire,
            client: Client::from_conf(config.build()),
        }
    }

    /// Where the server is, for another process: the server knows the way to the engine from now on.
    pub async fn url(&self) -> String {
        self.client.list_tables().send().await.unwrap();
        format!("{}://localhost:{}", self.wire.scheme(), self.server.port())
    }

    /// A new client over the wire.
    pub fn locks(&self) -> LockClient {
        let builder = LockClient::builder(self.client.clone()).table("locks");
        let builder = builder
            .request_timeout(TIMEOUT)
            .heartbeat_interval(2 * TIMEOUT);
        builder.build().unwrap()
    }

    /// The table `things`, over the wire.
    pub fn versioned(&self) -> VersionedTable {
        let builder = VersionedTable::builder(self.client.clone(), "things");
        let builder = builder.request_timeout(TIMEOUT).timeout(6 * TIMEOUT);
        builder.build().unwrap()
    }

    /// The sort keys of everything that the table has for a lock.
    pub async fn items(&self, lock: &str) -> Vec<String> {
        let query = self.engine.client().query().table_name("locks");
        let query = query
            .key_condition_expression("pk = :pk")
            .expression_attribute_values(":pk", AttributeValue::S(lock.into()));
        let items = query.send().await.unwrap().items.unwrap_or_default();
        let keys = items.iter().map(|item| item["sk"].as_s().unwrap().clone());
        keys.collect()
    }
}
