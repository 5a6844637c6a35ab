//! S10, L5: who may write, until when, and who goes on.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::history::{History, Kind, Write, deployment, found, is_terminating};
use super::violation::Violation;
use crate::case::Fault;
use crate::log::What;

const LEASES: &str = "leases";
/// How long a lease lasts that is not renewed.
const LEASE: SignedDuration = SignedDuration::from_secs(15);
/// How soon after its end another one goes on.
const TAKEOVER: SignedDuration = SignedDuration::from_secs(2);

/// How soon whoever took the lead late goes on.
const AT_ONCE: SignedDuration = SignedDuration::from_millis(100);

/// S10: no instance writes once its lease has run out, or is another's.
pub(super) fn lease(history: &History<'_>) -> Vec<Violation> {
    if history.case.cluster.instances < 2 || are_on_their_way(history) {
        return Vec::new();
    }
    let mut leases = history.log.commits.iter().filter(|commit| commit.plural == LEASES).peekable();
    let mut lead: Option<(String, Timestamp)> = None;
    let mut found_all = Vec::new();
    for write in &history.writes {
        while let Some(commit) = leases.next_if(|commit| commit.request.is_some_and(|at| at <= write.place)) {
            let holder = commit.object["spec"]["holderIdentity"].as_str().unwrap_or_default();
            lead = Some((holder.to_owned(), commit.at)).filter(|_| !commit.deleted);
        }
        if write.kind == Kind::Lease || write.is_late {
            continue;
        }
        let leads = lead.as_ref().is_some_and(|(holder, since)| {
            let own = holder.strip_prefix(&format!("instance-{}-", write.instance));
            own.is_some() && write.record.at <= *since + LEASE
        });
        if !leads {
            let words = format!(
                "instance {} does {} {} while the lead is {lead:?}",
                write.instance, write.record.verb, write.record.path
            );
            found_all.push(found("S10", write.record.at, words));
        }
    }
    found_all
}

/// S10: nothing is made or taken away for an object that is gone or going, once that could be seen.
pub(super) fn gone(history: &History<'_>) -> Vec<Violation> {
    let mut gone: BTreeMap<&str, Timestamp> = BTreeMap::new();
    for commit in history.log.commits.iter().filter(|commit| commit.plural == "ordereddeployments") {
        if commit.deleted || is_terminating(&commit.object) {
            gone.entry(super::history::uid(&commit.object)).or_insert(commit.at);
        }
    }
    let moves = |write: &&Write<'_>| {
        matches!(
            write.kind,
            Kind::CreatePod | Kind::DeletePod | Kind::CreateSet | Kind::PatchSet | Kind::DeleteSet
        ) && !write.is_late
    };
    let late = history.writes.iter().filter(moves).filter_map(|write| {
        let decided = history.decided(write.decision?);
        let since = gone.get(deployment(decided))?;
        let knew = decided.snapshot.deployment.metadata.deletion_timestamp.is_some();
        let could_know =
            decided.at > *since + super::bounds::staleness(history.case, history.log, decided.at);
        (knew || could_know).then(|| {
            let words = format!("{} {} for an object that is gone", write.record.verb, write.record.path);
            found("S10", write.record.at, words)
        })
    });
    late.collect()
}

/// S10: no decision is carried out for long after the object was changed, deleted, or has gone.
pub(super) fn goes_on(history: &History<'_>) -> Vec<Violation> {
    let moves = |write: &&Write<'_>| {
        matches!(write.kind, Kind::CreatePod | Kind::DeletePod | Kind::CreateSet | Kind::DeleteSet)
            && !write.is_late
    };
    let late = history.writes.iter().filter(moves).filter_map(|write| {
        let decided = history.decided(write.decision?);
        let known = decided.snapshot.deployment.metadata.generation;
        let changed = history
            .changes(deployment(decided))
            .find(|commit| commit.deleted || commit.object["metadata"]["generation"].as_i64() > known)?;
        let explained = super::bounds::staleness(history.case, history.log, write.record.at);
        let since = changed.at.max(decided.at);
        let late = write.record.at > since + explained + AT_ONCE;
        (late && !is_away(history, write.instance)).then(|| {
            let (verb, path) = (write.record.verb, &write.record.path);
            found(
                "S10",
                write.record.at,
                format!("{verb} {path} although the object changed at {}", changed.at),
            )
        })
    });
    late.collect()
}

