//! Plain connections, and connections over TLS with a certificate made for the test.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

pub mod served_engine;
pub mod server;

use std::sync::Arc;

use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// What connections are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Plain TCP.
    Tcp,
    /// Encrypted by TLS.
    Tls,
}

/// The two sides of a wire.
pub struct Sides {
    /// The server's side of TLS.
    pub acceptor: Option<TlsAcceptor>,
    /// The client's side.
    pub transport: SharedHttpClient,
    /// The server's certificate, as PEM.
    pub certificate: String,
}

impl Wire {
    /// Both kinds.
    pub const ALL: [Wire; 2] = [Wire::Tcp, Wire::Tls];

    /// The scheme of its addresses.
    pub fn scheme(self) -> &'static str {
        match self {
            Wire::Tcp => "http",
            Wire::Tls => "https",
        }
    }

    /// Returns the sides for a client that trusts the server, or for one that trusts another server.
    pub fn sides(self, is_trusted: bool) -> Sides {
        let (served, other) = (certified(), certified());
        let trusted = if is_trusted { &served } else { &other };
        let trust = TrustStore::empty().with_pem_certificate(trusted.cert.pem());
        let context = TlsContext::builder()
            .with_trust_store(trust)
            .build()
            .unwrap();
        let transport = Builder::new()
            .tls_provider(Provider::Rustls(CryptoMode::Ring))
            .tls_context(context)
            .build_https();
        Sides {
            acceptor: (self == Wire::Tls).then(|| acceptor(&served)),
            transport,
            certificate: served.cert.pem(),
        }
    }
}

fn certified() -> CertifiedKey<rcgen::KeyPair> {
    generate_simple_self_signed(["localhost".to_owned()]).unwrap()
}

fn acceptor(certified: &CertifiedKey<rcgen::KeyPair>) -> TlsAcceptor {
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// A connection, with or without TLS.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {
    /// The TCP connection below it.
    fn tcp(&self) -> &TcpStream;
}

impl Stream for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

impl Stream for tokio_rustls::server::TlsStream<TcpStream> {
    fn tcp(&self) -> &TcpStream {
        self.get_ref().0
    }
}
