//! `kubectl apply --server-side`.

use ordereddeployment_sandbox::Config;
use serde_json::{Value, json};

use super::{Cluster, gadget};
use crate::common::pod_value;

const APPLY: [&str; 4] = ["apply", "--server-side", "-f", "-"];

async fn tracking() -> Cluster {
    let config = Config { managed_fields: true, ..Config::default() };
    Cluster::start_with(config).await.define_gadgets().await
}

async fn stored(cluster: &Cluster) -> Value {
    cluster.json(&["get", "gd", "g", "--show-managed-fields"]).await
}

/// Manager, operation and subresource of each entry, sorted.
fn managers(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let mut managers: Vec<String> = entries
        .map(|entry| {
            ["manager", "operation", "subresource"].map(|key| text(entry, key)).join(" ").trim().to_owned()
        })
        .collect();
    managers.sort();
    managers
}

#[tokio::test]
async fn a_conflict_is_explained_and_can_be_forced() {
    let cluster = tracking().await;
    let red = gadget(json!({"colour": "red", "limit": 9})).to_string();
    let applied = "gadget.test.example/g serverside-applied\n";
    assert_eq!(cluster.ok_with(&APPLY, &red).await, applied);
    let first = stored(&cluster).await;
    assert_eq!(cluster.ok_with(&APPLY, &red).await, applied);
    assert_eq!(stored(&cluster).await, first, "nothing changes the second time");
    let blue = gadget(json!({"colour": "blue"})).to_string();
    let other = [&APPLY[..], &["--field-manager", "other"]].concat();
    let err = cluster.fails(&other, &blue).await;
    let wanted = "error: Apply failed with 1 conflict: conflict with \"kubectl\": .spec.colour\n";
    assert!(err.starts_with(wanted), "{err}");
    cluster.ok_with(&[&other[..], &["--force-conflicts"]].concat(), &blue).await;
    // kubectl keeps what is now the other manager's, and removes what it no longer applies.
    cluster.ok_with(&APPLY, &gadget(json!({"replicas": 2})).to_string()).await;
    let object = stored(&cluster).await;
    assert_eq!(object["spec"], json!({"colour": "blue", "replicas": 2}));
    assert_eq!(managers(&object), ["kubectl Apply", "other Apply"]);
}

#[tokio::test]
async fn a_diff_shows_what_an_apply_would_change() {
    let cluster = tracking().await;
    cluster.ok_with(&APPLY, &gadget(json!({"colour": "red"})).to_string()).await;
    let before = stored(&cluster).await;
    let output = cluster
        .run(&["diff", "--server-side", "-f", "-"], &gadget(json!({"colour": "blue"})).to_string())
        .await;
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    // `diff` needs a program of that name, which minimal machines lack.
    if output.status.code() == Some(1) && !shown.is_empty() {
        assert!(shown.contains("-  colour: red") && shown.contains("+  colour: blue"), "{shown}");
    }
    assert_eq!(stored(&cluster).await, before);
}

#[tokio::test]
async fn an_object_moves_from_client_side_to_server_side_apply() {
    let cluster = tracking().await;
    cluster.apply(&gadget(json!({"colour": "red", "limit": 9}))).await;
    assert_eq!(managers(&stored(&cluster).await), ["kubectl-client-side-apply Update"]);
    // Another value, and a field less: kubectl owns both without a conflict, because it applied them before.
    cluster.ok_with(&APPLY, &gadget(json!({"colour": "blue"})).to_string()).await;
    let object = stored(&cluster).await;
    assert_eq!(object["spec"], json!({"colour": "blue", "replicas": 1}));
    let left = managers(&object);
    assert!(left.contains(&"kubectl Apply".to_owned()), "{left:?}");
    assert!(!left.contains(&"kubectl-client-side-apply Update".to_owned()), "{left:?}");
    // The annotation follows, so client-side apply knows what to remove.
    cluster.apply(&gadget(json!({"limit": 3}))).await;
    assert_eq!(stored(&cluster).await["spec"], json!({"limit": 3, "replicas": 1}));
}

#[tokio::test]
async fn scaling_takes_the_replicas_from_the_applier() {
    let cluster = tracking().await;
    let config = gadget(json!({"replicas": 2})).to_string();
    cluster.ok_with(&APPLY, &config).await;
    cluster.ok(&["scale", "gd", "g", "--replicas=5"]).await;
    let err = cluster.fails(&APPLY, &config).await;
    let wanted = "conflict with \"kubectl\" with subresource \"scale\" using test.example/v1: .spec.replicas";
    assert!(err.contains(wanted), "{err}");
}

#[tokio::test]
async fn pods_and_their_status_can_be_applied() {
    let cluster = tracking().await;
    let pod = pod_value("a", json!({"app": "web"}));
    assert_eq!(cluster.ok_with(&APPLY, &pod.to_string()).await, "pod/a serverside-applied\n");
    cluster.ok(&["wait", "--for=condition=Ready", "--timeout=60s", "pod/a"]).await;
    let status = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "status": {"conditions": [{"type": "test.example/mine", "status": "True"}]}});
    let arguments = [&APPLY[..], &["--subresource=status", "--field-manager=mine"]].concat();
    cluster.ok_with(&arguments, &status.to_string()).await;
    let stored = cluster.json(&["get", "pod", "a", "--show-managed-fields"]).await;
    let conditions = stored["status"]["conditions"].as_array().unwrap();
    assert!(conditions.iter().any(|one| one["type"] == "test.example/mine"), "{conditions:?}");
    assert!(conditions.iter().any(|one| one["type"] == "Ready"), "{conditions:?}");
    assert!(managers(&stored).contains(&"mine Apply status".to_owned()));
}
