//! HTTP to an engine in another process: whatever answers at `FAIRLOCK_TEST_ENDPOINT`, which `scripts/dynamodb-local` sets.

use std::io::Write;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use fairlock::embedded::Network;

/// Runs a test if an endpoint is named, or prints that it does not. It also prints that tests ran: `.ci/run` looks for that.
pub fn over_http<T: FnOnce(&str)>(test: T) {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    static SKIPPED: Once = Once::new();
    let Some(url) = endpoint() else {
        let words = "over HTTP: all tests skipped, for FAIRLOCK_TEST_ENDPOINT is not set";
        return SKIPPED.call_once(|| say(words));
    };
    test(&url);
    let ran = RAN.fetch_add(1, Ordering::SeqCst) + 1;
    say(&format!("over HTTP: {ran} tests ran"));
}

/// Where the other process's engine listens, if it is named.
pub fn endpoint() -> Option<String> {
    let set = std::env::var("FAIRLOCK_TEST_ENDPOINT").ok();
    set.filter(|url| !url.is_empty())
}

/// Prints words. Not by `println!`: the harness keeps its output to itself while tests pass.
pub fn say(words: &str) {
    let _ = std::io::stderr().write_all(format!("{words}\n").as_bytes());
}

/// HTTP and HTTPS as the SDK speaks them, with connections of its own.
pub fn transport() -> SharedHttpClient {
    let https = Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring));
    https.build_https()
}

/// A network to that engine, over HTTP or HTTPS.
pub fn network() -> Network {
    Network::over(transport())
}

/// A client for an address, whether or not a server listens there.
pub fn client(network: &Network, url: &str) -> Client {
    let config = network.client().config().to_builder();
    Client::from_conf(config.endpoint_url(url).build())
}
