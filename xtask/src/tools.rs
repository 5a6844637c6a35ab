//! cargo-deny, from PATH or built into the cache. It never replaces one that is installed.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::cache;
use crate::process::{find_in_path, run};

const VERSION: &str = "0.20.2";

fn entry_name() -> String {
    format!("cargo-deny-{VERSION}")
}

/// What `cargo_deny` will do, for the announcement; `None` where it need not build anything.
pub(crate) fn announcement() -> Result<Option<String>> {
    if find_in_path("cargo-deny").is_some() || cache::existing(&entry_name())?.is_some() {
        return Ok(None);
    }
    let place = cache::root()?.join(entry_name());
    Ok(Some(format!("cargo-deny {VERSION}, built by cargo (a minute or two), to {}", place.display())))
}

/// Where cargo-deny lies; built if it is nowhere.
pub(crate) fn cargo_deny() -> Result<PathBuf> {
    if let Some(path) = find_in_path("cargo-deny") {
        return Ok(path);
    }
    let entry = cache::entry(&entry_name(), |folder| {
        let scratch = cache::Scratch::new("cargo-deny-target")?;
        run(Command::new("cargo")
            // Unoptimised it takes a second more each time it runs, and a third of the time to build.
            .args(["install", "--debug", "--no-default-features", "--locked", "--quiet", "--root"])
            .arg(folder)
            .arg(format!("cargo-deny@{VERSION}"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_TARGET_DIR", scratch.path()))
    })
    .context("no cargo-deny: install it, so that it is in PATH")?;
    Ok(entry.join("bin/cargo-deny"))
}
