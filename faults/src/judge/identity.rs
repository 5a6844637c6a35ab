//! S7: a delete says which object it means, at which version.

use super::history::{History, Kind, Write, found, number, uid, version};
use super::violation::Violation;

/// S7: UID and version of every delete are those of the decision's view, or of a reading since.
pub(super) fn preconditions(history: &History<'_>) -> Vec<Violation> {
    let deletes =
        history.writes.iter().filter(|write| matches!(write.kind, Kind::DeletePod | Kind::DeleteSet));
    let wrong = deletes.filter_map(|write| Some((write, why_wrong(history, write)?)));
    let words = |(write, why): (&Write<'_>, String)| {
        found("S7", write.record.at, format!("{} {}: {why}", write.record.verb, write.record.path))
    };
    wrong.map(words).collect()
}

fn why_wrong(history: &History<'_>, write: &Write<'_>) -> Option<String> {
    let (Some(wanted), Some(version)) =
        (write.precondition("uid"), write.precondition("resourceVersion").map(number))
    else {
        return Some("UID and version are not both given".to_owned());
    };
    let decided = history.decided(write.decision.filter(|_| !write.is_late)?);
    let name = write.record.name.as_deref().unwrap_or_default();
    let seen = if write.kind == Kind::DeletePod {
        let pod = decided.snapshot.pods.iter().find(|pod| pod.name == name && *pod.facts.uid == *wanted);
        pod.map(|pod| number(&pod.resource_version))
    } else {
        let set = decided.snapshot.sets.iter().find(|set| set.name == name && *set.uid == *wanted);
        // Of sets a view keeps no version.
        set.map(|_| version)
    };
    let Some(seen) = seen else { return Some(format!("the decision did not know {wanted}")) };
    if seen == version {
        return None;
    }
    let read_since = history.log.requests[decided.requests..write.place]
        .iter()
        .any(|read| read.verb == "get" && read.name.as_deref() == Some(name) && read.plural == "pods");
    let existed = history.changes(wanted).any(|commit| self::version(&commit.object) == version);
    let later = version > seen && history.changes(wanted).all(|commit| uid(&commit.object) == wanted);
    (!(read_since && existed && later)).then(|| format!("version {version} was not read since {seen}"))
}
