//! S12: no panic, a bounded number of writes, and none at rest. L2: a hold that is not resumed stays, without
//! writes.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::history::Violation;
use super::history::{History, Kind, Write, deployment, found, name, status, uid};
use crate::log::{RunEventKind, instance};
use crate::run::MAX_REQUESTS;

/// The maximum number of writes: in each run, for each start of an instance, for each fault or change by
/// other clients, and for each minute.
const PER_RUN: usize = 60;
const PER_START: usize = 40;
const PER_CHANGE: usize = 8;
/// A refused write is repeated every 30 s, with an event.
const PER_MINUTE: i64 = 3;
/// The maximum number of requests that fail, and of warnings that are logged: in each run, for each start of
/// an instance, and for each minute. The cause of an outage does not matter.
const REFUSED: (usize, usize, i64) = (300, 60, 30);
const LOGGED: (usize, usize, i64) = (60, 30, 6);
/// The maximum number of status updates of one object per second.
const PER_SECOND: usize = 40;
/// How long nothing must have happened in the cluster before it is at rest.
const QUIET: SignedDuration = SignedDuration::from_secs(600);

/// S12: nothing panics.
pub(super) fn panics(history: &History<'_>) -> Vec<Violation> {
    let message = history.log.events.iter().filter_map(|event| match &event.kind {
        RunEventKind::InstancePanicked(instance, message) => {
            Some(found("S12", event.at, format!("instance {instance} panicked: {message}")))
        }
        _ => None,
    });
    message.collect()
}

/// S12: the number of writes is bounded by the number of starts, faults, changes and minutes.
pub(super) fn write_storms(history: &History<'_>) -> Vec<Violation> {
    if let Some(last) = history.log.requests.get(MAX_REQUESTS - 1) {
        return vec![found("S12", last.at, format!("the run ended after {MAX_REQUESTS} requests"))];
    }
    let writes: Vec<_> = history.writes.iter().filter(|write| write.kind != Kind::Lease).collect();
    let (Some(first), Some(last)) = (writes.first(), writes.last()) else { return Vec::new() };
    let others =
        history.log.commits.iter().filter(|commit| !is_by_controller(history, commit.request)).count();
    let events = history.log.events.iter();
    let starts =
        events.clone().filter(|event| matches!(event.kind, RunEventKind::InstanceStarted(_))).count();
    let faults = events.filter(|event| matches!(event.kind, RunEventKind::FaultInjected(_))).count();
    let minutes = last.record.at.duration_since(first.record.at).as_mins();
    let repeated = usize::try_from(PER_MINUTE * minutes).unwrap_or(0);
    let max = PER_RUN + PER_START * starts + PER_CHANGE * (others + faults) + repeated;
    let mut found_all = Vec::new();
    if writes.len() > max {
        let message = format!("{} writes, the maximum is {max}", writes.len());
        found_all.push(found("S12", last.record.at, message));
    }
    let mut statuses: Vec<_> = writes.into_iter().filter(|write| write.kind == Kind::Status).collect();
    statuses.sort_by_key(|write| (write.owner, write.place));
    let storm = statuses.windows(PER_SECOND + 1).find(|window| {
        let (first, last) = (window[0], window[PER_SECOND]);
        let span = last.record.at.duration_since(first.record.at);
        // Each conflict with the change of another client causes a reconcile at once.
        let conflicts = history.log.events.iter().any(|event| {
            let within = event.at >= first.record.at && event.at <= last.record.at;
            let is_conflict = |fault: &str| fault.starts_with("UpdateBefore");
            within && matches!(&event.kind, RunEventKind::FaultInjected(fault) if is_conflict(fault))
        });
        first.owner == last.owner && span <= SignedDuration::from_secs(1) && !conflicts
    });
    found_all.extend(storm.map(|window| {
        found("S12", window[0].record.at, format!("more than {PER_SECOND} status updates in a second"))
    }));
    found_all
}

