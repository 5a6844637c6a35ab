//! L1, L3, L4: after the faults have ended, everything that remains to be done is done.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::names::{annotation, condition, label, reason};
use ordereddeployment_api::{
    ConditionStatus, OrderedDeployment, OrderedDeploymentStatus, OrderedReplicaSet, PodDeletion, validate,
};
use ordereddeployment_oracle::{View, current_sets, is_true};
use ordereddeployment_planner::{Set, is_of};
use ordereddeployment_wire::PodView;
use serde_json::Value;

use super::history::Violation;
use super::history::{
    History, Kind, WATCHED, controller, deployment, found, is_terminating, name, status, uid,
};
use super::staleness::max_staleness;
use crate::case::Fault;
use crate::log::{RunEventKind, instance};

/// The longest back-off of a retry, and some time for the requests.
const RETRY: SignedDuration = SignedDuration::from_secs(60);
/// The resync period.
const RESYNC: SignedDuration = SignedDuration::from_secs(300);

/// L1: at rest every object is complete, or its status says what it waits for.
pub(super) fn complete_or_explained(history: &History<'_>) -> Vec<Violation> {
    let Some(rest) = history.log.event(&RunEventKind::Settled) else { return Vec::new() };
    let objects =
        history.all_at("ordereddeployments", rest.requests).filter(|object| !is_terminating(object));
    let wrong =
        objects.filter_map(|object| Some((object, why_incomplete(history, object, rest.requests, rest.at)?)));
    wrong.map(|(object, why)| found("L1", rest.at, format!("{} at rest: {why}", name(object)))).collect()
}

fn why_incomplete(history: &History<'_>, object: &Value, requests: usize, at: Timestamp) -> Option<String> {
    let deployment: OrderedDeployment = serde_json::from_value(object.clone()).ok()?;
    let (spec, status) = (&deployment.spec, deployment.status.clone().unwrap_or_default());
    if status.observed_generation != deployment.metadata.generation {
        return Some("its generation is not observed".to_owned());
    }
    let stalled = status.condition(condition::STALLED).filter(|found| found.status == ConditionStatus::True);
    let stalled = stalled.map_or("", |found| found.reason.as_str());
    if !validate(spec).is_empty() {
        return (stalled != reason::INVALID_SPEC)
            .then(|| "its spec is invalid, and Stalled does not say so".to_owned());
    }
    let annotations = deployment.metadata.annotations.clone().unwrap_or_default();
    if annotations.contains_key(annotation::ADOPTING) || annotations.contains_key(annotation::HANDING_BACK) {
        return None;
    }
    let is_suspended = status.rollout.as_ref().is_some_and(|rollout| !rollout.completed);
    if spec.replicas == 0 && (is_suspended || stalled == reason::ABORTED) {
        return None;
    }
    if status.hold.is_some() || spec.paused {
        let complete = is_true(&status, condition::COMPLETE) && status.hold.is_some();
        return complete.then(|| "it is held, and Complete is True".to_owned());
    }
    let pods = Pods::of(history, &deployment, requests);
    let complete = is_true(&status, condition::COMPLETE);
    let desired = usize::try_from(spec.replicas).unwrap_or(0);
    let rolled_out = pods.old == 0 && pods.updated == desired && pods.available == desired;
    if !complete && spec.min_ready_seconds > 0 && is_set_back(history) {
        // By the clocks of the controllers, pods become available only later.
        return None;
    }
    match (rolled_out, complete) {
        (true, true) => (!pods.counted(&status)).then(|| format!("its counts are not those of {pods:?}")),
        (true, false) => Some("every pod is updated and available, and Complete is not True".to_owned()),
        (false, true) => Some(format!("Complete is True although there are {pods:?}")),
        (false, false) => {
            let is_gone = stalled == reason::ABORTED && !has_set_of_abort(history, object, requests);
            let excused = is_gone || is_excused(history, &deployment, &pods, stalled, at);
            (!excused).then(|| format!("{pods:?} of {desired}, and nothing prevents progress"))
        }
    }
}

/// Whether there is the set to which an abort rolls back. Without it, no pod moves until a retry, and the
/// condition says so.
fn has_set_of_abort(history: &History<'_>, object: &Value, requests: usize) -> bool {
    let hash = &object["status"]["aborted"]["templateHash"];
    let mut sets = history.all_at("orderedreplicasets", requests).filter(|set| !is_terminating(set));
    sets.any(|set| {
        controller(set) == Some(uid(object)) && set["metadata"]["labels"][label::POD_TEMPLATE_HASH] == *hash
    })
}

