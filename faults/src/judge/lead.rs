//! S10, S12: who may write, and until when.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::Violation;
use super::history::{History, Kind, Write, deployment, found, is_terminating};
use crate::log::What;

/// How long a lease lasts that is not renewed.
const LEASE: SignedDuration = SignedDuration::from_secs(15);

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

/// S10: no instance writes once its lease has run out, or is another's.
pub(super) fn lease(history: &History<'_>) -> Vec<Violation> {
    if history.case.cluster.instances < 2 {
        return Vec::new();
    }
    let mut leases = history.log.commits.iter().filter(|commit| commit.plural == "leases").peekable();
    let mut lead: Option<(String, Timestamp)> = None;
    let mut found_all = Vec::new();
    for write in &history.writes {
        while let Some(commit) = leases.next_if(|commit| commit.request.is_some_and(|at| at <= write.place)) {
            let holder = commit.object["spec"]["holderIdentity"].as_str().unwrap_or_default();
            lead = Some((holder.to_owned(), commit.at)).filter(|_| !commit.deleted);
        }
        if write.kind == Kind::Lease || write.is_struck {
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
    let mut gone: BTreeMap<&str, (Timestamp, usize)> = BTreeMap::new();
    for commit in history.log.commits.iter().filter(|commit| commit.plural == "ordereddeployments") {
        if commit.deleted || is_terminating(&commit.object) {
            let uid = super::history::uid(&commit.object);
            gone.entry(uid).or_insert((commit.at, commit.request.unwrap_or(usize::MAX)));
        }
    }
    let moves = |write: &&Write<'_>| {
        matches!(
            write.kind,
            Kind::CreatePod | Kind::DeletePod | Kind::CreateSet | Kind::PatchSet | Kind::DeleteSet
        ) && !write.is_struck
    };
    let late = history.writes.iter().filter(moves).filter_map(|write| {
        let decided = history.decided(write.decision?);
        let (since, _) = gone.get(deployment(decided))?;
        let could_know =
            decided.at > *since + super::bounds::staleness(history.case, history.log, decided.at);
        could_know.then(|| {
            let words = format!("{} {} for an object that is gone", write.record.verb, write.record.path);
            found("S10", write.record.at, words)
        })
    });
    late.collect()
}
