//! The tutorial, as a reader runs it: every `sh` block of docs/getting-started.md runs in one bash, in order,
//! on the sandbox that the page starts. A block after `<!-- second terminal -->` runs beside it until the
//! end. A block without a language is the output of the block before it.
//!
//! Nothing is built here: `cargo` does nothing, and `target/release` has the plugin of this build.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::page::{Block, blocks};

const PAGE: &str = "docs/getting-started.md";
/// A timeout that no block reaches.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The last line of the sandbox's output.
const STARTED: &str = "Press Ctrl-C";
/// What follows a block in the output.
const END: &str = "-- end of the block --";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_tutorial_run_in_order_and_print_what_the_page_shows() {
    let folder = tempfile::tempdir().unwrap();
    lay_out(folder.path());
    let mut shell = Shell::start(folder.path()).await;
    let mut beside = Vec::new();
    let mut printed = Vec::new();
    let (mut run, mut compared) = (0, 0);
    for block in blocks(PAGE) {
        match (&*block.language, block.comment.as_deref()) {
            ("sh", Some("second terminal")) => beside.push(second_terminal(folder.path(), &block).await),
            ("sh", None) => {
                printed = shell.run(&block.text).await;
                run += 1;
            }
            ("", None) => {
                compare(&block, &printed);
                compared += 1;
            }
            _ => panic!("{PAGE}: a block of a kind that this test does not know: {block:?}"),
        }
    }
    assert!(run >= 10 && compared >= 6 && beside.len() == 1, "{run} blocks, {compared} outputs");
}

/// A clone of the repository after the build, as far as the page needs it.
fn lay_out(folder: &Path) {
    symlink(scenarios::top().join("docs"), folder.join("docs")).unwrap();
    let release = folder.join("target/release");
    let bin = folder.join("bin");
    for made in [&release, &bin] {
        std::fs::create_dir_all(made).unwrap();
    }
    let plugin = scenarios::beside_the_test("kubectl-ordered").unwrap();
    assert!(plugin.exists(), "{} is not there: run `cargo build --workspace` first", plugin.display());
    symlink(plugin, release.join("kubectl-ordered")).unwrap();
    if let Some(kubectl) = std::env::var_os("KUBECTL").map(PathBuf::from).filter(|path| path.is_absolute()) {
        symlink(kubectl, bin.join("kubectl")).unwrap();
    }
}

/// bash in that folder, with none of the caches and settings of the user.
fn bash(folder: &Path) -> Command {
    let known = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(folder.join("bin")).chain(std::env::split_paths(&known));
    let mut command = Command::new("bash");
    command.arg("--norc").current_dir(folder).kill_on_drop(true);
    command.env("PATH", std::env::join_paths(path).unwrap()).env("HOME", folder).env("LANG", "C.UTF-8");
    command.env_remove("LC_ALL").env_remove("KUBECONFIG");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Starts a block whose last command runs until the end of the test, and waits until it has started. bash
/// becomes that command, so that the command ends with it.
async fn second_terminal(folder: &Path, block: &Block) -> Child {
    let (before, last) = block.text.trim_end().rsplit_once('\n').unwrap_or(("", block.text.trim_end()));
    let mut child = bash(folder).args(["-c", &format!("{before}\nexec {last}")]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let started = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(STARTED) {
                return true;
            }
        }
        false
    };
    assert!(tokio::time::timeout(TIMEOUT, started).await.unwrap_or(false), "{block:?} does not start");
    child
}

/// The first terminal.
struct Shell {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Shell {
    async fn start(folder: &Path) -> Self {
        let mut child = bash(folder).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut shell = Self { input: child.stdin.take().unwrap(), output, _child: child };
        // A busy machine may need longer than the timeout of `kubectl wait`, 30 seconds.
        let patient =
            r#"kubectl() { if [ "$1" = wait ]; then set -- "$@" --timeout=100s; fi; command kubectl "$@"; }"#;
        shell.input.write_all(format!("{patient}\n").as_bytes()).await.unwrap();
        // The first command that fails is named, and ends bash.
        let strict =
            "cargo() { :; }; exec 2>&1; set -eE -o pipefail; trap 'echo \"failed: $BASH_COMMAND\"' ERR\n";
        shell.input.write_all(strict.as_bytes()).await.unwrap();
        shell
    }

