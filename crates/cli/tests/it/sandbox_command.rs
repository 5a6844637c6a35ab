//! Tests `sandbox` as a process. The tutorial (`e2e/scenarios`) runs the other commands on it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use kube_runtime::wait::await_condition;
use ordereddeployment_api::OrderedDeployment;
use serde_json::json;
use tempfile::TempDir;

use crate::{program, web};

/// The timeout of a wait.
const LIMIT: Duration = Duration::from_secs(60);

/// The process, with its kubeconfig `sandbox.yaml` in its own directory.
struct Running {
    home: TempDir,
    process: Child,
    output: String,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut process = program(home.path())
            .args(["sandbox", "--kubeconfig", "sandbox.yaml"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = String::new();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        // The last line that it prints at the start.
        while !output.contains("Ctrl-C") {
            assert_ne!(out.read_line(&mut output).unwrap(), 0, "it ended: {output}");
        }
        Self { home, process, output }
    }

    async fn client(&self) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.home.path().join("sandbox.yaml")).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// Sends SIGTERM; returns whether it exits with 0.
    fn terminate(mut self) -> bool {
        let id = self.process.id().to_string();
        // The builtin of the shell: the program `kill` may not be installed.
        let sent = Command::new("sh").args(["-c", "kill -s TERM \"$0\"", &id]).status();
        assert!(sent.unwrap().success());
        self.process.wait().unwrap().success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process still runs only if the test failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn logs_have_no_colours_when_the_standard_error_is_no_terminal() {
    let home = tempfile::tempdir().unwrap();
    let mut process = program(home.path())
        .args(["sandbox", "--kubeconfig", "sandbox.yaml"])
        .env("RUST_LOG", "info")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stderr.take().unwrap()).read_line(&mut line).unwrap();
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(line.contains("INFO") && !line.contains('\x1b'), "{line:?}");
}

#[test]
fn without_a_controller_the_crds_exist_and_the_next_commands_are_printed() {
    let sandbox = Running::start(&["--no-controller", "--watch-delay", "pods=2s"]);
    assert!(sandbox.output.contains("no controller"), "{}", sandbox.output);
    let config = sandbox.home.path().join("sandbox.yaml");
    assert!(
        sandbox.output.contains(&format!("export KUBECONFIG={}", config.display())),
        "{}",
        sandbox.output
    );
    let output = program(sandbox.home.path()).args(["get", "--kubeconfig", "sandbox.yaml"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "No OrderedDeployments in namespace default.\n");
    assert!(sandbox.terminate(), "it did not end well");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_have_the_chosen_size_new_ones_get_a_kubelet_and_deployments_are_refused() {
    let options =
        ["--nodes", "1", "--pods-per-node", "1", "--ready-delay", "10ms", "--termination-delay", "10ms"];
    let sandbox = Running::start(&options);
    let client = sandbox.client().await;
    let deployments: Api<OrderedDeployment> = Api::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &web()).await.unwrap();
    let available = |number: i32| {
        move |found: Option<&OrderedDeployment>| {
            found
                .and_then(|web| web.status.as_ref())
                .is_some_and(|status| status.available_replicas == Some(number))
        }
    };
    let one = await_condition(deployments.clone(), "web", available(1));
    tokio::time::timeout(LIMIT, one).await.unwrap().unwrap();
    // Two more nodes have room for the other two pods.
    let nodes: Api<Node> = Api::all(client.clone());
    for name in ["mine-1", "mine-2"] {
        let node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
    let three = await_condition(deployments, "web", available(3));
    tokio::time::timeout(LIMIT, three).await.unwrap().unwrap();
    assert_eq!(nodes.list(&ListParams::default()).await.unwrap().items.len(), 3);

    let builtin: Api<Deployment> = Api::default_namespaced(client);
    let mut refused = serde_json::to_value(web()).unwrap();
    refused["apiVersion"] = "apps/v1".into();
    refused["kind"] = "Deployment".into();
    let refused = builtin.create(&PostParams::default(), &serde_json::from_value(refused).unwrap()).await;
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("kubectl ordered convert"), "{message}");
}
