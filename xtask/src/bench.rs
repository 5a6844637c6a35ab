//! The benchmarks on a real control plane: built with optimizations, like the controller that they measure.

use std::process::Command;

use anyhow::Result;

use crate::process::{run, top};
use crate::{kubectl, kubernetes};

/// `cargo xtask bench`: the benchmarks, with these arguments.
pub(crate) fn run_with(arguments: &[&str]) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(top()).args(["build", "--release", "--quiet", "--package", "bench"]);
    run(cargo.args(["--package", "ordereddeployment-controller"]))?;
    let release = top().join("target/release");
    let mut bench = Command::new(release.join("bench"));
    bench.env("KUBECTL", kubectl::find()?).env("KUBEBUILDER_ASSETS", kubernetes::find()?);
    bench.env("E2E_CONTROLLER", release.join("ordered-controller-manager"));
    run(bench.current_dir(top()).args(arguments))
}
