//! S1, S2, S5, S7, S13, S15: the deletes that were sent for a decision, against what the decision was made
//! on.
//!
//! `decisions::allowed` checks the decision itself: the order, the floor and the ceiling. What is sent is a
//! part of it.

use ordereddeployment_api::{PausePoint, Template};
use ordereddeployment_oracle::View;
use ordereddeployment_planner::{Act, Point, Purpose, Target};
use ordereddeployment_sandbox::Record;
use ordereddeployment_wire::PodView;

use super::history::Violation;
use super::history::{History, Kind, Write, controller, found, is_terminating, number, version};
use crate::log::{DecisionRecord, RunEvent, RunEventKind};
use crate::scenarios::without_spelling;

/// An act with deletes that were sent, and what it was decided on.
struct Deletes<'h, 'a> {
    decided: &'a DecisionRecord,
    act: &'a Act,
    view: View<'a>,
    sent: Vec<&'h Write<'a>>,
}

fn all<'h, 'a>(history: &'h History<'a>) -> impl Iterator<Item = Deletes<'h, 'a>> {
    history.acts().filter_map(move |(place, decided, act)| {
        let sent: Vec<_> = history.sent(place).filter(|write| write.kind == Kind::DeletePod).collect();
        // A delayed delete may belong to an earlier decision.
        let sent: Vec<_> = sent.into_iter().filter(|write| !write.is_delayed).collect();
        (!sent.is_empty()).then(|| Deletes { decided, act, view: View::of(&decided.snapshot), sent })
    })
}

fn targets(act: &Act, purpose: Purpose) -> impl Iterator<Item = &Target> {
    act.deletes.iter().filter(move |group| group.purpose == purpose).flat_map(|group| &group.targets)
}

fn purpose(write: &Write<'_>) -> Purpose {
    if write.is_rollout() { Purpose::Rollout } else { Purpose::Scale }
}

fn name<'w>(write: &Write<'w>) -> &'w str {
    write.record.name.as_deref().unwrap_or_default()
}

/// S1: no delete is sent that was not decided. `decisions::allowed` checks the order of those that are.
pub(super) fn order(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for Deletes { decided, act, sent, .. } in all(history) {
        for write in sent {
            let uid = write.precondition("uid");
            let is_decided = targets(act, purpose(write))
                .any(|target| target.name() == name(write) && uid.is_none_or(|uid| **target.uid() == *uid));
            if !is_decided {
                let client = &write.record.user_agent;
                found_all.push(found(
                    "S1",
                    decided.at,
                    format!("{client} deletes {} without a decision", name(write)),
                ));
            }
        }
    }
    found_all
}

/// S15: a rollout deletes no pod of the current template, even if its set is deleted or released.
pub(super) fn current_template(history: &History<'_>) -> Vec<Violation> {
    history.wrong("S15", |write| {
        let is_rollout = write.kind == Kind::DeletePod && write.is_rollout() && !write.is_delayed;
        let decided = history.decided(write.decision.filter(|_| is_rollout)?);
        let set = history.controller_of(write.precondition("uid")?, write.place)?;
        let template = Template::new(&history.changes(set).next()?.object["spec"]["template"]);
        let is_current = template.without_hash().same_as(&View::of(&decided.snapshot).template());
        is_current.then_some("the pod is of the current template")
    })
}

/// S2: no delete is sent before the server has accepted those of higher priorities.
pub(super) fn prefix(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for deletes in all(history) {
        for write in &deletes.sent {
            let purpose = purpose(write);
            let mut groups = deletes.act.deletes.iter().filter(|group| group.purpose == purpose);
            let Some(own) =
                groups.clone().position(|group| group.targets.iter().any(|one| one.name() == name(write)))
            else {
                continue;
            };
            let waiting = groups.by_ref().take(own).flat_map(|group| &group.targets).find(|target| {
                let accepted = deletes.sent.iter().any(|other| {
                    other.place < write.place
                        && name(other) == target.name()
                        && (other.is_accepted() || other.record.code == 404)
                });
                !accepted && history.at(target.uid(), write.place).is_some_and(|pod| !is_terminating(pod))
            });
            if let Some(waiting) = waiting {
                let message = format!("{} is deleted before {}", name(write), waiting.name());
                found_all.push(found("S2", write.record.at, message));
            }
        }
    }
    found_all
}

