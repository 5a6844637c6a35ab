//! Go toolchains from Debian packages, unpacked into a folder of the caller. They build without modules and
//! without network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::apt::Apt;

/// One unpacked toolchain.
pub(crate) struct Go {
    root: PathBuf,
}

impl Go {
    /// The names of the packages that make up the default Go of a suite.
    pub(crate) fn packages(apt: &Apt) -> Result<Vec<String>> {
        let mut names = apt.closure("golang-go")?;
        names.retain(|name| is_toolchain(name));
        Ok(names)
    }

    /// The toolchain among the packages unpacked into `folder`.
    pub(crate) fn unpacked(folder: &Path) -> Result<Self> {
        let lib = folder.join("usr/lib");
        let root = fs::read_dir(&lib)
            .with_context(|| format!("cannot read {}", lib.display()))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.join("bin/go").is_file())
            .context("Debian's packages hold no Go toolchain where it is expected")?;
        Ok(Self { root })
    }

    /// A command with this Go first in its PATH, and with its caches in `scratch`.
    pub(crate) fn command(&self, program: &str, gopath: &Path, scratch: &Path) -> Result<Command> {
        let temporary = scratch.join("go-tmp");
        fs::create_dir_all(&temporary)?;
        let mut path = self.root.join("bin").into_os_string();
        if let Some(rest) = std::env::var_os("PATH") {
            path.push(":");
            path.push(rest);
        }
        // An absolute path: `Command` searches the PATH of this process.
        let own = self.root.join("bin").join(program);
        let mut command = if own.is_file() { Command::new(own) } else { Command::new(program) };
        command
            .env("PATH", path)
            .env("GOROOT", &self.root)
            .env("GOPATH", gopath)
            .env("GOCACHE", scratch.join("go-cache"))
            .env("GOTMPDIR", temporary)
            .env("GOENV", "off")
            .env("GOFLAGS", "")
            .env("GO111MODULE", "off")
            .env("GOPROXY", "off")
            .env("GOTOOLCHAIN", "local")
            .env("CGO_ENABLED", "0");
        Ok(command)
    }
}

/// `golang-1.19-go` and `golang-1.19-src`, of any version.
fn is_toolchain(package: &str) -> bool {
    let Some(rest) = package.strip_prefix("golang-") else { return false };
    let Some((version, part)) = rest.split_once('-') else { return false };
    version.starts_with(|first: char| first.is_ascii_digit()) && (part == "go" || part == "src")
}

#[cfg(test)]
mod tests {
    use super::is_toolchain;

    #[test]
    fn only_the_versioned_packages_are_the_toolchain() {
        assert!(is_toolchain("golang-1.19-go"));
        assert!(is_toolchain("golang-1.27-src"));
        assert!(!is_toolchain("golang-go"));
        assert!(!is_toolchain("golang-github-modern-go-reflect2-dev"));
    }
}
