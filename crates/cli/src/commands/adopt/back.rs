//! Moves pods from an OrderedDeployment to a Deployment. A pure function returns the next step for the
//! current objects, so that an interrupted command continues where it stopped.
//!
//! A ReplicaSet controller with a stale cache would create pods while they are moved. So the target
//! ReplicaSet is created closed: it cannot create pods. Each pod is moved by one write. The ReplicaSet is
//! opened once its status counts all pods. Before that, the controller of the OrderedDeployment reports that
//! it does nothing. The Deployment is created paused, and unpaused once its status counts the pods of that
//! ReplicaSet as updated.

use anyhow::{Result, bail};
use kube::ResourceExt;
use kube::core::DynamicObject;
use ordereddeployment_api::names::{annotation, label, reason};
use serde_json::{Value, json};

use super::convert;
use super::objects::{
    Kind, Objects, annotation_of, conditions, controller, is_adopting, is_controlled_by, is_finished,
    is_observed, is_paused, is_terminating, number, refuse_finalizers, reports,
};
use super::steps::{Change, PlannedStep, Write, one, retarget, wait};
use crate::commands::convert::To;

pub(crate) fn next(objects: &Objects) -> Result<PlannedStep> {
    let name = &objects.name;
    match (&objects.deployment, &objects.ordered) {
        (None, None) => bail!("OrderedDeployment {name} not found\nhint: `kubectl ordered get` lists them"),
        (Some(deployment), None) => delete_sets(objects, deployment),
        (_, Some(ordered)) if is_terminating(ordered) => {
            wait(format!("for the garbage collector to remove ordereddeployments/{name}"))
        }
        (Some(deployment), Some(ordered)) if is_adopting(ordered) => {
            if is_terminating(deployment) {
                bail!(
                    "deployments/{name} is being deleted\nhint: run `kubectl ordered adopt {name}` to the \
                     end first"
                );
            }
            // No pod was moved yet: keep the Deployment.
            one(Kind::OrderedDeployment, ordered, Change::Orphan)
        }
        (None, Some(ordered)) if is_adopting(ordered) => {
            bail!("{name} is being adopted\nhint: run `kubectl ordered adopt {name}` to the end first")
        }
        (deployment, Some(ordered)) => hand_over(objects, ordered, deployment.as_ref()),
    }
}

/// The OrderedDeployment is deleted: delete its sets, which have no pods.
fn delete_sets(objects: &Objects, deployment: &DynamicObject) -> Result<PlannedStep> {
    let left = objects.sets.iter().filter(|set| {
        let same = objects.replica_set(&set.name_any());
        controller(set).is_none() && same.is_some_and(|same| is_controlled_by(same, deployment))
    });
    let left: Vec<&DynamicObject> = left.collect();
    match left.iter().find(|set| !is_terminating(set)) {
        Some(set) => one(Kind::OrderedReplicaSet, set, Change::Orphan),
        None if left.is_empty() => Ok(PlannedStep::Complete),
        None => wait("for the garbage collector to remove the sets"),
    }
}

fn hand_over(
    objects: &Objects,
    ordered: &DynamicObject,
    deployment: Option<&DynamicObject>,
) -> Result<PlannedStep> {
    let name = &objects.name;
    let sets: Vec<&DynamicObject> =
        objects.sets.iter().filter(|set| is_controlled_by(set, ordered) && !is_terminating(set)).collect();
    let step = annotation_of(ordered, annotation::HANDING_BACK);
    let Some(current) = sets.iter().find(|set| convert::same_template(set, ordered)).copied() else {
        if step.is_some() {
            bail!(
                "the template of {name} was changed while it is being handed back, and its controller does \
                 nothing\nhint: restore the template (`kubectl ordered undo {name}`), and run this command \
                 again"
            );
        }
        bail!("{name} has no set with its current template\nhint: finish its rollout first");
    };
    if step.is_none() {
        if deployment.is_some() {
            bail!("Deployment {name} already exists\nhint: delete or rename it");
        }
        sets.iter().copied().chain([ordered]).try_for_each(refuse_finalizers)?;
        if let Some(wait) = wait_until_complete(ordered)? {
            return Ok(wait);
        }
    }
    let desired = number(ordered, "/spec/replicas");
    let mark = step.map_or_else(|| convert::mark(ordered), str::to_owned);
    for set in &sets {
        let is_current = set.metadata.uid == current.metadata.uid;
        let Some(found) = objects.replica_set(&set.name_any()) else {
            let mark = is_current.then_some(mark.as_str());
            let replica_set = convert::replica_set(set, if is_current { desired } else { 0 }, mark);
            return one(Kind::ReplicaSet, &replica_set, Change::Create);
        };
        let is_marked = annotation_of(found, annotation::HANDING_BACK).is_some();
        if is_current && step.is_none() && !is_marked {
            bail!("ReplicaSet {} already exists\nhint: delete it", set.name_any());
        }
    }
    let Some(target) = objects.replica_set(&current.name_any()) else {
        return wait(format!("for replicasets/{} to exist", current.name_any()));
    };
    let Some(step) = step else {
        let patch = json!({"metadata": {"annotations": {annotation::HANDING_BACK: mark}}});
        return one(Kind::OrderedDeployment, ordered, Change::Patch(patch, "stop its controller"));
    };
    if !reports(ordered, reason::HANDING_BACK, step) {
        return wait(format!(
            "for the controller to stop managing the pods of {name} (is ordered-controller-manager running?)"
        ));
    }
    if let Some(step) = move_pods(objects, ordered, current, target)? {
        return Ok(step);
    }
    take_over(objects, ordered, target, deployment)
}

