//! Ports for programs that take a number.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result};

/// They are below those that Linux gives to connections (32768 and above): a connection could take such a
/// port before the program listens on it.
const PORTS: Range<u16> = 15_000..32_000;

/// A port of loopback that is free now, and that no other call in this process returned. A race with a
/// program of another process on this machine remains.
///
/// # Errors
/// If no port is free.
pub fn free_port() -> Result<u16> {
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(rand::random_range(PORTS)));
    let count = PORTS.end - PORTS.start;
    let mut ports = (0..count).map(|_| PORTS.start + NEXT.fetch_add(1, Ordering::Relaxed) % count);
    ports.find(|port| is_free(*port)).context("no port is free on loopback")
}

/// Some programs listen on both families, if the machine has both.
fn is_free(port: u16) -> bool {
    let is_taken = || {
        TcpListener::bind((Ipv6Addr::LOCALHOST, port))
            .is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
    };
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && !is_taken()
}