/// S13: no rollout deletes a pod whose template is the spec's in another spelling, unless the server refuses
/// to compare templates.
pub(super) fn equal_templates(history: &History<'_>) -> Vec<Violation> {
    let refused = |record: &Record| record.plural == "podtemplates" && matches!(record.code, 400 | 403 | 422);
    let injected = |event: &RunEvent| {
        matches!(&event.kind, RunEventKind::FaultInjected(fault)
            if fault.starts_with("Response") && fault.ends_with("/podtemplates"))
    };
    if history.log.requests.iter().any(refused) || history.log.events.iter().any(injected) {
        return Vec::new();
    }
    let mut found_all = Vec::new();
    for deletes in all(history) {
        let snapshot = deletes.view.snapshot;
        let own = without_spelling(&deletes.view.template());
        for write in deletes.sent.iter().filter(|write| write.is_rollout()) {
            let pod = snapshot.pods.iter().find(|pod| pod.name == name(write));
            let set = pod.and_then(|pod| snapshot.sets.iter().find(|set| set.uid == pod.set));
            if set.is_some_and(|set| without_spelling(&set.template) == own) {
                let message =
                    format!("{} is deleted although its template is only spelled differently", name(write));
                found_all.push(found("S13", write.record.at, message));
            }
        }
    }
    found_all
}

/// S5: no pod goes that had a pause point `before` when the server received its delete, unless the point was
/// passed.
pub(super) fn barrier(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for deletes in all(history) {
        for write in deletes.sent.iter().filter(|write| write.is_rollout()) {
            if has_point_before(history, &deletes.view, write) {
                let message = format!("{} is deleted although it has a pause point before", name(write));
                found_all.push(found("S5", write.record.at, message));
            }
        }
    }
    found_all
}

/// Whether the pod had a point `before` that was not passed when the server received this delete.
fn has_point_before(history: &History<'_>, view: &View<'_>, write: &Write<'_>) -> bool {
    let Some(uid) = write.precondition("uid").filter(|_| write.is_accepted()) else { return false };
    let Some(pod) = history.at(uid, write.place) else { return false };
    if view.aborts || view.served_last() || view.status.has_passed(name(write)) || controller(pod).is_none() {
        return false;
    }
    let pod: Option<PodView> = serde_json::from_value(pod.clone()).ok();
    pod.is_some_and(|pod| matches!(pod.pod().point, Point::At { side: PausePoint::Before, .. }))
}

/// S7: UID and resourceVersion of every delete are those of the decision's view, or of a later read.
pub(super) fn preconditions(history: &History<'_>) -> Vec<Violation> {
    history.wrong("S7", |write| {
        matches!(write.kind, Kind::DeletePod | Kind::DeleteSet).then(|| why_unbound(history, write)).flatten()
    })
}

fn why_unbound(history: &History<'_>, write: &Write<'_>) -> Option<String> {
    let (Some(wanted), Some(given)) =
        (write.precondition("uid"), write.precondition("resourceVersion").map(number))
    else {
        return Some("UID and resourceVersion are not both given".to_owned());
    };
    let decided = history.decided(write.decision.filter(|_| !write.is_delayed)?);
    let name = write.record.name.as_deref().unwrap_or_default();
    let seen = if write.kind == Kind::DeletePod {
        let pod = decided.snapshot.pods.iter().find(|pod| pod.name == name && *pod.facts.uid == *wanted);
        pod.map(|pod| number(&pod.resource_version))
    } else {
        let set = decided.snapshot.sets.iter().find(|set| set.name == name && *set.uid == *wanted);
        // The view has no versions of sets.
        set.map(|_| given)
    };
    let Some(seen) = seen else { return Some(format!("{wanted} is not in the decision's view")) };
    if seen == given {
        return None;
    }
    let read_since = history.log.requests[decided.requests..write.place]
        .iter()
        .any(|read| read.verb == "get" && read.name.as_deref() == Some(name) && read.plural == "pods");
    let existed = history.changes(wanted).any(|commit| version(&commit.object) == given);
    (!(read_since && existed && given > seen)).then(|| format!("version {given} was not read after {seen}"))
}
