//! L1, L3, L4: what is to be done gets done once nothing goes wrong any more.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::names::{annotation, condition, reason};
use ordereddeployment_api::{
    ConditionStatus, OrderedDeployment, OrderedDeploymentStatus, OrderedReplicaSet, PodDeletion, validate,
};
use ordereddeployment_oracle::{View, current_sets};
use ordereddeployment_planner::{Set, is_of};
use ordereddeployment_wire::PodView;
use serde_json::Value;

use super::history::{History, Kind, controller, deployment, found, is_terminating, name, uid};
use super::violation::Violation;
use crate::case::Fault;
use crate::log::{What, instance};

/// The longest wait between two tries of what failed, with some time for the tries.
const TRIES: SignedDuration = SignedDuration::from_secs(60);
/// How often everything is looked at again, whatever was put off.
const LOOKS_AGAIN: SignedDuration = SignedDuration::from_secs(300);

/// L1: at rest every object is complete, or waits for somebody, and says so.
pub(super) fn converges(history: &History<'_>) -> Vec<Violation> {
    let Some(rest) = history.log.mark(&What::Rest) else { return Vec::new() };
    let objects =
        history.all_at("ordereddeployments", rest.requests).filter(|object| !is_terminating(object));
    let wrong =
        objects.filter_map(|object| Some((object, why_unsettled(history, object, rest.requests, rest.at)?)));
    wrong.map(|(object, why)| found("L1", rest.at, format!("{} at rest: {why}", name(object)))).collect()
}

fn why_unsettled(history: &History<'_>, object: &Value, requests: usize, at: Timestamp) -> Option<String> {
    let deployment: OrderedDeployment = serde_json::from_value(object.clone()).ok()?;
    let (spec, status) = (&deployment.spec, deployment.status.clone().unwrap_or_default());
    if status.observed_generation != deployment.metadata.generation {
        return Some("its spec was not observed".to_owned());
    }
    let says = |type_: &str| status.condition(type_).filter(|found| found.status == ConditionStatus::True);
    let stalled = says(condition::STALLED).map_or("", |found| found.reason.as_str());
    if !validate(spec).is_empty() {
        return (stalled != reason::INVALID_SPEC).then(|| "it is invalid, and does not say so".to_owned());
    }
    let annotations = deployment.metadata.annotations.clone().unwrap_or_default();
    if annotations.contains_key(annotation::ADOPTING) || annotations.contains_key(annotation::HANDING_BACK) {
        return None;
    }
    if status.hold.is_some() || spec.paused {
        let complete = says(condition::COMPLETE).is_some() && status.hold.is_some();
        return complete.then(|| "it is held and says that it is complete".to_owned());
    }
    let pods = Pods::of(history, &deployment, requests);
    let complete = says(condition::COMPLETE).is_some();
    let desired = usize::try_from(spec.replicas).unwrap_or(0);
    let settled = pods.old == 0 && pods.updated == desired && pods.available == desired;
    if !complete && spec.min_ready_seconds > 0 && is_set_back(history) {
        // By the controllers' clocks pods will have been ready for long enough only then.
        return None;
    }
    match (settled, complete) {
        (true, true) => (!pods.counted(&status)).then(|| format!("its counts are not those of {pods:?}")),
        (true, false) => Some("every pod is updated and available, and it does not say so".to_owned()),
        (false, true) => Some(format!("it says that it is complete: {pods:?}")),
        (false, false) => {
            let excused = is_excused(history, &deployment, &pods, stalled, at);
            (!excused).then(|| format!("{pods:?} of {desired}, and nothing stands in the way"))
        }
    }
}

/// Whether the world keeps it from being complete.
fn is_excused(
    history: &History<'_>,
    object: &OrderedDeployment,
    pods: &Pods,
    stalled: &str,
    at: Timestamp,
) -> bool {
    let since = at.checked_sub(SignedDuration::from_secs(120)).unwrap_or(at);
    let refused = |verb: &str, subresource: Option<&str>| {
        history.log.requests.iter().any(|record| {
            let recent = record.at > since && record.at <= at && instance(&record.user_agent).is_some();
            let same = record.verb == verb && record.plural == "pods";
            let subresource = subresource.is_none() || record.subresource.as_deref() == subresource;
            recent && same && subresource && record.code >= 400 && record.code != 409
        })
    };
    let in_order = object
        .spec
        .deletion_order
        .as_ref()
        .is_some_and(|order| order.unavailable_pods == ordereddeployment_api::UnavailablePods::InOrder);
    let evicts = object.spec.pod_deletion == PodDeletion::Evict;
    (in_order && stalled == reason::WAITING_IN_ORDER)
        || stalled == reason::BLOCKED
        || refused("create", None)
        || refused("delete", None)
        || (evicts && refused("create", Some("eviction")))
        || pods.ending > 0
        || pods.failed > 0
        // Pods of the current template that do not become ready.
        || pods.unready > 0
}

