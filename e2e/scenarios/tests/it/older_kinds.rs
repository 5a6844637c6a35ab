//! CRDs of an older version, whose schema drops a status field that the controller writes.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use ordereddeployment_api::names::condition;
use ordereddeployment_api::{ConditionStatus, OrderedDeployment, crds};
use scenarios::{Server, Setting, TestCluster};
use serde_json::{Value, json};

/// The CRDs, the first one without this status field.
fn without(field: &str) -> Vec<CustomResourceDefinition> {
    let mut kinds = crds();
    let kind = kinds.iter_mut().find(|kind| kind.name_any().starts_with("ordereddeployments.")).unwrap();
    let schema = kind.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
    let status = schema.properties.as_mut().unwrap().get_mut("status").unwrap();
    assert!(status.properties.as_mut().unwrap().remove(field).is_some());
    kinds
}

fn reports_lost_field(object: &OrderedDeployment, field: &str) -> bool {
    let stalled = object.status.as_ref().and_then(|status| status.condition(condition::STALLED)).cloned();
    stalled.is_some_and(|stalled| {
        stalled.status == ConditionStatus::True && stalled.message.contains(&format!("status.{field}"))
    })
}

async fn writes_of_the_status(cluster: &TestCluster) -> usize {
    let requests = cluster.requests().await.unwrap();
    let counts = |one: &&scenarios::Request| {
        one.by_the_controller()
            && one.plural == "ordereddeployments"
            && one.subresource.as_deref() == Some("status")
            && one.namespace.as_deref() == Some(&cluster.namespace)
    };
    requests.iter().filter(counts).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_status_field_is_reported_and_rarely_written_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let setting = Setting { definitions: without("hold"), faults: true, ..Setting::default() };
    let cluster =
        TestCluster::with(Server::Real, setting).await.unwrap().with_timeout(Duration::from_secs(90));
    let _manager = cluster.start_manager().unwrap();
    let elsewhere = cluster.apart("elsewhere").await.unwrap();
    elsewhere.deployed(&json!({})).await.unwrap();
    let pods = cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    cluster.pause_at(&pods[0], "before").await.unwrap();
    cluster.prioritise(&pods[0], 1).await.unwrap();
    cluster.set_image("web:2").await.unwrap();
    cluster.until("web", "reporting the error", |object| reports_lost_field(object, "hold")).await.unwrap();
    for image in ["web:2", "web:3"] {
        elsewhere.set_image(image).await.unwrap();
        elsewhere.complete("web", 6).await.unwrap();
    }
    let writes = writes_of_the_status(&cluster).await;
    println!("{writes} writes of the status");
    assert!(writes < 40, "{writes} writes of the status");
    assert_eq!(cluster.deleted().await.unwrap(), Vec::<String>::new());

    // With the current CRDs the rollout continues.
    let kinds: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    for kind in crds() {
        let newer: Value = json!({"spec": kind.spec});
        kinds.patch(&kind.name_any(), &PatchParams::default(), &Patch::Merge(&newer)).await.unwrap();
    }
    let hold = cluster.held("web").await.unwrap().status.unwrap().hold.unwrap();
    assert_eq!(hold.pod, pods[0]);
    // For a moment the watches of the API server still use the old schema.
    cluster.resume().await.unwrap();
    cluster.complete("web", 3).await.unwrap();
}
