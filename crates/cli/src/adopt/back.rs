//! From an OrderedDeployment back to a Deployment: what comes next, by what is there. A plain function, so that whoever was
//! interrupted goes on where it stopped.
//!
//! A ReplicaSet that sees too few pods makes some, and its view may lag. So the one that is to get the pods is made so that it
//! cannot create any; each pod is given to it in one write; and it is opened once it says that it has them all. The
//! controller of the OrderedDeployment has said before that it does nothing. The Deployment comes paused, and goes on once
//! it knows that ReplicaSet as its own newest.

use anyhow::{Result, bail};
use kube::ResourceExt;
use kube::core::DynamicObject;
use ordereddeployment_api::names::{annotation, label, reason};
use serde_json::{Value, json};

use super::convert;
use super::seen::{
    Kind, Seen, annotation_of, controller, foreign_finalizers, is_controlled_by, is_finished, is_observed,
    is_paused, is_taking_over, is_terminating, number, says,
};
use super::steps::{Next, Write};

/// What comes next.
pub(crate) fn next(seen: &Seen) -> Result<Next> {
    let name = &seen.name;
    match (&seen.deployment, &seen.ordered) {
        (None, None) => bail!("there is no OrderedDeployment {name}\nhint: `kubectl ordered get` lists them"),
        (Some(deployment), None) => Ok(clear(seen, deployment)),
        (_, Some(ordered)) if is_terminating(ordered) => {
            Ok(Next::Wait(format!("for ordereddeployments/{name} to be gone, by the garbage collector")))
        }
        (Some(deployment), Some(ordered)) if is_taking_over(ordered) => {
            if is_terminating(deployment) {
                bail!(
                    "deployments/{name} is going already\nhint: let `kubectl ordered adopt {name}` finish first"
                );
            }
            // Nothing was taken over yet: the Deployment stays what it is.
            Ok(Next::Do(vec![Write::Orphan(Kind::OrderedDeployment, ordered.clone())]))
        }
        (None, Some(ordered)) if is_taking_over(ordered) => {
            bail!("{name} is being taken over\nhint: let `kubectl ordered adopt {name}` finish first")
        }
        (deployment, Some(ordered)) => hand_over(seen, ordered, deployment.as_ref()),
    }
}

/// The OrderedDeployment is gone: its sets are left, without pods.
fn clear(seen: &Seen, deployment: &DynamicObject) -> Next {
    let left = seen.sets.iter().filter(|set| {
        let same = seen.replica_set(&set.name_any());
        controller(set).is_none() && same.is_some_and(|same| is_controlled_by(same, deployment))
    });
    let left: Vec<&DynamicObject> = left.collect();
    match left.iter().find(|set| !is_terminating(set)) {
        Some(set) => Next::Do(vec![Write::Orphan(Kind::OrderedReplicaSet, (*set).clone())]),
        None if left.is_empty() => Next::Done,
        None => Next::Wait("for the sets to be gone, by the garbage collector".to_owned()),
    }
}

fn hand_over(seen: &Seen, ordered: &DynamicObject, deployment: Option<&DynamicObject>) -> Result<Next> {
    let name = &seen.name;
    let sets: Vec<&DynamicObject> =
        seen.sets.iter().filter(|set| is_controlled_by(set, ordered) && !is_terminating(set)).collect();
    let step = annotation_of(ordered, annotation::HANDING_BACK);
    let Some(current) = sets.iter().find(|set| convert::same_template(set, ordered)).copied() else {
        if step.is_some() {
            bail!(
                "the template of {name} was changed while it is being handed back, and its controller does nothing\nhint: put the template back as it was (`kubectl ordered undo {name}`), and run this again"
            );
        }
        bail!("{name} has no set of its present template\nhint: finish its rollout first");
    };
    if step.is_none() {
        if deployment.is_some() {
            bail!("there is a Deployment {name} already\nhint: delete it, or give it another name");
        }
        for object in sets.iter().copied().chain([ordered]) {
            if let [first, ..] = *foreign_finalizers(object) {
                bail!(
                    "{} has the finalizer {first}: its deletion would not end\nhint: take it away, or whoever set it",
                    object.name_any()
                );
            }
        }
        if let Some(wait) = at_rest(ordered)? {
            return Ok(wait);
        }
    }
    let wanted = number(ordered, "/spec/replicas");
    let mark = step.map_or_else(|| convert::mark(ordered), str::to_owned);
    for set in &sets {
        let is_current = set.metadata.uid == current.metadata.uid;
        let Some(found) = seen.replica_set(&set.name_any()) else {
            let mark = is_current.then_some(mark.as_str());
            let replica_set = convert::replica_set(set, if is_current { wanted } else { 0 }, mark);
            return Ok(Next::Do(vec![Write::Create(Kind::ReplicaSet, replica_set)]));
        };
        let is_marked = annotation_of(found, annotation::HANDING_BACK).is_some();
        if is_current && step.is_none() && !is_marked {
            bail!("there is a ReplicaSet {} already\nhint: delete it", set.name_any());
        }
    }
    let Some(target) = seen.replica_set(&current.name_any()) else {
        return Ok(Next::Wait(format!("for replicasets/{}", current.name_any())));
    };
    let Some(step) = step else {
        let patch = json!({"metadata": {"annotations": {annotation::HANDING_BACK: mark}}});
        let what = "let its controller do nothing";
        return Ok(Next::Do(vec![Write::Patch(Kind::OrderedDeployment, ordered.clone(), patch, what)]));
    };
    if !says(ordered, reason::HANDING_BACK, step) {
        return Ok(Next::Wait(format!(
            "for the controller to leave the pods of {name} alone (is ordered-controller-manager running?)"
        )));
    }
    if let Some(moved) = give_pods(seen, ordered, current, target) {
        return Ok(moved);
    }
    take_over(seen, ordered, target, deployment)
}

