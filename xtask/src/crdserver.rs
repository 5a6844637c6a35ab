//! Kubernetes' own current server of custom resources, built from Debian unstable's Go packages. Real servers
//! as old as 1.20 do not know CEL; this one checks the types and the cost of rules as a current cluster does.
//! This module builds it and does not start it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::apt::Apt;
use crate::cache::{Download, Scratch};
use crate::golang::Go;
use crate::process::{capture, run_logged};

const SUITE: &str = "sid";
const PACKAGE: &str = "golang-k8s-apiextensions-apiserver-dev";
const IMPORT_PATH: &str = "k8s.io/apiextensions-apiserver";
/// 270 MB of packages, 5 GB of disk while building, some minutes on two cores. A build is kept: delete its
/// folder to get the current version.
const SERVER: Download =
    Download { entry: "crd-server-sid", fetch: build, hint: "cannot build the CRD server" };
const PROGRAM: &str = "apiextensions-apiserver";

/// The program.
pub(crate) fn find() -> Result<PathBuf> {
    Ok(SERVER.find()?.join(PROGRAM))
}

fn build(into: &Path) -> Result<()> {
    let scratch = Scratch::new("crd-server-build")?;
    let scratch = scratch.path();
    let apt = Apt::new(scratch, SUITE)?;
    let mut packages = Go::packages(&apt)?;
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
