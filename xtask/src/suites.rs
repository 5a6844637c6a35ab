//! `cargo xtask test`: every check of the repository, in order, up to the first that fails.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::process::{OPTIMIZED, build_release, run, run_seen, run_within, top};
use crate::{browser, crdserver, image, kubernetes, optimized, pages, programs};

/// The timeout of the demo once it is built.
const DEMO_LIMIT: Duration = Duration::from_secs(30);

/// How many checks of a suite passed and failed.
#[derive(Clone, Copy, Default)]
struct Count {
    passed: u32,
    failed: u32,
}

type Suite = fn() -> Result<Count>;

/// Suites that compile; other programs may be built at the same time.
const BUILDING: [(&str, Suite); 4] =
    [("format", format), ("lints", lints), ("dependencies", dependencies), ("build", build)];
/// The build that `--fast` leaves out.
const OPTIMIZING: [(&str, Suite); 1] = [("release", build_programs)];

/// Suites that run and have the machine for themselves.
const RUNNING: [(&str, Suite); 2] = [("tests", tests), ("chart", chart)];
/// Those that `--fast` leaves out.
const SLOW: [(&str, Suite); 5] = [
    ("sandbox", scenarios_on_the_sandbox),
    ("demo", demo),
    ("faults", faults_under_simulated_time),
    ("explore", small_clusters_explored),
    ("real", scenarios_on_real_servers),
];

/// The suffix of tests that start a real control plane; the others end in `on_the_sandbox`.
pub(crate) const ON_REAL: &str = "on_a_real_server";
const ON_SANDBOX: &str = "on_the_sandbox";
/// The suffix of tests that run Helm on the chart and need no server.
const BY_HELM: &str = "by_helm";

