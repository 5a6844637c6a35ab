//! Runs Kubernetes' own end-to-end specs of Deployments and ReplicaSets on a real control plane: once with the built-in controller of
//! ReplicaSets, once with ordered-controller-manager. Fails if a spec fails only with the latter.
//!
//! Usage: `specs E2E_TEST [FOCUS]`. `cargo xtask specs` builds `E2E_TEST` and calls this program.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{Server, Setting, TestCluster};
use tokio::process::Command;

/// The specs: names of Kubernetes' test/e2e/apps.
const FOCUS: &str = r"\[sig-apps\] (Deployment|ReplicaSet)";
/// How long the specs may take.
const LIMIT: Duration = Duration::from_secs(1800);

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().context("usage: specs E2E_TEST [FOCUS]")?;
    let focus = arguments.next().unwrap_or_else(|| FOCUS.to_owned());
    let (ran, built_in) = failures(&program, &focus, true).await?;
    let (ran_too, ours) = failures(&program, &focus, false).await?;
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
async fn failures(program: &str, focus: &str, built_in: bool) -> Result<(String, BTreeSet<String>)> {
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
        .arg(format!("--kubeconfig={}", cluster.straight().display()))
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
    println!("{ran}");
    // The duration differs.
    let ran = ran.split(" in ").next().unwrap_or(ran).to_owned();
    let failed: BTreeSet<String> = text.lines().filter_map(failure).map(str::to_owned).collect();
    if !failed.is_empty() && std::env::var_os("SPECS_VERBOSE").is_some() {
        println!("{text}");
    }
    ensure!(output.status.success() || !failed.is_empty(), "the specs did not run to their end: {text}");
    Ok((ran, failed))
}

/// The spec of a line of the summary.
fn failure(line: &str) -> Option<&str> {
    ["[Fail] ", "[Panic!] ", "[Timeout...] "].into_iter().find_map(|kind| line.trim().strip_prefix(kind))
}
