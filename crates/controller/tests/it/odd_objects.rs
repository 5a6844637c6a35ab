//! Objects that no client should write and every client can: none of them hides the others. And API servers
//! with older CRDs, which drop fields of a status.

use std::time::Duration;

use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt};
use ordereddeployment_api::names::{annotation, condition, reason};
use serde_json::{Value, json};

use crate::cluster::{Cluster, spec_of};

/// The objects of that kind, whatever is in them.
fn raw(cluster: &Cluster, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("ordereddeployment.io", "v1alpha1", kind);
    Api::default_namespaced_with(cluster.client.clone(), &ApiResource::from_gvk(&kind))
}

fn another(kind: &str, name: &str, deep: &Value) -> DynamicObject {
    let mut spec = spec_of(name, "web:1", 0);
    spec["template"]["spec"]["containers"][0]["future"] = deep.clone();
    let api_version = "ordereddeployment.io/v1alpha1";
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
    serde_json::from_value(object).unwrap()
}

const DEPLOYMENT: &str = "OrderedDeployment";
const SET: &str = "OrderedReplicaSet";

#[tokio::test(start_paused = true)]
async fn a_status_with_times_out_of_range_stops_no_other_rollout() {
    let mut cluster = Cluster::without_controller().await;
    raw(&cluster, DEPLOYMENT)
        .create(&PostParams::default(), &another(DEPLOYMENT, "odd", &json!(1)))
        .await
        .unwrap();
    let end = "9999-12-31T23:59:59Z";
    let status = json!({"status": {
        "conditions": [{"type": "Progressing", "status": "True", "reason": "x", "message": "y",
                        "lastTransitionTime": end, "lastUpdateTime": end}],
        "hold": {"id": "p@1", "pod": "p", "podUID": "u", "point": "Before", "revision": 1,
        "reason": "PausePoint",
                 "since": end, "until": end, "replicas": 1, "limit": 1},
        "passed": [{"id": "p@1", "resumedAt": end}],
    }});
    raw(&cluster, DEPLOYMENT)
        .patch_status("odd", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    cluster.start_controller();
    cluster.deployed(json!({"replicas": 3})).await;
}

#[tokio::test(start_paused = true)]
async fn a_set_that_becomes_undecodable_does_not_count_as_gone_with_its_pods() {
    let (cluster, pods) = Cluster::with_pods(4).await;
    cluster.annotate(&pods[1], annotation::PAUSE_POINT, "before").await;
    cluster.prioritise(&pods[0], 5).await;
    cluster.set_image("web:2").await;
    let view =
        cluster.until("it is held", |view| view.status().hold.is_some() && view.available() == 4).await;
    cluster.pass(Duration::from_secs(5)).await;
    let mark = cluster.mark();
    let old = view.active().into_iter().find(|pod| pod.name_any() == pods[1]).unwrap();
    let set = old.owner_references()[0].name.clone();
    let deep = (0..120).fold(json!(1), |inner, _| json!({"a": inner}));
    let patch = json!({"spec": {"template": {"spec": {"future": deep}}}});
    raw(&cluster, SET).patch(&set, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    cluster.pass(Duration::from_secs(600)).await;
    assert!(cluster.view().await.status().hold.is_some());
    assert_eq!(cluster.asked(mark, "create", "pods").len(), 0);
    assert_eq!(cluster.deleted(mark), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_undecodable_orphaned_set_blocks_no_deployment() {
    let cluster = Cluster::start().await;
    let deep = (0..120).fold(json!(1), |inner, _| json!({"a": inner}));
    let mut odd = another(SET, "odd", &deep);
    odd.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    raw(&cluster, SET).create(&PostParams::default(), &odd).await.unwrap();
    cluster.deployed(json!({"replicas": 3})).await;
}

#[tokio::test(start_paused = true)]
async fn the_largest_annotations_neither_stop_a_rollout_nor_appear_in_full_in_events() {
    let cluster = Cluster::start().await;
    let pods = cluster.deployed(json!({"replicas": 3})).await;
    let long = "٣".repeat(120 * 1024);
    for (pod, key) in
        pods.iter().zip([annotation::DELETE_PRIORITY, annotation::PAUSE_POINT, annotation::PAUSE_DURATION])
    {
        cluster.annotate(&pod.name_any(), key, long.as_str()).await;
    }
    cluster.annotate(&pods[2].name_any(), annotation::PAUSE_POINT, "before").await;
    cluster.set_image("web:2").await;
    let held = cluster.until_held().await;
    assert!(serde_json::to_string(&held.deployment.status).unwrap().len() < 4096);
    let messages = cluster.events_of(reason::MALFORMED_ANNOTATION).await;
    assert!(
        !messages.is_empty() && messages.iter().all(|message| message.len() <= 1024),
        "{}",
        messages.len()
    );
    cluster.resume(&held.status().hold.unwrap().id).await;
    cluster.until_complete().await;
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_the_server_drops_stalls_the_rollout_until_the_crd_is_updated() {
    let (cluster, pods) = Cluster::with_pods(4).await;
    let mut hold = None;
    let taken = |fields: &mut Value| {
        hold = fields["status"]["properties"].as_object_mut().unwrap().remove("hold");
    };
    cluster.change_schema(taken).await;
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

    cluster.change_schema(|fields| fields["status"]["properties"]["hold"] = hold.unwrap()).await;
    let view = cluster
        .until("it is held", |view| view.status().hold.is_some() && view.why(condition::STALLED).is_none())
        .await;
    assert_eq!(view.status().hold.unwrap().pod, pods[1]);
}

#[tokio::test(start_paused = true)]
async fn a_count_that_the_server_drops_is_reported_and_pods_are_kept() {
    let cluster = Cluster::start().await;
    let dropped = |fields: &mut Value| {
        fields["status"]["properties"].as_object_mut().unwrap().remove("terminatingReplicas");
    };
    cluster.change_schema(dropped).await;
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
