//! `adopt`: takes a Deployment over with its pods, or gives it back. It never deletes a pod.

use std::path::PathBuf;

use anyhow::Result;

use crate::adopt::{Hands, Takeover, Way};
use crate::client::{ConnectArgs, Timeout, object_name, timeout};
use crate::convert::template_of;
use crate::escape::{escaped, print, tell};
use crate::input;

/// Take a running Deployment over with its pods, none restarted, or give it back
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered adopt deployment/web --dry-run    say what would be done, and touch nothing
  kubectl ordered adopt deployment/web              make web an OrderedDeployment; its pods run on
  kubectl ordered adopt deployment/web --back       make it a Deployment again; its pods run on
  helm get manifest shop | kubectl ordered adopt deployment/web -f -

Interrupted, it goes on where it stopped when it is run again. A rollout must be over before.
Afterwards apply manifests of the new kind only (`kubectl ordered convert` writes them): whoever still applies the old \
one makes a second set of pods. The first apply starts no rollout where what was applied last, or the manifest given \
with -f, says what runs; it is told where it does not.")]
pub(crate) struct Args {
    /// The Deployment: web or deployment/web
    #[arg(value_name = "DEPLOYMENT", value_parser = deployment_name)]
    name: String,
    /// Make the OrderedDeployment of that name a Deployment again
    #[arg(long)]
    back: bool,
    /// The manifest that it was made by, or the converted one, where it was not made by `kubectl apply`; `-` is standard input
    #[arg(short, long = "filename", value_name = "FILE", conflicts_with = "back")]
    file: Option<PathBuf>,
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
    let manifest = args.file.map(|file| input::read(&file)).transpose()?;
    let template = manifest.map(|text| template_of(&text, &args.name)).transpose()?;
    let connection = args.connect.connect().await?;
    let way = if args.back { Way::Back } else { Way::Forward };
    let takeover = Takeover {
        client: &connection.client,
        namespace: &connection.namespace,
        name: &args.name,
        way,
        patience: args.timeout.0,
        template,
    };
    for note in takeover.notes().await? {
        tell(format_args!("note: {}", escaped(&note)));
    }
    let kind = if args.back { "a Deployment" } else { "an OrderedDeployment" };
    if args.dry_run {
        let lines = takeover.preview().await?;
        if lines.is_empty() {
            return Ok(print(format_args!("{} is {kind} already: nothing to do\n", args.name))?);
        }
        print(format_args!("It would, step by step:\n"))?;
        for line in lines {
            print(format_args!("  {line}\n"))?;
        }
        return Ok(());
    }
    let mut hands = Hands::default();
    takeover.run(&mut hands, |line| Ok(print(format_args!("{}\n", escaped(line)))?)).await?;
    if hands.done == 0 {
        return Ok(print(format_args!("{} is {kind} already: nothing to do\n", args.name))?);
    }
    let (next, to) = match way {
        Way::Forward => (format!("kubectl ordered get {}{}", args.name, connection.flags), ""),
        Way::Back => {
            (format!("kubectl get deployment {}{}", args.name, connection.flags), " --to deployment")
        }
    };
    print(format_args!("{} is {kind} now, with the pods it had\n", args.name))?;
    print(format_args!("  see it:              {next}\n"))?;
    Ok(print(format_args!("  change its manifest: kubectl ordered convert -f FILE{to}\n"))?)
}

/// `web`, `deployment/web`, and the other ways that kubectl has to name one.
fn deployment_name(text: &str) -> Result<String, String> {
    let known = ["deployment", "deployments", "deploy", "deployment.apps", "deployments.apps"];
    match text.split_once('/') {
        Some((kind, name)) if known.contains(&kind) => object_name(name),
        _ => object_name(text),
    }
}
