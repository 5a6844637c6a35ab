//! A connection whose bytes may stop, both ways, without an end: what a broken network path looks like from both sides.
//!
//! Bytes that were sent meanwhile arrive when it flows again, even if who sent them has given up: networks do that.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::rules::Rules;

const BUFFER: usize = 64 * 1024;

/// The other end of that stream, and what has to run meanwhile.
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

/// Until one side has no more bytes, or takes none; says so if that is while nothing flows.
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
    // Gone already, perhaps.
    drop(to.shutdown().await);
}
