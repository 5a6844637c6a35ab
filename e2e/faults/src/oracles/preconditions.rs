//! S7: a delete has preconditions.

use super::history::{History, Kind, Write, found, number, uid, version};
use super::violation::Violation;

/// S7: UID and resourceVersion of every delete are those of the decision's view, or of a later read.
pub(super) fn deletes(history: &History<'_>) -> Vec<Violation> {
    let deletes =
        history.writes.iter().filter(|write| matches!(write.kind, Kind::DeletePod | Kind::DeleteSet));
    let wrong = deletes.filter_map(|write| Some((write, why_wrong(history, write)?)));
    let message = |(write, why): (&Write<'_>, String)| {
        found("S7", write.record.at, format!("{} {}: {why}", write.record.verb, write.record.path))
    };
    wrong.map(message).collect()
}

fn why_wrong(history: &History<'_>, write: &Write<'_>) -> Option<String> {
    let (Some(wanted), Some(version)) =
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
        set.map(|_| version)
    };
    let Some(seen) = seen else { return Some(format!("{wanted} is not in the decision's view")) };
    if seen == version {
        return None;
    }
    let read_since = history.log.requests[decided.requests..write.place]
        .iter()
        .any(|read| read.verb == "get" && read.name.as_deref() == Some(name) && read.plural == "pods");
    let existed = history.changes(wanted).any(|commit| self::version(&commit.object) == version);
    let later = version > seen && history.changes(wanted).all(|commit| uid(&commit.object) == wanted);
    (!(read_since && existed && later)).then(|| format!("version {version} was not read after {seen}"))
}
