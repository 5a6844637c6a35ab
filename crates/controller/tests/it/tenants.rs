//! Tenants: objects of another namespace that claim to belong to an object of this one.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, ResourceExt};
use ordereddeployment_api::names::annotation;
use ordereddeployment_controller::Family;
use ordereddeployment_sandbox::Collector;
use serde_json::{Value, json};

use crate::cluster::{Cluster, names};

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

/// The writes of the controller while the victim's object heals, is scaled down and rolled out, and the
/// images of its pods at the end.
async fn history(family: Family, is_attacked: bool) -> Vec<String> {
    let cluster = match family {
        Family::Ordered => Cluster::start().await,
        Family::Plain => Cluster::start_with_deployments().await,
    };
    cluster.sandbox.set_collector(Collector { frozen: true, ..Collector::default() });
    let containers = |image: &str| json!({"containers": [{"name": "main", "image": image}]});
    let deployments = api(&cluster, "default", family.api_version(), family.deployment_kind());
    let spec = json!({
        "replicas": 4, "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": containers("web:1")},
    });
    let kind = json!({"apiVersion": family.api_version(), "kind": family.deployment_kind()});
    let mut object = json!({"metadata": {"name": "web"}, "spec": spec});
    object.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
    create(&deployments, object).await;
    cluster.pass(Duration::from_secs(60)).await;
    let pods = names(&cluster.all_pods().await);
    for (pod, priority) in pods.iter().zip(1..) {
        cluster.prioritise(pod, priority).await;
    }
    cluster.pass(Duration::from_secs(5)).await;
    let mark = cluster.mark();
    if is_attacked {
        attack(&cluster, family).await;
    }
    cluster.pass(Duration::from_secs(30)).await;
    cluster.delete_pod(&pods[0]).await;
    cluster.pass(Duration::from_secs(60)).await;
    for spec in [json!({"replicas": 3}), json!({"template": {"spec": containers("web:2")}})] {
        let patch = Patch::Merge(json!({"spec": spec}));
        deployments.patch("web", &PatchParams::default(), &patch).await.unwrap();
        cluster.pass(Duration::from_secs(120)).await;
    }
    let requests = cluster.sandbox.requests().into_iter().skip(mark);
    let own = requests.filter(|record| record.user_agent.starts_with("ordered-controller-manager"));
    let writes = own.filter(|record| !matches!(record.verb, "get" | "list" | "watch"));
    let writes: Vec<_> = writes.collect();
    let of_attacker =
        writes.iter().filter(|record| record.namespace.as_deref() == Some(ATTACKER)).collect::<Vec<_>>();
    assert!(of_attacker.is_empty(), "{of_attacker:#?}");
    let mut history: Vec<_> = (writes.iter().filter(|record| record.plural != "events"))
        .map(|record| {
            // The names of later pods are random.
            let place =
                pods.iter().position(|pod| record.plural == "pods" && record.name.as_ref() == Some(pod));
            format!("{} {} {place:?} {:?} {}", record.verb, record.plural, record.subresource, record.code)
        })
        .collect();
    let mut left = cluster.all_pods().await;
    left.retain(|pod| pod.metadata.deletion_timestamp.is_none());
    history.extend(left.iter().map(|pod| format!("{:?}", pod.spec.as_ref().unwrap().containers[0].image)));
    let events: Api<Event> = Api::default_namespaced(cluster.client.clone());
    let mut reasons: Vec<_> = events.list(&ListParams::default()).await.unwrap().items;
    reasons.retain(|event| event.reason.as_deref() != Some("Scheduled"));
    history.extend(reasons.iter().map(|event| format!("event {:?} {:?}", event.reason, event.count)));
    history
}

#[tokio::test(start_paused = true)]
async fn owners_forged_in_another_namespace_change_no_decision() {
    for family in [Family::Ordered, Family::Plain] {
        let (alone, attacked) = (history(family, false).await, history(family, true).await);
        assert!(alone.iter().filter(|line| line.starts_with("delete pods")).count() >= 4, "{alone:#?}");
        assert_eq!(alone, attacked);
    }
}
