//! HTTP to an engine in another process: whatever answers at `FAIRLOCK_TEST_ENDPOINT`, which `scripts/dynamodb-local` sets.

use std::io::Write;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use aws_sdk_dynamodb::Client;
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use fairlock::embedded::Network;

/// Runs a test where an endpoint is named, or says that it does not. That tests ran is said too: `.ci/run` looks for it.
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

/// Where that engine listens, if it is named.
pub fn endpoint() -> Option<String> {
    let set = std::env::var("FAIRLOCK_TEST_ENDPOINT").ok();
    set.filter(|url| !url.is_empty())
}

/// Not `println!`, whose words the harness keeps to itself while tests pass.
pub fn say(words: &str) {
    let _ = std::io::stderr().write_all(format!("{words}\n").as_bytes());
}

/// A network to it, over HTTP or HTTPS.
pub fn network() -> Network {
    let https = Builder::new().tls_provider(Provider::Rustls(CryptoMode::AwsLc));
    Network::over(https.build_https())
}

/// A client of what listens, or does not, at an address.
pub fn client(network: &Network, url: &str) -> Client {
    let config = network.client().config().to_builder();
    Client::from_conf(config.endpoint_url(url).build())
}
