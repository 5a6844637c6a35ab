//! `adopt`: adopts a Deployment with its pods, or hands it back. It never deletes a pod.

use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::adopt::{Adoption, Executor};
use crate::client::{ConnectArgs, DryRun, DryRunArgs, Timeout, deployment_name, timeout};
use crate::convert::{To, template_of};
use crate::input;
use crate::terminal::escape::{escaped, print, print_line, print_stderr};

/// Adopt a running Deployment with its pods, without restarts, or hand it back
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered adopt deployment/web --dry-run    print the steps, change nothing
  kubectl ordered adopt deployment/web              make web an OrderedDeployment, keep its pods
  kubectl ordered adopt deployment/web --back       make web a Deployment again, keep its pods
  helm get manifest shop | kubectl ordered adopt deployment/web -f -

If the command is interrupted, run it again: it continues where it stopped. Rollouts must be complete \
before.
Afterwards apply manifests of the new kind only (`kubectl ordered convert` writes them): applying an old one \
creates a second set of pods. The first apply starts no rollout if the last applied configuration, or the \
manifest from -f, matches the running template; otherwise a note says so.")]
pub(crate) struct Args {
    /// The Deployment: web or deployment/web
    #[arg(value_name = "DEPLOYMENT", value_parser = deployment_name)]
    name: String,
    /// Make the OrderedDeployment of that name a Deployment again
    #[arg(long)]
    back: bool,
    /// The manifest of the Deployment, or the converted one, if `kubectl apply` did not create it; `-` is
    /// standard input
    #[arg(short, long = "filename", value_name = "FILE", conflicts_with = "back")]
    file: Option<PathBuf>,
    #[command(flatten)]
    dry_run: DryRunArgs,
    /// The timeout of each wait for a controller; 0 is no limit
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = timeout)]
    timeout: Timeout,
}

pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<()> {
    if args.dry_run.dry_run == DryRun::Server {
        bail!(
            "--dry-run=server is not possible, because each step needs the one before it\nhint: \
             --dry-run=client prints the steps"
        );
    }
    let manifest = args.file.map(|file| input::read(&file)).transpose()?;
    let template = manifest.map(|text| template_of(&text, &args.name)).transpose()?;
    let connection = connect.connect().await?;
    let to = if args.back { To::Deployment } else { To::Ordereddeployment };
    let adoption = Adoption {
        client: &connection.client,
        namespace: &connection.namespace,
        name: &args.name,
        to,
        timeout: args.timeout.0,
        template,
    };
    for note in adoption.notes().await? {
        print_stderr(format_args!("note: {}", escaped(&note)));
    }
    let kind = if args.back { "a Deployment" } else { "an OrderedDeployment" };
    if args.dry_run.dry_run.is_dry() {
        let lines = adoption.preview().await?;
        if lines.is_empty() {
            return Ok(print(format_args!("{} is already {kind}: nothing to do\n", args.name))?);
        }
        print(format_args!("Steps:\n"))?;
        for line in lines {
            print(format_args!("  {line}\n"))?;
        }
        return Ok(());
    }
    let mut executor = Executor::default();
    adoption.run(&mut executor, |line| Ok(print_line(escaped(line))?)).await?;
    if executor.done == 0 {
        return Ok(print(format_args!("{} is already {kind}: nothing to do\n", args.name))?);
    }
    let (show, to) = match to {
        To::Ordereddeployment => ("kubectl ordered get", ""),
        To::Deployment => ("kubectl get deployment", " --to deployment"),
    };
    print(format_args!("{} is now {kind} and has kept its pods\n", args.name))?;
    print(format_args!("  show it:             {show} {}{}\n", args.name, connection.flags))?;
    Ok(print(format_args!("  change its manifest: kubectl ordered convert -f FILE{to}\n"))?)
}
