//! Finds the servers: `KUBEBUILDER_ASSETS`, the cache. It builds nothing; `cargo xtask` does that.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

const PROGRAMS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];

/// The binaries of the servers.
#[derive(Clone, Debug)]
pub(super) struct Assets {
    /// The folder of the binaries.
    pub(super) folder: PathBuf,
    /// The version, such as `v1.20.2`.
    pub(super) version: String,
}

/// The minor version, 20 for `v1.20.2`; 0 if it is not known.
pub(super) fn minor(version: &str) -> u32 {
    version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or_default()
}

/// The binaries. The error says what to do if there are none.
pub(super) fn find() -> Result<Assets> {
    let folder = match std::env::var_os("KUBEBUILDER_ASSETS") {
        Some(folder) => PathBuf::from(folder),
        None => cached().context(
            "no Kubernetes servers to test with: run `cargo xtask kubernetes` once, which builds them, or \
             set KUBEBUILDER_ASSETS to a folder with etcd, kube-apiserver, kube-controller-manager and \
             kube-scheduler",
        )?,
    };
    for program in PROGRAMS {
        if !folder.join(program).is_file() {
            bail!(
                "{} has no {program}: put it there, or unset KUBEBUILDER_ASSETS and run `cargo xtask \
                 kubernetes`",
                folder.display()
            );
        }
    }
    Ok(Assets { version: version(&folder)?, folder })
}

/// The newest build of `cargo xtask kubernetes`.
fn cached() -> Option<PathBuf> {
    let set = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let base = set.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let entries = std::fs::read_dir(base.join("ordereddeployment")).ok()?;
    let named = entries.flatten().filter(|one| one.file_name().to_string_lossy().starts_with("kubernetes-"));
    named.max_by_key(|one| one.metadata().and_then(|data| data.modified()).ok()).map(|one| one.path())
}

fn version(folder: &Path) -> Result<String> {
    let program = folder.join("kube-apiserver");
    let output = Command::new(&program).arg("--version").output();
    let output = output.with_context(|| format!("{} does not run", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = said.split_whitespace().last().filter(|word| word.starts_with('v'));
    version.map(str::to_owned).with_context(|| format!("{} prints no version: {said}", program.display()))
}
