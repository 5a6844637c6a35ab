//! The controller as the `Dockerfile` builds it: one file that needs no libraries of its system. This module
//! builds no image, and makes no other checks of the program.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::process::{capture, run, top};

/// The name of the program and of its image.
pub(crate) const PROGRAM: &str = "ordered-controller-manager";

/// Builds it by the command of the `Dockerfile`. Fails unless it is static and runs.
pub(crate) fn build() -> Result<PathBuf> {
    build_static("ordereddeployment-controller", PROGRAM)
}

/// Builds a program of a package in the same way.
pub(crate) fn build_static(package: &str, name: &str) -> Result<PathBuf> {
    ensure!(cfg!(target_os = "linux"), "static programs are built on Linux only");
    // As in the Dockerfile: with an explicit target, the flags do not apply to build scripts and procedural
    // macros.
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut cargo = Command::new("cargo");
    cargo.current_dir(top()).stdin(Stdio::null()).env("RUSTFLAGS", "-C target-feature=+crt-static");
    cargo.args(["build", "--release", "--quiet", "--locked", "--package", package, "--target", &target]);
    run(&mut cargo)?;
    let program = top().join("target").join(target).join("release").join(name);
    let bytes = fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
    if has_interpreter(&bytes).with_context(|| format!("{} is no program", program.display()))? {
        bail!("{} is not static: it asks for a loader", program.display());
    }
    let version = capture(Command::new(&program).arg("--version").env_clear())?;
    println!("{}: static, {} MB, {}", program.display(), bytes.len() >> 20, version.trim());
    Ok(program)
}

/// Whether a 64-bit little-endian ELF file has to load libraries.
fn has_interpreter(elf: &[u8]) -> Option<bool> {
    const PT_INTERP: u64 = 3;
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let number = |at: usize, length: usize| {
        let bytes = elf.get(at..at + length)?;
        Some(bytes.iter().rev().fold(0_u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    let headers = usize::try_from(number(0x20, 8)?).ok()?;
    let (size, count) = (usize::try_from(number(0x36, 2)?).ok()?, usize::try_from(number(0x38, 2)?).ok()?);
    let kinds = (0..count).map(|index| number(headers + index * size, 4)).collect::<Option<Vec<_>>>()?;
    Some(kinds.contains(&PT_INTERP))
}

#[cfg(test)]
mod tests {
    use super::has_interpreter;

    #[test]
    fn a_test_program_needs_a_loader_and_a_text_file_is_not_an_elf_file() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(has_interpreter(&own), Some(true));
        assert_eq!(has_interpreter(b"#!/bin/sh\n"), None);
        assert_eq!(has_interpreter(&own[..0x30]), None);
    }
}
