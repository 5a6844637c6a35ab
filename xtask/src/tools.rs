//! Programs that are crates, from PATH or built into the cache. An installed program is never replaced.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cache;
use crate::process::{find_in_path, run};

/// A program that cargo builds.
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
    /// Further arguments of `cargo install`.
    arguments: &'static [&'static str],
}

/// Checks licences, sources and known vulnerabilities of dependencies.
pub(crate) const CARGO_DENY: Tool =
    Tool { name: "cargo-deny", version: "0.20.2", arguments: &["--no-default-features"] };
/// Writes the bill of materials in CycloneDX's format; CycloneDX's own program.
pub(crate) const CARGO_CYCLONEDX: Tool = Tool { name: "cargo-cyclonedx", version: "0.5.9", arguments: &[] };

impl Tool {
    /// The path of the program; it is built if it does not exist.
    pub(crate) fn find(&self) -> Result<PathBuf> {
        if let Some(path) = find_in_path(self.name) {
            return Ok(path);
        }
        let entry = cache::entry(&format!("{}-{}", self.name, self.version), |folder| {
            let scratch = cache::Scratch::new(&format!("{}-target", self.name))?;
            run(Command::new("cargo")
                // Without optimizations it takes a second longer per run, and a third of the time to build.
                .args(["install", "--debug", "--locked", "--quiet", "--root"])
                .arg(folder)
                .args(self.arguments)
                .arg(format!("{}@{}", self.name, self.version))
                .env("CARGO_PROFILE_DEV_DEBUG", "0")
                .env("CARGO_TARGET_DIR", scratch.path()))
        })
        .with_context(|| format!("no {}: install it, so that it is in PATH", self.name))?;
        Ok(entry.join("bin").join(self.name))
    }
}
