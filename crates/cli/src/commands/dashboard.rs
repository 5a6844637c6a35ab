//! `dashboard`: serves a web page on loopback. Its writes are those of the other commands.

use anyhow::Result;

use crate::client::{ConnectArgs, object_name};
use crate::dashboard::{self, Options};

/// Show OrderedDeployments in a web browser, live, on this machine
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered dashboard                 all OrderedDeployments in the namespace
  kubectl ordered dashboard web             begin with web
  kubectl ordered dashboard -A --read-only  in all namespaces, without writes

It prints the address to open, and runs until Ctrl-C. It listens on 127.0.0.1 only and has the permissions of your \
kubeconfig. The address contains a token: whoever has it, and can connect to this machine's loopback, has these permissions \
until the dashboard stops.")]
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
    /// The node label for the pool of a node
    #[arg(long, value_name = "LABEL", default_value = "node.usage")]
    pool_label: String,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let Args { name, all_namespaces, read_only, port, pool_label, connect } = args;
    dashboard::run(Options { name, all_namespaces, port, read_only, pool_label }, connect).await
}