/// Whether the cluster prevents the object from being complete.
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
    let desired = usize::try_from(object.spec.replicas).unwrap_or(0);
    // Of another revision than the spec's, and all of them.
    let is_aborted = stalled == reason::ABORTED && pods.updated == 0 && pods.old == desired;
    (in_order && stalled == reason::WAITING_IN_ORDER)
        || is_aborted
        || stalled == reason::BLOCKED
        || stalled == reason::WAITS_AT_PAUSE_POINT
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
            if !owner.is_some_and(|owner| history.is_pod_of(pod, owner, requests)) {
                continue;
            }
            let set = controller(pod).and_then(|set| history.at(set, requests));
            let current = set.is_some_and(|set| {
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
        let same = |stored: Option<i32>, seen: usize| {
            stored.and_then(|count| usize::try_from(count).ok()) == Some(seen)
        };
        same(status.replicas, self.updated)
            && same(status.updated_replicas, self.updated)
            && same(status.available_replicas, self.available)
    }
}

/// L3: a resume request that names the current hold, or all points of the rollout, is carried out.
pub(super) fn resumes(history: &History<'_>) -> Vec<Violation> {
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
                found_all.push(found("L3", commit.at, format!("the request {request} is not answered")));
            }
            continue;
        };
        let next = status(&answer.object);
        let elsewhere = answer.deleted
            || is_terminating(&answer.object)
            || next.resume_requested.is_some()
            || revision(&next) != revision(&now);
        let passed = if all { next.has_passed_all() } else { next.passed_by(&hold.id).is_some() };
        let over = next.hold.as_ref().is_none_or(|next| next.id != hold.id);
        // The hold may have ended meanwhile.
        if !elsewhere && !over && !passed {
            let message = format!("the request {request} is dropped although it names the hold");
            found_all.push(found("L3", answer.at, message));
        }
    }
    found_all
}

/// L4: failed requests are retried.
pub(super) fn retries(history: &History<'_>) -> Vec<Violation> {
    if history.case.cluster.instances > 1 {
        return Vec::new();
    }
    let healed = history.log.event(&RunEventKind::FaultsEnded).map_or(Timestamp::MAX, |event| event.at);
    history.wrong("L4", |write| {
        let counts = !matches!(write.kind, Kind::SetStatus | Kind::Event | Kind::Lease | Kind::Other);
        let failed = write.record.code >= 400 && write.record.code != 404;
        if !counts || !failed || write.is_delayed || write.record.at > healed {
            return None;
        }
        let until = write.record.at + RETRY;
        // The object may be deleted before the next retry.
        let is_there =
            |owner: &str, requests| history.at(owner, requests).is_some_and(|object| !is_terminating(object));
        let end = history.log.requests.partition_point(|record| record.at <= until);
        let there = write.owner.is_some_and(|owner| is_there(owner, write.place) && is_there(owner, end));
        // A fault may prevent the retry, and a frozen instance does not retry.
        let is_prevented = history.log.events.iter().any(|event| {
            let tried = matches!(&event.kind, RunEventKind::FaultInjected(message)
                if message.contains(" of ") || message.starts_with("Freeze"));
            tried && event.requests > write.place && event.at <= until
        });
        (there && !is_prevented && nothing_follows(history, write.record.at, write.place + 1))
            .then_some("it failed and is not retried")
    })
}

/// Whether the only instance sends nothing within the time of a retry, although it does not end.
fn nothing_follows(history: &History<'_>, from: Timestamp, requests: usize) -> bool {
    let until = from + RETRY;
    let mut events = history.log.events.iter().filter(|event| from <= event.at && event.at <= until);
    let ended = events.any(|event| {
        matches!(
            event.kind,
            RunEventKind::InstanceKilled(_)
                | RunEventKind::InstanceExited(..)
                | RunEventKind::InstancePanicked(..)
        )
    });
    let later = history.log.requests.iter().skip(requests).take_while(|record| record.at <= until);
    let mut own = later.filter(|record| instance(&record.user_agent).is_some());
    !ended
        && !own.any(|record| record.verb != "watch" && !matches!(record.plural.as_str(), "events" | "leases"))
}

/// L4: after the faults have ended, the controller makes progress without long breaks.
pub(super) fn progress(history: &History<'_>) -> Vec<Violation> {
    let (Some(healed), Some(rest)) =
        (history.log.event(&RunEventKind::FaultsEnded), history.log.event(&RunEventKind::Settled))
    else {
        return Vec::new();
    };
    let mut last = healed.at;
    let mut staleness = max_staleness(history.case, history.log, healed.at);
    if history.case.faults.iter().any(|fault| matches!(fault, Fault::ClockJump { .. })) {
        // What a wrong clock delayed is found by the resync.
        staleness += RESYNC;
    }
    let mut found_all = Vec::new();
    for (place, record) in history.log.requests.iter().enumerate().skip(healed.requests) {
        if record.at > rest.at {
            break;
        }
        let write = super::history::write_at(history, place);
        let moves = write.is_some_and(|write| matches!(write.kind, Kind::CreatePod | Kind::DeletePod));
        let quiet = record.at.duration_since(last);
        if moves
            && quiet > RETRY + staleness
            && !waits_for_time(history, write.and_then(|write| write.decision))
        {
            let message = format!("{} {} follows after {quiet:#} without progress", record.verb, record.path);
            found_all.push(found("L4", record.at, message));
        }
        let about = WATCHED.contains(&record.plural.as_str());
        if about && !matches!(record.verb, "get" | "list" | "watch") {
            last = record.at;
        }
    }
    found_all
}