/// An error where a rollout is under way or held; something to wait for where only pods are missing, which comes by itself.
fn at_rest(ordered: &DynamicObject) -> Result<Option<Next>> {
    let name = ordered.name_any();
    let old = number(ordered, "/status/replicas") - number(ordered, "/status/updatedReplicas");
    let held = ordered.data.pointer("/status/hold").is_some_and(|hold| !hold.is_null());
    if !is_observed(ordered) {
        return Ok(Some(Next::Wait(format!("for the controller to see the spec of {name}"))));
    }
    if old > 0 || held {
        bail!(
            "{name} is in the middle of a rollout\nhint: see `kubectl ordered get {name}`, and `kubectl ordered resume {name}` where it is held"
        );
    }
    let conditions = ordered.data.pointer("/status/conditions").and_then(Value::as_array);
    let complete = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Complete" && condition["status"] == "True");
    Ok((!complete).then(|| Next::Wait(format!("for all pods of {name} to be available"))))
}

/// The pods to the ReplicaSet that cannot create any, and its opening. `None` once it has them and is open.
fn give_pods(
    seen: &Seen,
    ordered: &DynamicObject,
    current: &DynamicObject,
    target: &DynamicObject,
) -> Option<Next> {
    let full = target.name_any();
    let wanted = number(ordered, "/spec/replicas");
    let is_active = |pod: &&DynamicObject| !is_terminating(pod) && !is_finished(pod);
    let there = seen.pods_of(target).filter(is_active).count();
    let here: Vec<&DynamicObject> = seen.pods_of(current).filter(|pod| !is_terminating(pod)).collect();
    let is_closed = annotation_of(target, annotation::HANDING_BACK).is_some();
    if !here.is_empty() && is_closed {
        let all = i64::try_from(there + here.iter().copied().filter(is_active).count()).unwrap_or(i64::MAX);
        let size = number(target, "/spec/replicas");
        if size != wanted.max(all) {
            // With fewer it would delete what is given to it.
            let patch = json!({"spec": {"replicas": wanted.max(all)}});
            return Some(Next::Do(vec![Write::Patch(
                Kind::ReplicaSet,
                target.clone(),
                patch,
                "make room for all pods",
            )]));
        }
    }
    if !is_observed(target) {
        return Some(Next::Wait(format!("for the ReplicaSet controller to see replicasets/{full}")));
    }
    if !here.is_empty() {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": full, "uid": target.metadata.uid,
            "controller": true, "blockOwnerDeletion": true,
        });
        let give = |pod: &&DynamicObject| {
            let others = pod.owner_references().iter().filter(|other| other.controller != Some(true));
            let mut owners: Vec<Value> = others.map(|other| json!(other)).collect();
            owners.push(owner.clone());
            let patch = json!({"metadata": {"ownerReferences": owners}});
            Write::Patch(Kind::Pod, (*pod).clone(), patch, "give it to the ReplicaSet")
        };
        return Some(Next::Do(here.iter().map(give).collect()));
    }
    if !is_closed {
        return None;
    }
    if number(target, "/status/replicas") != i64::try_from(there).unwrap_or(i64::MAX) {
        return Some(Next::Wait(format!(
            "for the ReplicaSet controller to see all pods of replicasets/{full}"
        )));
    }
    let patch = convert::opened(current);
    Some(Next::Do(vec![Write::Patch(Kind::ReplicaSet, target.clone(), patch, "let it replace lost pods")]))
}

/// The Deployment takes the ReplicaSet that has the pods, and the rest goes.
fn take_over(
    seen: &Seen,
    ordered: &DynamicObject,
    target: &DynamicObject,
    deployment: Option<&DynamicObject>,
) -> Result<Next> {
    let name = &seen.name;
    let Some(deployment) = deployment else {
        let object = convert::deployment(ordered);
        return Ok(Next::Do(vec![Write::Create(Kind::Deployment, object)]));
    };
    let is_marked = deployment.labels().contains_key(label::HANDING_BACK);
    let has_it = is_controlled_by(target, deployment);
    if !is_marked && !has_it {
        bail!(
            "there is a Deployment {name} that does not have the pods\nhint: delete it, and run this again"
        );
    }
    let knows = number(deployment, "/status/updatedReplicas") == number(target, "/status/replicas");
    if is_marked && !(has_it && is_observed(deployment) && knows) {
        return Ok(Next::Wait(format!(
            "for the Deployment controller to take replicasets/{} for the newest of deployments/{name}",
            target.name_any()
        )));
    }
    if is_marked {
        let paused = if is_paused(ordered) { json!(true) } else { Value::Null };
        let patch = json!({"metadata": {"labels": {label::HANDING_BACK: null}}, "spec": {"paused": paused}});
        let what = "let it go on";
        return Ok(Next::Do(vec![Write::Patch(Kind::Deployment, deployment.clone(), patch, what)]));
    }
    if let Some(autoscaler) = seen.autoscalers_of("OrderedDeployment").next() {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
        let patch = json!({"spec": {"scaleTargetRef": target}});
        let what = "scale the Deployment";
        return Ok(Next::Do(vec![Write::Patch(Kind::Autoscaler, autoscaler.clone(), patch, what)]));
    }
    Ok(Next::Do(vec![Write::Orphan(Kind::OrderedDeployment, ordered.clone())]))
}
