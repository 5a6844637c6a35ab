//! The dashboard: a web page on loopback, with the rights of the user. Watches of the API server keep the page up to date.
//!
//! Everything that it shows is computed by the code of the other commands, and its writes are theirs. It decides nothing
//! about pods.

mod access;
mod act;
mod assets;
mod buttons;
mod delta;
mod guard;
mod live;
mod page;
mod rows;
mod server;
mod shared;
mod stream;
mod tone;

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::client::ConnectArgs;
use crate::escape::print;
use shared::Dashboard;
pub(crate) use shared::Options;

/// Serves the page until Ctrl-C.
pub(crate) async fn run(options: Options, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let place = if options.all_namespaces {
        "all namespaces".to_owned()
    } else {
        format!("namespace {}", connection.namespace)
    };
    let name = options.name.clone();
    let listener = listen(options.port).await?;
    let port = listener.local_addr().context("the socket has no address")?.port();
    let dashboard = Arc::new(Dashboard::start(options, connect, connection, port).await?);
    let object = name.map(|name| format!("&object={}/{name}", dashboard.connection.namespace));
    let address = format!("{}{}", dashboard.gate.address(), object.unwrap_or_default());
    let rights = if dashboard.read_only { "It makes no writes. " } else { "It has your permissions. " };
    print(format_args!(
        "The dashboard of {place}:\n\n  {address}\n\n{rights}The address contains a token: do not share it. Press Ctrl-C to stop the dashboard.\n"
    ))?;
    tokio::select! {
        served = axum::serve(listener, server::router(dashboard)) => served.context("the dashboard failed"),
        _ = terminate.recv() => Ok(()),
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

async fn listen(port: u16) -> Result<TcpListener> {
    TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| {
        anyhow!("cannot listen on 127.0.0.1:{port}: {error}\nhint: choose another --port; 0 is any free one")
    })
}

#[cfg(test)]
mod tests;
