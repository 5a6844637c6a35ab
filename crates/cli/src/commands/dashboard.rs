//! The dashboard: a web page on loopback, with the rights of the user. Watches of the API server keep the
//! page up to date.
//!
//! Everything that it shows is computed by the code of the other commands, and its writes are theirs. It
//! decides nothing about pods.

mod buttons;
mod guard;
mod page;
mod server;
mod stream;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use jiff::Timestamp;
use ordereddeployment_wire::Family;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};

use crate::client::reader::Scope;
use crate::client::watch_cache::{Stores, WatchCache};
use crate::client::watches::Lost;
use crate::client::{ConnectArgs, Connection, object_name};
use crate::terminal::escape::print;
use guard::Gate;

/// The most open streams. A further one is refused, so that there are connections for other requests.
const STREAMS: usize = 64;

/// Show OrderedDeployments in a web browser, live, on this machine
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered dashboard                 all OrderedDeployments in the namespace
  kubectl ordered dashboard web             begin with web
  kubectl ordered dashboard -A --read-only  in all namespaces, without writes

It prints the address to open, and runs until Ctrl-C. It listens on loopback only and has the permissions of \
your kubeconfig. The address contains a token that works once: whoever opens it first, and can connect to \
this machine's loopback, has these permissions until the dashboard stops. The name in the address is another \
one each time; browsers resolve it themselves.")]
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
    /// The node label for the pool of a node
    #[arg(long, value_name = "LABEL", default_value = "node.usage")]
    pool_label: String,
}

/// Serves the page until Ctrl-C.
pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let (port, listeners) = listen(args.port).await?;
    let dashboard = Arc::new(Dashboard::start(args, connect, connection, port).await?);
    let Dashboard { args, connection, gate, .. } = &*dashboard;
    let place = scope(args, connection).place();
    let object = args.name.as_ref().map(|name| format!("&object={}/{name}", connection.namespace));
    let address = format!("{}{}", gate.address(), object.unwrap_or_default());
    let rights = if args.read_only { "It makes no writes. " } else { "It has your permissions. " };
    print(format_args!(
        "The dashboard of {place}:\n\n  {address}\n\n{rights}The address contains a token: do not share it. \
         Press Ctrl-C to stop the dashboard.\n"
    ))?;
    tokio::select! {
        never = server::serve(listeners, server::router(Arc::clone(&dashboard))) => match never {},
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

fn scope<'a>(args: &Args, connection: &'a Connection) -> Scope<'a> {
    let namespace = (!args.all_namespaces).then_some(connection.namespace.as_str());
    Scope { family: Family::Ordered, namespace, name: None, selector: None }
}

/// A running dashboard: what all its requests share.
struct Dashboard {
    args: Args,
    connect: ConnectArgs,
    connection: Connection,
    gate: Gate,
    stores: Stores,
    /// It changes with each change of an object. It says why the objects may be outdated.
    lost: watch::Receiver<Option<Lost>>,
    streams: Arc<Semaphore>,
    /// One plan at a time: that of a large rollout needs a core.
    plans: Semaphore,
}

impl Dashboard {
    async fn start(args: Args, connect: ConnectArgs, connection: Connection, port: u16) -> Result<Self> {
        let cache = WatchCache::start(&connection, scope(&args, &connection)).await?;
        let (stores, (sender, lost)) = (cache.stores.clone(), watch::channel(None));
        tokio::spawn(follow(cache, sender));
        let gate = Gate::new(port, args.use_ip);
        let (streams, plans) = (Arc::new(Semaphore::new(STREAMS)), Semaphore::new(1));
        Ok(Self { args, connect, connection, gate, stores, lost, streams, plans })
    }

    fn now(&self) -> Timestamp {
        self.connection.clock.now()
    }

    /// The connection for objects in that namespace, with the flags of commands that are printed for them; an
    /// error if the dashboard does not show it.
    fn connection(&self, namespace: &str) -> Result<Connection> {
        let mut connection = self.connection.clone();
        if self.args.all_namespaces {
            let connect = ConnectArgs { namespace: Some(namespace.to_owned()), ..self.connect.clone() };
            (connection.namespace, connection.flags) = (namespace.to_owned(), connect.flags());
        } else if namespace != connection.namespace {
            return Err(anyhow!("this dashboard shows the namespace {} only", connection.namespace));
        }
        Ok(connection)
    }
}

/// Tells the streams what the watches show, until there is no dashboard.
async fn follow(mut cache: WatchCache, sender: watch::Sender<Option<Lost>>) {
    loop {
        tokio::select! {
            Ok(()) = cache.watches.changed() => drop(sender.send_replace(cache.watches.lost().cloned())),
            () = sender.closed() => return,
            else => return,
        }
    }
}

#[cfg(test)]
mod tests;
