//! The dashboard: a web page on loopback, with the rights of the user. Watches of the API server keep the page up to date.
//!
//! Everything that it shows is computed by the code of the other commands, and its writes are theirs. It decides nothing
//! about pods.

mod access;
mod act;
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

use crate::client::{ConnectArgs, Timeout, object_name, timeout};
use crate::terminal::escape::print;
use shared::Dashboard;

/// Show OrderedDeployments in a web browser, live, on this machine
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered dashboard                 all OrderedDeployments in the namespace
  kubectl ordered dashboard web             begin with web
  kubectl ordered dashboard -A --read-only  in all namespaces, without writes

It prints the address to open, and runs until Ctrl-C. It listens on loopback only and has the permissions of your \
kubeconfig. The address contains a token that works once: whoever opens it first, and can connect to this machine's loopback, \
has these permissions until the dashboard stops. The name in the address is another one each time; browsers resolve it \
themselves.")]
pub(crate) struct Args {
    /// The name of the OrderedDeployment to show first
    #[arg(value_parser = object_name, conflicts_with = "all_namespaces")]
    name: Option<String>,
    /// Show the OrderedDeployments in all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Show only: no buttons, and no request of the page changes anything
    #[arg(long)]
    read_only: bool,
    /// The port to listen on; 0 is any free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Use 127.0.0.1 in the address, for a browser that does not resolve names under localhost
    #[arg(long)]
    use_ip: bool,
    /// Stop once no page was open for this time, such as 30m; 0, the default, is never
    #[arg(long, value_name = "DURATION", default_value = "0", hide_default_value = true, value_parser = timeout)]
    idle_timeout: Timeout,
    /// The node label for the pool of a node
    #[arg(long, value_name = "LABEL", default_value = "node.usage")]
    pool_label: String,
}

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
        "The dashboard of {place}:\n\n  {address}\n\n{rights}The address contains a token: do not share it. Press Ctrl-C to stop the dashboard.\n"
    ))?;
    tokio::select! {
        never = connections::serve(listeners, server::router(Arc::clone(&dashboard))) => match never {},
        () = dashboard.usage.idle(idle) => Ok(print("The dashboard has ended: no page was open for the time of --idle-timeout.\n")?),
        _ = terminate.recv() => Ok(()),
        _ = tokio::signal::ctrl_c() => Ok(()),
    }
}

/// How many free ports are tried.
const TRIES: usize = 16;

/// The port, and sockets for it on both addresses of loopback: browsers try both for a name under `localhost`, and another user of
/// this machine could listen on the other one.
async fn listen(port: u16) -> Result<(u16, Vec<TcpListener>)> {
    let mut left = if port == 0 { TRIES } else { 1 };
    loop {
        left -= 1;
        let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let first = bound.map_err(|error| cannot_listen(&format!("127.0.0.1:{port}"), &error))?;
        let found = first.local_addr().context("the socket has no address")?.port();
        match TcpListener::bind((Ipv6Addr::LOCALHOST, found)).await {
            Ok(second) => return Ok((found, vec![first, second])),
            // This machine has no IPv6.
            Err(error) if error.kind() != ErrorKind::AddrInUse => return Ok((found, vec![first])),
            Err(error) if left == 0 => return Err(cannot_listen(&format!("[::1]:{found}"), &error)),
            Err(_) => {}
        }
    }
}

fn cannot_listen(address: &str, error: &std::io::Error) -> anyhow::Error {
    anyhow!("cannot listen on {address}: {error}\nhint: choose another --port; 0 is any free one")
}

#[cfg(test)]
mod tests;