/// An error if a rollout is in progress or paused; a wait if pods are only not available yet.
fn wait_until_complete(ordered: &DynamicObject) -> Result<Option<PlannedStep>> {
    let name = ordered.name_any();
    let old = number(ordered, "/status/replicas") - number(ordered, "/status/updatedReplicas");
    let paused = ordered.data.pointer("/status/hold").is_some_and(|hold| !hold.is_null());
    if !is_observed(ordered) {
        return wait(format!("for the controller to observe the spec of {name}")).map(Some);
    }
    if old > 0 || paused {
        bail!(
            "a rollout of {name} is in progress\nhint: see `kubectl ordered get {name}`; if it is paused, \
             run `kubectl ordered resume {name}`"
        );
    }
    let is_complete = |one: &Value| one["type"] == "Complete" && one["status"] == "True";
    let complete = conditions(ordered).any(is_complete);
    Ok((!complete).then(|| PlannedStep::Wait(format!("for all pods of {name} to be available"))))
}

/// Moves the pods to the closed ReplicaSet, then opens it. `None` once it has all pods and is open.
fn move_pods(
    objects: &Objects,
    ordered: &DynamicObject,
    current: &DynamicObject,
    target: &DynamicObject,
) -> Result<Option<PlannedStep>> {
    let full = target.name_any();
    let desired = number(ordered, "/spec/replicas");
    let is_active = |pod: &&DynamicObject| !is_terminating(pod) && !is_finished(pod);
    let moved = objects.pods_of(target).filter(is_active).count();
    let remaining: Vec<&DynamicObject> =
        objects.pods_of(current).filter(|pod| !is_terminating(pod)).collect();
    let is_closed = annotation_of(target, annotation::HANDING_BACK).is_some();
    if !remaining.is_empty() && is_closed {
        let all =
            i64::try_from(moved + remaining.iter().copied().filter(is_active).count()).unwrap_or(i64::MAX);
        let size = number(target, "/spec/replicas");
        if size != desired.max(all) {
            // With a smaller size it would delete pods that are moved to it.
            let patch = json!({"spec": {"replicas": desired.max(all)}});
            return one(Kind::ReplicaSet, target, Change::Patch(patch, "scale it for all pods")).map(Some);
        }
    }
    if !is_observed(target) {
        return wait(format!("for the ReplicaSet controller to observe replicasets/{full}")).map(Some);
    }
    if !remaining.is_empty() {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": full, "uid": target.metadata.uid,
            "controller": true, "blockOwnerDeletion": true,
        });
        let move_pod = |pod: &&DynamicObject| {
            let others = pod.owner_references().iter().filter(|other| other.controller != Some(true));
            let mut owners: Vec<Value> = others.map(|other| json!(other)).collect();
            owners.push(owner.clone());
            let patch = json!({"metadata": {"ownerReferences": owners}});
            let change = Change::Patch(patch, "set the ReplicaSet as its controller");
            Write { kind: Kind::Pod, object: (*pod).clone(), change }
        };
        return Ok(Some(PlannedStep::Do(remaining.iter().map(move_pod).collect())));
    }
    if !is_closed {
        return Ok(None);
    }
    if number(target, "/status/replicas") != i64::try_from(moved).unwrap_or(i64::MAX) {
        return wait(format!("for the ReplicaSet controller to count all pods of replicasets/{full}"))
            .map(Some);
    }
    let patch = convert::opened(current);
    one(Kind::ReplicaSet, target, Change::Patch(patch, "allow it to create pods")).map(Some)
}

/// Creates the Deployment, which adopts the ReplicaSet with the pods. Then deletes the old objects.
fn take_over(
    objects: &Objects,
    ordered: &DynamicObject,
    target: &DynamicObject,
    deployment: Option<&DynamicObject>,
) -> Result<PlannedStep> {
    let name = &objects.name;
    let Some(deployment) = deployment else {
        return one(Kind::Deployment, &convert::deployment(ordered), Change::Create);
    };
    let is_marked = deployment.labels().contains_key(label::HANDING_BACK);
    let has_it = is_controlled_by(target, deployment);
    if !is_marked && !has_it {
        bail!(
            "Deployment {name} exists and does not own the pods\nhint: delete it, and run this command again"
        );
    }
    let is_counted = number(deployment, "/status/updatedReplicas") == number(target, "/status/replicas");
    if is_marked && !(has_it && is_observed(deployment) && is_counted) {
        return wait(format!(
            "for the Deployment controller to use replicasets/{} as the newest of deployments/{name}",
            target.name_any()
        ));
    }
    if is_marked {
        let paused = if is_paused(ordered) { json!(true) } else { Value::Null };
        let patch = json!({"metadata": {"labels": {label::HANDING_BACK: null}}, "spec": {"paused": paused}});
        return one(Kind::Deployment, deployment, Change::Patch(patch, "unpause it"));
    }
    retarget(objects, To::Deployment).unwrap_or_else(|| one(Kind::OrderedDeployment, ordered, Change::Orphan))
}
