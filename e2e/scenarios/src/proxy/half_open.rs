//! A connection whose bytes can stop in both directions without an end, like a broken network path.
//!
//! Bytes that were sent meanwhile arrive when the connection flows again, even if the sender has given up, as
//! in a real network.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::rules::Rules;

const BUFFER: usize = 64 * 1024;

/// The other end of the stream, and a future that must run to carry the bytes.
pub(super) fn carried(stream: TcpStream, rules: &Rules) -> (DuplexStream, impl Future<Output = ()>) {
    let (near, far) = tokio::io::duplex(BUFFER);
    let carry = async move {
        let (client, server) = (tokio::io::split(stream), tokio::io::split(far));
        let into = carry(client.0, server.1, rules.stalled(), || rules.gives_up());
        let out = carry(server.0, client.1, rules.stalled(), || {});
        tokio::join!(into, out);
    };
    (near, carry)
}

/// Carries bytes until one side ends. Calls `gives_up` if that happens while the connection is stalled.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut stalled: watch::Receiver<bool>,
    gives_up: impl Fn(),
) {
    let mut buffer = vec![0; BUFFER];
    loop {
        let read = from.read(&mut buffer).await;
        if matches!(read, Ok(0) | Err(_)) && *stalled.borrow() {
            gives_up();
        }
        // The sender lives as long as the proxy.
        let _ = stalled.wait_for(|stalled| !*stalled).await;
        let count = match read {
            Ok(0) | Err(_) => break,
            Ok(count) => count,
        };
        if to.write_all(&buffer[..count]).await.is_err() {
            break;
        }
    }
    // The connection may be closed already.
    drop(to.shutdown().await);
}
