//! Real Kubernetes servers: `KUBEBUILDER_ASSETS` where set, else 1.20 built from Debian's source package, with etcd out
//! of Debian's package. It builds them and says where they are; it never starts them.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::apt::Apt;
use crate::cache;
use crate::golang::Go;
use crate::process::{capture, find_in_path, run_logged};

/// The last Debian suite whose source package holds the whole of Kubernetes with its dependencies.
const SUITE: &str = "bookworm";
const VERSION: &str = "1.20.2";
const SERVERS: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubemark"];
/// Where Debian's Go packages put sources.
const GOCODE: &str = "usr/share/gocode/src";

fn entry_name() -> String {
    format!("kubernetes-{VERSION}")
}

/// What `find` will do, for the announcement; `None` where it need not build anything.
pub(crate) fn announcement() -> Result<Option<String>> {
    if std::env::var_os("KUBEBUILDER_ASSETS").is_some() || cache::existing(&entry_name())?.is_some() {
        return Ok(None);
    }
    let place = cache::root()?.join(entry_name());
    Ok(Some(format!(
        "Kubernetes {VERSION}, built out of Debian {SUITE}'s source package (130 MB to fetch, 4 GB of disk while \
         building, some minutes on two cores), to {}",
        place.display()
    )))
}

/// The folder with `kube-apiserver`, `etcd` and the rest.
pub(crate) fn find() -> Result<PathBuf> {
    if let Some(set) = std::env::var_os("KUBEBUILDER_ASSETS") {
        let folder = PathBuf::from(set);
        for program in ["kube-apiserver", "etcd"] {
            if !folder.join(program).is_file() {
                bail!(
                    "KUBEBUILDER_ASSETS is {}, which has no {program}; set it right, or unset it",
                    folder.display()
                );
            }
        }
        return Ok(folder);
    }
    if cache::existing(&entry_name())?.is_none() {
        let place = cache::root()?.join(entry_name());
        eprintln!(
            "Building Kubernetes {VERSION} out of Debian {SUITE}'s source package into {}.",
            place.display()
        );
        eprintln!(
            "That fetches 130 MB of Debian packages, needs 4 GB of disk and some minutes on two cores."
        );
    }
    cache::entry(&entry_name(), build)
        .context("cannot build Kubernetes; set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd to do without")
}

fn build(into: &Path) -> Result<()> {
    if find_in_path("make").is_none() {
        bail!("Kubernetes is built by make: install it (Debian's package make)");
    }
    let scratch = cache::Scratch::new("kubernetes-build")?;
    let scratch = scratch.path();
    let apt = Apt::new(scratch, SUITE)?;
    let unpacked = scratch.join("unpacked");
    let mut packages = Go::packages(&apt)?;
    packages.extend(["golang-github-modern-go-reflect2-dev".to_owned(), "etcd-server".to_owned()]);
    apt.unpack(&packages, &unpacked)?;
    let source = apt.source("kubernetes", &scratch.join("source"))?;

    replace_reflect2(&source, &unpacked)?;
    let gopath = scratch.join("gopath");
    fs::create_dir_all(gopath.join("src/k8s.io"))?;
    let linked = gopath.join("src/k8s.io/kubernetes");
    symlink(&source, &linked)?;

    let what = SERVERS.map(|server| format!("cmd/{server}")).join(" ");
    let go = Go::unpacked(&unpacked)?;
    let mut make = go.command("make", &gopath, scratch)?;
    put_first_in_path(&mut make, &stand_ins(scratch)?);
    make.current_dir(&linked).arg(format!("WHAT={what}"));
    run_logged(&mut make, &scratch.join("build.log"))?;

    let built = source.join("_output/bin");
    for server in SERVERS {
        fs::copy(built.join(server), into.join(server))
            .with_context(|| format!("the build made no {server}"))?;
    }
    fs::copy(unpacked.join("usr/bin/etcd"), into.join("etcd"))
        .context("Debian's etcd-server holds no etcd")?;
    let said = capture(Command::new(into.join("kube-apiserver")).arg("--version"))?;
    if !said.contains(VERSION) {
        bail!("Debian {SUITE} built {} instead of {VERSION}", said.trim());
    }
    Ok(())
}

/// The vendored reflect2 reads the runtime's maps as Go had them before 1.18: with it, the API server dies at the first
/// custom resource. Debian's package has the version that does not.
fn replace_reflect2(source: &Path, unpacked: &Path) -> Result<()> {
    let vendored = source.join("vendor/github.com/modern-go/reflect2");
    fs::remove_dir_all(&vendored).with_context(|| format!("cannot replace {}", vendored.display()))?;
    fs::create_dir(&vendored)?;
    for file in fs::read_dir(unpacked.join(GOCODE).join("github.com/modern-go/reflect2"))? {
        let file = file?;
        if file.file_type()?.is_file() {
            fs::copy(file.path(), vendored.join(file.file_name()))?;
        }
    }
    Ok(())
}

/// Kubernetes' build calls rsync for one thing, to copy each finished file; this saves its dozen packages.
fn stand_ins(scratch: &Path) -> Result<PathBuf> {
    let folder = scratch.join("stand-ins");
    fs::create_dir_all(&folder)?;
    let rsync = folder.join("rsync");
    fs::write(&rsync, "#!/bin/sh\n# rsync -pc FILE FOLDER\nexec cp -p -- \"$2\" \"$3\"\n")?;
    fs::set_permissions(&rsync, fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

fn put_first_in_path(command: &mut Command, folder: &Path) {
    let now = command
        .get_envs()
        .find(|(key, _)| *key == "PATH")
        .and_then(|(_, value)| value.map(ToOwned::to_owned));
    let mut path = folder.as_os_str().to_owned();
    if let Some(now) = now {
        path.push(":");
        path.push(now);
    }
    command.env("PATH", path);
}