/// S12: an outage costs requests and lines of the log by its length.
pub(super) fn outages(history: &History<'_>) -> Vec<Violation> {
    let events = &history.log.events;
    let ended = history.log.event(&RunEventKind::FaultsEnded);
    let (Some(first), Some(last)) = (events.first(), ended) else { return Vec::new() };
    let of = |is_it: &dyn Fn(&RunEventKind) -> bool| events.iter().filter(|event| is_it(&event.kind)).count();
    let starts = of(&|kind| matches!(kind, RunEventKind::InstanceStarted(_)));
    let refused =
        of(&|kind| matches!(kind, RunEventKind::FaultInjected(what) if what.starts_with("Response")));
    let minutes = last.at.duration_since(first.at).as_mins();
    let max = |(run, start, minute): (usize, usize, i64)| {
        run + start * starts + usize::try_from(minute * minutes).unwrap_or(0)
    };
    let counts = [("requests failed", refused, REFUSED), ("warnings were logged", history.log.lines, LOGGED)];
    let counts = counts.map(|(what, count, limit)| (what, count, max(limit)));
    let exceeded = counts.into_iter().filter(|(_, count, max)| count > max);
    exceeded
        .map(|(what, count, max)| found("S12", last.at, format!("{count} {what}, the maximum is {max}")))
        .collect()
}

fn is_by_controller(history: &History<'_>, request: Option<usize>) -> bool {
    request.is_some_and(|place| instance(&history.log.requests[place].user_agent).is_some())
}

/// When everything has settled, and when the run ends.
fn rest(history: &History<'_>) -> Option<(Timestamp, Timestamp)> {
    Some((history.log.event(&RunEventKind::Settled)?.at, history.log.event(&RunEventKind::Finished)?.at))
}

/// S12: after everything has settled, nothing is written.
pub(super) fn writes_at_rest(history: &History<'_>) -> Vec<Violation> {
    let Some((rest, end)) = rest(history) else { return Vec::new() };
    let resting = |at: Timestamp| at >= rest && at <= end;
    let first = history.writes.iter().find(|write| write.kind != Kind::Lease && resting(write.record.at));
    let Some(write) = first.filter(|_| !still_changes(history, rest)) else { return Vec::new() };
    let count =
        history.writes.iter().filter(|write| write.kind != Kind::Lease && resting(write.record.at)).count();
    let message = format!("{count} writes at rest, the first is {} {}", write.record.verb, write.record.path);
    vec![found("S12", write.record.at, message)]
}

/// Whether the scenario leaves a cluster in which pods still fail or requests are still refused.
fn still_changes(history: &History<'_>, rest: Timestamp) -> bool {
    let Ok(quiet) = rest.checked_sub(QUIET) else { return true };
    let fails = history.log.commits.iter().any(|commit| {
        let failed = |object: &Value| object["status"]["phase"] == "Failed";
        commit.at > quiet && commit.plural == "pods" && failed(&commit.object)
    });
    let refused = history.log.requests.iter().any(|record| {
        let writes = !matches!(record.verb, "get" | "list" | "watch");
        record.at > quiet
            && writes
            && instance(&record.user_agent).is_some()
            && (400..500).contains(&record.code)
            && ![404, 409].contains(&record.code)
    });
    fails || refused
}

/// L2: a hold stays until it is resumed, and nothing is written meanwhile.
pub(super) fn holds_stay(history: &History<'_>) -> Vec<Violation> {
    let (Some(rest), Some(end)) =
        (history.log.event(&RunEventKind::Settled), history.log.event(&RunEventKind::Finished))
    else {
        return Vec::new();
    };
    let mut found_all = Vec::new();
    for object in history.all_at("ordereddeployments", rest.requests) {
        let Some(hold) = status(object).hold.filter(|hold| hold.until.is_none() && hold.elapsed.is_none())
        else {
            continue;
        };
        let moved = |write: &&Write<'_>| {
            write.record.at >= rest.at && write.owner == Some(uid(object)) && write.kind != Kind::Event
        };
        let later = history.at(uid(object), end.requests).map(status);
        if later.and_then(|later| later.hold) != Some(hold.clone()) {
            found_all.push(found("L2", end.at, format!("the hold {} has ended", hold.id)));
        } else if let Some(write) = history.writes.iter().find(moved)
            && !still_changes(history, rest.at)
        {
            let message =
                format!("{} is held, and {} {}", name(object), write.record.verb, write.record.path);
            found_all.push(found("L2", write.record.at, message));
        }
    }
    // During a hold, the rollout deletes nothing.
    let rollout = history.acts().filter(|(place, decided, _)| {
        let status = decided.snapshot.deployment.status.clone().unwrap_or_default();
        status.hold.is_some() && history.sent(*place).any(|write| write.is_rollout() && !write.is_delayed)
    });
    found_all.extend(rollout.map(|(_, decided, _)| {
        found("L2", decided.at, format!("the rollout of {} deletes pods during a hold", deployment(decided)))
    }));
    found_all
}
