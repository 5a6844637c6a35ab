//! Scenarios on a cluster of kind, for the versions of Kubernetes that this repository does not build.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{run, top};
use crate::{programs, suites};

const CLUSTER: &str = "ordereddeployment";

/// Tests that start their own control plane, and so say nothing about the cluster; and those of monitoring,
/// which need Prometheus.
const LEFT_OUT: [&str; 5] = ["chaos::", "chart::installed::", "definitions::", "deletion::", "monitoring::"];

/// `cargo xtask kind VERSION`: starts a cluster of that version, runs the scenarios there, and deletes it.
pub(crate) fn scenarios(version: &str) -> Result<()> {
    let kubectl = programs::kubectl()?;
    run(&mut suites::build_tests())?;
    // `.github/kind.yaml` names this folder and this file.
    let folder = top().join("target/kind");
    let audit = folder.join("audit");
    fs::create_dir_all(&audit).with_context(|| format!("cannot create {}", audit.display()))?;
    // The API server runs as root and appends to this file. If it created the file, only root could read it.
    let log = audit.join("audit.log");
    fs::write(&log, "").with_context(|| format!("cannot write {}", log.display()))?;
    let kubeconfig = folder.join("kubeconfig.yaml");
    let image = format!("kindest/node:{version}");
    run(kind("create", &kubeconfig).args(["--image", &image, "--config", ".github/kind.yaml"]))?;
    let outcome = run_on(&kubectl, &kubeconfig, &log);
    let deleted = run(&mut kind("delete", &kubeconfig));
    outcome.and(deleted)
}

fn kind(verb: &str, kubeconfig: &Path) -> Command {
    let mut kind = Command::new("kind");
    // The paths in the configuration are relative to the top.
    kind.current_dir(top()).args([verb, "cluster", "--name", CLUSTER, "--kubeconfig"]).arg(kubeconfig);
    kind
}

fn run_on(kubectl: &Path, kubeconfig: &Path, log: &Path) -> Result<()> {
    // The only node is tainted, so that pods go to the nodes of the tests.
    let mut taint = Command::new(kubectl);
    taint.arg("--kubeconfig").arg(kubeconfig);
    run(taint.args(["taint", "nodes", "--all", "ordereddeployment.io/no-pods=:NoSchedule"]))?;
    let mut cargo = Command::new("cargo");
    cargo.current_dir(top()).args(["test", "--workspace", "--all-features", "--tests", "--"]);
    cargo.args([suites::ON_REAL, "--test-threads=1"]);
    cargo.args(LEFT_OUT.iter().flat_map(|module| ["--skip", *module]));
    cargo.env("KUBECTL", kubectl).env("E2E_KUBECONFIG", kubeconfig).env("E2E_AUDIT_LOG", log);
    run(&mut cargo)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_left_out_modules_exist() {
        for module in super::LEFT_OUT {
            let path = super::top()
                .join("e2e/scenarios/tests/it")
                .join(module.trim_end_matches("::").replace("::", "/"));
            assert!(path.is_dir() || path.with_extension("rs").is_file(), "{module}");
        }
    }
}
