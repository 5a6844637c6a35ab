//! `get`: the tree of one OrderedDeployment, or of all in the namespace. It reads and shows.

use std::io::Write;

use anyhow::Result;
use jiff::Timestamp;

use crate::client::{ConnectArgs, object_name};
use crate::observe::Reader;
use crate::overview::Overview;
use crate::style::Style;
use crate::tree::{self, Drawing};

/// Show OrderedDeployments as trees: sets, pods, their order with reasons, and pause points
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered get           all in the namespace
  kubectl ordered get web       one of them

`#` is the place in the order: 1 goes first. In a rollout the old pods are lined up, else all pods.
WHY is the rule that puts a pod before the next one.")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment; without it all of the namespace are shown
    #[arg(value_parser = object_name)]
    name: Option<String>,
    /// The node label that tells the pool of a node
    #[arg(long, value_name = "LABEL", default_value = "node.usage")]
    pool_label: String,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let connection = args.connect.connect().await?;
    let reader = Reader::new(&connection.client, &connection.namespace);
    let all = match &args.name {
        Some(name) => vec![reader.one(name, Timestamp::now()).await?],
        None => reader.all(Timestamp::now()).await?,
    };
    if all.is_empty() {
        eprintln!("No OrderedDeployments in namespace {}.", connection.namespace);
        return Ok(());
    }
    let drawing = Drawing { style: Style::of_stdout(), flags: &connection.flags };
    let trees: Vec<String> =
        all.iter().map(|seen| tree::render(&Overview::of(seen, &args.pool_label), drawing)).collect();
    Ok(write!(std::io::stdout(), "{}", trees.join("\n"))?)
}
