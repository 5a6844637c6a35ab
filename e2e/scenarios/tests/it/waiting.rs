//! What waiting clients see of an object, and which commands and tools for Deployments work on an
//! OrderedDeployment (`docs/gitops.md`).

use std::path::Path;

use scenarios::{Kubectl, Server, TestCluster, on_both, side_by_side};
use serde_json::{Value, json};

/// The result of `kubectl wait` within a second.
async fn at_once(cluster: &TestCluster, condition: &str) -> Result<String, String> {
    let condition = format!("--for=condition={condition}");
    let answer = cluster.kubectl.run(&["wait", "od/web", &condition, "--timeout=1s"]).await;
    answer.map_err(|error| error.to_string())
}

async fn observed(cluster: &TestCluster) -> String {
    cluster.kubectl.run(&["get", "od", "web", "-o", "jsonpath={.status.observedGeneration}"]).await.unwrap()
}

async fn waiting_clients_ignore_the_status_of_an_older_spec(server: Server) {
    let cluster = TestCluster::start(server).await.unwrap();
    cluster.apply(&json!({})).await.unwrap();
    assert_eq!(observed(&cluster).await, "-1", "no controller has observed it");
    assert!(at_once(&cluster, "Complete").await.is_err());
    let manager = cluster.start_manager().unwrap();
    cluster.complete("web", 6).await.unwrap();
    for condition in
        ["Available", "Progressing", "Complete", "Held=false", "Stalled=false", "Reconciling=false"]
    {
        at_once(&cluster, condition).await.unwrap();
    }
    drop(manager);
    cluster.set_image("web:2").await.unwrap();
    let late = at_once(&cluster, "Complete").await.unwrap_err();
    assert!(late.contains("timed out"), "{late}");
    let _manager = cluster.start_manager().unwrap();
    cluster.kubectl.run(&["wait", "od/web", "--for=condition=Complete", "--timeout=120s"]).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 6);
}

on_both!(waiting_clients_ignore_the_status_of_an_older_spec);

/// Commands that work on a Deployment and on the OrderedDeployment of the namespace.
const WORK: &[&[&str]] = &[
    &["get", "all"],
    &["describe", "od", "web"],
    &["events", "--for", "od/web"],
    &["explain", "od.spec.deletionOrder.nodePriorities"],
    &["label", "od", "web", "tier=front"],
    &["annotate", "od", "web", "kubernetes.io/change-cause=none"],
    &["patch", "od", "web", "--type=merge", "-p", r#"{"spec":{"minReadySeconds":1}}"#],
    &["patch", "od", "web", "--type=json", "-p", r#"[{"op":"remove","path":"/spec/minReadySeconds"}]"#],
    &["scale", "od/web", "--replicas=5"],
    &["wait", "od/web", "--for=condition=Complete", "--timeout=60s"],
    &["delete", "od", "web", "--wait"],
];

/// Commands that kubectl rejects, since it has a built-in list of their kinds.
const REFUSED: &[&[&str]] = &[
    &["rollout", "status", "od/web"],
    &["rollout", "restart", "od/web"],
    &["rollout", "history", "od/web"],
    &["rollout", "undo", "od/web"],
    &["rollout", "pause", "od/web"],
    &["rollout", "resume", "od/web"],
    &["set", "image", "od/web", "web=web:2"],
    &["set", "env", "od/web", "A=b"],
    &["set", "resources", "od/web", "--limits=cpu=1"],
    &["set", "serviceaccount", "od/web", "default"],
    &["logs", "od/web"],
    &["exec", "od/web", "--", "date"],
    &["attach", "od/web"],
    &["port-forward", "od/web", "8080:80"],
    &["expose", "od/web", "--port=80"],
    &["patch", "od", "web", "-p", r#"{"spec":{"replicas":9}}"#],
];

async fn kubectl_does_what_the_documentation_says(cluster: TestCluster) {
    cluster.deployed(&json!({})).await.unwrap();
    for command in REFUSED {
        let refusal = cluster.kubectl.run(command).await.unwrap_err().to_string();
        let known = ["no kind \"OrderedDeployment\"", "strategic-merge-patch+json is not supported"];
        assert!(known.iter().any(|words| refusal.contains(words)), "{refusal}");
    }
    for command in WORK {
        cluster.kubectl.run(command).await.unwrap();
    }
}

side_by_side!(scenarios::Setting::default(); kubectl_does_what_the_documentation_says);

fn kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects.iter().find(|object| object["kind"] == kind).unwrap()
}

#[tokio::test]
async fn kustomize_treats_the_kind_as_it_treats_a_deployment() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/kustomize");
    let built = Kubectl::new(Path::new("/dev/null")).run(&["kustomize", folder]).await.unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&built).unwrap();
    let web = kind(&objects, "OrderedDeployment");
    let name = |kind_: &str| kind(&objects, kind_)["metadata"]["name"].clone();
    assert_eq!(web["metadata"]["name"], "blue-web");
    assert_eq!(web["spec"]["replicas"], 7);
    assert_eq!(web["spec"]["selector"]["matchLabels"], json!({"app": "web", "team": "shop"}));
    assert_eq!(web["spec"]["template"]["metadata"]["labels"], json!({"app": "web", "team": "shop"}));
    let pod = &web["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], name("ServiceAccount"));
    assert_eq!(pod["containers"][0]["image"], "nginx:1.29");
    assert_eq!(pod["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(pod["containers"][0]["envFrom"][0]["configMapRef"]["name"], name("ConfigMap"));
    assert_eq!(pod["initContainers"][0]["image"], "nginx:1.29");
    assert_eq!(pod["initContainers"][0]["env"][0]["valueFrom"]["secretKeyRef"]["name"], name("Secret"));
    assert_eq!(pod["volumes"][0]["secret"]["secretName"], name("Secret"));
    assert_eq!(kind(&objects, "HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"], "blue-web");
}
