//! S12: no panic, no storm of writes, and none at all at rest; L2: a hold that nobody resumes stays, with no writes.

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::OrderedDeploymentStatus;
use ordereddeployment_oracle::has_begun;
use serde_json::Value;

use super::history::{History, Kind, Write, deployment, found, name, uid};
use super::violation::Violation;
use crate::log::{What, instance};

/// What the controllers may write in a run of themselves, for each of their lives, and for each change that others make or fault.
const OF_THEMSELVES: usize = 60;
const FOR_A_LIFE: usize = 40;
const FOR_A_CHANGE: usize = 8;
/// The most writes to one object in a second of simulated time.
const A_SECOND: usize = 40;
/// How long before the rest the world must have been still.
const STILL: SignedDuration = SignedDuration::from_secs(600);

/// S12: nothing panics.
pub(super) fn panics(history: &History<'_>) -> Vec<Violation> {
    let words = history.log.marks.iter().filter_map(|mark| match &mark.what {
        What::Panicked(instance, words) => {
            Some(found("S12", mark.at, format!("instance {instance} panicked: {words}")))
        }
        _ => None,
    });
    words.collect()
}

/// S12: the number of writes is bounded by what happens.
pub(super) fn storms(history: &History<'_>) -> Vec<Violation> {
    let writes: Vec<_> = history.writes.iter().filter(|write| write.kind != Kind::Lease).collect();
    let Some(last) = writes.last() else { return Vec::new() };
    let others =
        history.log.commits.iter().filter(|commit| !is_a_controllers(history, commit.request)).count();
    let marks = history.log.marks.iter();
    let lives = marks.clone().filter(|mark| matches!(mark.what, What::Started(_))).count();
    let struck = marks.filter(|mark| matches!(mark.what, What::Struck(_))).count();
    let most = OF_THEMSELVES + FOR_A_LIFE * lives + FOR_A_CHANGE * (others + struck);
    let mut found_all = Vec::new();
    if writes.len() > most {
        let words = format!("{} writes, where what happened explains {most}", writes.len());
        found_all.push(found("S12", last.record.at, words));
    }
    let mut statuses: Vec<_> = writes.into_iter().filter(|write| write.kind == Kind::Status).collect();
    statuses.sort_by_key(|write| (write.owner, write.place));
    let storm = statuses.windows(A_SECOND + 1).find(|window| {
        let (first, last) = (window[0], window[A_SECOND]);
        let span = last.record.at.duration_since(first.record.at);
        // Each conflict with a change of somebody else's is looked into at once.
        let overtaken = history.log.marks.iter().any(|mark| {
            let within = mark.at >= first.record.at && mark.at <= last.record.at;
            within && matches!(&mark.what, What::Struck(words) if words.starts_with("Overtaken"))
        });
        first.owner == last.owner && span <= SignedDuration::from_secs(1) && !overtaken
    });
    found_all.extend(storm.map(|window| {
        found("S12", window[0].record.at, format!("more than {A_SECOND} statuses in a second"))
    }));
    found_all
}

fn is_a_controllers(history: &History<'_>, request: Option<usize>) -> bool {
    request.is_some_and(|place| instance(&history.log.requests[place].user_agent).is_some())
}

/// The moments of the rest and of the end.
fn rest(history: &History<'_>) -> Option<(Timestamp, Timestamp)> {
    Some((history.log.mark(&What::Rest)?.at, history.log.mark(&What::End)?.at))
}

/// S12: once everything has settled, nothing is written any more.
pub(super) fn none_at_rest(history: &History<'_>) -> Vec<Violation> {
    let Some((rest, end)) = rest(history) else { return Vec::new() };
    let resting = |at: Timestamp| at >= rest && at <= end;
    let first = history.writes.iter().find(|write| write.kind != Kind::Lease && resting(write.record.at));
    let Some(write) = first.filter(|_| !moves_by_itself(history, rest)) else { return Vec::new() };
    let count =
        history.writes.iter().filter(|write| write.kind != Kind::Lease && resting(write.record.at)).count();
    let words = format!("{count} writes at rest, the first is {} {}", write.record.verb, write.record.path);
    vec![found("S12", write.record.at, words)]
}

/// Whether others still move something, or refuse something, as the scenario leaves the world behind.
fn moves_by_itself(history: &History<'_>, rest: Timestamp) -> bool {
    let Ok(still) = rest.checked_sub(STILL) else { return true };
    let fails = history.log.commits.iter().any(|commit| {
        let failed = |object: &Value| object["status"]["phase"] == "Failed";
        commit.at > still && commit.plural == "pods" && failed(&commit.object)
    });
    let refused = history.log.requests.iter().any(|record| {
        let writes = !matches!(record.verb, "get" | "list" | "watch");
        record.at > still
            && writes
            && instance(&record.user_agent).is_some()
            && (400..500).contains(&record.code)
            && ![404, 409].contains(&record.code)
    });
    fails || refused
}

/// L2: a hold stays until somebody resumes it, and nothing is written meanwhile.
pub(super) fn holds_stay(history: &History<'_>) -> Vec<Violation> {
    let (Some(rest), Some(end)) = (history.log.mark(&What::Rest), history.log.mark(&What::End)) else {
        return Vec::new();
    };
    let status = |object: &Value| -> OrderedDeploymentStatus {
        serde_json::from_value(object["status"].clone()).unwrap_or_default()
    };
    let mut found_all = Vec::new();
    for object in history.all_at("ordereddeployments", rest.requests) {
        let Some(hold) = status(object).hold.filter(|hold| !has_begun(hold) && hold.until.is_none()) else {
            continue;
        };
        let moved = |write: &&Write<'_>| {
            write.record.at >= rest.at && write.owner == Some(uid(object)) && write.kind != Kind::Event
        };
        let later = history.at(uid(object), end.requests).map(status);
        if later.and_then(|later| later.hold) != Some(hold.clone()) {
            found_all.push(found("L2", end.at, format!("the hold {} did not stay", hold.id)));
        } else if let Some(write) = history.writes.iter().find(moved)
            && !moves_by_itself(history, rest.at)
        {
            let words = format!("{} is held, and {} {}", name(object), write.record.verb, write.record.path);
            found_all.push(found("L2", write.record.at, words));
        }
    }
    // While it is held, no rollout goes on.
    let rollout = history.acts().filter(|(place, decided, _)| {
        let status = decided.snapshot.deployment.status.clone().unwrap_or_default();
        let held = status.hold.is_some_and(|hold| !has_begun(&hold));
        held && history.sent(*place).any(|write| write.is_rollout() && !write.is_late)
    });
    found_all.extend(rollout.map(|(_, decided, _)| {
        found("L2", decided.at, format!("the rollout of {} goes on in a hold", deployment(decided)))
    }));
    found_all
}
