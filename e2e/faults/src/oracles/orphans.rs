//! S6, S14: adoptions, and what orphan deletion keeps.

use serde_json::Value;

use super::history::Violation;
use super::history::{History, Write, controller, found, is_terminating, name, uid, version};
use crate::log::instance;

/// The user agent of the garbage collector.
const COLLECTOR: &str = "sandbox-garbage-collector";

/// S6: the owner of an adopted object exists and is not being deleted, as of a read of the owner.
///
/// A server does not check owners, so the owner may be deleted between that read and the adoption. The orphan
/// must be read before the owner.
pub(super) fn adopters(history: &History<'_>) -> Vec<Violation> {
    history.wrong("S6", |write| why_not(history, write, adoption(history, write)?))
}

/// The UID of the controller that a write gave to an object that had none.
fn adoption<'a>(history: &History<'a>, write: &Write<'a>) -> Option<&'a str> {
    if write.record.verb != "patch" || !write.is_accepted() {
        return None;
    }
    let owner = controller(write.record.body.as_ref()?)?;
    let commit = history.log.commits.iter().find(|commit| commit.request == Some(write.place))?;
    let before = commit.previous.as_deref().and_then(controller);
    (before.is_none()).then_some(owner)
}

fn why_not(history: &History<'_>, write: &Write<'_>, owner: &str) -> Option<&'static str> {
    let exists = |place| history.at(owner, place).is_some_and(|owner| !is_terminating(owner));
    if exists(write.place) {
        return None;
    }
    let Some(last) = history.changes(owner).next_back() else { return Some("the new owner never existed") };
    let earlier = history.log.requests[..write.place].iter().enumerate().rev();
    let read = earlier.filter(|(_, record)| instance(&record.user_agent) == Some(write.instance)).find(
        |(_, record)| {
            let one = record.verb == "get" && record.name.as_deref() == Some(name(&last.object));
            record.plural == last.plural && (one || record.verb == "list")
        },
    );
    let Some((read, _)) = read else { return Some("the new owner was not read") };
    if !exists(read) {
        return Some("the new owner was read, and was deleted or being deleted");
    }
    let adopted = write.record.body.as_ref().map(uid).unwrap_or_default();
    let known = write.record.body.as_ref().map(version).unwrap_or_default();
    let seen = history.until(adopted, read);
    let later = seen.iter().all(|commit| version(&commit.object) != known);
    later.then_some("the new owner was read before the object was an orphan, and is deleted or being deleted")
}

/// S14: the garbage collector deletes no object that existed when its owner was deleted with the policy
/// `Orphan`.
pub(super) fn kept(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for (place, commit) in history.log.commits.iter().enumerate() {
        let begins = is_terminating(&commit.object)
            && commit.previous.as_deref().is_some_and(|before| !is_terminating(before));
        let Some(request) = commit.request.filter(|_| begins && orphans(&commit.object)) else { continue };
        if is_deleted_otherwise(history, request) {
            continue;
        }
        let owner = uid(&commit.object);
        let is_controlled =
            |object: &Value, by: &str| controller(object) == Some(by) && !is_terminating(object);
        let sets: Vec<&Value> = history
            .all_at("orderedreplicasets", request)
            .filter(|set| is_controlled(set, owner) || uid(set) == owner)
            .collect();
        let is_left = |pod: &&Value| sets.iter().any(|set| is_controlled(pod, uid(set)));
        let left = history.all_at("pods", request).filter(is_left).chain(sets.iter().copied());
        for object in left.filter(|object| uid(object) != owner) {
            let later = history.log.commits[place..].iter().filter(|later| uid(&later.object) == uid(object));
            let mut ends = later.filter(|later| later.deleted || is_terminating(&later.object));
            let Some(end) = ends.next() else { continue };
            let by = end.request.map(|request| history.log.requests[request].user_agent.as_str());
            if by == Some(COLLECTOR) && !was_adopted_for_read_owner(history, object, request) {
                let message = format!(
                    "{} is collected, {} was deleted with the policy Orphan",
                    name(object),
                    name(&commit.object)
                );
                found_all.push(found("S14", end.at, message));
            }
        }
    }
    found_all
}

fn orphans(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|all| all.iter().any(|one| one == "orphan"))
}

/// Whether a deployment or a set is deleted with another policy at any time after.
fn is_deleted_otherwise(history: &History<'_>, request: usize) -> bool {
    history.log.requests[request + 1..].iter().any(|record| {
        let policy = record.body.as_ref().and_then(|body| body["propagationPolicy"].as_str());
        record.verb == "delete"
            && matches!(record.plural.as_str(), "ordereddeployments" | "orderedreplicasets")
            && record.code < 300
            && record.user_agent != COLLECTOR
            && policy != Some("Orphan")
    })
}

/// Whether a controller adopted the object or its set after that request, for an owner that existed when it
/// was read.
fn was_adopted_for_read_owner(history: &History<'_>, object: &Value, request: usize) -> bool {
    let mine = [Some(uid(object)), controller(object)];
    history.writes.iter().filter(|write| write.place > request).any(|write| {
        let named = write.record.body.as_ref().map(uid);
        mine.contains(&named)
            && adoption(history, write).is_some_and(|owner| {
                let is_deleted = history.at(owner, write.place).is_none_or(is_terminating);
                is_deleted && why_not(history, write, owner).is_none()
            })
    })
}
