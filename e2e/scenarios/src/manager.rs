//! The controller's binary as a process that a scenario can kill.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

use crate::setting::TIMEOUT;

/// A running `ordered-controller-manager`. Dropping it kills it.
#[derive(Debug)]
pub struct Manager {
    child: Child,
    log: mpsc::UnboundedReceiver<String>,
}

impl Manager {
    /// Starts the controller on the server of this kubeconfig.
    pub fn start(kubeconfig: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(program()?);
        command
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--metrics-bind-address=127.0.0.1:0")
            .args(arguments)
            .env("RUST_LOG", "info")
            .env("NO_COLOR", "1");
        Self::run(command)
    }

    /// Starts the controller with exactly these arguments and variables. The environment names the
    /// kubeconfig.
    pub fn exactly(kubeconfig: &Path, arguments: &[String], variables: &[(String, String)]) -> Result<Self> {
        let mut command = Command::new(program()?);
        command
            .args(arguments)
            .env_clear()
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .env("KUBECONFIG", kubeconfig);
        Self::run(command)
    }

    fn run(mut command: Command) -> Result<Self> {
        let mut child =
            command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true).spawn().with_context(
                || {
                    let program = command.as_std().get_program().to_string_lossy().into_owned();
                    format!("{program} does not start: run `cargo build --workspace` first")
                },
            )?;
        let mut lines = BufReader::new(child.stderr.take().context("the controller has no log")?).lines();
        let (sender, log) = mpsc::unbounded_channel();
        // Always read: a full pipe would block the controller.
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                let _ = sender.send(line);
            }
        });
        Ok(Self { child, log })
    }

    /// Waits for a log line that contains these words and returns it.
    pub async fn until_logged(&mut self, words: &str) -> Result<String> {
        let logged = async {
            while let Some(line) = self.log.recv().await {
                if line.contains(words) {
                    return Ok(line);
                }
            }
            bail!("the controller ended without logging {words:?}")
        };
        let logged = tokio::time::timeout(TIMEOUT, logged).await;
        logged.with_context(|| format!("the controller does not log {words:?}"))?
    }

    /// Sends a signal, such as `TERM` or `STOP`.
    pub async fn signal(&self, name: &str) -> Result<()> {
        let id = self.child.id().context("the controller has ended already")?;
        // The builtin of the shell: a small image has no kill program.
        let id = id.to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &id]).status().await;
        anyhow::ensure!(
            sent.context("cannot run kill")?.success(),
            "cannot send SIG{name} to the controller"
        );
        Ok(())
    }

    /// Its process ID while it runs.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> Result<bool> {
        Ok(self.child.try_wait().context("cannot look after the controller")?.is_none())
    }

    /// Waits until it ends. Returns whether the exit status is success.
    pub async fn ended(&mut self) -> Result<bool> {
        Ok(self.child.wait().await.context("cannot wait for the controller")?.success())
    }

    /// Kills it with SIGKILL, like a crash. Returns after it has ended.
    pub async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("cannot kill the controller")
    }
}

/// The program in `E2E_CONTROLLER`, else the binary next to that of the test.
fn program() -> Result<PathBuf> {
    match std::env::var_os("E2E_CONTROLLER") {
        Some(program) => Ok(program.into()),
        None => beside_the_test("ordered-controller-manager"),
    }
}

/// A binary of this workspace, next to that of the test: all binaries are in one target folder.
pub fn beside_the_test(program: &str) -> Result<PathBuf> {
    let test = std::env::current_exe().context("cannot find the test's own binary")?;
    let folder = test.ancestors().nth(2).context("the test's binary lies in no target folder")?;
    Ok(folder.join(program))
}
