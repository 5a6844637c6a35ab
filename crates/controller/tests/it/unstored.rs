//! An API server with CRDs older than the controller drops unknown fields of a status.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use ordereddeployment_api::names::{annotation, condition, reason};
use serde_json::{Value, json};

use crate::cluster::Cluster;

const NAME: &str = "ordereddeployments.ordereddeployment.io";

/// Changes the schema of the status.
async fn status_schema(cluster: &Cluster, change: impl Fn(&mut Value)) {
    let api: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let mut crd = serde_json::to_value(api.get(NAME).await.unwrap()).unwrap();
    let fields = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties";
    change(crd.pointer_mut(fields).unwrap());
    let crd = serde_json::from_value(crd).unwrap();
    api.replace(NAME, &PostParams::default(), &crd).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_server_drops_stalls_the_rollout_until_the_crd_is_updated() {
    let (cluster, pods) = Cluster::with_pods(4).await;
    let hold = std::sync::Mutex::new(Value::Null);
    status_schema(&cluster, |fields| {
        *hold.lock().unwrap() = fields.as_object_mut().unwrap().remove("hold").unwrap();
    })
    .await;
    cluster.prioritise(&pods[1], 9).await;
    cluster.annotate(&pods[1], annotation::PAUSE_POINT, "before").await;
    let mark = cluster.mark();
    cluster.set_image("web:2").await;
    cluster.pass(Duration::from_secs(300)).await;
    let view = cluster.view().await;
    let (why, message) = view.why(condition::STALLED).unwrap();
    assert_eq!(why, reason::STATUS_NOT_STORED);
    assert!(message.contains("status.hold") && message.contains("CRDs"), "{message}");
    assert_eq!(cluster.events_of(reason::STATUS_NOT_STORED).await.len(), 1);
    let writes = cluster.asked(mark, "patch", "ordereddeployments").len();
    assert!(writes < 60, "{writes}");
    assert_eq!(cluster.deleted(mark), Vec::<String>::new());

    let hold = hold.into_inner().unwrap();
    status_schema(&cluster, |fields| fields["hold"] = hold.clone()).await;
    let view = cluster
        .until("it is held", |view| view.status().hold.is_some() && view.why(condition::STALLED).is_none())
        .await;
    assert_eq!(view.status().hold.unwrap().pod, pods[1]);
}

#[tokio::test(start_paused = true)]
async fn a_count_that_the_server_drops_is_reported_and_pods_are_kept() {
    let cluster = Cluster::start().await;
    status_schema(&cluster, |fields| _ = fields.as_object_mut().unwrap().remove("terminatingReplicas")).await;
    let mark = cluster.mark();
    cluster.deploy(json!({"replicas": 3})).await;
    cluster.pass(Duration::from_secs(300)).await;
    let view = cluster.view().await;
    assert_eq!(view.available(), 3);
    let (why, message) = view.why(condition::STALLED).unwrap();
    assert_eq!(why, reason::STATUS_NOT_STORED);
    assert!(message.contains("status.terminatingReplicas"), "{message}");
    let writes = cluster.asked(mark, "patch", "ordereddeployments").len();
    assert!(writes < 80, "{writes}");
}
