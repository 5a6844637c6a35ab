//! Moves pods from a Deployment to an OrderedDeployment. A pure function returns the next step for the
//! current objects, so that an interrupted command continues where it stopped.
//!
//! The order of the steps keeps the pods. First the OrderedDeployment and its sets are created; its
//! controller does nothing while the Deployment or its ReplicaSets exist. Then the Deployment is deleted, and
//! its ReplicaSets keep the pods. Then the ReplicaSet is deleted, the garbage collector makes its pods
//! orphans, and the controller adopts them. After that write the command is no longer needed.

use anyhow::{Result, bail};
use kube::ResourceExt;
use kube::core::DynamicObject;
use ordereddeployment_api::names::{annotation, reason};
use serde_json::json;

use super::convert;
use super::objects::{
    Kind, Objects, annotation_of, controller, has_started, is_adopting, is_controlled_by, is_observed,
    is_terminating, number, refuse_finalizers, reports,
};
use super::steps::{Change, PlannedStep, one, retarget, wait};
use crate::commands::convert::To;

pub(crate) fn next(objects: &Objects) -> Result<PlannedStep> {
    let name = &objects.name;
    let adopting = |ordered: &DynamicObject| annotation_of(ordered, annotation::ADOPTING).is_some();
    if objects.ordered.as_ref().is_some_and(|it| annotation_of(it, annotation::HANDING_BACK).is_some()) {
        bail!(
            "{name} is being handed back to a Deployment\nhint: run `kubectl ordered adopt {name} --back` to \
             the end first"
        );
    }
    match (&objects.deployment, &objects.ordered) {
        (None, None) => bail!("Deployment {name} not found\nhint: `kubectl get deployments` lists them"),
        (None, Some(ordered)) if !adopting(ordered) => Ok(PlannedStep::Complete),
        (None, Some(ordered)) => after_deletion(objects, ordered),
        (Some(_), Some(ordered)) if !adopting(ordered) || has_started(ordered) => {
            bail!(
                "Deployment {name} and OrderedDeployment {name} both exist, and the latter does not adopt \
                 the former\nhint: delete one of them, with --cascade=orphan to keep its pods"
            )
        }
        (Some(deployment), _) if is_terminating(deployment) => {
            wait(format!("for the garbage collector to remove deployments/{name}"))
        }
        (Some(deployment), ordered) => before_deletion(objects, deployment, ordered.as_ref()),
    }
}

/// The ReplicaSets that have pods or want some. An error if the Deployment cannot be adopted now.
pub(crate) fn sources<'a>(
    objects: &'a Objects,
    deployment: &'a DynamicObject,
) -> Result<Vec<&'a DynamicObject>> {
    let name = &objects.name;
    if let Some(owner) = controller(deployment) {
        bail!(
            "deployments/{name} is controlled by {} {}, which would create it again\nhint: change that \
             object",
            owner.kind,
            owner.name
        );
    }
    let own = objects.replica_sets.iter().filter(|set| is_controlled_by(set, deployment));
    own.clone().chain([deployment]).try_for_each(refuse_finalizers)?;
    let sources: Vec<&DynamicObject> = own.filter(|set| has_pods(set)).collect();
    let rolls = match *sources {
        [] => number(deployment, "/spec/replicas") > 0,
        [one] => !convert::same_template(one, deployment),
        _ => true,
    };
    if rolls {
        bail!(
            "a rollout of deployments/{name} is in progress\nhint: wait for it (`kubectl rollout status \
             deployment/{name}`), resume it (`kubectl rollout resume`) or undo it (`kubectl rollout undo`) \
             first"
        );
    }
    Ok(sources)
}

