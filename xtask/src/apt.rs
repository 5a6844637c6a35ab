//! Debian packages of any suite, unpacked into a folder. The mirror comes from the machine's own apt
//! configuration. No package is installed, root is not needed, and apt's state does not change: lists and
//! downloads are separate.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{capture, run_logged};

/// Debian's own keys, on machines that store them separately from the keys trusted for everything.
const KEYRINGS: [&str; 2] =
    ["/usr/share/keyrings/debian-archive-keyring.pgp", "/usr/share/keyrings/debian-archive-keyring.gpg"];

/// One suite of the machine's Debian mirror, with its own lists.
pub(crate) struct Apt {
    folder: PathBuf,
}

impl Apt {
    /// Fetches the package lists of `suite` into `folder`.
    pub(crate) fn new(folder: &Path, suite: &str) -> Result<Self> {
        if crate::process::find_in_path("apt-get").is_none() {
            bail!("this needs a Debian machine: there is no apt-get here");
        }
        let mirror = mirror(folder)?;
        let apt = Self { folder: folder.join(format!("apt-{suite}")) };
        prepare(&apt.folder)?;
        let signed = KEYRINGS.iter().find(|file| Path::new(file).is_file());
        let options = signed.map(|file| format!("[signed-by={file}] ")).unwrap_or_default();
        let list = format!("deb {options}{mirror} {suite} main\ndeb-src {options}{mirror} {suite} main\n");
        fs::write(apt.folder.join("sources.list"), list)?;
        run_logged(apt.command("apt-get").arg("update"), &apt.folder.join("update.log")).with_context(
            || format!("cannot fetch the package lists of Debian {suite} from this machine's mirror"),
        )?;
        Ok(apt)
    }

    /// The names of the packages that `package` depends on, including itself.
    pub(crate) fn closure(&self, package: &str) -> Result<Vec<String>> {
        let said = capture(self.command("apt-cache").args([
            "depends",
            "--recurse",
            "--no-recommends",
            "--no-suggests",
            "--no-conflicts",
            "--no-breaks",
            "--no-replaces",
            "--no-enhances",
            package,
        ]))?;
        // Names begin at the start of a line; indented lines are relations, `<name>` is a virtual package.
        let mut names: Vec<String> = said
            .lines()
            .filter(|line| line.starts_with(|first: char| first.is_ascii_alphanumeric()))
            .map(str::to_owned)
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// The packages of libraries that these packages load, with those that they load in turn. `is_used`
    /// selects them by name.
    pub(crate) fn libraries(&self, packages: &[&str], is_used: fn(&str) -> bool) -> Result<Vec<String>> {
        let mut found: Vec<String> = Vec::new();
        let mut next: Vec<String> = packages.iter().map(|name| (*name).to_owned()).collect();
        while !next.is_empty() {
            let said = capture(self.command("apt-cache").arg("depends").arg("--important").args(&next))?;
            // ` |Depends: name` is one of several alternatives.
            let names =
                said.lines().filter_map(|line| line.split_once("Depends: ").map(|(_, name)| name.trim()));
            let mut new: Vec<String> = names
                .filter(|name| (name.starts_with("lib") || *name == "zlib1g") && is_used(name))
                .map(str::to_owned)
                .collect();
            new.sort();
            new.dedup();
            new.retain(|name| !found.contains(name));
            found.extend(new.iter().cloned());
            next = new;
        }
        Ok(found)
    }

    /// Downloads packages and unpacks them all into one folder.
    pub(crate) fn unpack(&self, packages: &[String], into: &Path) -> Result<()> {
        let downloads = self.folder.join("downloads");
        fs::create_dir_all(&downloads)?;
        run_logged(
            self.command("apt-get").current_dir(&downloads).arg("download").args(packages),
            &self.folder.join("download.log"),
        )?;
        fs::create_dir_all(into)?;
        for file in fs::read_dir(&downloads)? {
            let file = file?.path();
            capture(Command::new("dpkg-deb").arg("-x").arg(&file).arg(into))?;
            fs::remove_file(&file)?;
        }
        Ok(())
    }

    /// Downloads the upstream archive of a source package and unpacks it; returns the created folder.
    pub(crate) fn source(&self, package: &str, into: &Path) -> Result<PathBuf> {
        let downloads = self.folder.join("source");
        fs::create_dir_all(&downloads)?;
        run_logged(
            self.command("apt-get").current_dir(&downloads).args(["source", "--download-only", package]),
            &self.folder.join("source.log"),
        )?;
        let archive = fs::read_dir(&downloads)?
            .filter_map(|file| Some(file.ok()?.path()))
            .find(|file| file.to_string_lossy().contains(".orig.tar."))
            .with_context(|| format!("the source package {package} has no upstream archive"))?;
        fs::create_dir_all(into)?;
        capture(Command::new("tar").arg("-C").arg(into).arg("-xf").arg(&archive))?;
        let mut folders =
            fs::read_dir(into)?.filter_map(|file| Some(file.ok()?.path())).filter(|file| file.is_dir());
        folders.next().with_context(|| format!("the upstream archive of {package} holds no folder"))
    }

    fn command(&self, program: &str) -> Command {
        let mut command = private(program, &self.folder);
        command.arg("-o").arg(format!("Dir::Etc::sourcelist={}", self.folder.join("sources.list").display()));
        command.args(["-o", "Dir::Etc::sourceparts=/dev/null"]);
        command
    }
}

/// The URI of the machine's Debian mirror.
fn mirror(folder: &Path) -> Result<String> {
    const FORMAT: &str = "$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(REPO_URI)";
    let pick = |lines: &str| {
        lines.lines().find_map(|line| line.strip_prefix("Debian|Debian|main|").map(str::to_owned))
    };
    let known =
        capture(Command::new("apt-get").args(["indextargets", "--format", FORMAT])).unwrap_or_default();
    if let Some(mirror) = pick(&known) {
        return Ok(mirror);
    }
    // On a machine that never ran `apt-get update`: fetch the lists of its configuration into our own folder.
    let folder = folder.join("apt-machine");
    prepare(&folder)?;
    let update = run_logged(private("apt-get", &folder).arg("update"), &folder.join("update.log"));
    let known = capture(private("apt-get", &folder).args(["indextargets", "--format", FORMAT]))?;
    if let Some(mirror) = pick(&known) {
        return Ok(mirror);
    }
    // Only now: a broken third-party source does not matter if Debian's own answered.
    update.context("cannot read this machine's package sources")?;
    bail!("this machine's apt configuration names no Debian mirror (component main)")
}

fn prepare(folder: &Path) -> Result<()> {
    for part in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join(part))?;
    }
    // An empty file, so that the installed packages of the machine do not affect which version we get.
    fs::write(folder.join("status"), "")?;
    // The machine's hooks clean and notify its own caches, which we do not touch.
    let hooks = "#clear APT::Update::Post-Invoke;\n#clear APT::Update::Post-Invoke-Success;\n";
    fs::write(folder.join("apt.conf"), hooks)?;
    Ok(())
}

/// An apt program with the machine's configuration and its own state.
fn private(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("-c").arg(folder.join("apt.conf"));
    for (key, value) in
        [("Dir::State::lists", "lists"), ("Dir::Cache", "cache"), ("Dir::State::status", "status")]
    {
        command.arg("-o").arg(format!("{key}={}", folder.join(value).display()));
    }
    for option in [
        "Debug::NoLocking=1",
        "Acquire::Languages=none",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
        "Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false",
        // As root, apt would download as a user who cannot write to our folder, and warn.
        "APT::Sandbox::User=root",
    ] {
        command.args(["-o", option]);
    }
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}
