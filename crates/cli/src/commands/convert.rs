//! `convert`: converts manifests between Deployment and OrderedDeployment. It reads files and sends no
//! request.

use std::path::PathBuf;

use anyhow::Result;

use crate::convert::{To, convert};
use crate::input;
use crate::terminal::escape::{escaped, print_data, print_stderr};

/// Convert manifests of Deployments and Argo Rollouts to OrderedDeployments, or back to Deployments
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered convert -f deployment.yaml | kubectl apply -f -
  helm template my-chart | kubectl ordered convert -f - > ordered.yaml
  kubectl ordered convert -f rollout.yaml > ordered.yaml
  kubectl ordered convert -f ordered.yaml --to deployment

It converts all documents of a file. Other kinds stay unchanged, except for autoscalers \
(HorizontalPodAutoscaler, VerticalPodAutoscaler, ScaledObject) that target a converted object; notes on \
standard error list them. Comments are kept if only apiVersion and kind change.
Of a Rollout (argoproj.io), each pause after a setWeight of its canary becomes a declared pause point: \
`setWeight: 25` and `pause: {duration: 10m}` become `afterUpdated: 25%` for 10m. A weight is a share of the \
pods, not of the traffic. Notes name everything else that is not converted.
It converts manifests only: if the Deployment still runs, the applied object creates its own pods beside it. \
`kubectl ordered adopt` takes over running pods.")]
pub(crate) struct Args {
    /// A manifest; `-` is standard input; can be repeated
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The kind to convert to
    #[arg(long, value_name = "KIND", default_value = "ordereddeployment")]
    to: To,
}

pub(crate) fn run(Args { files, to }: Args) -> Result<()> {
    let texts: Vec<String> = files.iter().map(|path| input::read(path)).collect::<Result<_>>()?;
    let converted = convert(&texts.join("\n---\n"), to)?;
    for note in &converted.notes {
        print_stderr(format_args!("note: {}", escaped(note)));
    }
    Ok(print_data(&converted.text)?)
}
