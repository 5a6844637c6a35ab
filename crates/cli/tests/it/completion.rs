//! Tests the completion scripts in their shells, with names from a cluster.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{Kubeconfig, NamedContext};
use ordereddeployment_sandbox::{Config, Sandbox};
use serde_json::json;
use tempfile::TempDir;

/// A name that runs a command, if a shell reads it.
const HOSTILE: &str = "x;touch${IFS}owned";

/// A home directory with a kubeconfig for a cluster with the OrderedDeployments `web` and `web-2`. Contexts,
/// containers and the id of the hold have hostile names beside the others.
struct Fixture {
    home: TempDir,
    _sandbox: Sandbox,
}

impl Fixture {
    async fn start() -> Self {
        let sandbox = Sandbox::start(Config::default()).await.unwrap();
        let endpoint = sandbox.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let client = sandbox.client().unwrap();
        let definitions = Api::all(client.clone());
        for crd in ordereddeployment_api::crds() {
            definitions.create(&PostParams::default(), &crd).await.unwrap();
        }
        let deployments: Api<ordereddeployment_api::OrderedDeployment> = Api::default_namespaced(client);
        for name in ["web", "web-2"] {
            let manifest = json!({
                "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
                "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": {"app": name}}, "template": {
                    "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "app",
                    "image": "web:1"}, {"name": HOSTILE, "image": "web:1"}]},
                }},
            });
            let object = serde_json::from_value(manifest).unwrap();
            deployments.create(&PostParams::default(), &object).await.unwrap();
            let hold = json!({"id": HOSTILE, "pod": HOSTILE, "podUID": "u", "point": "Before", "revision": 1,
                "replicas": 1, "sizes": {}, "since": "2030-01-01T00:00:00Z"});
            let patch = Patch::Merge(json!({"status": {"hold": hold}}));
            deployments.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        }
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".kube")).unwrap();
        let mut kubeconfig = Kubeconfig::from_yaml(&endpoint.kubeconfig).unwrap();
        let context = kubeconfig.contexts[0].clone();
        let contexts =
            ["prod@eu", HOSTILE].map(|name| NamedContext { name: name.to_owned(), ..context.clone() });
        kubeconfig.contexts.extend(contexts);
        std::fs::write(home.path().join(".kube/config"), serde_json::to_vec(&kubeconfig).unwrap()).unwrap();
        for file in ["manifest.yaml", HOSTILE] {
            std::fs::write(home.path().join(file), "").unwrap();
        }
        for shell in ["bash", "zsh", "fish"] {
            let script = command(home.path(), env!("CARGO_BIN_EXE_kubectl-ordered"), &["completion", shell]);
            std::fs::write(home.path().join(shell), script.unwrap()).unwrap();
        }
        Self { home, _sandbox: sandbox }
    }

    /// The output of the shell; `None` if it is neither installed nor in `COMPLETION_SHELLS`.
    fn run(&self, shell: &str, arguments: &[&str]) -> Option<String> {
        tokio::task::block_in_place(|| command(self.home.path(), shell, arguments))
    }
}

/// The output of a program that must succeed; `None` if the program does not exist.
fn command(home: &Path, program: &str, arguments: &[&str]) -> Option<String> {
    let plugin = Path::new(env!("CARGO_BIN_EXE_kubectl-ordered")).parent().unwrap();
    let known = std::env::var_os("PATH").unwrap_or_default();
    let brought = std::env::var_os("COMPLETION_SHELLS");
    let path = std::iter::once(plugin.to_owned()).chain(brought.iter().map(PathBuf::from));
    let path = std::env::join_paths(path.chain(std::env::split_paths(&known))).unwrap();
    let ran = Command::new(program)
        .args(arguments)
        .current_dir(home)
        .env("HOME", home)
        .env("PATH", path)
        .env_remove("KUBECONFIG")
        .env_remove("XDG_CONFIG_HOME")
        .stdin(Stdio::null())
        .output();
    let output = match ran {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && brought.is_none() => return None,
        other => other.unwrap(),
    };
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && errors.is_empty(), "{program} {arguments:?}: {errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}

/// A command line, and the candidates for its last word, joined by spaces.
const LINES: [(&str, &str); 10] = [
    ("kubectl-ordered sta", "status"),
    ("kubectl-ordered get ", "web web-2"),
    ("kubectl-ordered get web-", "web-2"),
    ("kubectl-ordered status od/", "od/web od/web-2"),
    ("kubectl-ordered -n default set image web ", "app="),
    ("kubectl-ordered resume web --hold ", ""),
    ("kubectl-ordered get --context ", "prod@eu sandbox"),
    ("kubectl-ordered status web --until ", "complete held"),
    ("kubectl-ordered get web ", ""),
    ("kubectl-ordered convert -f man", "manifest.yaml"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bash_completes_commands_names_and_files() {
    let fixture = Fixture::start().await;
    // Call the function as bash does, with the line and the position of the cursor.
    let ask = r#"
        source ./bash
        COMP_LINE=$1 COMP_POINT=${#1}
        COMPREPLY=()
        _kubectl_ordered
        ((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let asked = |line: &str| {
        let offered = fixture.run("bash", &["--norc", "-c", ask, "bash", line]);
        offered.expect("bash is needed").lines().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    for (line, offered) in LINES {
        assert_eq!(asked(line), offered, "{line}");
    }
    // Without `compopt`, as in bash 3.2, the script quotes the names of files.
    assert_eq!(asked("kubectl-ordered convert -f x"), r"x\;touch\$\{IFS\}owned");
    // Bash inserts only the part after its last word break.
    assert_eq!(asked("kubectl-ordered get --output=y"), "yaml");
    assert_eq!(asked("kubectl-ordered convert --filename=man"), "manifest.yaml");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fish_completes_commands_names_and_files() {
    let fixture = Fixture::start().await;
    for (line, offered) in LINES {
        let ask = "source ./fish; complete -C $argv[1]";
        let Some(found) = fixture.run("fish", &["--no-config", "-c", ask, line]) else { return };
        // A candidate can have a description after a tab.
        let words: Vec<&str> = found.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(words.join(" "), offered, "{line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn zsh_completes_commands_names_and_files() {
    let fixture = Fixture::start().await;
    // Call the function as zsh does, with the words and the position of the cursor, and print the candidates.
    let ask = r#"
        compdef() { : }
        compadd() { while [[ $1 != -- ]] { shift }; shift; (($# == 0)) || print -rl -- "$@" }
        _files() { print -rl -- ${words[CURRENT]}*(N) }
        source ./zsh
        words=("$@") CURRENT=$#
        _kubectl-ordered
    "#;
    let Some(_) = fixture.run("zsh", &["-f", "-c", "true"]) else { return };
    assert_eq!(fixture.run("zsh", &["-f", "-n", "./zsh"]).unwrap(), "");
    for (line, offered) in LINES {
        let words: Vec<&str> = line.split(' ').collect();
        let found = fixture.run("zsh", &[&["-f", "-c", ask, "zsh"], words.as_slice()].concat()).unwrap();
        // compadd is replaced here, so only the program filters by prefix.
        assert_eq!(found.lines().collect::<Vec<_>>().join(" "), offered, "{line}");
    }
}
