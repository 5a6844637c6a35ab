//! Kubernetes' own current server of custom resources, built from Debian unstable's Go packages. Real servers
//! as old as 1.20 do not know CEL; this one checks the types and the cost of rules as a current cluster does.
//! This module builds it and does not start it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::apt::Apt;
use crate::cache;
use crate::golang::Go;
use crate::process::{capture, run_logged};

const SUITE: &str = "sid";
const PACKAGE: &str = "golang-k8s-apiextensions-apiserver-dev";
const IMPORT_PATH: &str = "k8s.io/apiextensions-apiserver";
const PREFIX: &str = "crd-server-";
/// The file inside an entry.
const PROGRAM: &str = "apiextensions-apiserver";

/// What `find` will do, for the announcement; `None` if nothing needs to be built.
pub(crate) fn announcement() -> Result<Option<String>> {
    if newest()?.is_some() {
        return Ok(None);
    }
    Ok(Some(format!(
        "Kubernetes' current CRD server, built out of Debian {SUITE}'s packages (270 MB to fetch, 5 GB of \
         disk while building, some minutes on two cores), to {}",
        cache::root()?.join(format!("{PREFIX}VERSION")).display()
    )))
}

/// The program. A build is kept: delete its folder to get the current version.
pub(crate) fn find() -> Result<PathBuf> {
    if let Some(found) = newest()? {
        return Ok(found);
    }
    eprintln!(
        "Building Kubernetes' current CRD server out of Debian {SUITE}'s packages into {}.",
        cache::root()?.display()
    );
    eprintln!("That fetches 270 MB of Debian packages, needs 5 GB of disk and some minutes on two cores.");
    let scratch = cache::Scratch::new("crd-server-build")?;
    let apt = Apt::new(scratch.path(), SUITE)?;
    let version = apt.version(PACKAGE)?;
    cache::entry(&format!("{PREFIX}{version}"), |into| build(&apt, scratch.path(), into))
        .context("cannot build the CRD server")?;
    newest()?.context("the CRD server was built and is gone again")
}

/// The entry built last.
fn newest() -> Result<Option<PathBuf>> {
    Ok(cache::newest(PREFIX)?.map(|(folder, _)| folder.join(PROGRAM)))
}

fn build(apt: &Apt, scratch: &Path, into: &Path) -> Result<()> {
    let mut packages = Go::packages(apt)?;
    packages.extend(apt.closure(PACKAGE)?.into_iter().filter(|name| is_library(name)));
    let unpacked = scratch.join("unpacked");
    apt.unpack(&packages, &unpacked)?;
    let gopath = unpacked.join("usr/share/gocode");
    let program = into.join(PROGRAM);
    let mut go = Go::unpacked(&unpacked)?.command("go", &gopath, scratch)?;
    // More memory for less time, and no debug tables, as for the other servers.
    go.current_dir(&gopath)
        .env("GOGC", "400")
        .args(["build", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-o"])
        .arg(&program)
        .arg(IMPORT_PATH);
    run_logged(&mut go, &scratch.join("build.log"))?;
    capture(Command::new(&program).arg("--help")).map(drop)
}

/// Whether this is a package of Go sources; without cgo the C libraries that some of them name are not
/// needed.
fn is_library(package: &str) -> bool {
    package.starts_with("golang-") && package.ends_with("-dev")
}
