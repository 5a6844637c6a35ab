//! Tests `sandbox` and the other commands on it as processes, as in two terminals.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use kube_runtime::wait::await_condition;
use ordereddeployment_api::{ConditionStatus, OrderedDeployment};
use serde_json::json;
use tempfile::TempDir;

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
        let mut process = command(home.path(), &["sandbox", "--kubeconfig", "sandbox.yaml"])
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

    fn run(&self, arguments: &[&str]) -> Output {
        tokio::task::block_in_place(|| {
            command(self.home.path(), arguments).args(["--kubeconfig", "sandbox.yaml"]).output().unwrap()
        })
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
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

fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-ordered"));
    command.args(arguments).env_clear().env("HOME", home).env("LANG", "C.UTF-8").current_dir(home);
    command.stdin(Stdio::null());
    command
}

fn is_true(type_: &'static str) -> impl Fn(Option<&OrderedDeployment>) -> bool {
    move |found| {
        let Some(found) = found else { return false };
        let Some(status) = &found.status else { return false };
        status.observed_generation == found.metadata.generation
            && status.condition(type_).is_some_and(|condition| condition.status == ConditionStatus::True)
    }
}

async fn until(api: &Api<OrderedDeployment>, type_: &'static str) -> OrderedDeployment {
    let reached = await_condition(api.clone(), "web", is_true(type_));
    tokio::time::timeout(LIMIT, reached)
        .await
        .unwrap_or_else(|_| panic!("{type_} was not reached"))
        .unwrap()
        .unwrap()
}

fn web() -> OrderedDeployment {
    serde_json::from_value(json!({
        "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    }))
    .unwrap()
}

#[test]
fn logs_have_no_colours_when_the_standard_error_is_no_terminal() {
    let home = tempfile::tempdir().unwrap();
    let mut process = command(home.path(), &["sandbox", "--kubeconfig", "sandbox.yaml"])
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_is_shown_ordered_and_resumed_from_another_terminal() {
    let sandbox = Running::start(&["--ready-delay", "10ms", "--termination-delay", "10ms"]);
    let client = sandbox.client().await;
    let deployments: Api<OrderedDeployment> = Api::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &web()).await.unwrap();
    until(&deployments, "Complete").await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let names: Vec<String> =
        pods.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    let annotate = async |name: &str, annotations: serde_json::Value| {
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        pods.patch(name, &PatchParams::default(), &patch).await.unwrap();
    };
    annotate(&names[1], json!({"ordereddeployment.io/delete-priority": "5"})).await;
    annotate(
        &names[2],
        json!({"ordereddeployment.io/delete-priority": "3", "ordereddeployment.io/pause-point": "before"}),
    )
    .await;
    let order = sandbox.ok(&["order", "web"]);
    let places: Vec<usize> = names.iter().map(|name| order.find(name.as_str()).unwrap()).collect();
    assert!(places[1] < places[2] && places[2] < places[0], "{order}");
    let preview = sandbox.ok(&["order", "web", "--replicas", "2"]);
    let (going, staying) = preview.split_once("would stay").unwrap();
    assert!(
        going.contains(&names[1]) && staying.contains(&names[0]) && staying.contains(&names[2]),
        "{preview}"
    );

    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}});
    deployments.patch("web", &PatchParams::default(), &Patch::Merge(image)).await.unwrap();
    let held = until(&deployments, "Held").await.status.unwrap().hold.unwrap();
    assert_eq!(held.pod, names[2]);
    let tree = sandbox.ok(&["get", "web"]);
    assert!(tree.contains(&format!("paused at pause point {} (before)", names[2])), "{tree}");
    assert!(
        tree.contains(&format!(
            "resume with: kubectl ordered resume web {} --kubeconfig sandbox.yaml",
            names[2]
        )),
        "{tree}"
    );
    assert_eq!(sandbox.ok(&["get"]).lines().next(), tree.lines().next());

    let wrong = sandbox.run(&["resume", "web", "--hold", &format!("{}@1", names[2])]);
    assert_eq!(wrong.status.code(), Some(1));
    let unseen = sandbox.run(&["resume", "web"]);
    assert_eq!(unseen.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unseen.stderr).contains(&format!("resume web {}", names[2])));
    let output = sandbox.ok(&["resume", "web", &names[2]]);
    assert!(output.contains(&format!("passed {}", held.id)), "{output}");
    until(&deployments, "Complete").await;
    assert!(sandbox.ok(&["resume", "web", "--hold", &held.id]).contains("is already passed"));
    assert_eq!(sandbox.run(&["resume", "web"]).status.code(), Some(1));
    assert!(sandbox.terminate(), "it did not end well");
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
    let output = command(sandbox.home.path(), &["get", "--kubeconfig", "sandbox.yaml"]).output().unwrap();
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
