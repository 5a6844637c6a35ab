//! Prometheus, for the tests of the alerts and of the dashboard.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::apt::Apt;
use crate::cache;
use crate::process::{capture, find_in_path};

/// The oldest Debian suite in use: its programs run on newer ones too.
const SUITE: &str = "bookworm";
const ENTRY: &str = "prometheus-bookworm";

/// What `find` will do, for the announcement; `None` if nothing needs to be fetched.
pub(crate) fn announcement() -> Result<Option<String>> {
    if std::env::var_os("PROMETHEUS").is_some()
        || find_in_path("prometheus").is_some()
        || cache::existing(ENTRY)?.is_some()
    {
        return Ok(None);
    }
    let place = cache::root()?.join(ENTRY);
    Ok(Some(format!("Prometheus, out of Debian {SUITE}'s package, unpacked to {}", place.display())))
}

/// `PROMETHEUS`, else the one in PATH, else Debian's, unpacked into the cache.
pub(crate) fn find() -> Result<PathBuf> {
    if let Some(set) = std::env::var_os("PROMETHEUS") {
        return Ok(set.into());
    }
    if let Some(path) = find_in_path("prometheus") {
        return Ok(path);
    }
    let entry = cache::entry(ENTRY, |folder| {
        let scratch = cache::Scratch::new("prometheus-packages")?;
        let apt = Apt::new(scratch.path(), SUITE)?;
        let unpacked = scratch.path().join("unpacked");
        apt.unpack(&["prometheus".to_owned()], &unpacked)?;
        let program = folder.join("prometheus");
        fs::copy(unpacked.join("usr/bin/prometheus"), &program).context("cannot copy prometheus")?;
        capture(Command::new(&program).arg("--version")).map(drop)
    })
    .context("no Prometheus: install it, or set PROMETHEUS to it")?;
    Ok(entry.join("prometheus"))
}
