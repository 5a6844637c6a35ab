//! The shells besides bash with completions of our commands, for the tests of completion. None becomes a login shell.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::apt::Apt;
use crate::cache;
use crate::process::find_in_path;

/// The oldest Debian suite in use: its programs run on newer ones too.
const SUITE: &str = "bookworm";
const ENTRY: &str = "shells-bookworm";
/// zsh without modules, which it would look for in one fixed place.
const PACKAGES: [&str; 4] = ["zsh-static", "fish", "fish-common", "libpcre2-32-0"];
/// fish finds its functions relative to its own path, but not its library.
const FISH: &str = "#!/bin/sh
root=$(dirname \"$0\")/../root
LD_LIBRARY_PATH=$(echo \"$root\"/usr/lib/*-linux-gnu) exec \"$root/usr/bin/fish\" \"$@\"
";

/// What `find` will do, for the announcement; `None` if nothing needs to be fetched.
pub(crate) fn announcement() -> Result<Option<String>> {
    if !can_fetch() || cache::existing(ENTRY)?.is_some() {
        return Ok(None);
    }
    let place = cache::root()?.join(ENTRY);
    Ok(Some(format!("zsh and fish, out of Debian {SUITE}'s packages, unpacked to {}", place.display())))
}

/// The folder with `zsh` and `fish`; `None` if those of the machine are used, or if nothing can be fetched.
pub(crate) fn find() -> Result<Option<PathBuf>> {
    if !can_fetch() {
        return Ok(None);
    }
    let entry = cache::entry(ENTRY, |folder| {
        let scratch = cache::Scratch::new("shell-packages")?;
        let apt = Apt::new(scratch.path(), SUITE)?;
        let root = folder.join("root");
        apt.unpack(&PACKAGES.map(str::to_owned), &root)?;
        // Its settings are next to its shared files, as fish expects outside of its usual place.
        symlink("../etc", root.join("usr/etc"))?;
        let bin = folder.join("bin");
        fs::create_dir(&bin)?;
        symlink("../root/bin/zsh-static", bin.join("zsh"))?;
        fs::write(bin.join("fish"), FISH)?;
        Ok(fs::set_permissions(bin.join("fish"), fs::Permissions::from_mode(0o755))?)
    })
    .context("no zsh and fish: install them")?;
    Ok(Some(entry.join("bin")))
}

fn can_fetch() -> bool {
    let is_there = |shell: &str| find_in_path(shell).is_some();
    !(is_there("zsh") && is_there("fish")) && is_there("apt-get")
}
