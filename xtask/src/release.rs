//! Publishes a release: the image and the chart, both signed, and the files of `cargo xtask package`. Log in first, with docker
//! and gh: Helm and cosign use docker's login.

use std::ffi::OsString;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::package::{self, VERSION};
use crate::process::{run, top};
use crate::{image, process};

/// The base of the image: certificates and a user, no shell.
const BASE: &str = "BASE=gcr.io/distroless/static-debian12:nonroot";
const CHART: &str = "ordered-deployment";

/// `cargo xtask release image TAG REGISTRY`: builds the image for both architectures, pushes it and signs it. The image has
/// the version as its tag, without the `v`: the chart's `appVersion` selects it.
pub(crate) fn image(tag: &str, registry: &str) -> Result<()> {
    package::check_tag(tag)?;
    let name = format!("{registry}/{}", image::PROGRAM);
    let folder = top().join("target/image");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let metadata = folder.join("metadata.json");
    let mut provenance = "type=provenance,mode=max".to_owned();
    if let Ok(builder) = std::env::var("BUILDER_ID") {
        provenance = format!("{provenance},builder-id={builder}");
    }
    let mut docker = Command::new("docker");
    docker.current_dir(top()).args([
        "buildx",
        "build",
        ".",
        "--push",
        "--platform",
        "linux/amd64,linux/arm64",
    ]);
    docker.args(["--build-arg", BASE, "--tag", &format!("{name}:{VERSION}")]);
    docker.args(["--attest", "type=sbom", "--attest", &provenance, "--metadata-file"]).arg(&metadata);
    run(&mut docker)?;
    let text = fs::read(&metadata).with_context(|| format!("cannot read {}", metadata.display()))?;
    let built: Value = serde_json::from_slice(&text).context("docker's metadata are not JSON")?;
    sign(&name, built["containerimage.digest"].as_str().context("docker's metadata have no digest")?)
}

/// `cargo xtask release chart TAG REGISTRY`: packages the chart, pushes it and signs it.
pub(crate) fn chart(tag: &str, registry: &str) -> Result<()> {
    package::check_tag(tag)?;
    // Not the Helm of the tests: 3.6 cannot push.
    let helm = std::env::var_os("HELM").unwrap_or_else(|| OsString::from("helm"));
    let folder = top().join("target/chart");
    let mut pack = Command::new(&helm);
    run(pack
        .current_dir(top())
        .args(["package", "charts/ordered-deployment", "--destination"])
        .arg(&folder))?;
    let mut push = Command::new(&helm);
    // Fails if the version in Chart.yaml is another one.
    push.arg("push")
        .arg(folder.join(format!("{CHART}-{VERSION}.tgz")))
        .arg(format!("oci://{registry}/charts"));
    let said = process::capture_all(&mut push)?;
    print!("{said}");
    sign(&format!("{registry}/charts/{CHART}"), digest(&said).context("helm push printed no digest")?)
}

/// `cargo xtask release github TAG`: writes the manifest for krew to `target/package`, and makes a GitHub release with all
/// files in that folder.
pub(crate) fn github(tag: &str) -> Result<()> {
    let (manifest, folder) = (package::krew(tag)?, package::folder());
    let file = folder.join("ordered.yaml");
    fs::write(&file, manifest).with_context(|| format!("cannot write {}", file.display()))?;
    let mut gh = Command::new("gh");
    gh.current_dir(top()).args(["release", "create", tag, "--verify-tag", "--notes-file", "CHANGELOG.md"]);
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))? {
        gh.arg(entry?.path());
    }
    run(&mut gh)
}

/// Signs without a key, with the identity of the workflow or of the person who runs this.
fn sign(name: &str, digest: &str) -> Result<()> {
    ensure!(digest.starts_with("sha256:"), "{name}: `{digest}` is no digest");
    run(Command::new("cosign").args(["sign", "--yes", &format!("{name}@{digest}")]))
}

/// The digest in the output of `helm push`.
fn digest(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.strip_prefix("Digest:")).map(str::trim)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_digest_is_read_from_the_output_of_helm_push() {
        let said = "Pushed: registry.example.com/charts/ordered-deployment:0.1.0\nDigest: sha256:12ab\n";
        assert_eq!(super::digest(said), Some("sha256:12ab"));
        assert_eq!(super::digest("Pushed: nothing"), None);
    }

    #[test]
    fn the_versions_of_the_chart_are_those_of_the_crates() {
        let text =
            std::fs::read_to_string(super::top().join("charts/ordered-deployment/Chart.yaml")).unwrap();
        let version = super::VERSION;
        assert!(text.contains(&format!("\nversion: {version}\nappVersion: {version}\n")), "{version}");
    }
}
