//! Real Kubernetes servers: `KUBEBUILDER_ASSETS` if set, else 1.20 built from Debian's source package, with
//! etcd from Debian's package. This module builds them and does not start them.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::apt::Apt;
use crate::cache::{self, Download};
use crate::golang::Go;
use crate::process::{capture, run_logged};

/// The last Debian suite whose source package contains all of Kubernetes with its dependencies.
const SUITE: &str = "bookworm";
const VERSION: &str = "1.20.2";
const SERVERS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler"];
const IMPORT_PATH: &str = "k8s.io/kubernetes";
/// Where Debian's Go packages put sources.
const GOCODE: &str = "usr/share/gocode/src";

/// 130 MB of packages, 3 GB of disk while building, some minutes on two cores.
const BUILT: Download = Download {
    entry: "kubernetes-1.20.2",
    fetch: build,
    hint: "cannot build Kubernetes; set KUBEBUILDER_ASSETS to a folder with the servers and etcd",
};

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
    BUILT.find()
}

/// A folder with the released servers of a version such as `v1.36.1`, with etcd from Debian's package.
pub(crate) fn released(version: &str) -> Result<PathBuf> {
    cache::entry(&format!("released-kubernetes-{version}"), |into| {
        let scratch = cache::Scratch::new("released-kubernetes")?;
        let unpacked = scratch.path().join(UNPACKED);
        Apt::new(scratch.path(), "sid")?.unpack(&["etcd-server".to_owned()], &unpacked)?;
        fs::copy(unpacked.join("usr/bin/etcd"), into.join("etcd"))?;
        for program in SERVERS {
            let file = into.join(program);
            let address = format!("https://dl.k8s.io/{version}/bin/linux/amd64/{program}");
            capture(Command::new("curl").args(["-fsSL", &address, "-o"]).arg(&file))?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    })
}

/// A folder with Kubernetes' own tests of the same version: its end-to-end specs, [`SPECS`], and the
/// integration tests of [`INTEGRATION`], which start ordered-controller-manager.
pub(crate) fn specs() -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    REPLICASET.hash(&mut hasher);
    // The scenarios look for the newest `kubernetes-…`.
    let name = format!("specs-of-kubernetes-{VERSION}-{:016x}", hasher.finish());
    let folder = cache::entry(&name, |into| {
        let scratch = cache::Scratch::new("kubernetes-specs-build")?;
        let tree = Tree::unpack(scratch.path())?;
        tree.build_specs(into)?;
        tree.build_integration_tests(into)
    });
    folder.context("cannot build Kubernetes' own tests")
}

/// The program of the specs.
const SPECS: &str = "e2e.test";
/// Folders of Kubernetes' `test/integration`. The program of each has the name of the folder and `.test`.
const INTEGRATION: [&str; 2] = ["replicaset", "deployment"];
/// Replaces the built-in controller in the integration tests.
const REPLICASET: &str = include_str!("kubernetes/replicaset.go");

/// Specs read files from the program. These specs read none.
const NO_FILES: &str = "package generated\n\nimport \"os\"\n\n\
    func Asset(name string) ([]byte, error) { return nil, os.ErrNotExist }\n\n\
    func AssetNames() []string { return nil }\n";

fn build(into: &Path) -> Result<()> {
    let scratch = cache::Scratch::new("kubernetes-build")?;
    let tree = Tree::unpack(scratch.path())?;
    tree.build_servers(into)?;
    fs::copy(tree.scratch.join(UNPACKED).join("usr/bin/etcd"), into.join("etcd"))
        .context("Debian's etcd-server holds no etcd")?;
    let said = capture(Command::new(into.join("kube-apiserver")).arg("--version"))?;
    if !said.contains(VERSION) {
        bail!("Debian {SUITE} built {} instead of {VERSION}", said.trim());
    }
    Ok(())
}

/// Where Debian's packages are unpacked.
const UNPACKED: &str = "unpacked";

/// The sources and their toolchain. Kubernetes' own makefiles would build and run six generators on the whole
/// tree, and need make, rsync and jq; all but one of the files that they generate are in the sources already.
struct Tree {
    go: Go,
    gopath: PathBuf,
    /// The path of the sources in `gopath`.
    linked: PathBuf,
    scratch: PathBuf,
}

impl Tree {
    /// Fetches the sources and the toolchain, and generates what is missing.
    fn unpack(scratch: &Path) -> Result<Self> {
        let apt = Apt::new(scratch, SUITE)?;
        let unpacked = scratch.join(UNPACKED);
        let mut packages = Go::packages(&apt)?;
        packages.extend(["golang-github-modern-go-reflect2-dev".to_owned(), "etcd-server".to_owned()]);
        apt.unpack(&packages, &unpacked)?;
        let source = apt.source("kubernetes", &scratch.join("source"))?;

        replace_reflect2(&source, &unpacked)?;
        let gopath = scratch.join("gopath");
        fs::create_dir_all(gopath.join("src/k8s.io"))?;
        let linked = gopath.join("src").join(IMPORT_PATH);
        symlink(&source, &linked)?;
        let tree = Self { go: Go::unpacked(&unpacked)?, gopath, linked, scratch: scratch.to_owned() };
        tree.generate_openapi()?;
        Ok(tree)
    }

    /// A command at the top of the sources.
    fn command(&self, program: &str) -> Result<Command> {
        let mut command = self.go.command(program, &self.gopath, &self.scratch)?;
        // Without PWD, Go would use the target of the link, which is not in its path.
        command.current_dir(&self.linked).env("PWD", &self.linked);
        Ok(command)
    }

