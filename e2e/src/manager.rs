//! The controller's binary, as a process that can be killed.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};
use tokio::process::{Child, Command};

/// A running `ordered-controller-manager`. Dropping it kills it.
#[derive(Debug)]
pub struct Manager {
    child: Child,
}

impl Manager {
    /// Starts it on the server of that kubeconfig.
    pub fn start(kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        let program = program()?;
        let child = Command::new(&program)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--metrics-bind-address=127.0.0.1:0")
            .args(arguments)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| {
                format!("{} does not start: run `cargo build --workspace` first", program.display())
            })?;
        Ok(Self { child })
    }

    /// Kills it as a crash would: SIGKILL, nothing is finished. Returns once it is gone.
    pub async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("cannot kill the controller")
    }
}

/// The binary beside the test's own: both are built into one target folder.
fn program() -> Result<PathBuf> {
    let test = std::env::current_exe().context("cannot find the test's own binary")?;
    let folder = test.ancestors().nth(2).context("the test's binary lies in no target folder")?;
    Ok(folder.join("ordered-controller-manager"))
}
