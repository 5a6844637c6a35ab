//! Checks by the compiler that `cargo xtask test` leaves out: each needs another build of the workspace.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::{capture, find_in_path, run, top};

/// The oldest supported Rust: `rust-version` in `Cargo.toml`.
const OLDEST: &str = env!("CARGO_PKG_RUST_VERSION");

/// `cargo xtask doc`: builds the documentation of the workspace; a warning is an error.
pub(crate) fn doc() -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(top()).env("RUSTDOCFLAGS", "-D warnings");
    run(cargo.args(["doc", "--workspace", "--no-deps", "--locked"]))
}

/// `cargo xtask msrv`: checks the workspace with the oldest supported Rust. It installs nothing.
pub(crate) fn msrv() -> Result<()> {
    ensure!(find_in_path("rustup").is_some(), "no rustup in PATH: it is needed to select Rust {OLDEST}");
    // Only the message below matters: what rustup prints can be a whole backtrace.
    capture(Command::new("rustup").args(["which", "--toolchain", OLDEST, "cargo"])).ok().with_context(
        || format!("no Rust {OLDEST}: `rustup toolchain install {OLDEST} --profile minimal`"),
    )?;
    let mut cargo = Command::new("cargo");
    cargo.current_dir(top()).arg(format!("+{OLDEST}"));
    run(cargo.args(["check", "--workspace", "--all-features", "--locked"]))
}

#[cfg(test)]
mod tests {
    use super::OLDEST;
    use crate::process::top;

    #[test]
    fn the_workflow_installs_the_oldest_supported_rust() {
        let workflow = std::fs::read_to_string(top().join(".github/workflows/ci.yaml")).unwrap();
        assert!(workflow.contains(&format!("rustup toolchain install {OLDEST} --profile minimal\n")));
    }
}
