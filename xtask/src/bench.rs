//! The benchmarks on a real control plane: built with optimizations, like the controller that they measure.

use anyhow::Result;

use crate::process::{build_release, release_program, run};
use crate::{kubectl, kubernetes};

const CONTROLLER: &str = "ordered-controller-manager";

/// `cargo xtask bench`: the benchmarks, with these arguments.
pub(crate) fn run_with(arguments: &[&str]) -> Result<()> {
    build_release(&["bench", "ordereddeployment-controller"], &["bench", CONTROLLER])?;
    let mut bench = release_program("bench");
    bench.env("KUBECTL", kubectl::find()?).env("KUBEBUILDER_ASSETS", kubernetes::find()?);
    bench.env("E2E_CONTROLLER", release_program(CONTROLLER).get_program());
    run(bench.args(arguments))
}
