//! The dependencies of the product: licences, sources, known vulnerabilities, and bills of materials.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::{run, run_within, top};
use crate::tools::{CARGO_CYCLONEDX, CARGO_DENY};

/// The timeout for fetching the database of vulnerabilities.
const FETCH_LIMIT: Duration = Duration::from_secs(60);

/// Checks licences, sources and bans, and known vulnerabilities if their database is available. Returns how
/// many checks passed.
pub(crate) fn check() -> Result<u32> {
    let deny = CARGO_DENY.find()?;
    let checks = ["bans", "licenses", "sources"];
    run(deny_with(&deny).arg("check").args(checks))?;
    if !fetched(deny_with(&deny).args(["fetch", "db"]))? {
        println!(
            "advisories: not checked, since their database (RustSec/advisory-db) cannot be fetched from here"
        );
        return Ok(3);
    }
    run(deny_with(&deny).args(["check", "--disable-fetch", "advisories"]))?;
    Ok(4)
}

/// `cargo xtask advisories`: fails if a dependency has a known vulnerability, and if their database cannot be
/// fetched.
pub(crate) fn advisories() -> Result<()> {
    run(deny_with(&CARGO_DENY.find()?).args(["check", "advisories"]))
}

fn deny_with(deny: &Path) -> Command {
    let mut command = Command::new(deny);
    command.current_dir(top()).args(["--log-level", "error"]);
    command
}

/// Whether that command succeeded within the limit: without an answer it would wait for long.
fn fetched(command: &mut Command) -> Result<bool> {
    let ended = run_within(command.stderr(Stdio::null()), FETCH_LIMIT)?;
    Ok(ended.is_some_and(|(status, _)| status.success()))
}

/// Writes bills of materials of the controller's program and of the command line, in CycloneDX's format, and
/// returns the files.
pub(crate) fn write_bills() -> Result<Vec<PathBuf>> {
    let cyclonedx = CARGO_CYCLONEDX.find()?;
    let folder = top().join("target/sbom");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut bills = Vec::new();
    for (package, program) in [("controller", "ordered-controller-manager"), ("cli", "kubectl-ordered")] {
        let manifest: PathBuf = top().join("crates").join(package);
        let name = format!("{program}.cdx");
        run(Command::new(&cyclonedx)
            .current_dir(top())
            .args(["cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5", "--no-build-deps"])
            .args(["--target", &format!("{}-unknown-linux-gnu", std::env::consts::ARCH)])
            .args(["--override-filename", &name, "--manifest-path"])
            .arg(manifest.join("Cargo.toml")))?;
        // The program writes one file for each package of the workspace, next to it.
        let (from, to) = (manifest.join(format!("{name}.json")), folder.join(format!("{name}.json")));
        fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
        remove_all(&top(), &format!("{name}.json"))?;
        println!("{}", to.display());
        bills.push(to);
    }
    Ok(bills)
}

/// The manifests of the packages in this folder, in the order of their names.
pub(crate) fn manifests(folder: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(top().join(folder))?;
    let manifests = entries.map(|entry| Ok(entry?.path().join("Cargo.toml")));
    let mut manifests = manifests.collect::<Result<Vec<_>>>()?;
    manifests.retain(|path| path.exists());
    manifests.sort();
    Ok(manifests)
}

/// Removes files of that name from the packages of the workspace.
fn remove_all(top: &Path, name: &str) -> Result<()> {
    let packages = manifests("crates")?.into_iter().chain(manifests("e2e")?);
    for manifest in packages.chain([top.join("Cargo.toml"), top.join("xtask/Cargo.toml")]) {
        let file = manifest.with_file_name(name);
        if file.exists() {
            fs::remove_file(&file).with_context(|| format!("cannot remove {}", file.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use crate::process::top;

    #[test]
    fn the_images_toolchain_is_pinned_and_no_older_than_the_crates_need() {
        let read = |file: &str| std::fs::read_to_string(top().join(file)).unwrap();
        let (docker, cargo) = (read("Dockerfile"), read("Cargo.toml"));
        let after = |text: &str, before: &str| {
            let rest = text.split_once(before).unwrap().1;
            rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect::<String>()
        };
        let numbers =
            |version: &str| -> Vec<u32> { version.split('.').map(|part| part.parse().unwrap()).collect() };
        let pinned = after(&docker, "ARG RUST_VERSION=");
        assert_eq!(numbers(&pinned).len(), 3, "a whole version: {pinned}");
        assert!(numbers(&pinned) >= numbers(&after(&cargo, "rust-version = \"")), "{pinned}");
        // Without it rustup uses rust-toolchain.toml, and fetches the stable version of the day.
        assert!(docker.contains("ENV RUSTUP_TOOLCHAIN=${RUST_VERSION}"));
        assert!(docker.contains("rust:${RUST_VERSION}-slim-"));
        for workflow in ["ci", "nightly", "release"] {
            let text = read(&format!(".github/workflows/{workflow}.yaml"));
            assert_eq!(after(&text, "RUSTUP_TOOLCHAIN: "), pinned, "{workflow} builds as the image is built");
        }
    }

    #[test]
    fn a_failed_fetch_is_detected_by_its_status() {
        assert!(super::fetched(&mut Command::new("true")).unwrap());
        assert!(!super::fetched(&mut Command::new("false")).unwrap());
    }

    #[test]
    fn the_product_does_not_depend_on_what_tests_it() {
        for manifest in super::manifests("crates").unwrap() {
            let text = std::fs::read_to_string(&manifest).unwrap();
            let own = text.split("[dev-dependencies]").next().unwrap_or_default();
            for proof in super::manifests("e2e").unwrap() {
                let name = std::fs::read_to_string(proof).unwrap();
                let name = name.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
                let name = name.expect("a package has a name");
                let depends = own.lines().any(|line| line.split(['.', ' ']).next() == Some(name));
                assert!(!depends, "{} depends on {name}", manifest.display());
            }
        }
    }
}
