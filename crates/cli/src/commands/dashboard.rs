//! The dashboard: a web page on loopback, with the rights of the user. Watches of the API server keep the
//! page up to date.
//!
//! Everything that it shows is computed by the code of the other commands, and its writes are theirs. It
//! decides nothing about pods.

mod access;
mod act;
mod args;
mod assets;
mod buttons;
mod connections;
mod guard;
mod live;
mod page;
mod server;
mod shared;
mod stream;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::client::{ConnectArgs, Timeout};
use crate::terminal::escape::print;
pub(crate) use args::Args;
use shared::Dashboard;

/// Serves the page until Ctrl-C.
pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let place = if args.all_namespaces {
        "all namespaces".to_owned()
    } else {
        format!("namespace {}", connection.namespace)
    };
    let (name, Timeout(idle)) = (args.name.clone(), args.idle_timeout);
    let (port, listeners) = listen(args.port).await?;
    let dashboard = Arc::new(Dashboard::start(args, connect, connection, port).await?);
    let object = name.map(|name| format!("&object={}/{name}", dashboard.connection.namespace));
    let address = format!("{}{}", dashboard.gate.address(), object.unwrap_or_default());
    let rights = if dashboard.read_only { "It makes no writes. " } else { "It has your permissions. " };
    print(format_args!(
        "The dashboard of {place}:\n\n  {address}\n\n{rights}The address contains a token: do not share it. \
         Press Ctrl-C to stop the dashboard.\n"
    ))?;
    tokio::select! {
        never = connections::serve(listeners, server::router(Arc::clone(&dashboard))) => match never {},
        () = dashboard.usage.idle(idle) => Ok(print("The dashboard has ended: no page was open for the time \
             of --idle-timeout.\n")?),
        _ = terminate.recv() => Ok(()),
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// The port, and sockets for it on both addresses of loopback: browsers try both for a name under
/// `localhost`, and another user of this machine could listen on the other one.
async fn listen(port: u16) -> Result<(u16, Vec<TcpListener>)> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let first = bound.map_err(|error| cannot_listen(&format!("127.0.0.1:{port}"), &error))?;
    let port = first.local_addr().context("the socket has no address")?.port();
    match TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await {
        Ok(second) => Ok((port, vec![first, second])),
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            Err(cannot_listen(&format!("[::1]:{port}"), &error))
        }
        // This machine has no IPv6.
        Err(_) => Ok((port, vec![first])),
    }
}

fn cannot_listen(address: &str, error: &std::io::Error) -> anyhow::Error {
    anyhow!("cannot listen on {address}: {error}\nhint: choose another --port; 0 is any free one")
}

#[cfg(test)]
mod tests;
