//! Publishes the image and the chart of a release, both signed. Log in first, with docker: Helm and cosign
//! use its login.

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::package::{self, VERSION};
use crate::process::{capture, run, top};
use crate::{image, process};

/// The base of the image: certificates and a user, no shell.
const BASE: &str = "gcr.io/distroless/static-debian12:nonroot";
/// Who signs it, from the README of distroless.
const SIGNER: [&str; 2] = [
    "--certificate-identity=keyless@distroless.iam.gserviceaccount.com",
    "--certificate-oidc-issuer=https://accounts.google.com",
];
/// The images that build, by the names of the outputs: the defaults of docker's actions.
const BUILDER: [(&str, &str); 2] =
    [("buildkit", "moby/buildkit:buildx-stable-1"), ("binfmt", "tonistiigi/binfmt:latest")];
/// Reads the packages of the image for its bill of materials: buildkit's default.
const SCANNER: &str = "docker/buildkit-syft-scanner:stable-1";
const CHART: &str = "ordered-deployment";

/// `cargo xtask release builder`: looks up the digests of the images that build.
pub(crate) fn builder() -> Result<()> {
    BUILDER.iter().try_for_each(|(name, image)| output(name, &with_digest(image)?))
}

/// `cargo xtask release image TAG REGISTRY`: builds the image for both architectures, pushes it and signs it.
/// The image has the version as its tag, without the `v`: the chart's `appVersion` selects it. The images
/// that it is built from are looked up once, so that both architectures use the same ones; the provenance
/// names their digests.
pub(crate) fn image(tag: &str, registry: &str) -> Result<()> {
    package::check_tag(tag)?;
    let dockerfile = fs::read_to_string(top().join("Dockerfile")).context("cannot read the Dockerfile")?;
    let rust = with_digest(&rust(&dockerfile).context("the Dockerfile names no image of Rust")?)?;
    let base = with_digest(BASE)?;
    // What it prints is the signatures.
    capture(Command::new("cosign").arg("verify").args(SIGNER).arg(&base))?;
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
    docker.args(["--build-arg", &format!("BASE={base}"), "--build-arg", &format!("RUST={rust}")]);
    docker.args(["--tag", &format!("{name}:{VERSION}")]);
    docker.args(["--attest", &format!("type=sbom,generator={}", with_digest(SCANNER)?)]);
    docker.args(["--attest", &provenance, "--metadata-file"]).arg(&metadata);
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

/// Signs without a key, with the identity of the workflow or of the person who runs this.
fn sign(name: &str, digest: &str) -> Result<()> {
    ensure!(digest.starts_with("sha256:"), "{name}: `{digest}` is no digest");
    run(Command::new("cosign").args(["sign", "--yes", &format!("{name}@{digest}")]))?;
    output("name", name)?;
    output("digest", digest)
}

/// Prints a value. In a workflow of GitHub it is an output of the step.
fn output(name: &str, value: &str) -> Result<()> {
    println!("{name}={value}");
    let Some(file) = std::env::var_os("GITHUB_OUTPUT") else { return Ok(()) };
    let mut file = fs::OpenOptions::new().append(true).open(file).context("cannot open GITHUB_OUTPUT")?;
    writeln!(file, "{name}={value}").context("cannot write GITHUB_OUTPUT")
}

/// An image with the digest that its registry gives for the tag now.
fn with_digest(image: &str) -> Result<String> {
    let mut docker = Command::new("docker");
    docker.args(["buildx", "imagetools", "inspect", "--format", "{{json .Manifest}}", image]);
    pinned(image, &capture(&mut docker)?).with_context(|| format!("docker printed no digest of {image}"))
}

fn pinned(image: &str, manifest: &str) -> Option<String> {
    let manifest: Value = serde_json::from_str(manifest).ok()?;
    let digest = manifest["digest"].as_str().filter(|digest| digest.starts_with("sha256:"))?;
    Some(format!("{image}@{digest}"))
}

/// The image of the toolchain: the default of the argument `RUST`.
fn rust(dockerfile: &str) -> Option<String> {
    let default = |name: &str| dockerfile.lines().find_map(|line| line.strip_prefix(&format!("ARG {name}=")));
    Some(default("RUST")?.replace("${RUST_VERSION}", default("RUST_VERSION")?))
}

/// The digest in the output of `helm push`.
fn digest(said: &str) -> Option<&str> {
    said.lines().find_map(|line| line.strip_prefix("Digest:")).map(str::trim)
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_image_without_a_digest_is_refused() {
        let manifest = r#"{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": "sha256:12ab"}"#;
        assert_eq!(super::pinned("rust:1", manifest).unwrap(), "rust:1@sha256:12ab");
        for manifest in ["", "{}", r#"{"digest": "latest"}"#] {
            assert_eq!(super::pinned("rust:1", manifest), None, "{manifest}");
        }
    }

    #[test]
    fn the_image_of_the_toolchain_is_that_of_the_dockerfile() {
        let dockerfile =
            "ARG RUST_VERSION=1.95.0\nARG RUST=rust:${RUST_VERSION}-slim-bookworm\nFROM ${RUST}\n";
        assert_eq!(super::rust(dockerfile).unwrap(), "rust:1.95.0-slim-bookworm");
        let own = std::fs::read_to_string(super::top().join("Dockerfile")).unwrap();
        assert!(!super::rust(&own).unwrap().contains('$'));
    }

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
