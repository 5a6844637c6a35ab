//! From a Deployment to an OrderedDeployment: what comes next, by what is there. A plain function, so that whoever was
//! interrupted goes on where it stopped.
//!
//! The order of the steps is what keeps the pods: first the OrderedDeployment, which does nothing while those it takes over
//! from are there, and its sets; then the Deployment goes, and its ReplicaSets keep the pods; only then the ReplicaSet
//! goes, and the garbage collector frees its pods for the controller to take. From that write on nothing waits for
//! whoever runs this.

use anyhow::{Result, anyhow, bail};
use kube::ResourceExt;
use kube::core::DynamicObject;
use ordereddeployment_api::names::{annotation, reason};
use serde_json::json;

use super::convert;
use super::seen::{
    Kind, Seen, annotation_of, controller, foreign_finalizers, has_begun, is_controlled_by, is_observed,
    is_taking_over, is_terminating, number, says,
};
use super::steps::{Next, Write};

/// What comes next.
pub(crate) fn next(seen: &Seen) -> Result<Next> {
    let name = &seen.name;
    let adopting = |ordered: &DynamicObject| annotation_of(ordered, annotation::ADOPTING).is_some();
    if seen.ordered.as_ref().is_some_and(|it| annotation_of(it, annotation::HANDING_BACK).is_some()) {
        bail!(
            "{name} is being handed back to a Deployment\nhint: let `kubectl ordered adopt {name} --back` finish first"
        );
    }
    match (&seen.deployment, &seen.ordered) {
        (None, None) => bail!("there is no Deployment {name}\nhint: `kubectl get deployments` lists them"),
        (None, Some(ordered)) if !adopting(ordered) => Ok(Next::Done),
        (None, Some(ordered)) => after(seen, ordered),
        (Some(_), Some(ordered)) if !adopting(ordered) || has_begun(ordered) => {
            bail!(
                "there are a Deployment {name} and an OrderedDeployment {name} that takes over from nothing\nhint: delete the one that you do not want, with --cascade=orphan if its pods are to stay"
            )
        }
        (Some(deployment), _) if is_terminating(deployment) => {
            Ok(Next::Wait(format!("for deployments/{name} to be gone, by the garbage collector")))
        }
        (Some(deployment), ordered) => before(seen, deployment, ordered.as_ref()),
    }
}

/// The Deployment's ReplicaSets that have or want pods. An error where the Deployment cannot be taken over now.
pub(crate) fn sources<'a>(seen: &'a Seen, deployment: &'a DynamicObject) -> Result<Vec<&'a DynamicObject>> {
    let name = &seen.name;
    if let Some(owner) = controller(deployment) {
        bail!(
            "deployments/{name} belongs to {} {}, which would make it again\nhint: change it there",
            owner.kind,
            owner.name
        );
    }
    let own = seen.replica_sets.iter().filter(|set| is_controlled_by(set, deployment));
    for object in own.clone().chain([deployment]) {
        if let [first, ..] = *foreign_finalizers(object) {
            bail!(
                "{} has the finalizer {first}: its deletion would not end\nhint: take it away, or whoever set it",
                object.name_any()
            );
        }
    }
    let sources: Vec<&DynamicObject> = own.filter(|set| has_pods(set)).collect();
    let rolls = match *sources {
        [] => number(deployment, "/spec/replicas") > 0,
        [one] => !convert::same_template(one, deployment),
        _ => true,
    };
    if rolls {
        bail!(
            "deployments/{name} is in the middle of a rollout\nhint: wait for it (`kubectl rollout status deployment/{name}`), go on (`kubectl rollout resume`) or go back (`kubectl rollout undo`) first"
        );
    }
    Ok(sources)
}

