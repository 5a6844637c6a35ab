//! The TLS listener: a generated certificate, a token, and a kubeconfig with both.
//!
//! It listens on loopback only.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::CertifiedKey;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::http::Front;

/// What can fail when a sandbox starts or listens.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The sandbox could not register the initial nodes.
    #[error("cannot register the nodes: {0}")]
    RegisterNodes(#[source] kube::Error),
    /// The user agent is not a valid header value.
    #[error("cannot use {0:?} as a user agent")]
    UserAgent(String),
    /// The address is not a loopback address.
    #[error("cannot listen on {0}: the sandbox listens on loopback addresses only, such as 127.0.0.1")]
    ListenBeyondLoopback(SocketAddr),
    /// The address is in use or does not exist.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The requested address.
        address: SocketAddr,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The sandbox could not create a certificate.
    #[error("cannot make a certificate: {0}")]
    Certify(#[source] rcgen::Error),
    /// The TLS library rejected the certificate.
    #[error("cannot configure TLS: {0}")]
    ConfigureTls(#[source] tokio_rustls::rustls::Error),
}

/// How clients reach the sandbox.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// `https://127.0.0.1:PORT`.
    pub url: String,
    /// A kubeconfig for kubectl: one context, named `sandbox`.
    pub kubeconfig: String,
}

/// Binds the address. Returns the endpoint and the future that serves it.
pub(crate) async fn listen(
    front: &Front,
    address: SocketAddr,
) -> Result<(Endpoint, impl Future<Output = ()> + Send + 'static), Error> {
    if !address.ip().is_loopback() {
        return Err(Error::ListenBeyondLoopback(address));
    }
    let names = ["127.0.0.1", "::1", "localhost"].map(str::to_owned);
    // A certificate that is its own authority.
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(names).map_err(Error::Certify)?;
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(vec![cert.der().clone()], key))
        .map_err(Error::ConfigureTls)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(address).await.map_err(|source| Error::Bind { address, source })?;
    let bound = listener.local_addr().map_err(|source| Error::Bind { address, source })?;
    let token = format!("{:032x}", rand::random::<u128>());
    let url = format!("https://{bound}");
    let endpoint = Endpoint { kubeconfig: kubeconfig(&url, &cert.pem(), &token), url };
    let front = front.with_token(&token);
    let serve = async move {
        // When this future is dropped, the set is dropped and ends every connection.
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    continue;
                }
            };
            while connections.try_join_next().is_some() {}
            let (acceptor, front) = (acceptor.clone(), front.clone());
            connections.spawn(async move {
                match acceptor.accept(stream).await {
                    Ok(stream) => front.serve(stream).await,
                    Err(error) => tracing::debug!(%error, "TLS handshake failed"),
                }
            });
        }
    };
    Ok((endpoint, serve))
}

fn kubeconfig(url: &str, authority: &str, token: &str) -> String {
    let authority = STANDARD.encode(authority);
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: sandbox
  cluster:
    server: {url}
    certificate-authority-data: {authority}
users:
- name: sandbox
  user:
    token: {token}
contexts:
- name: sandbox
  context:
    cluster: sandbox
    user: sandbox
    namespace: default
current-context: sandbox
"
    )
}
