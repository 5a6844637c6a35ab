//! Programs of this repository that run with optimizations, since the time that they take counts.

use anyhow::Result;

use crate::process::{OPTIMIZED, build_release, release_program, run};
use crate::{kubernetes, programs};

const CONTROLLER: &str = "ordered-controller-manager";

/// `cargo xtask faults` and `cargo xtask explore`: the program, with these arguments.
pub(crate) fn run_with(program: &str, arguments: &[&str]) -> Result<()> {
    build_release(&OPTIMIZED, &[program])?;
    run(release_program(program).args(arguments))
}

/// The part of the campaign that every check runs: every second write of each scenario interrupted once, and
/// random faults. The program is built already.
pub(crate) fn faults_slice() -> Result<()> {
    run(release_program("faults").args(["--slice", "--runs", "6000"]))
}

/// The part of the exploration that every check runs. The program is built already.
pub(crate) fn explore_bounded() -> Result<()> {
    run(release_program("explore").arg("--bounded"))
}

/// `cargo xtask bench`: the benchmarks on a real control plane, with these arguments.
pub(crate) fn bench(arguments: &[&str]) -> Result<()> {
    on_real_servers(&["bench"], "bench", arguments)
}

/// `cargo xtask specs`: Kubernetes' own tests of Deployments and ReplicaSets. Fails if one fails only with
/// this controller.
pub(crate) fn specs(arguments: &[&str]) -> Result<()> {
    let folder = kubernetes::specs()?;
    let folder = folder.to_string_lossy();
    on_real_servers(&["scenarios"], "specs", &[&[&*folder], arguments].concat())
}

/// Builds a program and the controller, and runs the program with the real servers.
fn on_real_servers(packages: &[&str], program: &str, arguments: &[&str]) -> Result<()> {
    build_release(&[packages, &["ordereddeployment-controller"]].concat(), &[program, CONTROLLER])?;
    let mut command = release_program(program);
    command.env("KUBECTL", programs::kubectl()?).env("KUBEBUILDER_ASSETS", kubernetes::find()?);
    command.env("E2E_CONTROLLER", release_program(CONTROLLER).get_program());
    run(command.args(arguments))
}
