//! Tenants: objects of another namespace that claim to belong to an object of this one.

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams};
use kube::{Api, ResourceExt};
use ordereddeployment_api::names::annotation;
use ordereddeployment_controller::Family;
use serde_json::{Value, json};

use crate::cluster::Cluster;

/// The namespace of the other tenant.
pub const ATTACKER: &str = "attacker";

/// The objects of this kind in this namespace.
fn api(cluster: &Cluster, namespace: &str, api_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(cluster.client.clone(), namespace, &resource)
}

async fn create(api: &Api<DynamicObject>, object: Value) -> Option<String> {
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap().uid()
}

/// Forges pods and sets of every shape in a new namespace, with the UIDs of the victim's set and of its
/// deployment.
pub async fn attack(cluster: &Cluster, family: Family) {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": ATTACKER}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let (group, set_kind) = (family.api_version(), family.set_kind());
    let owner = |kind: &str, name: &str, uid: &Option<String>| {
        json!([{"apiVersion": group, "kind": kind,
        "name": name, "uid": uid, "controller": true}])
    };
    let victim = &cluster.all_pods().await[0];
    let (labels, set) = (victim.labels(), &victim.owner_references()[0]);
    let deployment = api(cluster, "default", group, family.deployment_kind()).get("web").await.unwrap().uid();
    let pod = json!({"containers": [{"name": "main", "image": "attacker:1"}]});
    let sets = api(cluster, ATTACKER, group, set_kind);
    let mut owners = vec![(set.name.clone(), Some(set.uid.clone()))];
    // A set with the name of the victim's, one with another, and one that is being deleted.
    for (name, finalizers) in
        [(&*set.name, json!([])), ("a", json!([])), ("gone", json!(["example.com/stay"]))]
    {
        let object = json!({
            "apiVersion": group, "kind": set_kind,
            "metadata": {
                "name": name, "labels": labels, "finalizers": finalizers,
                "annotations": {annotation::DEPLOYMENT_REVISION: "9"},
                "ownerReferences": owner(family.deployment_kind(), "web", &deployment),
            },
            "spec": {
                "replicas": 9, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        });
        owners.push((name.to_owned(), create(&sets, object).await));
    }
    sets.delete("gone", &DeleteParams::default()).await.unwrap();
    let pods = api(cluster, ATTACKER, "v1", "Pod");
    for (number, (name, uid)) in owners.into_iter().enumerate() {
        for (priority, point) in [("-1000", "before"), ("1000", "after"), ("x;y", "z")] {
            let metadata = json!({
                "generateName": format!("forged-{number}-"), "labels": labels,
                "annotations": {annotation::DELETE_PRIORITY: priority, annotation::PAUSE_POINT: point},
                "ownerReferences": owner(set_kind, &name, &uid),
            });
            create(&pods, json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}))
                .await;
        }
    }
    // An orphan that the victim's selector matches.
    let metadata = json!({"name": "orphan", "labels": labels});
    create(&pods, json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod})).await;
}
