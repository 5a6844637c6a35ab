//! What can fail when a sandbox starts or listens.

use std::net::SocketAddr;

/// Errors of a sandbox.
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