/// Runs the suites up to the first that fails; true if none did. The total is always the last line.
pub(crate) fn run_all(fast: bool) -> bool {
    let tools = std::thread::spawn(move || fetch_tools(fast));
    let (mut total, mut times) = (Count::default(), Vec::new());
    let mut play = |suites: &[(&'static str, Suite)]| run_suites(suites, &mut total, &mut times);
    let built = play(&BUILDING) && (fast || play(&OPTIMIZING));
    if !tools.is_finished() {
        println!("Waiting for the tools that are built in the background; they are kept for the next time.");
    }
    // A suite that needs a missing tool fetches it again, and reports the error.
    drop(tools.join());
    let passed = built && play(&RUNNING) && (fast || play(&SLOW));
    if fast {
        println!("Left out by --fast: {}", SLOW.map(|(name, _)| name).join(", "));
    }
    println!("{}", minutes(&times));
    println!("{} passed, {} failed", total.passed, total.failed);
    passed
}

/// How long each suite took, and all of them together.
fn minutes(times: &[(&str, Duration)]) -> String {
    let in_minutes = |time: Duration| time.as_secs_f64() / 60.0;
    let each: Vec<String> =
        times.iter().map(|(name, time)| format!("{name} {:.1}", in_minutes(*time))).collect();
    let all: Duration = times.iter().map(|(_, time)| *time).sum();
    format!("minutes: {}; together {:.1}", each.join(", "), in_minutes(all))
}

/// Runs suites up to the first that fails; true if none did.
fn run_suites<'s>(
    suites: &[(&'s str, Suite)],
    total: &mut Count,
    times: &mut Vec<(&'s str, Duration)>,
) -> bool {
    for &(name, suite) in suites {
        let start = Instant::now();
        let outcome = suite();
        let count = match &outcome {
            Ok(count) => *count,
            Err(_) => Count { passed: 0, failed: 1 },
        };
        if let Err(error) = outcome {
            eprintln!("error: {name}: {error:#}");
        }
        total.passed += count.passed;
        total.failed += count.failed;
        let time = start.elapsed();
        times.push((name, time));
        println!("suite {name}: {} passed, {} failed ({} s)", count.passed, count.failed, time.as_secs());
        if count.failed > 0 {
            eprintln!("error: the suite `{name}` failed; those after it did not run");
            return false;
        }
    }
    true
}

/// Fetches the tools before the suites that run begin: a download or a linker leaves a core idle, and tests
/// with deadlines need the machine undisturbed.
fn fetch_tools(fast: bool) {
    let mut failures = vec![programs::kubectl().err(), programs::helm().err(), browser::find().err()];
    if !fast {
        failures.extend([kubernetes::find().err(), crdserver::find().err(), programs::prometheus().err()]);
    }
    for failure in failures.into_iter().flatten() {
        eprintln!("{failure:#}");
    }
}

/// A cargo command at the top of the checkout.
fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(top()).stdin(Stdio::null());
    command
}

fn one(command: &mut Command) -> Result<Count> {
    run(command)?;
    Ok(Count { passed: 1, failed: 0 })
}

fn format() -> Result<Count> {
    one(cargo().args(["fmt", "--all", "--check"])).context(
        "run `cargo fmt --all`; if cargo has no fmt: `rustup component add rustfmt`, or Debian's rustfmt",
    )
}

fn lints() -> Result<Count> {
    one(cargo().args([
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--quiet",
        "--",
        "-D",
        "warnings",
    ]))
    .context("if cargo has no clippy: `rustup component add clippy`, or Debian's rust-clippy")?;
    pages::check()?;
    Ok(Count { passed: 2, failed: 0 })
}

/// `cargo xtask lints`: the checks that only read the sources.
pub(crate) fn check_sources() -> Result<()> {
    format()?;
    lints().map(drop)
}

fn dependencies() -> Result<Count> {
    Ok(Count { passed: crate::dependencies::check()?, failed: 0 })
}

/// Builds everything that the suites after it run, so that they compile nothing.
fn build() -> Result<Count> {
    one(&mut build_tests())
}

/// A package of the workspace has one program, with its name.
fn build_programs() -> Result<Count> {
    build_release(&OPTIMIZED, &OPTIMIZED)?;
    Ok(Count { passed: 1, failed: 0 })
}

/// Always the whole workspace with all features, and programs together with tests, whose dependencies need
/// more features of the same crates: otherwise those would be compiled once for the programs and once for the
/// tests.
pub(crate) fn build_tests() -> Command {
    let mut command = cargo();
    command.args(["build", "--workspace", "--all-features", "--bins", "--tests", "--quiet"]);
    command
}

/// Everything except scenarios; those of the sandbox and of real servers have their own suites.
fn tests() -> Result<Count> {
    cargo_test(&[], &["--skip", ON_SANDBOX, "--skip", ON_REAL, "--skip", BY_HELM], &[])
}

/// The chart as Helm renders it without a server.
fn chart() -> Result<Count> {
    cargo_test(&["--tests"], &[BY_HELM], &[])
}

/// Four at a time: scenarios mostly wait.
fn scenarios_on_the_sandbox() -> Result<Count> {
    let browser = browser::find()?;
    if browser.is_empty() {
        println!("The dashboard is not tested in a browser: there is neither Chromium nor apt-get.");
    }
    cargo_test(&["--tests"], &[ON_SANDBOX, "--test-threads=4"], &browser)
}

/// Three control planes at a time: scenarios mostly wait. Those that assert how soon something happens wait
/// until they are alone.
fn scenarios_on_real_servers() -> Result<Count> {
    real_servers(&[])
}

/// `cargo xtask real [--moments N]`: the same alone; those that let users act at random moments do it that
/// many times.
pub(crate) fn real(moments: Option<&str>) -> Result<()> {
    let variables = ["E2E_MOMENTS", "RANDOM_MOMENTS"].into_iter().zip(std::iter::repeat(moments));
    let variables: Vec<_> = variables.filter_map(|(name, moments)| Some((name, moments?.into()))).collect();
    let count = real_servers(&variables)?;
    anyhow::ensure!(count.failed == 0, "{} scenarios failed", count.failed);
    println!("{} passed", count.passed);
    Ok(())
}

fn real_servers(variables: &[(&str, PathBuf)]) -> Result<Count> {
    let mut assets = browser::find()?;
    assets.extend_from_slice(variables);
    assets.push(("PROMETHEUS", programs::prometheus()?));
    assets.push(("CRD_SERVER", crdserver::find()?));
    assets.push(("KUBEBUILDER_ASSETS", kubernetes::find()?));
    cargo_test(&["--tests"], &[ON_REAL, "--test-threads=3"], &assets)
}

/// `cargo xtask crd-check`: the answers of Kubernetes' own servers, an old one and the current one, to the
/// CRDs and to violations of their constraints.
pub(crate) fn crd_check() -> Result<()> {
    let assets = [("CRD_SERVER", crdserver::find()?), ("KUBEBUILDER_ASSETS", kubernetes::find()?)];
    let count = cargo_test(&["--tests"], &["definitions::", "--nocapture"], &assets)?;
    anyhow::ensure!(count.failed == 0, "answers were not as they should be");
    Ok(())
}

/// `cargo xtask image-check`: the controller's program as in the image is static, and runs scenarios on the
/// sandbox.
pub(crate) fn image_check() -> Result<()> {
    let variables = [("E2E_CONTROLLER", image::build()?)];
    let count = cargo_test(&["--tests"], &["ten_pods_go_in_order", "--skip", ON_REAL], &variables)?;
    anyhow::ensure!(count.failed == 0, "{} scenarios failed with the image's program", count.failed);
    println!("static, {} scenarios passed", count.passed);
    Ok(())
}

/// Runs tests of the whole workspace, so that only what `build_tests` compiles is compiled.
fn cargo_test(targets: &[&str], filters: &[&str], variables: &[(&str, PathBuf)]) -> Result<Count> {
    // Scenarios start the controller's binary next to their own; a test of one package would not build it.
    run(&mut build_tests())?;
    let mut command = cargo();
    command.args(["test", "--workspace", "--all-features"]).args(targets).arg("--").args(filters);
    command.env("KUBECTL", programs::kubectl()?).env("HELM", programs::helm()?);
    command.envs(variables.iter().map(|(key, value)| (key, value)));
    // `cargo xtask crds` sets it to write the files that the test compares.
    command.env_remove("UPDATE_CRDS");
    // Random tests are the same each time, so that two runs of one commit agree; set another seed to explore.
    if std::env::var_os("PROPTEST_RNG_SEED").is_none() {
        command.env("PROPTEST_RNG_SEED", "1");
    }
    let mut count = Count::default();
    let status = run_seen(&mut command, |line| {
        if let Some(result) = line.strip_prefix("test result: ") {
            count.passed += number_before(result, " passed");
            count.failed += number_before(result, " failed");
        }
    })?;
    if !status.success() {
        // A test program that does not build or is killed prints no result.
        count.failed = count.failed.max(1);
    } else if count.passed == 0 {
        bail!("cargo test ran no test");
    }
    Ok(count)
}

/// The number before a word of cargo's result line.
fn number_before(result: &str, word: &str) -> u32 {
    let Some((before, _)) = result.split_once(word) else { return 0 };
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A part of the fault campaign; it prints what it ran.
fn faults_under_simulated_time() -> Result<Count> {
    optimized::faults_slice()?;
    Ok(Count { passed: 1, failed: 0 })
}

/// A part of the exploration of small clusters; it prints the number of states.
fn small_clusters_explored() -> Result<Count> {
    optimized::explore_bounded()?;
    Ok(Count { passed: 1, failed: 0 })
}

/// The first command of the README: it must end by itself without a terminal.
fn demo() -> Result<Count> {
    // The limit is for the demo alone.
    run(cargo().args(["build", "--release", "--quiet"]))?;
    let mut command = cargo();
    command.args(["run", "--release", "--quiet", "--", "demo"]);
    let Some((status, text)) = run_within(&mut command, DEMO_LIMIT)? else {
        bail!("the demo did not end within {} s", DEMO_LIMIT.as_secs());
    };
    if !status.success() {
        bail!("the demo failed ({status}); it printed:\n{text}");
    }
    println!("demo: {}", text.lines().last().unwrap_or("(printed nothing)"));
    Ok(Count { passed: 1, failed: 0 })
}

#[cfg(test)]
mod tests_of_counting {
    use super::number_before;

    #[test]
    fn counts_are_read_from_cargos_result_line() {
        let line = "FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(number_before(line, " passed"), 12);
        assert_eq!(number_before(line, " failed"), 3);
        assert_eq!(number_before("ok.", " passed"), 0);
    }
}