/// While the Deployment is there: everything is made ready, and nothing of it is touched.
fn before(seen: &Seen, deployment: &DynamicObject, ordered: Option<&DynamicObject>) -> Result<Next> {
    let name = &seen.name;
    if !is_observed(deployment) {
        return Ok(Next::Wait(format!(
            "for the Deployment controller to see the spec of deployments/{name}"
        )));
    }
    let sources = sources(seen, deployment)?;
    let names: Vec<String> = sources.iter().map(|set| set.name_any()).collect();
    let wanted = convert::ordered(deployment, &names, seen.template.as_ref());
    let Some(ordered) = ordered else {
        return Ok(Next::Do(vec![Write::Create(Kind::OrderedDeployment, wanted)]));
    };
    let differs = |key: &str| annotation_of(ordered, key) != annotation_of(&wanted, key);
    if differs(annotation::ADOPTING) || differs(annotation::ADOPTED_GENERATION) {
        // The Deployment was changed since.
        let mut changed = ordered.clone();
        changed.annotations_mut().extend(wanted.annotations().clone());
        changed.data["spec"] = wanted.data["spec"].clone();
        return Ok(Next::Do(vec![Write::Replace(Kind::OrderedDeployment, changed)]));
    }
    let template = ordered.data.pointer("/spec/template");
    for replica_set in seen.replica_sets.iter().filter(|set| is_controlled_by(set, deployment)) {
        // The same template to the server, in the words of the OrderedDeployment.
        let is_current = convert::same_template(replica_set, deployment);
        let wanted = convert::set(replica_set, template.filter(|_| is_current));
        let Some(set) = seen.set(&replica_set.name_any()) else {
            return Ok(Next::Do(vec![Write::Create(Kind::OrderedReplicaSet, wanted)]));
        };
        if is_terminating(set) {
            return Ok(Next::Wait(format!("for orderedreplicasets/{} to be gone", set.name_any())));
        }
        if !convert::same_template(set, &wanted) {
            if is_controlled_by(set, ordered) {
                // Made by an earlier run, in other words. It has no pods yet.
                return Ok(Next::Do(vec![Write::Orphan(Kind::OrderedReplicaSet, set.clone())]));
            }
            bail!(
                "orderedreplicasets/{} has another template than the ReplicaSet of that name\nhint: delete it",
                set.name_any()
            );
        }
        if !is_controlled_by(set, ordered) {
            return Ok(Next::Wait(format!(
                "for the controller to take orderedreplicasets/{} in (is ordered-controller-manager running?)",
                set.name_any()
            )));
        }
    }
    if !says(ordered, reason::ADOPTING, "") {
        return Ok(Next::Wait(format!(
            "for the controller to see {name} (is ordered-controller-manager running?)"
        )));
    }
    if let Some(unsettled) = sources.iter().find(|set| !is_settled(set)) {
        return Ok(unsettled_yet(unsettled));
    }
    Ok(Next::Do(vec![Write::Orphan(Kind::Deployment, deployment.clone())]))
}

/// Once the Deployment is gone.
fn after(seen: &Seen, ordered: &DynamicObject) -> Result<Next> {
    let name = &seen.name;
    let named = annotation_of(ordered, annotation::ADOPTING).unwrap_or_default();
    let mut left = Vec::new();
    for replica_set in &seen.replica_sets {
        let full = replica_set.name_any();
        if seen.set(&full).is_none_or(|set| !is_controlled_by(set, ordered)) {
            continue;
        }
        if let Some(owner) = controller(replica_set) {
            if is_terminating(replica_set) || !is_taking_over(ordered) {
                continue;
            }
            let owner = format!("{} {}", owner.kind, owner.name);
            return Ok(Next::Wait(format!("for replicasets/{full} to be left by its {owner}")));
        }
        let is_source = named.split(',').any(|one| one.trim() == format!("replicasets/{full}"));
        if is_terminating(replica_set) {
            return Ok(Next::Wait(format!("for replicasets/{full} to be gone, by the garbage collector")));
        }
        if !is_source {
            left.push(replica_set);
        } else if is_settled(replica_set) {
            // From here on the pods are the controller's as soon as the garbage collector has freed them.
            return Ok(Next::Do(vec![Write::Orphan(Kind::ReplicaSet, replica_set.clone())]));
        } else {
            return Ok(unsettled_yet(replica_set));
        }
    }
    if !has_begun(ordered) {
        return Ok(Next::Wait(format!("for the controller to take the pods of {name} in")));
    }
    if let Some(kept) = left.iter().find(|set| has_pods(set)) {
        return Err(anyhow!(
            "replicasets/{} has pods that {name} did not take over\nhint: scale it to 0, or delete it",
            kept.name_any()
        ));
    }
    if let Some(old) = left.first() {
        return Ok(Next::Do(vec![Write::Orphan(Kind::ReplicaSet, (*old).clone())]));
    }
    if let Some(autoscaler) = seen.autoscalers_of("Deployment").next() {
        let target =
            json!({"apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment", "name": name});
        let patch = json!({"spec": {"scaleTargetRef": target}});
        let what = "scale the OrderedDeployment";
        return Ok(Next::Do(vec![Write::Patch(Kind::Autoscaler, autoscaler.clone(), patch, what)]));
    }
    let keys = json!({annotation::ADOPTING: null, annotation::ADOPTED_GENERATION: null});
    let patch = json!({"metadata": {"annotations": keys}});
    let what = "take the mark of the takeover away";
    Ok(Next::Do(vec![Write::Patch(Kind::OrderedDeployment, ordered.clone(), patch, what)]))
}

fn has_pods(set: &DynamicObject) -> bool {
    number(set, "/spec/replicas") > 0 || number(set, "/status/replicas") > 0
}

/// Whether no pod of it is being made: one made while its ReplicaSet goes would go with it.
fn is_settled(set: &DynamicObject) -> bool {
    is_observed(set) && number(set, "/status/replicas") == number(set, "/spec/replicas")
}

fn unsettled_yet(set: &DynamicObject) -> Next {
    let (has, wants) = (number(set, "/status/replicas"), number(set, "/spec/replicas"));
    Next::Wait(format!("for replicasets/{}, which has {has} pods and wants {wants}", set.name_any()))
}
