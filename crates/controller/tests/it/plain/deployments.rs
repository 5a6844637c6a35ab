//! The Deployment controller: it creates ReplicaSets and sets their sizes. It has no pods.
//!
//! It is not complete: it adopts nothing, deletes no old ReplicaSets, copies no annotations, and has no
//! conditions. `Recreate` does not wait for terminating pods.

mod sizes;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use futures::future::Either;
use futures::{StreamExt, stream};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use ordereddeployment_sandbox::agents::{Cache, RETRY, burst, watch};
use serde_json::{Value, json};

use sizes::{DESIRED, Sets, changes};

const HASH: &str = "pod-template-hash";
const REVISION: &str = "deployment.kubernetes.io/revision";

/// Runs until the process or the task ends.
pub async fn run(client: Client) {
    let (mut deployments, mut sets) = (Cache::<Deployment>::default(), Cache::<ReplicaSet>::default());
    let watched = watch(Api::<Deployment>::all(client.clone())).map(Either::Left);
    let watched_sets = watch(Api::<ReplicaSet>::all(client.clone())).map(Either::Right);
    let mut events = stream::select(watched, watched_sets);
    let mut wait = Duration::MAX;
    while let Some(batch) = burst(&mut events, wait).await {
        for event in batch {
            match event {
                Either::Left(event) => deployments.apply(event),
                Either::Right(event) => sets.apply(event),
            }
        }
        wait = Duration::MAX;
        if !deployments.synced || !sets.synced {
            continue;
        }
        for deployment in deployments.objects.values() {
            match sync(&client, deployment, &sets).await {
                Ok(()) => {}
                // The watch delivers the newer version.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
                Err(error) => {
                    tracing::debug!(%error, "cannot reconcile a Deployment");
                    wait = RETRY;
                }
            }
        }
    }
}

/// One step: the sizes, or the status if they are as they should be.
async fn sync(client: &Client, deployment: &Deployment, all: &Cache<ReplicaSet>) -> kube::Result<()> {
    if deployment.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let namespace = deployment.namespace().unwrap_or_default();
    let api: Api<ReplicaSet> = Api::namespaced(client.clone(), &namespace);
    let sets = sets_of(deployment, all);
    let newest = sets.old.iter().copied().map(revision).max().unwrap_or(0);
    let number = sets.new.map_or(0, revision).max(newest + i64::from(!sets.old.is_empty())).max(1);
    if let Some(set) = sets.new.filter(|set| revision(set) < number) {
        let patch = json!({"metadata": {
            "resourceVersion": set.metadata.resource_version, "annotations": {REVISION: number.to_string()},
        }});
        // The watch delivers the newer version.
        return api.patch(&set.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.map(drop);
    }
    let desired = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1).to_string();
    for (set, size) in changes(deployment, &sets) {
        let Some(set) = set else {
            api.create(&PostParams::default(), &new_set(deployment, number, size, &desired)).await?;
            continue;
        };
        let patch = json!({
            // Requires the version that was read.
            "metadata": {"resourceVersion": set.metadata.resource_version, "annotations": {DESIRED: desired}},
            "spec": {"replicas": size},
        });
        api.patch(&set.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    report(client, deployment, &sets, number).await
}

/// The sets of this Deployment. The new one has its template.
fn sets_of<'a>(deployment: &Deployment, all: &'a Cache<ReplicaSet>) -> Sets<'a> {
    let uid = deployment.metadata.uid.as_deref();
    let is_own = |set: &&ReplicaSet| {
        set.owner_references()
            .iter()
            .any(|owner| owner.controller == Some(true) && Some(owner.uid.as_str()) == uid)
    };
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let mut own: Vec<&ReplicaSet> =
        all.objects.values().filter(is_own).filter(|set| set.namespace() == deployment.namespace()).collect();
    own.sort_by_key(|set| (set.creation_timestamp(), set.name_any()));
    let has_template = |set: &&ReplicaSet| {
        let of_set = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
        of_set.map(without_hash) == template.map(without_hash)
    };
    let new = own.iter().copied().find(has_template);
    let old = own.into_iter().filter(|set| new.is_none_or(|new| new.uid() != set.uid())).collect();
    Sets { new, old }
}

fn without_hash(template: &PodTemplateSpec) -> PodTemplateSpec {
    let mut template = template.clone();
    if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(HASH);
    }
    template
}

fn revision(set: &ReplicaSet) -> i64 {
    set.annotations().get(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn new_set(deployment: &Deployment, number: i64, size: i64, desired: &str) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let hash = hash(&spec.template);
    let (mut template, mut selector) = (spec.template, spec.selector);
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    for labels in [labels, selector.match_labels.get_or_insert_default()] {
        labels.insert(HASH.to_owned(), hash.clone());
    }
    let mut owner = deployment.controller_owner_ref(&()).unwrap();
    owner.block_owner_deletion = Some(true);
    let set = json!({
        "metadata": {
            "name": format!("{}-{hash}", deployment.name_any()), "namespace": deployment.namespace(),
            "labels": template.metadata.as_ref().unwrap().labels, "ownerReferences": [owner],
            "annotations": {DESIRED: desired, REVISION: number.to_string()},
        },
        "spec": {
            "replicas": size, "minReadySeconds": spec.min_ready_seconds,
            "selector": selector, "template": template,
        },
    });
    serde_json::from_value(set).unwrap()
}

/// A short name for a template.
fn hash(template: &PodTemplateSpec) -> String {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(template).unwrap().hash(&mut hasher);
    format!("{:010x}", hasher.finish() >> 24)
}

async fn report(client: &Client, deployment: &Deployment, sets: &Sets<'_>, number: i64) -> kube::Result<()> {
    let api: Api<Deployment> = Api::namespaced(client.clone(), &deployment.namespace().unwrap_or_default());
    let name = deployment.name_any();
    if deployment.annotations().get(REVISION) != Some(&number.to_string()) {
        let patch = json!({"metadata": {
            "resourceVersion": deployment.metadata.resource_version,
            "annotations": {REVISION: number.to_string()},
        }});
        api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        return Ok(());
    }
    let total = |number: fn(&ReplicaSet) -> i64| sets.all().map(number).sum::<i64>();
    let updated = sets.new.map_or(0, sizes::pods);
    let available = total(sizes::available);
    let wanted = json!({
        "observedGeneration": deployment.metadata.generation,
        "replicas": total(sizes::pods), "updatedReplicas": updated, "readyReplicas": total(sizes::ready),
        "availableReplicas": available, "unavailableReplicas": (total(sizes::size) - available).max(0),
    });
    let known = json!(deployment.status);
    // 0 is absent.
    let is_known =
        |(key, value): (&String, &Value)| known[key].as_i64().unwrap_or(0) == value.as_i64().unwrap_or(0);
    if wanted.as_object().unwrap().iter().all(is_known) {
        return Ok(());
    }
    let patch =
        json!({"metadata": {"resourceVersion": deployment.metadata.resource_version}, "status": wanted});
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}
