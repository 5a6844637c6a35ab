//! `convert`: manifests of Deployments as OrderedDeployments, and back. It reads files and prints; it asks no server.

use std::path::PathBuf;

use anyhow::Result;

use crate::convert::{To, convert};
use crate::escape::{escaped, print_data, tell};
use crate::exit::Exit;
use crate::input;

/// Convert manifests of Deployments to OrderedDeployments, or back
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered convert -f deployment.yaml | kubectl apply -f -
  helm template my-chart | kubectl ordered convert -f - > ordered.yaml
  kubectl ordered convert -f ordered.yaml --to deployment

All documents of a file are looked at. Those of other kinds pass through untouched, but for autoscalers \
(HorizontalPodAutoscaler, VerticalPodAutoscaler, ScaledObject) that name what was converted; that is told on standard error. \
Comments stay where apiVersion and kind are all that changes. It converts manifests only: applied beside a Deployment that \
still runs, the new object starts pods of its own.")]
pub(crate) struct Args {
    /// A manifest; `-` is standard input; may be repeated
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The kind to convert to
    #[arg(long, value_name = "KIND", default_value = "ordereddeployment")]
    to: To,
}

pub(crate) fn run(args: &Args) -> Result<Exit> {
    let texts: Vec<String> = args.files.iter().map(|path| input::read(path)).collect::<Result<_>>()?;
    let converted = convert(&texts.join("\n---\n"), args.to)?;
    for note in &converted.notes {
        tell(format_args!("note: {}", escaped(note)));
    }
    print_data(&converted.text)?;
    Ok(Exit::Done)
}
