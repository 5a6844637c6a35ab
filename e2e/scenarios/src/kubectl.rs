//! Real kubectl, as a user runs it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// kubectl with its kubeconfig.
#[derive(Clone, Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    namespace: Option<String>,
}

impl Kubectl {
    /// The program in `KUBECTL`, else kubectl in the PATH.
    #[must_use]
    pub fn new(kubeconfig: &Path) -> Self {
        Self { program: program(), kubeconfig: kubeconfig.to_owned(), namespace: None }
    }

    /// kubectl with this default namespace.
    pub(crate) fn in_namespace(&self, namespace: Option<&str>) -> Self {
        Self { namespace: namespace.map(str::to_owned), ..self.clone() }
    }

    /// kubectl without a default namespace: the manifest contains it.
    #[must_use]
    pub fn anywhere(&self) -> Self {
        self.in_namespace(None)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        // The default cache identifies servers by port, and an earlier server may have had the same port.
        command.arg("--cache-dir").arg(self.kubeconfig.with_file_name("kubectl-cache"));
        if let Some(namespace) = &self.namespace {
            command.arg("--namespace").arg(namespace);
        }
        command.args(arguments).kill_on_drop(true);
        command
    }

    /// The standard output; the error contains stderr.
    pub async fn run(&self, arguments: &[&str]) -> Result<String> {
        self.run_with(arguments, "").await
    }

    /// Runs kubectl with this standard input.
    pub async fn run_with(&self, arguments: &[&str], input: &str) -> Result<String> {
        let printed = talk(self.command(arguments), input).await?;
        let program = self.program.display();
        ensure!(printed.code == 0, "{program} {}: {}{}", arguments.join(" "), printed.out, printed.err);
        Ok(printed.out)
    }
}

/// The output of a command and its exit code.
#[derive(Clone, Debug)]
pub struct Printed {
    /// The exit code; -1 if a signal ended the command.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

/// Runs a command with this standard input.
pub(crate) async fn talk(mut command: Command, input: &str) -> Result<Printed> {
    let piped =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = piped.spawn().with_context(|| {
        let program = command.as_std().get_program().to_string_lossy().into_owned();
        format!(
            "{program} does not start (KUBECTL may name a kubectl, 1.24 or newer; HELM a Helm, 3.6 or newer)"
        )
    })?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that fails early does not read its input.
        drop(stdin.write_all(input.as_bytes()).await);
    }
    let output = child.wait_with_output().await.context("cannot wait for a command")?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap_or(-1);
    Ok(Printed { code, out: text(&output.stdout), err: text(&output.stderr) })
}

/// The program in `KUBECTL`, else kubectl in the PATH.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("KUBECTL").map_or_else(|| PathBuf::from("kubectl"), PathBuf::from)
}