/// The pods of an object, as the server has them.
#[derive(Debug, Default)]
struct Pods {
    old: usize,
    updated: usize,
    available: usize,
    /// Updated ones that are not ready.
    unready: usize,
    ending: usize,
    failed: usize,
}

impl Pods {
    fn of(history: &History<'_>, deployment: &OrderedDeployment, requests: usize) -> Self {
        let owner = deployment.metadata.uid.as_deref();
        let mut pods = Self::default();
        for pod in history.all_at("pods", requests) {
            let Some(set) = controller(pod) else { continue };
            if !owner.is_some_and(|owner| history.is_set_of(set, owner, requests)) {
                continue;
            }
            let current = history.at(set, requests).is_some_and(|set| {
                let set = serde_json::from_value::<OrderedReplicaSet>(set.clone());
                set.is_ok_and(|set| is_of(&ordereddeployment_wire::set(&set), &deployment.spec.template))
            });
            let Ok(view) = serde_json::from_value::<PodView>(pod.clone()) else { continue };
            let view = view.pod();
            if view.finished {
                pods.failed += 1;
            } else if view.terminating {
                pods.ending += 1;
            } else if current {
                pods.updated += 1;
                pods.available += usize::from(view.facts.ready);
                pods.unready += usize::from(!view.facts.ready);
            } else {
                pods.old += 1;
            }
        }
        pods
    }

    fn counted(&self, status: &OrderedDeploymentStatus) -> bool {
        let same =
            |told: Option<i32>, seen: usize| told.and_then(|told| usize::try_from(told).ok()) == Some(seen);
        same(status.replicas, self.updated)
            && same(status.updated_replicas, self.updated)
            && same(status.available_replicas, self.available)
    }
}

/// L3: a request that names the hold that stands, or all points of the rollout, is followed.
pub(super) fn resumes(history: &History<'_>) -> Vec<Violation> {
    let status = |object: &Value| -> OrderedDeploymentStatus {
        serde_json::from_value(object["status"].clone()).unwrap_or_default()
    };
    let revision = |status: &OrderedDeploymentStatus| status.rollout.as_ref().map(|rollout| rollout.revision);
    let mut found_all = Vec::new();
    for (place, commit) in history.log.commits.iter().enumerate() {
        if commit.plural != "ordereddeployments" || commit.deleted {
            continue;
        }
        let now = status(&commit.object);
        let before = commit.previous.as_ref().map(|before| status(before)).unwrap_or_default();
        let Some(request) =
            now.resume_requested.as_ref().filter(|_| before.resume_requested != now.resume_requested)
        else {
            continue;
        };
        let all = revision(&now).is_some_and(|revision| *request == format!("*@{revision}"));
        let Some(hold) = now.hold.as_ref().filter(|hold| all || hold.id == *request) else { continue };
        let later = history.log.commits[place + 1..].iter();
        let mut later = later.filter(|later| uid(&later.object) == uid(&commit.object));
        let answer = later.find(|later| {
            let next = status(&later.object);
            later.deleted || is_terminating(&later.object) || next.resume_requested.as_ref() != Some(request)
        });
        let Some(answer) = answer else {
            let valid: Option<OrderedDeployment> = serde_json::from_value((*commit.object).clone()).ok();
            if valid.is_some_and(|object| validate(&object.spec).is_empty()) {
                found_all.push(found("L3", commit.at, format!("the request {request} was never answered")));
            }
            continue;
        };
        let next = status(&answer.object);
        let elsewhere = answer.deleted
            || is_terminating(&answer.object)
            || next.resume_requested.is_some()
            || revision(&next) != revision(&now);
        let passed = if all { next.has_passed("*") } else { next.has_passed(&hold.pod_uid) };
        let over = next.hold.as_ref().is_none_or(|next| next.id != hold.id);
        // It may have ended by itself in between.
        if !elsewhere && !over && !passed {
            let words = format!("the request {request} was dropped although it names the hold");
            found_all.push(found("L3", answer.at, words));
        }
    }
    found_all
}

