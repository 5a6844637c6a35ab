//! Real kubectl against the sandbox, over TLS on loopback: the commands of users and their output.

use std::net::SocketAddr;
use std::process::Stdio;

use ordereddeployment_sandbox::{Config, Sandbox};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::common::{gadget_definition_value, pod_value};

/// A sandbox with a kubeconfig.
struct Cluster {
    sandbox: Sandbox,
    home: TempDir,
}

impl Cluster {
    async fn start() -> Self {
        let sandbox = Sandbox::start(Config::default()).await.unwrap();
        let endpoint = sandbox.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("config"), endpoint.kubeconfig).unwrap();
        Self { sandbox, home }
    }

    async fn with_gadgets() -> Self {
        let cluster = Self::start().await;
        cluster.apply(&gadget_definition_value()).await;
        cluster.ok(&["wait", "--for=condition=Established", "crd/gadgets.test.example"]).await;
        cluster
    }

    /// The program in `KUBECTL`, else the first kubectl in the PATH.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into()));
        command
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("KUBECONFIG", self.home.path().join("config"))
            .env("HOME", self.home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Whether it succeeds, and what it prints.
    async fn run(&self, arguments: &[&str], input: &str) -> (bool, String, String) {
        let mut child = self.command(arguments).spawn().expect("kubectl in PATH or KUBECTL, 1.27 or later");
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    }

    /// The standard output of a command that must succeed.
    async fn ok(&self, arguments: &[&str]) -> String {
        self.ok_with(arguments, "").await
    }

    async fn ok_with(&self, arguments: &[&str], input: &str) -> String {
        let (succeeded, out, err) = self.run(arguments, input).await;
        assert!(succeeded, "kubectl {arguments:?} failed: {out}{err}");
        out
    }

    /// The standard error of a command that must fail.
    async fn fails(&self, arguments: &[&str], input: &str) -> String {
        let (succeeded, out, err) = self.run(arguments, input).await;
        assert!(!succeeded, "kubectl {arguments:?} succeeded: {out}");
        err
    }

    async fn apply(&self, object: &Value) -> String {
        self.ok_with(&["apply", "-f", "-"], &object.to_string()).await
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(&[arguments, &["-o", "json"]].concat()).await).unwrap()
    }

    async fn ready_pod(&self, name: &str) {
        self.apply(&pod_value(name, json!({"app": "web"}))).await;
        self.ok(&["wait", "--for=condition=Ready", "--timeout=60s", &format!("pod/{name}")]).await;
    }
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
    assert_eq!(cluster.apply(&pod_value("a", json!({"app": "web"}))).await, "pod/a unchanged\n");
    let table = cluster.ok(&["get", "pods"]).await;
    let lines = words(&table);
    assert_eq!(lines[0], ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    assert_eq!(lines[1][..4], ["a", "1/1", "Running", "0"]);
    let wide = cluster.ok(&["get", "pods", "-o", "wide"]).await;
    assert!(words(&wide)[0].contains(&"NODE") && words(&wide)[1].contains(&"n1"), "{wide}");
    let pod = squeezed(&cluster.ok(&["describe", "pod", "a"]).await);
    for part in ["Node: n1/", "Status: Running", "ContainersReady True"] {
        assert!(pod.contains(part), "{part} is missing in {pod}");
    }
    let node = squeezed(&cluster.ok(&["describe", "node", "n1"]).await);
    assert!(node.contains("node.usage=inference") && node.contains("default a 0 (0%)"), "{node}");
    let nodes = cluster.ok(&["get", "nodes", "-L", "node.usage"]).await;
    assert_eq!(words(&nodes).len(), 7);
    assert!(words(&nodes)[1].contains(&"Ready") && nodes.contains("inference"), "{nodes}");
    let all = cluster.ok(&["get", "all", "-A"]).await;
    assert!(all.contains("pod/a"), "{all}");
}

#[tokio::test]
async fn a_custom_resource_is_applied_shown_in_its_own_columns_and_scaled() {
    let cluster = Cluster::with_gadgets().await;
    assert_eq!(cluster.apply(&gadget(json!({"colour": "red"}))).await, "gadget.test.example/g created\n");
    assert_eq!(cluster.apply(&gadget(json!({"colour": "red"}))).await, "gadget.test.example/g unchanged\n");
    assert_eq!(cluster.apply(&gadget(json!({"colour": "blue"}))).await, "gadget.test.example/g configured\n");
    let table = cluster.ok(&["get", "gd"]).await;
    assert_eq!(words(&table)[0][..3], ["NAME", "WANTED", "COLOUR"]);
    assert_eq!(words(&table)[1][..3], ["g", "1", "blue"]);
    let all = cluster.ok(&["get", "all"]).await;
    assert!(all.contains("gadget.test.example/g"), "{all}");
    let gadget = squeezed(&cluster.ok(&["describe", "gd", "g"]).await);
    assert!(gadget.contains("Colour: blue"), "{gadget}");

    assert_eq!(cluster.ok(&["scale", "gd", "g", "--replicas=5"]).await, "gadget.test.example/g scaled\n");
    cluster.ok(&["scale", "gd", "g", "--replicas=6", "--current-replicas=5"]).await;
    assert_eq!(cluster.json(&["get", "gd", "g"]).await["spec"]["replicas"], 6);
    let err = cluster.fails(&["scale", "gd", "g", "--replicas=7", "--current-replicas=5"], "").await;
    assert!(err.contains("Expected replicas to be 5, was 6"), "{err}");
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
async fn requests_need_the_token_no_other_user_and_loopback() {
    let cluster = Cluster::start().await;
    let err = cluster.fails(&["--token=wrong", "get", "pods"], "").await;
    assert!(err.contains("Unauthorized") || err.contains("must be logged in"), "{err}");
    for acting in [&["--as=jane"][..], &["--as=jane", "--as-group=dev"]] {
        let err = cluster.fails(&[acting, &["get", "pods"]].concat(), "").await;
        assert!(err.contains("the sandbox has no users and no roles: use a real cluster"), "{err}");
    }
    let refused = cluster.sandbox.listen(SocketAddr::from(([0, 0, 0, 0], 0))).await.unwrap_err();
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
    let green = gadget(json!({"colour": "green"})).to_string();
    cluster.ok_with(&["apply", "--dry-run=server", "-f", "-"], &green).await;
    assert_eq!(cluster.json(&["get", "gd", "g"]).await["spec"]["colour"], "blue");
    cluster.ok(&["get", "events"]).await;
}