/// The steps while the Deployment exists: they create the new objects and do not change the Deployment.
fn before_deletion(
    objects: &Objects,
    deployment: &DynamicObject,
    ordered: Option<&DynamicObject>,
) -> Result<PlannedStep> {
    let name = &objects.name;
    if !is_observed(deployment) {
        return wait(format!("for the Deployment controller to observe the spec of deployments/{name}"));
    }
    let sources = sources(objects, deployment)?;
    let names: Vec<String> = sources.iter().map(|set| set.name_any()).collect();
    let expected = convert::ordered(deployment, &names, objects.template.as_ref());
    let Some(ordered) = ordered else {
        return one(Kind::OrderedDeployment, &expected, Change::Create);
    };
    let differs = |key: &str| annotation_of(ordered, key) != annotation_of(&expected, key);
    if differs(annotation::ADOPTING) || differs(annotation::ADOPTED_GENERATION) {
        // The Deployment has changed since.
        let mut changed = ordered.clone();
        changed.annotations_mut().extend(expected.annotations().clone());
        changed.data["spec"] = expected.data["spec"].clone();
        return one(Kind::OrderedDeployment, &changed, Change::Replace);
    }
    let template = ordered.data.pointer("/spec/template");
    for replica_set in objects.replica_sets.iter().filter(|set| is_controlled_by(set, deployment)) {
        // The current set gets the template of the OrderedDeployment, which equals that of the Deployment.
        let is_current = convert::same_template(replica_set, deployment);
        let expected = convert::set(replica_set, template.filter(|_| is_current));
        let Some(set) = objects.set(&replica_set.name_any()) else {
            return one(Kind::OrderedReplicaSet, &expected, Change::Create);
        };
        if is_terminating(set) {
            return wait(format!(
                "for the garbage collector to remove orderedreplicasets/{}",
                set.name_any()
            ));
        }
        if !convert::same_template(set, &expected) {
            if is_controlled_by(set, ordered) {
                // An earlier run created it with another form of the template. It has no pods.
                return one(Kind::OrderedReplicaSet, set, Change::Orphan);
            }
            bail!(
                "orderedreplicasets/{} exists with another template than the ReplicaSet of that name\nhint: \
                 delete it",
                set.name_any()
            );
        }
        if !is_controlled_by(set, ordered) {
            return wait(format!(
                "for the controller to adopt orderedreplicasets/{} (is ordered-controller-manager running?)",
                set.name_any()
            ));
        }
    }
    if !reports(ordered, reason::ADOPTING, "") {
        return wait(format!(
            "for the controller to observe {name} (is ordered-controller-manager running?)"
        ));
    }
    if let Some(set) = sources.iter().find(|set| !has_desired_pods(set)) {
        return wait_for_desired_pods(set);
    }
    one(Kind::Deployment, deployment, Change::Orphan)
}

/// The steps after the Deployment is deleted.
fn after_deletion(objects: &Objects, ordered: &DynamicObject) -> Result<PlannedStep> {
    let name = &objects.name;
    let named = annotation_of(ordered, annotation::ADOPTING).unwrap_or_default();
    let mut left = Vec::new();
    for replica_set in &objects.replica_sets {
        let full = replica_set.name_any();
        if objects.set(&full).is_none_or(|set| !is_controlled_by(set, ordered)) {
            continue;
        }
        if let Some(owner) = controller(replica_set) {
            if is_terminating(replica_set) || !is_adopting(ordered) {
                continue;
            }
            let owner = format!("{} {}", owner.kind, owner.name);
            return wait(format!("for the garbage collector to release replicasets/{full} from {owner}"));
        }
        let is_source = named.split(',').any(|one| one.trim() == format!("replicasets/{full}"));
        if is_terminating(replica_set) {
            return wait(format!("for the garbage collector to remove replicasets/{full}"));
        }
        if !is_source {
            left.push(replica_set);
        } else if has_desired_pods(replica_set) {
            // Then the garbage collector makes the pods orphans, and the controller adopts them.
            return one(Kind::ReplicaSet, replica_set, Change::Orphan);
        } else {
            return wait_for_desired_pods(replica_set);
        }
    }
    if !has_started(ordered) {
        return wait(format!("for the controller to adopt the pods of {name}"));
    }
    if let Some(kept) = left.iter().find(|set| has_pods(set)) {
        bail!(
            "replicasets/{} has pods that {name} has not adopted\nhint: scale it to 0, or delete it",
            kept.name_any()
        );
    }
    if let Some(old) = left.first() {
        return one(Kind::ReplicaSet, old, Change::Orphan);
    }
    if let Some(step) = retarget(objects, To::Ordereddeployment) {
        return step;
    }
    let keys = json!({annotation::ADOPTING: null, annotation::ADOPTED_GENERATION: null});
    let patch = json!({"metadata": {"annotations": keys}});
    one(Kind::OrderedDeployment, ordered, Change::Patch(patch, "remove the annotations of the adoption"))
}

fn has_pods(set: &DynamicObject) -> bool {
    number(set, "/spec/replicas") > 0 || number(set, "/status/replicas") > 0
}

/// Whether it creates no pod now: one that is created during its deletion would be deleted too.
fn has_desired_pods(set: &DynamicObject) -> bool {
    is_observed(set) && number(set, "/status/replicas") == number(set, "/spec/replicas")
}

fn wait_for_desired_pods(set: &DynamicObject) -> Result<PlannedStep> {
    let (has, wants) = (number(set, "/status/replicas"), number(set, "/spec/replicas"));
    wait(format!("for replicasets/{} to have {wants} pods (now {has})", set.name_any()))
}