/// L4: what failed is tried again before long.
pub(super) fn tries_again(history: &History<'_>) -> Vec<Violation> {
    let healed = history.log.mark(&What::Healed).map_or(Timestamp::MAX, |mark| mark.at);
    let moves = |kind: Kind| {
        matches!(
            kind,
            Kind::CreatePod
                | Kind::DeletePod
                | Kind::PatchPod
                | Kind::CreateSet
                | Kind::PatchSet
                | Kind::DeleteSet
                | Kind::Status
        )
    };
    let failed = history.writes.iter().filter(|write| {
        moves(write.kind)
            && !write.is_late
            && write.record.code >= 400
            && write.record.code != 404
            && write.owner.is_some()
    });
    let mut found_all = Vec::new();
    for write in failed {
        let ended = history.log.marks.iter().any(|mark| {
            mark.requests >= write.place
                && mark.at <= write.record.at + TRIES
                && matches!(&mark.what, What::Killed(one) | What::Ended(one, _) | What::Panicked(one, _) if *one == write.instance)
        });
        let end = history.log.requests.partition_point(|record| record.at <= write.record.at + TRIES);
        // Nothing is owed to an object that goes before the next try.
        let gone = write.owner.is_some_and(|owner| {
            [write.place, end].into_iter().any(|place| history.at(owner, place).is_none_or(is_terminating))
        });
        let asked = history.log.requests[write.place + 1..]
            .iter()
            .take_while(|record| record.at <= write.record.at + TRIES)
            .any(|record| {
                let own = instance(&record.user_agent) == Some(write.instance);
                own && !matches!(record.plural.as_str(), "events" | "leases") && record.verb != "watch"
            });
        // A try that a fault struck may not have come to the server, nor is there one of an instance that stands still.
        let struck = history.log.marks.iter().any(|mark| {
            let tried = matches!(&mark.what, What::Struck(words) if words.contains(" of ") || words.starts_with("Freeze"));
            tried && mark.requests > write.place && mark.at <= write.record.at + TRIES
        });
        if !asked
            && !struck
            && !ended
            && !gone
            && history.case.cluster.instances < 2
            && write.record.at <= healed
        {
            let words = format!("{} {} failed, and nothing follows", write.record.verb, write.record.path);
            found_all.push(found("L4", write.record.at, words));
        }
    }
    found_all
}

/// L4: while something remains to be done, something happens before long, once nothing goes wrong any more.
pub(super) fn goes_on(history: &History<'_>) -> Vec<Violation> {
    let (Some(healed), Some(rest)) = (history.log.mark(&What::Healed), history.log.mark(&What::Rest)) else {
        return Vec::new();
    };
    let mut last = healed.at;
    let mut explained = super::bounds::staleness(history.case, history.log, healed.at);
    if history.case.faults.iter().any(|fault| matches!(fault, Fault::Jump { .. })) {
        // What was put off by a wrong clock is seen when everything is looked at again.
        explained += LOOKS_AGAIN;
    }
    let mut found_all = Vec::new();
    for (place, record) in history.log.requests.iter().enumerate().skip(healed.requests) {
        if record.at > rest.at {
            break;
        }
        let write = super::history::instance_made(history, place);
        let moves = write.is_some_and(|write| matches!(write.kind, Kind::CreatePod | Kind::DeletePod));
        let quiet = record.at.duration_since(last);
        if moves
            && quiet > TRIES + explained
            && !waits_for_time(history, write.and_then(|write| write.decision))
        {
            let words = format!("{} {} comes after {quiet:#} of nothing", record.verb, record.path);
            found_all.push(found("L4", record.at, words));
        }
        let about =
            matches!(record.plural.as_str(), "pods" | "orderedreplicasets" | "ordereddeployments" | "nodes");
        if about && !matches!(record.verb, "get" | "list" | "watch") {
            last = record.at;
        }
    }
    found_all
}

/// Whether that decision had to wait for a moment to come.
fn waits_for_time(history: &History<'_>, decision: Option<usize>) -> bool {
    let Some(decision) = decision else { return true };
    let snapshot = &history.decided(decision).snapshot;
    let waits = |seconds: i32| i64::from(seconds) >= TRIES.as_secs();
    snapshot.pods.iter().any(|pod| pod.finished)
        || waits(snapshot.deployment.spec.min_ready_seconds)
        || snapshot.sets.iter().any(|set| waits(set.min_ready_seconds))
        || snapshot.deployment.spec.pod_deletion == PodDeletion::Evict
        || snapshot.deployment.status.as_ref().is_some_and(|status| {
            status
                .condition(condition::PROGRESSING)
                .is_some_and(|found| found.reason == reason::PROGRESS_DEADLINE_EXCEEDED)
        })
}

