//! `kubectl ordered`, as a user runs it: real kubectl finds `kubectl-ordered` in the PATH.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::kubeconfig::write_private;
use crate::kubectl::{program, talk};
use crate::manager::beside_the_test;
use crate::{Printed, TestCluster};

/// The plugin, in a namespace, with a kubeconfig.
#[derive(Clone, Debug)]
pub struct Plugin {
    path: OsString,
    kubeconfig: PathBuf,
    namespace: String,
}

impl TestCluster {
    /// The plugin with a direct connection to the server.
    pub fn plugin(&self) -> Result<Plugin> {
        Plugin::new(&self.straight, &self.namespace)
    }

    /// The plugin behind the proxy.
    pub fn plugin_behind_the_proxy(&self) -> Result<Plugin> {
        Plugin::new(&self.kubeconfig, &self.namespace)
    }

    /// The plugin with the token of this service account of the namespace.
    pub async fn plugin_of_account(&self, account: &str) -> Result<Plugin> {
        let plane = self.control_plane().context("the sandbox has no service accounts")?;
        let kubeconfig = plane.kubeconfig_of_account(&self.namespace, account).await?;
        let file = self.straight.with_file_name(format!("{account}.kubeconfig"));
        write_private(&file, &kubeconfig)?;
        Plugin::new(&file, &self.namespace)
    }
}

impl Plugin {
    fn new(kubeconfig: &Path, namespace: &str) -> Result<Self> {
        let binary = beside_the_test("kubectl-ordered")?;
        ensure!(binary.exists(), "{} is not there: run `cargo build --workspace` first", binary.display());
        let folder = binary.parent().context("the plugin lies in no folder")?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self { path, kubeconfig: kubeconfig.to_owned(), namespace: namespace.to_owned() }.with_folder(folder)
    }

    /// The plugin with this folder first in its PATH.
    pub fn with_folder(&self, folder: &Path) -> Result<Self> {
        let known = std::env::split_paths(&self.path);
        let path = std::env::join_paths(std::iter::once(folder.to_owned()).chain(known));
        Ok(Self { path: path.context("cannot make a PATH")?, ..self.clone() })
    }

    /// kubectl with the plugin in its PATH and exactly these arguments.
    fn kubectl(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(arguments).env("PATH", &self.path).env("KUBECONFIG", &self.kubeconfig);
        command.env("LANG", "C.UTF-8").env_remove("LC_ALL").kill_on_drop(true);
        command
    }

    /// Runs `kubectl ordered` with these arguments in the namespace of the scenario.
    pub async fn run(&self, arguments: &[&str]) -> Result<Printed> {
        self.run_with(arguments, "").await
    }

    /// Runs it with this standard input.
    pub async fn run_with(&self, arguments: &[&str], input: &str) -> Result<Printed> {
        // `convert` uses no server and has no flags for one.
        let space: &[&str] =
            if arguments.first() == Some(&"convert") { &[] } else { &["--namespace", &self.namespace] };
        self.plain(&[&["ordered"], arguments, space].concat(), input).await
    }

    /// Runs kubectl with exactly these arguments and no namespace.
    pub async fn plain(&self, arguments: &[&str], input: &str) -> Result<Printed> {
        talk(self.kubectl(arguments), input).await
    }

    /// The output of a command that must succeed.
    pub async fn ok(&self, arguments: &[&str]) -> Result<String> {
        Ok(self.ok_with(arguments, "").await?.out)
    }

    /// What a command prints that must succeed with this standard input.
    pub async fn ok_with(&self, arguments: &[&str], input: &str) -> Result<Printed> {
        let printed = self.run_with(arguments, input).await?;
        ensure!(printed.code == 0, "kubectl ordered {}: {printed:?}", arguments.join(" "));
        Ok(printed)
    }

    /// The standard error of a command that must fail with this code and print nothing else.
    pub async fn fails(&self, code: i32, arguments: &[&str]) -> Result<String> {
        let printed = self.run(arguments).await?;
        ensure!(
            printed.code == code && printed.out.is_empty(),
            "kubectl ordered {}, to fail with {code}: {printed:?}",
            arguments.join(" ")
        );
        Ok(printed.err)
    }

    /// Starts a command that runs until an event ends it.
    pub fn start(&self, arguments: &[&str]) -> Result<Following> {
        let all = [&["ordered"], arguments, &["--namespace", &self.namespace]].concat();
        let mut command = self.kubectl(&all);
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = piped.spawn().context("kubectl does not start")?;
        let out = child.stdout.take().context("kubectl has no output")?;
        Ok(Following { child, lines: BufReader::new(out).lines() })
    }
}

/// A running command.
#[derive(Debug)]
pub struct Following {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    /// Its lines up to the one that contains these words.
    pub async fn until(&mut self, words: &str) -> Result<Vec<String>> {
        let mut seen = Vec::new();
        let reading = async {
            while let Some(line) = self.lines.next_line().await.context("cannot read from kubectl")? {
                let found = line.contains(words);
                seen.push(line);
                if found {
                    return Ok(true);
                }
            }
            anyhow::Ok(false)
        };
        let found = tokio::time::timeout(crate::setting::TIMEOUT, reading).await;
        ensure!(matches!(found, Ok(Ok(true))), "{words:?} was not printed, but {seen:#?}");
        Ok(seen)
    }

    /// Its exit code, after it has ended.
    pub async fn ended(mut self) -> Result<i32> {
        let ended = tokio::time::timeout(crate::setting::TIMEOUT, self.child.wait()).await;
        let status = ended.context("it does not end")?.context("cannot wait for kubectl")?;
        Ok(status.code().unwrap_or(-1))
    }
}
