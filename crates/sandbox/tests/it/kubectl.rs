//! Real kubectl against the sandbox, over TLS on loopback: the commands of users and their output.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use ordereddeployment_sandbox::{Config, Sandbox};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::common::{gadget_definition_value, pod_value};

/// A sandbox with a kubeconfig, and the kubectl for it.
struct Cluster {
    sandbox: Sandbox,
    home: TempDir,
    kubectl: PathBuf,
}

/// The program in `KUBECTL`, else the first kubectl in the PATH.
fn kubectl() -> PathBuf {
    if let Some(path) = std::env::var_os("KUBECTL") {
        return path.into();
    }
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|dir| dir.join("kubectl"))
        .find(|path| path.is_file())
        .unwrap_or_else(|| {
            panic!("no kubectl: put one into PATH, or name it in KUBECTL (version 1.27 or later)")
        })
}

impl Cluster {
    async fn start() -> Self {
        let kubectl = kubectl();
        let sandbox = Sandbox::start(Config::default()).await.unwrap();
        let endpoint = sandbox.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config"), endpoint.kubeconfig).unwrap();
        Self { sandbox, home, kubectl }
    }

    async fn with_gadgets() -> Self {
        Self::start().await.define_gadgets().await
    }

    async fn define_gadgets(self) -> Self {
        let cluster = self;
        cluster.apply(&gadget_definition_value()).await;
        cluster.ok(&["wait", "--for=condition=Established", "crd/gadgets.test.example"]).await;
        cluster
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.kubectl);
        command
            .args(arguments)
            .env_clear()
            .env("KUBECONFIG", self.home.path().join("config"))
            .env("HOME", self.home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn run(&self, arguments: &[&str], input: &str) -> Output {
        let mut child = self.command(arguments).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        child.wait_with_output().await.unwrap()
    }

    /// The standard output of a command that must succeed.
    async fn ok(&self, arguments: &[&str]) -> String {
        self.ok_with(arguments, "").await
    }

    async fn ok_with(&self, arguments: &[&str], input: &str) -> String {
        let output = self.run(arguments, input).await;
        let (out, err) = texts(&output);
        assert!(output.status.success(), "kubectl {arguments:?} failed: {out}{err}");
        out
    }

    /// The standard error of a command that must fail.
    async fn fails(&self, arguments: &[&str], input: &str) -> String {
        let output = self.run(arguments, input).await;
        let (out, err) = texts(&output);
        assert!(!output.status.success(), "kubectl {arguments:?} succeeded: {out}");
        err
    }

    async fn apply(&self, object: &Value) -> String {
        self.ok_with(&["apply", "-f", "-"], &object.to_string()).await
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        let mut all = arguments.to_vec();
        all.extend(["-o", "json"]);
        serde_json::from_str(&self.ok(&all).await).unwrap()
    }

    async fn ready_pod(&self, name: &str) {
        self.apply(&pod_value(name, json!({"app": "web"}))).await;
        self.ok(&["wait", "--for=condition=Ready", "--timeout=60s", &format!("pod/{name}")]).await;
    }
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn gadget(spec: Value) -> Value {
    json!({"apiVersion": "test.example/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": spec})
}

/// The text with single spaces: kubectl determines the widths of the columns.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The words of each line.
fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

#[tokio::test]
async fn a_pod_is_applied_waited_for_and_shown_in_columns() {
    let cluster = Cluster::start().await;
    cluster.ready_pod("a").await;
    let table = cluster.ok(&["get", "pods"]).await;
    let lines = words(&table);
    assert_eq!(lines[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert_eq!(lines[1][..4], ["a", "1/1", "Running", "0"]);
    let wide = cluster.ok(&["get", "pods", "-o", "wide"]).await;
    assert!(words(&wide)[0].contains(&"NODE") && words(&wide)[1].contains(&"n1"), "{wide}");
    let nodes = cluster.ok(&["get", "nodes", "-L", "node.usage"]).await;
    assert_eq!(words(&nodes).len(), 7);
    assert!(words(&nodes)[1].contains(&"Ready") && nodes.contains("inference"), "{nodes}");
    let all = cluster.ok(&["get", "all", "-A"]).await;
    assert!(all.contains("pod/a"), "{all}");
}

#[tokio::test]
async fn a_custom_resource_shows_its_own_columns_and_is_unchanged_when_applied_twice() {
    let cluster = Cluster::with_gadgets().await;
    assert_eq!(cluster.apply(&gadget(json!({"colour": "red"}))).await, "gadget.test.example/g created\n");
    assert_eq!(cluster.apply(&gadget(json!({"colour": "red"}))).await, "gadget.test.example/g unchanged\n");
    assert_eq!(cluster.apply(&gadget(json!({"colour": "blue"}))).await, "gadget.test.example/g configured\n");
    let table = cluster.ok(&["get", "gd"]).await;
    assert_eq!(words(&table)[0][..3], ["NAME", "WANTED", "COLOUR"]);
    assert_eq!(words(&table)[1][..3], ["g", "1", "blue"]);
    let all = cluster.ok(&["get", "all"]).await;
    assert!(all.contains("gadget.test.example/g"), "{all}");
}

#[tokio::test]
async fn a_pod_applied_twice_is_unchanged() {
    let cluster = Cluster::start().await;
    cluster.ready_pod("a").await;
    assert_eq!(cluster.apply(&pod_value("a", json!({"app": "web"}))).await, "pod/a unchanged\n");
}

#[tokio::test]
async fn errors_have_the_messages_of_the_server() {
    let cluster = Cluster::with_gadgets().await;
    let err =
        cluster.fails(&["apply", "-f", "-"], &gadget(json!({"replicas": 3, "limit": 1})).to_string()).await;
    assert!(
        err.contains("The Gadget \"g\" is invalid") && err.contains("replicas must not exceed limit"),
        "{err}"
    );
    let err = cluster.fails(&["apply", "-f", "-"], &gadget(json!({"nonsense": 3})).to_string()).await;
    assert!(err.contains("unknown field \"spec.nonsense\""), "{err}");
    let err = cluster.fails(&["get", "pod", "x"], "").await;
    assert_eq!(err, "Error from server (NotFound): pods \"x\" not found\n");
    let err = cluster.fails(&["get", "wombats"], "").await;
    assert!(err.contains("the server doesn't have a resource type \"wombats\""), "{err}");
}

#[tokio::test]
async fn requests_without_the_token_are_rejected() {
    let cluster = Cluster::start().await;
    let err = cluster.fails(&["--token=wrong", "get", "pods"], "").await;
    assert!(err.contains("Unauthorized") || err.contains("must be logged in"), "{err}");
}

#[tokio::test]
async fn requests_as_another_user_are_refused() {
    let cluster = Cluster::start().await;
    for acting in [&["--as=jane"][..], &["--as=jane", "--as-group=dev"]] {
        let err = cluster.fails(&[acting, &["get", "pods"]].concat(), "").await;
        assert!(err.contains("the sandbox has no users and no roles: use a real cluster"), "{err}");
    }
}

#[tokio::test]
async fn the_sandbox_listens_on_loopback_only() {
    let sandbox = Sandbox::start(Config::default()).await.unwrap();
    let refused = sandbox.listen(SocketAddr::from(([0, 0, 0, 0], 0))).await.unwrap_err();
    assert!(refused.to_string().contains("loopback"), "{refused}");
}

#[tokio::test]
async fn get_watch_shows_each_change() {
    let cluster = Cluster::with_gadgets().await;
    cluster.apply(&gadget(json!({"colour": "red"}))).await;
    let mut child = cluster.command(&["get", "gadgets", "-w"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next_line().await.unwrap().unwrap().starts_with("NAME"));
    assert!(lines.next_line().await.unwrap().unwrap().contains("red"));
    cluster.ok(&["patch", "gd", "g", "--type=merge", "-p", r#"{"spec":{"colour":"green"}}"#]).await;
    let line = lines.next_line().await.unwrap().unwrap();
    assert!(line.starts_with('g') && line.contains("green"), "{line}");
    cluster.ok(&["delete", "gd", "g"]).await;
    assert!(lines.next_line().await.unwrap().unwrap().contains("green"));
    child.kill().await.unwrap();
}

#[tokio::test]
async fn describe_shows_pods_nodes_and_custom_resources() {
    let cluster = Cluster::with_gadgets().await;
    cluster.ready_pod("a").await;
    let pod = squeezed(&cluster.ok(&["describe", "pod", "a"]).await);
    for part in ["Node: n1/", "Status: Running", "ContainersReady True"] {
        assert!(pod.contains(part), "{part} is missing in {pod}");
    }
    let node = squeezed(&cluster.ok(&["describe", "node", "n1"]).await);
    assert!(node.contains("node.usage=inference") && node.contains("default a 0 (0%)"), "{node}");
    cluster.apply(&gadget(json!({"colour": "red"}))).await;
    let gadget = squeezed(&cluster.ok(&["describe", "gd", "g"]).await);
    assert!(gadget.contains("Colour: red"), "{gadget}");
}

#[tokio::test]
async fn annotate_and_label_change_metadata() {
    let cluster = Cluster::with_gadgets().await;
    cluster.ready_pod("a").await;
    cluster.apply(&gadget(json!({}))).await;
    for kind in ["pod/a", "gadget/g", "node/n1"] {
        cluster.ok(&["annotate", kind, "test.example/priority=5"]).await;
        cluster.ok(&["label", kind, "colour=red"]).await;
        let object = cluster.json(&["get", kind]).await;
        assert_eq!(object["metadata"]["annotations"]["test.example/priority"], "5", "{kind}");
        assert_eq!(object["metadata"]["labels"]["colour"], "red", "{kind}");
        cluster.ok(&["annotate", kind, "test.example/priority-"]).await;
        let object = cluster.json(&["get", kind]).await;
        assert!(object["metadata"]["annotations"].get("test.example/priority").is_none(), "{kind}");
    }
    let selected = cluster
        .ok(&["get", "pods", "-l", "colour=red", "--field-selector=spec.nodeName=n1", "-o", "name"])
        .await;
    assert_eq!(selected, "pod/a\n");
}

#[tokio::test]
async fn three_patch_types_are_supported() {
    let cluster = Cluster::with_gadgets().await;
    cluster.ready_pod("a").await;
    cluster.apply(&gadget(json!({}))).await;
    cluster.ok(&["patch", "gd", "g", "--type=merge", "-p", r#"{"spec":{"colour":"red"}}"#]).await;
    cluster
        .ok(&[
            "patch",
            "gd",
            "g",
            "--type=json",
            "-p",
            r#"[{"op":"replace","path":"/spec/replicas","value":4}]"#,
        ])
        .await;
    let spec = &cluster.json(&["get", "gd", "g"]).await["spec"];
    assert_eq!(*spec, json!({"colour": "red", "replicas": 4}));
    cluster
        .ok(&["patch", "pod", "a", "-p", r#"{"spec":{"containers":[{"name":"main","image":"web:2"}]}}"#])
        .await;
    let pod = cluster.json(&["get", "pod", "a"]).await;
    assert_eq!(pod["spec"]["containers"][0]["image"], "web:2");
    cluster.ok(&["set", "image", "pod/a", "main=web:3"]).await;
    let err = cluster.fails(&["patch", "gd", "g", "-p", r#"{"spec":{"colour":"red"}}"#], "").await;
    assert!(err.contains("application/merge-patch+json"), "{err}");
}

#[tokio::test]
async fn the_status_is_patched_only_by_its_subresource() {
    let cluster = Cluster::with_gadgets().await;
    cluster.apply(&gadget(json!({}))).await;
    let patch = r#"{"status":{"note":"x"},"spec":{"colour":"red"}}"#;
    cluster.ok(&["patch", "gd", "g", "--subresource=status", "--type=merge", "-p", patch]).await;
    let object = cluster.json(&["get", "gd", "g"]).await;
    assert_eq!(object["status"]["note"], "x");
    assert!(object["spec"].get("colour").is_none());
    cluster.ok(&["wait", "--for=jsonpath={.status.note}=x", "gd/g"]).await;
}

#[tokio::test]
async fn scale_writes_replicas_and_checks_current_replicas() {
    let cluster = Cluster::with_gadgets().await;
    cluster.apply(&gadget(json!({}))).await;
    assert_eq!(cluster.ok(&["scale", "gd", "g", "--replicas=5"]).await, "gadget.test.example/g scaled\n");
    cluster.ok(&["scale", "gd", "g", "--replicas=6", "--current-replicas=5"]).await;
    assert_eq!(cluster.json(&["get", "gd", "g"]).await["spec"]["replicas"], 6);
    let err = cluster.fails(&["scale", "gd", "g", "--replicas=7", "--current-replicas=5"], "").await;
    assert!(err.contains("Expected replicas to be 5, was 6"), "{err}");
}

#[tokio::test]
async fn delete_waits_until_the_pod_is_gone() {
    let cluster = Cluster::start().await;
    cluster.ready_pod("a").await;
    assert_eq!(cluster.ok(&["delete", "pod", "a"]).await, "pod \"a\" deleted\n");
    cluster.fails(&["get", "pod", "a"], "").await;
    cluster.ready_pod("b").await;
    cluster.ready_pod("c").await;
    cluster.ok(&["delete", "pods", "--all", "--force", "--grace-period=0"]).await;
    assert_eq!(cluster.ok(&["get", "pods", "-o", "name"]).await, "");
    // Newer versions of these kubectl commands send protobuf.
    cluster.ok(&["create", "namespace", "team"]).await;
    cluster.ok(&["delete", "namespace", "team"]).await;
}

#[tokio::test]
async fn explain_knows_the_fields_of_custom_kinds_and_api_resources_all_kinds() {
    let cluster = Cluster::with_gadgets().await;
    let resources = cluster.ok(&["api-resources"]).await;
    for line in ["pods", "gadgets", "poddisruptionbudgets", "customresourcedefinitions"] {
        assert!(resources.contains(line), "{line} is missing in {resources}");
    }
    let explained = cluster.ok(&["explain", "gadget.spec.replicas"]).await;
    assert!(explained.contains("How many."), "{explained}");
    let versions = cluster.ok(&["api-versions"]).await;
    assert!(versions.lines().any(|line| line == "test.example/v1"), "{versions}");
    let version = cluster.json(&["version"]).await;
    assert!(version["serverVersion"]["gitVersion"].as_str().unwrap().starts_with("v1."), "{version}");
}

#[tokio::test]
async fn cordon_drain_and_evict_work_on_nodes() {
    let cluster = Cluster::start().await;
    cluster.ready_pod("a").await;
    cluster.ok(&["drain", "n1", "--force", "--dry-run=server"]).await;
    cluster.ok(&["cordon", "n1"]).await;
    let nodes = cluster.ok(&["get", "node", "n1"]).await;
    assert!(nodes.contains("Ready,SchedulingDisabled"), "{nodes}");
    cluster.ok(&["drain", "n1", "--force"]).await;
    cluster.fails(&["get", "pod", "a"], "").await;
    cluster.ok(&["uncordon", "n1"]).await;
    let evictions = cluster.sandbox.requests();
    assert!(evictions.iter().any(|one| one.subresource.as_deref() == Some("eviction")));
}

#[tokio::test]
async fn create_replace_edit_and_diff_round_trip() {
    let cluster = Cluster::with_gadgets().await;
    let text = gadget(json!({"colour": "red"})).to_string();
    cluster.ok_with(&["create", "-f", "-"], &text).await;
    let err = cluster.fails(&["create", "-f", "-"], &text).await;
    assert!(err.contains("(AlreadyExists)"), "{err}");
    let mut stored = cluster.json(&["get", "gd", "g"]).await;
    stored["spec"]["colour"] = "blue".into();
    cluster.ok_with(&["replace", "-f", "-"], &stored.to_string()).await;
    let err = cluster.fails(&["replace", "-f", "-"], &stored.to_string()).await;
    assert!(err.contains("(Conflict)") && err.contains("the object has been modified"), "{err}");
    cluster
        .ok_with(&["apply", "--dry-run=server", "-f", "-"], &gadget(json!({"colour": "green"})).to_string())
        .await;
    assert_eq!(cluster.json(&["get", "gd", "g"]).await["spec"]["colour"], "blue");
    cluster.ok(&["get", "events"]).await;
}
