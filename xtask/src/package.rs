//! The files of a release: archives with the programs, their checksums and bills of materials, and the
//! manifest with which krew installs the plugin.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process::{capture, run, top};
use crate::{dependencies, image};

/// The version of every crate of the workspace.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
const PLUGIN: &str = "kubectl-ordered";
/// The published architectures, by Kubernetes' names.
const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];

/// Where the files of a release are.
fn folder() -> PathBuf {
    top().join("target/package")
}

/// `cargo xtask package`: builds static programs for this machine's architecture, and writes
/// archives and checksums to `target/package`.
pub(crate) fn package() -> Result<()> {
    let arch = architecture(std::env::consts::ARCH)?;
    let folder = folder();
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for program in [image::build()?, image::build_static(PLUGIN, PLUGIN)?] {
        let name = program.file_name().context("a program without a name")?.to_string_lossy().into_owned();
        let archive = format!("{name}-{VERSION}-linux-{arch}.tar.gz");
        // The same files give the same archive, on any machine and at any time.
        let mut tar = Command::new("tar");
        tar.args([
            "--sort=name",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--mtime=@0",
            "--create",
            "--gzip",
        ]);
        tar.arg("--file").arg(folder.join(&archive));
        tar.arg("--directory").arg(program.parent().context("a program without a folder")?).arg(&name);
        run(tar.arg("--directory").arg(top()).arg("LICENSE"))?;
        let sum = capture(Command::new("sha256sum").current_dir(&folder).arg(&archive))?;
        let file = folder.join(format!("{archive}.sha256"));
        fs::write(&file, sum).with_context(|| format!("cannot write {}", file.display()))?;
        println!("{}", folder.join(&archive).display());
    }
    for bill in dependencies::write_bills()? {
        let name = bill.file_stem().context("a bill without a name")?.to_string_lossy();
        // Each architecture has its own dependencies.
        let to = format!("{}-{VERSION}-linux-{arch}.cdx.json", name.trim_end_matches(".cdx"));
        fs::copy(&bill, folder.join(to)).with_context(|| format!("cannot copy {}", bill.display()))?;
    }
    Ok(())
}

/// `cargo xtask krew TAG`: the plugin's manifest for krew, with the checksums in `target/package`.
pub(crate) fn krew(tag: &str) -> Result<String> {
    check_tag(tag)?;
    let sums = ARCHITECTURES.map(|arch| {
        let archive = format!("{PLUGIN}-{VERSION}-linux-{arch}.tar.gz");
        let sum = checksum(&folder().join(format!("{archive}.sha256")))?;
        Ok((arch, archive, sum))
    });
    manifest(&sums.into_iter().collect::<Result<Vec<_>>>()?)
}

/// Fails unless this is the tag of this version.
pub(crate) fn check_tag(tag: &str) -> Result<()> {
    ensure!(tag == format!("v{VERSION}"), "the tag {tag} is not that of the version {VERSION}: v{VERSION}");
    Ok(())
}

fn manifest(archives: &[(&str, String, String)]) -> Result<String> {
    let mut text = format!(
        "apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: ordered
spec:
  version: v{VERSION}
  homepage: {home}
  shortDescription: Order and pause points for rollouts
  description: |
    Shows OrderedDeployments, the order in which their pods go and what a
    change would do; resumes, pauses and undoes their rollouts.
  platforms:
",
        home = env!("CARGO_PKG_REPOSITORY"),
    );
    for (arch, archive, sum) in archives {
        write!(
            text,
            "  - selector: {{matchLabels: {{os: linux, arch: {arch}}}}}
    uri: {home}/releases/download/v{VERSION}/{archive}
    sha256: {sum}
    bin: {PLUGIN}
",
            home = env!("CARGO_PKG_REPOSITORY"),
        )?;
    }
    Ok(text)
}

/// The checksum in a file written by sha256sum.
fn checksum(file: &Path) -> Result<String> {
    let text = fs::read_to_string(file).with_context(|| {
        format!(
            "cannot read {}: `cargo xtask package` writes it on a machine of that architecture",
            file.display()
        )
    })?;
    let sum = text.split_whitespace().next().unwrap_or_default();
    ensure!(
        sum.len() == 64 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()),
        "{} has no SHA-256 in it",
        file.display()
    );
    Ok(sum.to_owned())
}

fn architecture(name: &str) -> Result<&'static str> {
    match name {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => anyhow::bail!("no release is made for {other}: only for {}", ARCHITECTURES.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_names_each_archive_with_its_checksum() {
        let text =
            manifest(&[("amd64", "a.tar.gz".into(), "12".into()), ("arm64", "b.tar.gz".into(), "34".into())]);
        let text = text.unwrap();
        for (archive, sum) in [("a.tar.gz", "12"), ("b.tar.gz", "34")] {
            assert!(text.contains(&format!("/v{VERSION}/{archive}\n    sha256: {sum}\n")), "{text}");
        }
    }

    #[test]
    fn a_tag_of_another_version_is_refused() {
        assert!(krew("v0.0.0").unwrap_err().to_string().contains("not that of the version"));
    }

    #[test]
    fn a_file_without_a_checksum_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.sha256");
        fs::write(&file, "nothing").unwrap();
        assert!(checksum(&file).unwrap_err().to_string().contains("no SHA-256"));
        fs::write(&file, format!("{}  a.tar.gz\n", "0a".repeat(32))).unwrap();
        assert_eq!(checksum(&file).unwrap(), "0a".repeat(32));
    }
}