/// Whether that decision had to wait for a timer.
fn waits_for_time(history: &History<'_>, decision: Option<usize>) -> bool {
    let Some(decision) = decision else { return true };
    let snapshot = &history.decided(decision).snapshot;
    let waits = |seconds: i32| i64::from(seconds) >= RETRY.as_secs();
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

/// L4: while creates of one template fail, pods of other templates are replaced up to the floor.
pub(super) fn replaces_old_pods(history: &History<'_>) -> Vec<Violation> {
    let refused = history.case.faults.iter().filter_map(|fault| match fault {
        Fault::Request { matcher, times, .. } => Some((&matcher.verb, &matcher.body_contains, *times > 60)),
        _ => None,
    });
    // Where a fault refuses any create, none may be possible: it answers instead of the server, whose log has
    // no refusal.
    if refused.clone().any(|(verb, text, _)| verb == "create" && text.is_empty()) {
        return Vec::new();
    }
    let failing: Vec<&String> =
        refused.filter(|(_, text, lasts)| *lasts && !text.is_empty()).map(|(_, text, _)| text).collect();
    if failing.is_empty() {
        return Vec::new();
    }
    let fails = |set: &Set| {
        let template = set.template.value().to_string();
        failing.iter().any(|text| template.contains(*text))
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
        // What never served is not replaced.
        let has_served =
            |set: &Set| !hashes.contains(&*set.uid) && set.served.is_some_and(|revision| revision > 0);
        let is_below = view.reliable() < view.floor
            && view.old().next().is_some()
            && decided.snapshot.sets.iter().any(has_served)
            && !view.recreates()
            && view.status.hold.is_none()
            && !decided.snapshot.deployment.spec.paused
            && decided.snapshot.deployment.metadata.deletion_timestamp.is_none()
            && decided.snapshot.pods.iter().all(|pod| !pod.finished)
            && decided.snapshot.sets.iter().all(|set| hashes.contains(&*set.uid) || !fails(set));
        if !is_below {
            since.remove(owner);
            continue;
        }
        let from = *since.entry(owner).or_insert(decided.at);
        if decided.at > from + RETRY && !refilled(from) {
            let message =
                format!("{owner} has fewer old pods than the floor since {from}, and none is created");
            found_all.push(found("L4", decided.at, message));
            since.remove(owner);
        }
    }
    found_all
}

/// L4: requests that a fault failed are retried.
pub(super) fn retries_after_faults(history: &History<'_>) -> Vec<Violation> {
    if history.case.cluster.instances > 1 {
        return Vec::new();
    }
    let failed = history.log.events.iter().enumerate().filter_map(|(place, event)| match &event.kind {
        RunEventKind::FaultInjected(message) if is_failed_response(message) => {
            Some((place, event, message.rsplit_once(" of ")?.1))
        }
        _ => None,
    });
    let wrong = failed.filter(|(place, event, asked)| {
        let (verb, path) = asked.split_once(' ').unwrap_or_default();
        let counts = match verb {
            "create" | "delete" => path.contains("/pods") || path.contains("/orderedreplicasets"),
            "patch" => path.contains("/ordereddeployments/"),
            _ => false,
        };
        let until = event.at + RETRY;
        // The object may be deleted before the next retry.
        let is_there =
            |requests| history.all_at("ordereddeployments", requests).any(|object| !is_terminating(object));
        let end = history.log.requests.partition_point(|record| record.at <= until);
        let there = is_there(event.requests) && is_there(end);
        let frozen = history
            .case
            .faults
            .iter()
            .any(|fault| matches!(fault, Fault::Freeze { .. } | Fault::Partition { .. }));
        // A fault may prevent the retries, too, also one at the same time; then not another failed response,
        // which ends at once.
        let mut others = history.log.events[place + 1..].iter().filter(|later| match &later.kind {
            RunEventKind::FaultInjected(_) if later.at > event.at => later.at <= until,
            RunEventKind::FaultInjected(message) => !is_failed_response(message),
            _ => false,
        });
        let is_prevented = frozen || others.next().is_some();
        counts && there && !is_prevented && nothing_follows(history, event.at, event.requests)
    });
    wrong
        .map(|(_, event, asked)| found("L4", event.at, format!("{asked} failed and is not retried")))
        .collect()
}

/// Whether an injected fault ends a request at once, with an error or a lost connection.
fn is_failed_response(message: &str) -> bool {
    message.starts_with("Response") || message.starts_with("Reset")
}

/// Whether a clock of a controller jumps back.
fn is_set_back(history: &History<'_>) -> bool {
    history.case.faults.iter().any(|fault| matches!(fault, Fault::ClockJump { by, .. } if *by < 0))
}
