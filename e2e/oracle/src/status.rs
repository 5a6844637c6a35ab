//! What is stored: the sizes of sets, counts and conditions.

use std::collections::BTreeMap;

use ordereddeployment_api::names::{annotation, condition};
use ordereddeployment_api::{ConditionStatus, OrderedDeploymentStatus};
use ordereddeployment_planner::{Act, SetChange};

use crate::Messages;
use crate::view::{View, count, is_true};

/// The published sizes add up to D, and between two writes to no less than before or after.
pub(crate) fn sizes(view: &View<'_>, act: &Act) -> Messages {
    let mut messages = Messages::new();
    let sets = &view.snapshot.sets;
    if sets.iter().any(|set| set.terminating) {
        return messages;
    }
    let mut sizes: BTreeMap<&str, i64> =
        sets.iter().map(|set| (&*set.uid, i64::from(set.replicas))).collect();
    let sum = |sizes: &BTreeMap<&str, i64>| sizes.values().sum::<i64>();
    let least = sum(&sizes).min(view.desired);
    for change in &act.sets {
        match change {
            SetChange::Create { replicas, .. } => {
                sizes.insert("", i64::from(*replicas));
            }
            SetChange::Update { uid, replicas: Some(replicas), .. } => {
                sizes.insert(uid, i64::from(*replicas));
            }
            SetChange::Update { .. } => {}
            SetChange::Equal { .. } => {
                if act.sets.len() > 1 || !act.creates.is_empty() || !act.deletes.is_empty() {
                    messages.push("the equal template is used before it is stored".to_owned());
                }
                return messages;
            }
            SetChange::Delete { uid } => {
                if sizes.remove(&**uid) != Some(0) {
                    messages.push(format!("set {uid} is deleted although its size is not 0"));
                }
                if view.snapshot.pods.iter().any(|pod| pod.set == *uid && !pod.finished) {
                    messages.push(format!("set {uid} is deleted although it has pods"));
                }
            }
        }
        if sum(&sizes) < least {
            messages.push("a set is made smaller before another grows".to_owned());
        }
    }
    if !sizes.is_empty() && sum(&sizes) != view.desired {
        messages.push(format!(
            "the published sizes add up to {}, not to {}: {sizes:?}",
            sum(&sizes),
            view.desired
        ));
    }
    messages
}

/// How much larger than those of the sets the number of a rollout may be.
const AHEAD: i64 = 100_000;

/// A set gets a revision that follows those of all sets, and no smaller one than it has. It is marked as one
/// that served only where it serves.
pub(crate) fn revisions(view: &View<'_>, act: &Act) -> Messages {
    let sets = &view.snapshot.sets;
    let newest = sets.iter().map(|set| set.revision).max().unwrap_or(0);
    let mut messages = Messages::new();
    for change in &act.sets {
        let (own, given, served) = match change {
            SetChange::Create { revision, .. } => (None, Some(*revision), None),
            SetChange::Update { uid, revision, served, .. } => {
                (sets.iter().find(|set| set.uid == *uid), *revision, *served)
            }
            SetChange::Equal { .. } | SetChange::Delete { .. } => continue,
        };
        let least = own.map_or(1, |set| set.revision.max(1));
        if given.is_some_and(|given| given < least || given > newest.saturating_add(AHEAD)) {
            messages.push(format!("a set gets the revision {given:?}, the largest is {newest}"));
        }
        let believed = sets.iter().all(|set| set.served.is_none());
        let does = own.is_some_and(|set| view.current.contains(&*set.uid))
            && view.old().next().is_none()
            && view.updated_available() >= view.floor.max(1);
        if served.is_some() && !does && !believed {
            messages.push(format!("a set is marked as one that served ({served:?}), and does not serve"));
        }
    }
    messages
}

/// Exactly one of Complete, Reconciling and Stalled is True.
pub(crate) fn one_state(_: &View<'_>, act: &Act) -> Messages {
    let mut states = vec![condition::COMPLETE, condition::RECONCILING, condition::STALLED];
    states.retain(|type_| is_true(&act.status, type_));
    let mut messages = Messages::new();
    if states.len() != 1 {
        messages.push(format!("of Complete, Reconciling and Stalled {states:?} are True"));
    }
    let missing = condition::ALWAYS.iter().filter(|type_| act.status.condition(type_).is_none());
    messages.extend(missing.map(|type_| format!("{type_} is missing")));
    messages
}

/// The stored `observedGeneration` is not later than the generation of the decision.
pub fn generation(
    view: &View<'_>,
    before: &OrderedDeploymentStatus,
    after: &OrderedDeploymentStatus,
) -> Option<String> {
    let seen = view.snapshot.deployment.metadata.generation;
    let moved = before.observed_generation != after.observed_generation;
    (moved && after.observed_generation > seen).then(|| {
        format!(
            "observedGeneration {:?} is stored, the decision observed {seen:?}",
            after.observed_generation
        )
    })
}

/// The counts that an act stores are those of the observed pods.
pub fn counts(view: &View<'_>, after: &OrderedDeploymentStatus) -> Option<String> {
    if !view.is_valid {
        return None;
    }
    let counts = [
        ("replicas", after.replicas, count(view.pods.len())),
        ("updatedReplicas", after.updated_replicas, view.with_spec_template()),
        ("readyReplicas", after.ready_replicas, view.ready()),
        ("availableReplicas", after.available_replicas, view.available()),
        ("terminatingReplicas", after.terminating_replicas, view.terminating()),
    ];
    let wrong = counts.into_iter().find(|(_, stored, seen)| stored.map(i64::from) != Some(*seen));
    wrong.map(|(field, stored, seen)| format!("{field} {stored:?} is stored, the decision observed {seen}"))
}

/// Available and Held are stored as they were observed.
pub fn conditions(view: &View<'_>, after: &OrderedDeploymentStatus) -> Option<String> {
    let mut annotations = view.snapshot.deployment.metadata.annotations.iter().flatten();
    if !view.is_valid || annotations.any(|(key, _)| key == annotation::HANDING_BACK) {
        return None;
    }
    let floor = if view.recreates() { view.desired } else { view.floor };
    let all = [(condition::AVAILABLE, view.available() >= floor), (condition::HELD, after.hold.is_some())];
    let stored = |type_: &str| Some(after.condition(type_)?.status == ConditionStatus::True);
    let wrong = all.into_iter().find(|(type_, is)| stored(type_) != Some(*is));
    wrong.map(|(type_, is)| format!("{type_} is stored as {:?}, the decision observed {is}", stored(type_)))
}