    fn go(&self) -> Result<Command> {
        let mut go = self.command("go")?;
        // More memory for less time: about a gigabyte more saves a sixth of the time.
        go.env("GOGC", "400").arg("build");
        Ok(go)
    }

    /// The one file that is not in the sources, generated as the makefiles generate it.
    fn generate_openapi(&self) -> Result<()> {
        let generator = self.scratch.join("openapi-gen");
        let log = self.scratch.join("openapi.log");
        let mut build = self.go()?;
        build.arg("-o").arg(&generator).arg("./vendor/k8s.io/kube-openapi/cmd/openapi-gen");
        run_logged(&mut build, &log)?;

        let mut inputs = BTreeSet::new();
        for folder in ["cmd", "pkg", "plugin", "staging/src/k8s.io"] {
            packages_for_openapi(&self.linked, Path::new(folder), &mut inputs)?;
        }
        let inputs: Vec<String> = inputs.into_iter().collect();
        // The generator runs Go to find its input.
        let mut generate = self.command(&generator.to_string_lossy())?;
        generate
            .args(["--logtostderr", "-O", "zz_generated.openapi", "-p"])
            .arg(format!("{IMPORT_PATH}/pkg/generated/openapi"))
            .args(["-i", &inputs.join(","), "-h", "hack/boilerplate/boilerplate.generatego.txt", "-r"])
            .arg(self.scratch.join("openapi-violations"))
            .arg("--output-base")
            .arg(self.gopath.join("src"));
        run_logged(&mut generate, &log)
    }

    fn build_specs(&self, into: &Path) -> Result<()> {
        let generated = self.linked.join("test/e2e/generated");
        fs::create_dir_all(&generated)?;
        let files = generated.join("bindata.go");
        if !files.exists() {
            fs::write(&files, NO_FILES).with_context(|| format!("cannot write {}", files.display()))?;
        }
        self.build_test("./test/e2e", &into.join(SPECS))
    }

    /// The integration tests start the controller in their own process: its package is replaced.
    fn build_integration_tests(&self, into: &Path) -> Result<()> {
        let package = self.linked.join("pkg/controller/replicaset");
        fs::remove_dir_all(&package).with_context(|| format!("cannot replace {}", package.display()))?;
        fs::create_dir(&package)?;
        fs::write(package.join("replicaset.go"), REPLICASET)?;
        for folder in INTEGRATION {
            let program = into.join(format!("{folder}.test"));
            self.build_test(&format!("./test/integration/{folder}"), &program)?;
        }
        Ok(())
    }

    fn build_test(&self, package: &str, into: &Path) -> Result<()> {
        let mut build = self.command("go")?;
        build
            .env("GOGC", "400")
            .args(["test", "-c", "-gcflags=all=-dwarf=false", "-vet=off"])
            .arg(format!("-ldflags={}", version_flags()?))
            .arg("-o")
            .arg(into)
            .arg(package);
        run_logged(&mut build, &self.scratch.join("build.log"))
    }

    fn build_servers(&self, into: &Path) -> Result<()> {
        let mut build = self.go()?;
        // Debug tables are not needed; without them the build is faster.
        build
            .arg("-gcflags=all=-dwarf=false")
            .arg(format!("-ldflags={}", version_flags()?))
            .arg("-o")
            .arg(into);
        build.args(SERVERS.map(|server| format!("./cmd/{server}")));
        run_logged(&mut build, &self.scratch.join("build.log"))
    }
}

/// What the programs say of their version.
fn version_flags() -> Result<String> {
    let (major_minor, _) = VERSION.rsplit_once('.').context("a version without dots")?;
    let (major, minor) = major_minor.split_once('.').context("a version with one dot")?;
    let mut flags = vec!["-s -w".to_owned()];
    for package in ["component-base/version", "client-go/pkg/version"] {
        for (name, value) in
            [("gitVersion", format!("v{VERSION}")), ("gitMajor", major.into()), ("gitMinor", minor.into())]
        {
            flags.push(format!("-X {IMPORT_PATH}/vendor/k8s.io/{package}.{name}={value}"));
        }
    }
    Ok(flags.join(" "))
}

/// Adds the import paths of the packages in `folder` that request OpenAPI definitions.
fn packages_for_openapi(top: &Path, folder: &Path, found: &mut BTreeSet<String>) -> Result<()> {
    const ASKS: &[u8] = b"\n// +k8s:openapi-gen=";
    for entry in fs::read_dir(top.join(folder))? {
        let entry = entry?;
        let (path, name) = (folder.join(entry.file_name()), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() {
            // Examples, with their own definitions.
            if name != "code-generator" && name != "sample-apiserver" {
                packages_for_openapi(top, &path, found)?;
            }
        } else if name.ends_with(".go") && !name.ends_with("_test.go") {
            let text = fs::read(top.join(&path))?;
            if text.windows(ASKS.len()).any(|window| window == ASKS) {
                let package = folder.to_string_lossy().replacen("staging/src/", "vendor/", 1);
                found.insert(format!("{IMPORT_PATH}/{package}"));
            }
        }
    }
    Ok(())
}

/// The vendored reflect2 reads the maps of the runtime as Go had them before 1.18: with it, the API server
/// crashes at the first custom resource. Debian's package has a version that does not.
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
