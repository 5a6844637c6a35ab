//! The flags of the dashboard.

use crate::client::{Timeout, object_name, timeout};

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
    pub(crate) name: Option<String>,
    /// Show the OrderedDeployments in all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Show only: no buttons, and no request of the page changes anything
    #[arg(long)]
    pub(crate) read_only: bool,
    /// The port to listen on; 0 is any free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) port: u16,
    /// Use 127.0.0.1 in the address, for a browser that does not resolve names under localhost
    #[arg(long)]
    pub(crate) use_ip: bool,
    /// Stop once no page was open for this time, such as 30m; 0, the default, is never
    #[arg(long, value_name = "DURATION", default_value = "0", hide_default_value = true,
        value_parser = timeout)]
    pub(crate) idle_timeout: Timeout,
    /// The node label for the pool of a node
    #[arg(long, value_name = "LABEL", default_value = "node.usage")]
    pub(crate) pool_label: String,
}
