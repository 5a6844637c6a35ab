//! S10, L5: writes need a lease, and a new leader takes over in time.

use jiff::{SignedDuration, Timestamp};

use super::history::Violation;
use super::history::{History, Kind, WATCHED, found, is_terminating};
use crate::case::Fault;
use crate::log::RunEventKind;

const LEASES: &str = "leases";
/// The duration of a lease.
const LEASE: SignedDuration = SignedDuration::from_secs(15);
/// The time from the end of a lease until another instance acts.
const TAKEOVER: SignedDuration = SignedDuration::from_secs(2);
/// The time until an instance acts that takes an expired lease.
const AT_ONCE: SignedDuration = SignedDuration::from_millis(100);

/// S10: no instance writes after its lease has expired or another instance has taken it.
pub(super) fn lease(history: &History<'_>) -> Vec<Violation> {
    if history.case.cluster.instances < 2 || may_write_late(history) {
        return Vec::new();
    }
    let mut leases = history.log.commits.iter().filter(|commit| commit.plural == LEASES).peekable();
    let mut leader: Option<(String, Timestamp)> = None;
    let mut found_all = Vec::new();
    for write in &history.writes {
        while let Some(commit) = leases.next_if(|commit| commit.request.is_some_and(|at| at <= write.place)) {
            let holder = commit.object["spec"]["holderIdentity"].as_str().unwrap_or_default();
            leader = Some((holder.to_owned(), commit.at)).filter(|_| !commit.deleted);
        }
        if write.kind == Kind::Lease || write.is_delayed {
            continue;
        }
        let leads = leader.as_ref().is_some_and(|(holder, since)| {
            let own = holder.strip_prefix(&format!("instance-{}-", write.instance));
            own.is_some() && write.record.at <= *since + LEASE
        });
        if !leads {
            let message = format!(
                "instance {} sends {} {} while the leader is {leader:?}",
                write.instance, write.record.verb, write.record.path
            );
            found_all.push(found("S10", write.record.at, message));
        }
    }
    found_all
}

/// Whether requests are slow and an instance is frozen or disconnected meanwhile: then its writes arrive
/// late.
fn may_write_late(history: &History<'_>) -> bool {
    let slow = |fault: &Fault| matches!(fault, Fault::Latency { before: 1.., .. });
    history.case.faults.iter().any(slow) && absences(history).next().is_some()
}

/// Whether that instance is frozen or disconnected at times.
pub(super) fn is_away(history: &History<'_>, instance: u32) -> bool {
    absences(history).any(|(one, ..)| one == instance)
}

/// L5: a lease is renewed, or another instance that has synced takes it within two seconds of its end.
pub(super) fn no_leader(history: &History<'_>) -> Vec<Violation> {
    if history.case.cluster.instances < 2 || history.case.faults.iter().any(disturbs_leases) {
        return Vec::new();
    }
    let leases: Vec<_> = history.log.commits.iter().filter(|commit| commit.plural == LEASES).collect();
    let end = history.log.event(&RunEventKind::Finished).map(|event| event.at);
    let syncs = syncs(history);
    let nexts = leases.iter().skip(1).map(|commit| Some(commit.at)).chain([end]);
    let mut found_all = Vec::new();
    for (commit, next) in leases.iter().zip(nexts) {
        // An instance that is connected again, or has synced since then, can take the lease from then on.
        let mut starts =
            absences(history).map(|(.., end)| end + SignedDuration::from_millis(1)).collect::<Vec<_>>();
        starts.extend(syncs.iter().map(|(_, at)| *at));
        starts.retain(|from| *from > commit.at);
        starts.push(commit.at);
        let late = starts.into_iter().map(|from| (from, from + LEASE + TAKEOVER)).find(|(from, limit)| {
            next.is_some_and(|next| next > *limit) && can_lead(history, &syncs, *from, *limit)
        });
        if let Some((_, limit)) = late {
            let message = format!("no instance takes the lease of {}", commit.at);
            found_all.push(found("L5", limit, message));
        }
    }
    found_all
}

