//! Which certificates are trusted: those of AWS_CA_BUNDLE, which the SDK does not read, or the system's.

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_http_client::{Builder, ConnectorBuilder};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::environment::set;
use crate::failure::Failure;

const BUNDLE: &str = "AWS_CA_BUNDLE";

/// What is trusted, and the client that trusts it.
#[derive(Clone, Debug)]
pub(crate) struct Trust {
    client: SharedHttpClient,
    /// Where nothing is trusted, no endpoint with https can be reached.
    trusts_nothing: bool,
}

impl Trust {
    pub(crate) fn load() -> Result<Trust, Failure> {
        let Some(file) = set(BUNDLE) else {
            let is_empty = rustls_native_certs::load_native_certs().certs.is_empty();
            // The SDK asserts that there are some.
            let store = match is_empty {
                true => TrustStore::empty(),
                false => TrustStore::default(),
            };
            return Trust::of(store, is_empty);
        };
        let unusable =
            |why: String| Failure::unavailable(format!("{file}, given by {BUNDLE}: {why}"));
        let bytes = std::fs::read(&file).map_err(|error| unusable(error.to_string()))?;
        // The SDK would panic at what is no certificate.
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&bytes) {
            let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| unusable(error.to_string()))?;
        }
        match roots.is_empty() {
            true => Err(unusable("it has no certificate".to_owned())),
            false => Trust::of(TrustStore::empty().with_pem_certificate(bytes), false),
        }
    }

    fn of(store: TrustStore, trusts_nothing: bool) -> Result<Trust, Failure> {
        Ok(Trust {
            client: client(store)?,
            trusts_nothing,
        })
    }

    /// The client for all requests.
    pub(crate) fn http_client(&self) -> SharedHttpClient {
        self.client.clone()
    }

    /// Fails where no certificate can be trusted.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        match self.trusts_nothing {
            false => Ok(()),
            true => Err(Failure::unavailable(format!(
                "this system has no CA certificates, so nothing with https can be trusted: install its package `ca-certificates`, or name \
                 a file of certificates in {BUNDLE} or SSL_CERT_FILE"
            ))),
        }
    }
}

/// A client that trusts what is in the store.
fn client(store: TrustStore) -> Result<SharedHttpClient, Failure> {
    let context = TlsContext::builder().with_trust_store(store).build();
    let context = context.map_err(|error| Failure::internal(error.to_string()))?;
    Ok(
        Builder::new().build_with_connector_fn(move |settings, components| {
            let mut connector = ConnectorBuilder::default()
                .tls_provider(Provider::Rustls(CryptoMode::Ring))
                .tls_context(context.clone());
            connector.set_connector_settings(settings.cloned());
            connector.set_sleep_impl(components.and_then(|it| it.sleep_impl()));
            connector.set_proxy_config(Some(ProxyConfig::from_env()));
            connector.build()
        }),
    )
}
