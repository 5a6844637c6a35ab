//! Real Helm, as a user runs it in the root of the repository, with separate settings.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tokio::process::Command;

use crate::kubectl::talk;

/// Helm, with or without a cluster.
pub struct Helm {
    program: PathBuf,
    kubeconfig: Option<PathBuf>,
    /// Its cache and configuration, separate from those of the user.
    home: tempfile::TempDir,
}

impl Helm {
    /// The program in `HELM`, else Helm in the PATH, for commands without a server.
    pub fn without_server() -> Result<Self> {
        Self::new(None)
    }

    /// Helm on the server of this kubeconfig.
    pub fn on(kubeconfig: &Path) -> Result<Self> {
        Self::new(Some(kubeconfig.to_owned()))
    }

    fn new(kubeconfig: Option<PathBuf>) -> Result<Self> {
        let program = std::env::var_os("HELM").map_or_else(|| PathBuf::from("helm"), PathBuf::from);
        let home = tempfile::tempdir().context("cannot make a folder for Helm")?;
        Ok(Self { program, kubeconfig, home })
    }

    /// The standard output; the error contains stderr.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.program);
        for (variable, folder) in
            [("HELM_CACHE_HOME", "cache"), ("HELM_CONFIG_HOME", "config"), ("HELM_DATA_HOME", "data")]
        {
            command.env(variable, self.home.path().join(folder));
        }
        // Helm must not find a cluster of the user.
        let nowhere = self.home.path().join("kubeconfig");
        command.env("KUBECONFIG", self.kubeconfig.as_ref().unwrap_or(&nowhere));
        command.args(arguments).current_dir(top());
        let printed = talk(command, "").await?;
        ensure!(printed.code == 0, "helm {}: {}{}", arguments.join(" "), printed.out, printed.err);
        Ok(printed.out)
    }
}

/// The root of the repository. Paths in the documentation are relative to it.
#[must_use]
pub fn top() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}