/// L5: a new leader acts within the lease and two seconds after the last renewal of the old leader, or at
/// once if that time has passed.
pub(super) fn idle_leader(history: &History<'_>) -> Vec<Violation> {
    if history.case.cluster.instances < 2 || history.case.faults.iter().any(disturbs_leaders) {
        return Vec::new();
    }
    let holder =
        |object: &serde_json::Value| object["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
    let mut found_all = Vec::new();
    let leases: Vec<_> = history.log.commits.iter().filter(|commit| commit.plural == LEASES).collect();
    for commit in &leases {
        let taken = holder(&commit.object);
        let Some(instance) =
            taken.strip_prefix("instance-").and_then(|rest| rest.split('-').next()?.parse().ok())
        else {
            continue;
        };
        let before = commit.previous.as_ref().map(|before| holder(before));
        let Some(place) = commit.request.filter(|_| before.as_ref() != Some(&taken)) else { continue };
        let renewed = leases.iter().rfind(|earlier| earlier.version < commit.version);
        // A released lease has no last renewal.
        let renewed = renewed.filter(|earlier| !holder(&earlier.object).is_empty()).map(|earlier| earlier.at);
        let limit = renewed.map_or(commit.at, |renewed| renewed + LEASE + TAKEOVER).max(commit.at + AT_ONCE);
        let objects =
            history.all_at("ordereddeployments", place).filter(|object| !is_terminating(object)).count();
        let acts =
            history.log.requests[place + 1..].iter().take_while(|record| record.at <= limit).any(|record| {
                crate::log::instance(&record.user_agent) == Some(instance)
                    && record.plural == "ordereddeployments"
                    && record.name.is_some()
            });
        if objects > 0 && !acts && runs_throughout(history, instance, commit.at, limit) {
            found_all.push(found("L5", limit, format!("{taken} leads and reads no object")));
        }
    }
    found_all
}

/// Whether a fault affects leases, apart from frozen and disconnected instances.
fn disturbs_leases(fault: &Fault) -> bool {
    let plural = match fault {
        Fault::Request { matcher, .. } | Fault::Latency { matcher, .. } => &matcher.plural,
        Fault::Watch { plural, .. } => plural,
        _ => return false,
    };
    plural.is_empty() || plural == LEASES
}

/// Whether a fault may keep a leader from reading objects.
fn disturbs_leaders(fault: &Fault) -> bool {
    matches!(
        fault,
        Fault::Request { .. } | Fault::Latency { .. } | Fault::Watch { .. } | Fault::Partition { .. }
    )
}

/// When which instances are frozen or disconnected.
fn absences<'a>(history: &'a History<'_>) -> impl Iterator<Item = (u32, Timestamp, Timestamp)> + 'a {
    let first = history.log.events.first().map(|event| event.at).unwrap_or_default();
    let at =
        move |millis: u64| first + SignedDuration::from_millis(i64::try_from(millis).unwrap_or(i64::MAX));
    history.case.faults.iter().filter_map(move |fault| match fault {
        Fault::Freeze { instance, span } | Fault::Partition { instance, span } => {
            Some((*instance, at(span.start), at(span.end())))
        }
        _ => None,
    })
}

/// Whether an instance has synced before that time, and runs and is connected in all of it.
fn can_lead(history: &History<'_>, syncs: &[(u32, Timestamp)], from: Timestamp, to: Timestamp) -> bool {
    let is_away = |instance: u32| {
        absences(history).any(|(one, start, end)| one == instance && start <= to && from <= end)
    };
    let mut synced = syncs.iter().filter(|(_, at)| *at <= from);
    synced.any(|(one, at)| !is_away(*one) && runs_throughout(history, *one, *at, to))
}

/// When which instances had synced, in each of their runs: they had started to watch every kind.
fn syncs(history: &History<'_>) -> Vec<(u32, Timestamp)> {
    let mut all = Vec::new();
    for one in 1..=history.case.cluster.instances {
        let starts =
            history.log.events.iter().filter(|event| event.kind == RunEventKind::InstanceStarted(one));
        let mut bounds: Vec<usize> = starts.map(|start| start.requests).collect();
        bounds.push(history.log.requests.len());
        for run in bounds.windows(2) {
            let watches = history.log.requests[run[0]..run[1]].iter().filter(|record| {
                record.verb == "watch" && crate::log::instance(&record.user_agent) == Some(one)
            });
            let first = |plural: &&str| {
                watches.clone().find(|record| record.plural == *plural).map(|record| record.at)
            };
            let each: Option<Vec<Timestamp>> = WATCHED.iter().map(first).collect();
            all.extend(each.into_iter().flatten().max().map(|at| (one, at)));
        }
    }
    all
}

/// Whether an instance runs in all of that time.
fn runs_throughout(history: &History<'_>, instance: u32, from: Timestamp, to: Timestamp) -> bool {
    let mut runs = false;
    for event in history.log.events.iter().filter(|event| event.at <= to) {
        let (is_start, one) = match &event.kind {
            RunEventKind::InstanceStarted(one) => (true, *one),
            RunEventKind::InstanceKilled(one)
            | RunEventKind::InstanceExited(one, _)
            | RunEventKind::InstancePanicked(one, _) => (false, *one),
            _ => continue,
        };
        if one == instance {
            if event.at >= from {
                return false;
            }
            runs = is_start;
        }
    }
    runs
}