/// Whether requests take time and instances are away meanwhile: then a write that was on its way comes late.
fn are_on_their_way(history: &History<'_>) -> bool {
    let slow = |fault: &Fault| matches!(fault, Fault::Slow { before: 1.., .. });
    history.case.faults.iter().any(slow) && absences(history).next().is_some()
}

/// Whether that instance did not run, or reached nobody, at times.
fn is_away(history: &History<'_>, instance: u32) -> bool {
    absences(history).any(|(one, ..)| one == instance)
}

/// L5: a lease is renewed, or another one takes it within two seconds of its end.
pub(super) fn no_leaders(history: &History<'_>) -> Vec<Violation> {
    if history.case.cluster.instances < 2 || history.case.faults.iter().any(disturbs_leases) {
        return Vec::new();
    }
    let leases: Vec<_> = history.log.commits.iter().filter(|commit| commit.plural == LEASES).collect();
    let end = history.log.mark(&What::End).map(|mark| mark.at);
    let nexts = leases.iter().skip(1).map(|commit| Some(commit.at)).chain([end]);
    let mut found_all = Vec::new();
    for (commit, next) in leases.iter().zip(nexts) {
        // Whoever is back can take over from then on.
        let mut froms =
            absences(history).map(|(.., end)| end + SignedDuration::from_millis(1)).collect::<Vec<_>>();
        froms.retain(|from| *from > commit.at);
        froms.push(commit.at);
        let late = froms.into_iter().map(|from| (from, from + LEASE + TAKEOVER)).find(|(from, limit)| {
            next.is_some_and(|next| next > *limit) && somebody_could(history, *from, *limit)
        });
        if let Some((_, limit)) = late {
            let words = format!("nobody leads after the lease of {}", commit.at);
            found_all.push(found("L5", limit, words));
        }
    }
    found_all
}

/// L5: whoever takes the lead goes on, within the lease and two seconds of its last renewal by the one before, and at once
/// where that is over by then.
pub(super) fn idle_leaders(history: &History<'_>) -> Vec<Violation> {
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
        // One that was given up need not be waited for.
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
        if objects > 0 && !acts && lives(history, instance, commit.at, limit) {
            found_all.push(found("L5", limit, format!("{taken} leads and looks at nothing")));
        }
    }
    found_all
}

/// Whether a fault keeps leases from being taken and renewed, beyond those who are frozen or cut off.
fn disturbs_leases(fault: &Fault) -> bool {
    let plural = match fault {
        Fault::Request { class, .. } | Fault::Slow { class, .. } => &class.plural,
        Fault::Watch { plural, .. } => plural,
        _ => return false,
    };
    plural.is_empty() || plural == LEASES
}

/// Whether a fault keeps a leader from looking at what there is.
fn disturbs_leaders(fault: &Fault) -> bool {
    matches!(fault, Fault::Request { .. } | Fault::Slow { .. } | Fault::Watch { .. } | Fault::Cut { .. })
}

/// Which instances ran without reaching the server, from when to when.
fn absences<'a>(history: &'a History<'_>) -> impl Iterator<Item = (u32, Timestamp, Timestamp)> + 'a {
    let first = history.log.marks.first().map(|mark| mark.at).unwrap_or_default();
    let at =
        move |millis: u64| first + SignedDuration::from_millis(i64::try_from(millis).unwrap_or(i64::MAX));
    history.case.faults.iter().filter_map(move |fault| match fault {
        Fault::Freeze { instance, span } | Fault::Cut { instance, span } => {
            Some((*instance, at(span.at), at(span.end())))
        }
        _ => None,
    })
}

/// Whether some instance ran and reached the server in all of that time.
fn somebody_could(history: &History<'_>, from: Timestamp, to: Timestamp) -> bool {
    let is_away = |instance: u32| {
        absences(history).any(|(one, start, end)| one == instance && start <= to && from <= end)
    };
    (1..=history.case.cluster.instances).any(|one| !is_away(one) && lives(history, one, from, to))
}

/// Whether an instance neither ended nor started in that time, and ran before.
fn lives(history: &History<'_>, instance: u32, from: Timestamp, to: Timestamp) -> bool {
    let mut runs = false;
    for mark in history.log.marks.iter().filter(|mark| mark.at <= to) {
        let (is_start, one) = match &mark.what {
            What::Started(one) => (true, *one),
            What::Killed(one) | What::Ended(one, _) | What::Panicked(one, _) => (false, *one),
            _ => continue,
        };
        if one == instance {
            if mark.at >= from {
                return false;
            }
            runs = is_start;
        }
    }
    runs
}