    /// Runs the block. Returns what it prints.
    async fn run(&mut self, block: &str) -> Vec<String> {
        // A reader's terminal is no input of the block's commands.
        let block: String = block.lines().map(expected).collect();
        let text = format!("{{\n{block}}} < /dev/null\necho '{END}'\n");
        self.input.write_all(text.as_bytes()).await.unwrap();
        let mut printed = Vec::new();
        let reading = async {
            while let Some(line) = self.output.next_line().await.unwrap() {
                if line == END {
                    return true;
                }
                printed.push(line);
            }
            false
        };
        let ended = tokio::time::timeout(TIMEOUT, reading).await.unwrap_or(false);
        assert!(ended, "{PAGE}: this block fails:\n{block}\nIts output:\n{}", printed.join("\n"));
        printed
    }
}

/// The line as bash runs it. A command with the comment `# refused` must fail.
fn expected(line: &str) -> String {
    match line.split_once("# refused") {
        Some((command, _)) => format!("if {command}; then echo 'it was not refused'; false; fi\n"),
        None => format!("{line}\n"),
    }
}

/// Whether each line of the page is printed, in this order. `…` stands for what follows.
fn compare(shown: &Block, printed: &[String]) {
    let mut printed_lines = printed.iter().map(|line| shape(line));
    for line in shown.text.lines() {
        let expected = shape(line);
        let (expected, is_whole) = match expected.strip_suffix('…') {
            Some(start) => (start.trim_end().to_owned(), false),
            None => (expected, true),
        };
        let found =
            printed_lines.any(|line| if is_whole { line == expected } else { line.starts_with(&expected) });
        let printed = printed.join("\n");
        assert!(found, "{PAGE}: this line is not printed, or not here:\n{line}\n({expected})\n{printed}");
    }
}

/// A line without what is different in each run: names of pods, nodes, pools of new pods, times, and the
/// reason within one priority. Ages are printed on a terminal only, and pods may still be terminating.
fn shape(line: &str) -> String {
    let line = line.replace(", 1 terminating", "").replace(", 2 terminating", "");
    let mut words: Vec<String> = Vec::new();
    for word in line.split_whitespace().filter(|word| *word != "AGE") {
        let plain = word.trim_end_matches([':', ',']);
        let is_time =
            plain.starts_with(|c: char| c.is_ascii_digit()) && plain.ends_with(|c: char| "dhmsZ".contains(c));
        match plain.strip_prefix('n') {
            _ if is_time => continue,
            Some(number) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
                words.push("NODE".to_owned());
            }
            // The scheduler chooses the pool of a new pod, which has no place in the order.
            _ if ["hybrid", "inference"].contains(&word) && words.iter().any(|word| word == "-") => {
                words.push("POOL".to_owned());
            }
            _ => words.push(without_pod(word)),
        }
        if let [.., before, number] = words.as_slice()
            && before == "priority"
        {
            let number = number.trim_end_matches(',').to_owned();
            words.pop();
            words.push(number);
            break;
        }
    }
    words.join(" ")
}

/// A word in which the name of a pod is `POD`. The name of its set stays: it is the same in each run.
fn without_pod(word: &str) -> String {
    let parts: Vec<&str> = word.split('-').collect();
    match parts.as_slice() {
        [name, set, pod] if set.len() == 10 && pod.len() >= 8 && pod.is_char_boundary(8) => {
            format!("{name}-{set}-POD{}", &pod[8..])
        }
        _ => word.to_owned(),
    }
}

#[test]
fn the_shape_of_a_line_has_no_names_times_or_reasons() {
    let shown = shape(
        "  ├  2 web-trr4vxjjm5-vv8hr99z  1/1    ✔ Running  1s   n4    hybrid       0  priority 0, tie: UID",
    );
    assert_eq!(shown, "├ 2 web-trr4vxjjm5-POD 1/1 ✔ Running NODE hybrid 0 priority 0");
    assert_eq!(
        shape("  1m2s   resumed web-trr4vxjjm5-ncljvlcs@2 (assumed)"),
        "resumed web-trr4vxjjm5-POD@2 (assumed)"
    );
    assert_eq!(shape("Held half@3 revision 3: until 2030-01-01T00:10:00Z"), "Held half@3 revision 3: until");
}
