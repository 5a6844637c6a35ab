//! Kubernetes' own tests of Deployments and ReplicaSets: the end-to-end specs with the built-in controller of ReplicaSets and with this
//! one, the integration tests with this one.

use anyhow::Result;

use crate::process::{build_release, release_program, run};
use crate::{kubectl, kubernetes};

const CONTROLLER: &str = "ordered-controller-manager";

/// `cargo xtask specs`: runs them, and fails if one fails only with this controller.
pub(crate) fn run_with(arguments: &[&str]) -> Result<()> {
    let folder = kubernetes::specs()?;
    build_release(&["scenarios", "ordereddeployment-controller"], &["specs", CONTROLLER])?;
    let mut specs = release_program("specs");
    specs.env("KUBECTL", kubectl::find()?).env("KUBEBUILDER_ASSETS", kubernetes::find()?);
    specs.env("E2E_CONTROLLER", release_program(CONTROLLER).get_program());
    run(specs.arg(folder).args(arguments))
}
