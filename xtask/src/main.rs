//! Tasks of this repository, run as `cargo xtask <task>`.
//!
//! This crate checks the product and fetches what the checks need. It is not part of the product, and it does
//! not write outside the checkout and the cache directory.

mod apt;
mod browser;
mod cache;
mod compile;
mod crdserver;
mod cycles;
mod dependencies;
mod golang;
mod image;
mod kubernetes;
mod lines;
mod mutants;
mod nightly;
mod npm;
mod optimized;
mod package;
mod pages;
mod picture;
mod process;
mod programs;
mod release;
mod suites;
mod tools;
#[cfg(test)]
mod workflows;

use std::process::{Command, ExitCode};

const HELP: &str = "Tasks of this repository.

Usage: cargo xtask <task>

  test [--fast]
             run every check: format, lints, dependencies, tests, the chart, scenarios on the sandbox, the
             demo, a part of the fault campaign, a part of the exploration, and scenarios on real Kubernetes
             servers; --fast ends after the chart
  lints      check the format, the lints of Rust, and the pages: links, headings, words, columns
  faults [--runs N] [--seed S] [...]
             run the fault campaign under simulated time, by default 2000 runs from seed 1; --help lists the
             other options, such as running one seed alone
  explore [--bounded] [...]
             run the real planner in every state that small clusters can reach, and check each decision and
             each final state; about an hour on two cores; --bounded runs the part that `test` runs; --help
             lists the other options
  mutants [--part K N | NAME...]
             build the controller with a mistake for each promise, and run the fault campaign or the
             exploration until each mistake is detected
  mutants --generated [--part K N] [FILE...]
             run the tests of the crates without I/O with each of many small mistakes, all built at once;
             fails if one that no test notices is not in xtask/src/mutants/survivors.txt; with files such as
             crates/planner/src/hold.rs, run theirs
  real [--moments N]
             run the scenarios on real Kubernetes servers, as `test` does; with N, let users act at N random
             moments instead of a few
  nightly [NUMBER]
             run what takes too long for every change, in parts of at most an hour on two cores, or one part,
             and write the results to docs/reliability.md
  bench [--large] [...]
             measure rollouts by this controller, by the built-in ones and by a driver without a controller,
             in turn on a real control plane; --large writes docs/internals/benchmarks
  specs [FOCUS]
             run Kubernetes' own tests of Deployments and ReplicaSets: the end-to-end specs with the built-in
             controller of ReplicaSets and with this one, then the integration tests with this one; the first
             time it builds them
  picture    write the pictures of the README, of a run of the demo, to docs/images
  crds       write the CRDs and docs/api.md from the code
  crd-check  check that a real kube-apiserver and Kubernetes' current CRD server accept the CRDs and refuse
             each object that violates a constraint
  image-check
             build the controller with the Dockerfile's command, check that it is a static program, and run
             scenarios with it on the sandbox
  advisories check the dependencies for known vulnerabilities; fails if their database cannot be fetched
  sbom       write a bill of materials (CycloneDX) of each program to target/sbom, by cargo-cyclonedx
  package    build the programs of a release for this machine's architecture, with checksums and bills of
             materials, to target/package
  krew TAG   print the manifest of the plugin for krew, of the archives in target/package
  release builder
             print the images that build the image, with their digests; needs docker with buildx
  release image TAG REGISTRY
             build the image for amd64 and arm64 from images with digests, push it and sign it; needs docker
             with buildx, and cosign, which verifies the signature of the base
  release chart TAG REGISTRY
             package the chart, push it and sign it; needs Helm 3.8 or newer, and cosign
  doc        build the documentation of the workspace; a warning is an error. `test` leaves it out: it is
             another build
  msrv       check the workspace with the oldest supported Rust, the `rust-version` in Cargo.toml; needs
             rustup and this toolchain
  lines      print how many lines of Rust the product, its tests and its proof have
  cycles     list the import cycles between the modules of each crate
  kubernetes [VERSION]
             print the folder of the real Kubernetes binaries; build them if they are missing; with a version
             such as v1.36.1, fetch the released ones, for KUBEBUILDER_ASSETS
  kubectl    print the path of the kubectl that the tests use; fetch it if it is missing
  helm       print the path of the Helm that the tests use; fetch it if it is missing
  prometheus print the path of the Prometheus that the tests use; fetch it if it is missing
  browser    print the variables of the browser that the tests of the dashboard use, for `eval`; fetch it if
             it is missing

