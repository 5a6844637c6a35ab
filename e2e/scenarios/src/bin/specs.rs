//! Runs Kubernetes' own tests of Deployments and ReplicaSets.
//!
//! The end-to-end specs run on a real control plane: once with the built-in controller of ReplicaSets, once
//! with ordered-controller-manager. A spec must not fail only with the latter. The integration tests start
//! the API server in their own process, and ordered-controller-manager in place of the built-in controller.
//! All must pass.
//!
//! Usage: `specs FOLDER [FOCUS]`. `cargo xtask specs` builds the programs in `FOLDER` and calls this program.
//! With `FOCUS` only the end-to-end specs run.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use scenarios::{Server, Setting, TestCluster};
use tokio::process::Command;

/// The specs: names of Kubernetes' test/e2e/apps.
const FOCUS: &str = r"\[sig-apps\] (Deployment|ReplicaSet)";
/// The integration tests: folders of Kubernetes' test/integration.
const INTEGRATION: [&str; 2] = ["replicaset", "deployment"];
/// How long the specs may take, and each program of integration tests.
const LIMIT: Duration = Duration::from_secs(1800);

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().context("usage: specs FOLDER [FOCUS]")?;
    let folder = Path::new(&folder);
    let focus = arguments.next();
    compare(&folder.join("e2e.test"), focus.as_deref().unwrap_or(FOCUS)).await?;
    if focus.is_none() {
        for name in INTEGRATION {
            integrate(&folder.join(format!("{name}.test")), name).await?;
        }
    }
    Ok(())
}

/// Runs the end-to-end specs with both controllers.
async fn compare(program: &Path, focus: &str) -> Result<()> {
    let (ran, built_in) = failures(program, focus, true).await?;
    let (ran_too, ours) = failures(program, focus, false).await?;
    ensure!(ran == ran_too, "other specs ran: {ran}; {ran_too}");
    for name in built_in.intersection(&ours) {
        println!("fails with both controllers: {name}");
    }
    for name in built_in.difference(&ours) {
        println!("fails only with the built-in controller: {name}");
    }
    let broken: Vec<&String> = ours.difference(&built_in).collect();
    ensure!(broken.is_empty(), "fail only with ordered-controller-manager: {broken:#?}");
    println!("every spec that passes with the built-in controller passes with ordered-controller-manager");
    Ok(())
}

/// The specs that fail.
async fn failures(program: &Path, focus: &str, built_in: bool) -> Result<(String, BTreeSet<String>)> {
    let controllers = if built_in { "*" } else { "*,-replicaset" };
    let setting = Setting { built_in_controllers: controllers.to_owned(), ..Setting::default() };
    let cluster = TestCluster::with(Server::Real, setting).await?;
    let mut manager = None;
    if !built_in {
        let mut started =
            cluster.start_manager_with(&["--controllers=replicaset", "--probe-namespace=default"])?;
        started.until_logged("no other controller of ReplicaSets is alive").await?;
        manager = Some(started);
    }
    println!("with {}:", if built_in { "the built-in controller" } else { "ordered-controller-manager" });
    let run = Command::new(program)
        .args(["--provider=skeleton", "--minStartupPods=0", "--ginkgo.noColor", "--disable-log-dump"])
        .arg(format!("--kubeconfig={}", cluster.straight.display()))
        .arg(format!("--ginkgo.focus={focus}"))
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(LIMIT, run).await.context("the specs do not end")??;
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(manager) = manager {
        manager.kill().await?;
    }
    let ran = text.lines().find(|line| line.starts_with("Ran ")).context(format!("no spec ran: {text}"))?;
    ensure!(!ran.starts_with("Ran 0 of "), "no spec has this focus");
    println!("{ran}");
    // The duration differs.
    let ran = ran.split(" in ").next().unwrap_or(ran).to_owned();
    let failed: BTreeSet<String> = text.lines().filter_map(failure).map(str::to_owned).collect();
    ensure!(output.status.success() || !failed.is_empty(), "the specs did not run to their end: {text}");
    Ok((ran, failed))
}

/// The spec of a line of the summary, of Ginkgo 1 or 2.
fn failure(line: &str) -> Option<&str> {
    let (kind, spec) = line.trim().split_once("] ")?;
    let kinds = ["[Fail", "[Panic!", "[Timeout...", "[FAIL", "[PANICKED", "[TIMEDOUT", "[INTERRUPTED"];
    kinds.contains(&kind).then_some(spec)
}

/// Runs the integration tests of one program. They start etcd from `PATH`, and the controller from
/// `E2E_CONTROLLER`.
async fn integrate(program: &Path, name: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").context("KUBEBUILDER_ASSETS is not set")?;
    let mut path = assets;
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let run = Command::new(program)
        .args(["-test.v", "-test.timeout=25m"])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("TMPDIR", folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(LIMIT, run).await.context("the integration tests do not end")??;
    let text = String::from_utf8_lossy(&output.stdout);
    let ended = |how: &str| text.lines().filter(|line| line.starts_with(how)).count();
    let (passed, failed) = (ended("--- PASS: "), ended("--- FAIL: "));
    println!("integration tests of {name}: {passed} passed, {failed} failed");
    let succeeded = output.status.success() && passed > 0;
    ensure!(
        succeeded,
        "integration tests of {name} fail:\n{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