/// L4: while creates of one template fail, sets of others are kept at what the floor wants.
pub(super) fn heals(history: &History<'_>) -> Vec<Violation> {
    let lasts = |fault: &Fault| match fault {
        Fault::Request { class, times, .. } if *times > 60 => {
            Some(class.says.clone()).filter(|says| !says.is_empty())
        }
        _ => None,
    };
    let failing: Vec<String> = history.case.faults.iter().filter_map(lasts).collect();
    if failing.is_empty() {
        return Vec::new();
    }
    let fails = |set: &Set| {
        let template = set.template.value().to_string();
        failing.iter().any(|says| template.contains(says))
    };
    let mut since: BTreeMap<&str, Timestamp> = BTreeMap::new();
    let mut found_all = Vec::new();
    for decided in &history.log.decisions {
        let (view, owner) = (View::of(&decided.snapshot), deployment(decided));
        let hashes = current_sets(&decided.snapshot);
        let refilled = |from: Timestamp| {
            history.writes.iter().any(|write| {
                let set = write.record.body.as_ref().and_then(controller);
                let old = set.is_some_and(|set| !hashes.contains(set));
                let within = write.record.at >= from && write.record.at <= decided.at;
                write.kind == Kind::CreatePod && write.is_accepted() && old && within
            })
        };
        let lacks = view.reliable() < view.floor
            && view.old().next().is_some()
            && !view.recreates()
            && !view.is_kept()
            && decided.snapshot.deployment.metadata.deletion_timestamp.is_none()
            && decided.snapshot.pods.iter().all(|pod| !pod.finished)
            && decided.snapshot.sets.iter().all(|set| hashes.contains(&*set.uid) || !fails(set));
        if !lacks {
            since.remove(owner);
            continue;
        }
        let from = *since.entry(owner).or_insert(decided.at);
        if decided.at > from + TRIES && !refilled(from) {
            let words = format!("{owner} lacks old pods since {from}, and none is made");
            found_all.push(found("L4", decided.at, words));
            since.remove(owner);
        }
    }
    found_all
}

/// L4: what a fault failed is tried again before long, too.
pub(super) fn tries_struck_again(history: &History<'_>) -> Vec<Violation> {
    if history.case.cluster.instances > 1 {
        return Vec::new();
    }
    let failed = history.log.marks.iter().filter_map(|mark| match &mark.what {
        What::Struck(words) if words.starts_with("Answer") || words.starts_with("Reset") => {
            Some((mark, words.rsplit_once(" of ")?.1))
        }
        _ => None,
    });
    let wrong = failed.filter(|(mark, asked)| {
        let (verb, path) = asked.split_once(' ').unwrap_or_default();
        let counts = match verb {
            "create" | "delete" => path.contains("/pods") || path.contains("/orderedreplicasets"),
            "patch" => path.contains("/ordereddeployments/"),
            _ => false,
        };
        let until = mark.at + TRIES;
        let mut later = history.log.marks.iter().filter(|later| later.at >= mark.at && later.at <= until);
        let ended =
            later.any(|later| matches!(later.what, What::Killed(_) | What::Ended(..) | What::Panicked(..)));
        // Nothing is owed to an object that goes before the next try.
        let is_there =
            |requests| history.all_at("ordereddeployments", requests).any(|object| !is_terminating(object));
        let end = history.log.requests.partition_point(|record| record.at <= until);
        let there = is_there(mark.requests) && is_there(end);
        let mut asked = history.log.requests[mark.requests.min(history.log.requests.len())..].iter();
        let follows = asked.by_ref().take_while(|record| record.at <= until).any(|record| {
            let ours = instance(&record.user_agent).is_some() && record.verb != "watch";
            ours && !matches!(record.plural.as_str(), "events" | "leases")
        });
        let frozen =
            history.case.faults.iter().any(|fault| matches!(fault, Fault::Freeze { .. } | Fault::Cut { .. }));
        // A fault may strike the tries as well.
        let mut others =
            history.log.marks.iter().filter(|later| {
                later.at > mark.at && later.at <= until && matches!(later.what, What::Struck(_))
            });
        counts && !follows && !ended && there && !frozen && others.next().is_none()
    });
    wrong.map(|(mark, asked)| found("L4", mark.at, format!("{asked} failed, and nothing follows"))).collect()
}

/// Whether the controllers' clocks jumped back.
fn is_set_back(history: &History<'_>) -> bool {
    history.case.faults.iter().any(|fault| matches!(fault, Fault::Jump { by, .. } if *by < 0))
}
