//! A model of the Deployment and ReplicaSet controllers of kube-controller-manager. Its cache of pods is
//! stale: each round uses the pods of the previous round, and creates pods for those that it does not see.

use std::time::Duration;

use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::commands::adopt::convert::same_template;
use crate::commands::adopt::objects::{
    Kind, controller, is_controlled_by, is_finished, is_paused, is_terminating, number,
};

/// The User-Agent of its requests.
pub(super) const AGENT: &str = "built-in";
const ROUND: Duration = Duration::from_millis(130);

/// Runs forever.
pub(super) async fn run(client: Client) {
    let mut observed_pods = Vec::new();
    loop {
        let sets = list(&client, Kind::ReplicaSet).await;
        for set in &sets {
            replica_set(&client, set, &observed_pods).await;
        }
        for deployment in list(&client, Kind::Deployment).await {
            self::deployment(&client, &deployment, &sets).await;
        }
        observed_pods = list(&client, Kind::Pod).await;
        tokio::time::sleep(ROUND).await;
    }
}

async fn list(client: &Client, kind: Kind) -> Vec<DynamicObject> {
    kind.api(client, "default").list(&ListParams::default()).await.unwrap().items
}

fn matches(owner: &DynamicObject, object: &DynamicObject) -> bool {
    let wanted = owner.data["spec"]["selector"]["matchLabels"].as_object().unwrap();
    wanted.iter().all(|(key, value)| object.labels().get(key).map(String::as_str) == value.as_str())
}

async fn adopt(client: &Client, kind: Kind, object: &DynamicObject, owner: &DynamicObject, of: &str) -> bool {
    let owner = json!({"apiVersion": "apps/v1", "kind": of, "name": owner.name_any(), "uid": owner.uid(),
                       "controller": true, "blockOwnerDeletion": true});
    let patch = json!({"metadata": {"uid": object.uid(), "resourceVersion": object.resource_version(),
                                    "ownerReferences": [owner]}});
    self::patch(client, kind, object, patch).await
}

/// Whether the object is patched.
async fn patch(client: &Client, kind: Kind, object: &DynamicObject, patch: Value) -> bool {
    let api = kind.api(client, "default");
    api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.is_ok()
}

async fn replica_set(client: &Client, set: &DynamicObject, pods: &[DynamicObject]) {
    let active = pods.iter().filter(|pod| !is_terminating(pod) && !is_finished(pod) && matches(set, pod));
    let mut own: Vec<&DynamicObject> = Vec::new();
    for pod in active {
        if is_controlled_by(pod, set) {
            own.push(pod);
        } else if controller(pod).is_none() && !is_terminating(set) {
            if !adopt(client, Kind::Pod, pod, set, "ReplicaSet").await {
                // As in Kubernetes: a failed adoption ends the reconcile.
                return;
            }
            own.push(pod);
        }
    }
    let wanted = usize::try_from(number(set, "/spec/replicas")).unwrap();
    if !is_terminating(set) {
        for _ in own.len()..wanted {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "generateName": format!("{}-", set.name_any()),
                    "labels": set.data["spec"]["template"]["metadata"]["labels"],
                    "finalizers": set.data["spec"]["template"]["metadata"]["finalizers"],
                    "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet",
                    "name": set.name_any(),
                                         "uid": set.uid(), "controller": true, "blockOwnerDeletion": true}],
                },
                "spec": set.data["spec"]["template"]["spec"],
            });
            let pod = serde_json::from_value(pod).unwrap();
            if Kind::Pod.api(client, "default").create(&PostParams::default(), &pod).await.is_err() {
                break;
            }
        }
        for pod in own.iter().skip(wanted) {
            let same = Preconditions { uid: pod.uid(), resource_version: None };
            let params = DeleteParams::default().preconditions(same);
            drop(Kind::Pod.api(client, "default").delete(&pod.name_any(), &params).await);
        }
    }
    let status = json!({"replicas": own.len(), "observedGeneration": set.metadata.generation});
    report(client, Kind::ReplicaSet, set, status).await;
}

async fn deployment(client: &Client, deployment: &DynamicObject, sets: &[DynamicObject]) {
    let mut own = Vec::new();
    for set in sets.iter().filter(|set| matches(deployment, set)) {
        let free = controller(set).is_none() && !is_terminating(set) && !is_terminating(deployment);
        if is_controlled_by(set, deployment)
            || (free && adopt(client, Kind::ReplicaSet, set, deployment, "Deployment").await)
        {
            own.push(set);
        }
    }
    let newest = own.iter().find(|set| same_template(set, deployment));
    if let Some(set) = newest.filter(|set| !is_terminating(set)) {
        copy_annotations(client, deployment, set).await;
    }
    let wanted = number(deployment, "/spec/replicas");
    if !is_terminating(deployment) {
        match newest {
            Some(set) if number(set, "/spec/replicas") != wanted && !is_terminating(set) => {
                patch(client, Kind::ReplicaSet, set, json!({"spec": {"replicas": wanted}})).await;
            }
            None if !is_paused(deployment) => create_set(client, deployment).await,
            _ => {}
        }
    }
    let updated = newest.map_or(0, |set| number(set, "/status/replicas"));
    let status = json!({"observedGeneration": deployment.metadata.generation, "updatedReplicas": updated,
                        "replicas": own.iter().map(|set| number(set, "/status/replicas")).sum::<i64>()});
    report(client, Kind::Deployment, deployment, status).await;
}

/// Copies annotations in each round, as in Kubernetes.
async fn copy_annotations(client: &Client, deployment: &DynamicObject, set: &DynamicObject) {
    let own =
        |key: &str| key.starts_with("deployment.kubernetes.io/") || key.starts_with("kubectl.kubernetes.io/");
    let mut copied = deployment.annotations().clone();
    copied.retain(|key, value| !own(key) && set.annotations().get(key) != Some(value));
    if !copied.is_empty() {
        patch(client, Kind::ReplicaSet, set, json!({"metadata": {"annotations": copied}})).await;
    }
}

async fn create_set(client: &Client, deployment: &DynamicObject) {
    let hash = format!("{:x}", deployment.data["spec"]["template"].to_string().len());
    let mut spec = json!({"replicas": deployment.data["spec"]["replicas"],
        "selector": deployment.data["spec"]["selector"],
                          "template": deployment.data["spec"]["template"]});
    spec["selector"]["matchLabels"]["pod-template-hash"] = hash.clone().into();
    spec["template"]["metadata"]["labels"]["pod-template-hash"] = hash.clone().into();
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": format!("{}-{hash}", deployment.name_any()),
            "labels": spec["template"]["metadata"]["labels"],
            "annotations": {"deployment.kubernetes.io/revision": "1"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment.name_any(),
                                 "uid": deployment.uid(), "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": spec,
    });
    let set = serde_json::from_value(set).unwrap();
    drop(Kind::ReplicaSet.api(client, "default").create(&PostParams::default(), &set).await);
}

async fn report(client: &Client, kind: Kind, object: &DynamicObject, status: Value) {
    let same = |key: &str| object.data.pointer(&format!("/status/{key}")) == status.get(key);
    if ["replicas", "updatedReplicas", "observedGeneration"].into_iter().all(same) {
        return;
    }
    let patch = Patch::Merge(json!({"metadata": {"uid": object.uid()}, "status": status}));
    let api = kind.api(client, "default");
    drop(api.patch_status(&object.name_any(), &PatchParams::default(), &patch).await);
}