Tasks store what they fetch in ${XDG_CACHE_HOME:-$HOME/.cache}/ordereddeployment; nothing is installed
system-wide.

  KUBECTL=FILE               the kubectl to use, 1.27 or newer
  HELM=FILE                  the Helm to use, 3.6 or newer
  PROMETHEUS=FILE            the Prometheus to use
  CHROMIUM=FILE, CHROMEDRIVER=FILE, AXE=FILE
                             the Chromium, its driver and the script of axe-core to use
  KUBEBUILDER_ASSETS=FOLDER  etcd, kube-apiserver, kube-controller-manager and kube-scheduler to use instead
                             of building Kubernetes 1.20
  BUILDER_ID=ADDRESS         the address of what builds the image, for its provenance";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match *arguments.as_slice() {
        ["test"] | ["test", "--fast"] => {
            if !suites::run_all(arguments.len() > 1) {
                // It has printed what failed.
                return ExitCode::FAILURE;
            }
            Ok(())
        }
        ["faults", ref more @ ..] => optimized::run_with("faults", more),
        ["explore", ref more @ ..] => optimized::run_with("explore", more),
        ["bench", ref more @ ..] => optimized::bench(more),
        ["mutants", "--generated", "--part", part, parts, ref files @ ..] => {
            mutants::generated::hunt([part, parts], files)
        }
        ["mutants", "--generated", ref files @ ..] => mutants::generated::hunt(["1"; 2], files),
        ["mutants", "--part", part, parts] => mutants::hunt([part, parts], &[]),
        ["mutants", ref names @ ..] => mutants::hunt(["1"; 2], names),
        ["real"] => suites::real(None),
        ["real", "--moments", moments] => suites::real(Some(moments)),
        ["nightly"] => nightly::run(None),
        ["nightly", part] => nightly::run(Some(part)),
        ["specs", ref more @ ..] => optimized::specs(more),
        ["picture"] => picture::write(),
        ["crds"] => crds(),
        ["lints"] => suites::check_sources(),
        ["crd-check"] => suites::crd_check(),
        ["image-check"] => suites::image_check(),
        ["lines"] => lines::print(),
        ["cycles"] => show_cycles(),
        ["advisories"] => dependencies::advisories(),
        ["sbom"] => dependencies::write_bills().map(drop),
        ["package"] => package::package(),
        ["krew", tag] => package::krew(tag).map(|manifest| print!("{manifest}")),
        ["release", "builder"] => release::builder(),
        ["release", "image", tag, registry] => release::image(tag, registry),
        ["release", "chart", tag, registry] => release::chart(tag, registry),
        ["doc"] => compile::doc(),
        ["msrv"] => compile::msrv(),
        ["kubernetes", version] => kubernetes::released(version).map(|path| println!("{}", path.display())),
        ["kubernetes"] => kubernetes::find().map(|path| println!("{}", path.display())),
        ["kubectl"] => programs::kubectl().map(|path| println!("{}", path.display())),
        ["browser"] => browser::print(),
        ["prometheus"] => programs::prometheus().map(|path| println!("{}", path.display())),
        ["helm"] => programs::helm().map(|path| println!("{}", path.display())),
        [] | ["help" | "-h" | "--help", ..] => {
            println!("{HELP}");
            Ok(())
        }
        _ => {
            eprintln!("error: no task `{}`; try `cargo xtask --help`", arguments.join(" "));
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One line, no backtrace: the message says what to do.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn show_cycles() -> anyhow::Result<()> {
    let found = cycles::find()?;
    for cycle in &found {
        println!("{cycle}");
    }
    anyhow::ensure!(found.is_empty(), "{} import cycles between modules", found.len());
    Ok(())
}

/// Makes the tests that compare the committed CRDs and their reference with the code write them instead.
fn crds() -> anyhow::Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(process::top()).env("UPDATE_CRDS", "1");
    cargo.args([
        "test",
        "--quiet",
        "--package",
        "ordereddeployment-api",
        "--test",
        "crds",
        "--test",
        "reference",
    ]);
    process::run(cargo.args(["--", "of_the_code"]))
}
