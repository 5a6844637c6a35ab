//! `crd`: prints the CustomResourceDefinitions as YAML, or writes them to files with `--out`.

use crate::terminal::escape::{print_data, print_line};
use std::path::PathBuf;

use anyhow::{Context, Result};
use ordereddeployment_api::{crds, to_yaml};

/// Print the CustomResourceDefinitions, for `kubectl apply -f -`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write one file per CRD to this directory instead
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let Some(folder) = args.out else {
        let documents: Vec<String> = crds().iter().map(to_yaml).collect();
        return Ok(print_data(&documents.join("---\n"))?);
    };
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create the directory {}", folder.display()))?;
    for crd in crds() {
        let path = folder.join(format!("{}.yaml", crd.metadata.name.as_deref().unwrap_or_default()));
        std::fs::write(&path, to_yaml(&crd)).with_context(|| format!("cannot write {}", path.display()))?;
        print_line(path.display())?;
    }
    Ok(())
}
