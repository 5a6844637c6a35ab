//! `adopt`: takes a Deployment over with its pods, or gives it back. It never deletes a pod.

use std::io::Write;

use anyhow::Result;

use crate::adopt::{Hands, Takeover, Way};
use crate::client::{ConnectArgs, Timeout, object_name, timeout};

/// Take a running Deployment over with its pods, none restarted, or give it back
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered adopt deployment/web --dry-run    say what would be done, and touch nothing
  kubectl ordered adopt deployment/web              make web an OrderedDeployment; its pods run on
  kubectl ordered adopt deployment/web --back       make it a Deployment again; its pods run on

Interrupted, it goes on where it stopped when it is run again. A rollout must be over before.
Afterwards apply manifests of the new kind only: whoever still applies the old one makes a second set of pods.")]
pub(crate) struct Args {
    /// The Deployment: web or deployment/web
    #[arg(value_name = "DEPLOYMENT", value_parser = deployment_name)]
    name: String,
    /// Make the OrderedDeployment of that name a Deployment again
    #[arg(long)]
    back: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// How long to wait for one controller to do one thing; 0 waits for ever
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = timeout)]
    timeout: Timeout,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let connection = args.connect.connect().await?;
    let way = if args.back { Way::Back } else { Way::Forward };
    let takeover = Takeover {
        client: &connection.client,
        namespace: &connection.namespace,
        name: &args.name,
        way,
        patience: args.timeout.0,
    };
    let mut out = std::io::stdout();
    let kind = if args.back { "a Deployment" } else { "an OrderedDeployment" };
    if args.dry_run {
        let lines = takeover.preview().await?;
        if lines.is_empty() {
            return Ok(writeln!(out, "{} is {kind} already: nothing to do", args.name)?);
        }
        writeln!(out, "It would, step by step:")?;
        for line in lines {
            writeln!(out, "  {line}")?;
        }
        return Ok(());
    }
    let mut hands = Hands::default();
    takeover.run(&mut hands, |line| Ok(writeln!(std::io::stdout(), "{line}")?)).await?;
    if hands.done == 0 {
        return Ok(writeln!(out, "{} is {kind} already: nothing to do", args.name)?);
    }
    let next = match way {
        Way::Forward => format!("see it with `kubectl ordered get {}{}`", args.name, connection.flags),
        Way::Back => format!("see it with `kubectl get deployment {}{}`", args.name, connection.flags),
    };
    Ok(writeln!(out, "{} is {kind} now, with the pods it had; {next}", args.name)?)
}

/// `web`, `deployment/web`, and the other ways that kubectl has to name one.
fn deployment_name(text: &str) -> Result<String, String> {
    let known = ["deployment", "deployments", "deploy", "deployment.apps", "deployments.apps"];
    match text.split_once('/') {
        Some((kind, name)) if known.contains(&kind) => object_name(name),
        _ => object_name(text),
    }
}
