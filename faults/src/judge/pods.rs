//! S4, S8, S9: how many pods and sets are made.

use std::collections::BTreeMap;

use ordereddeployment_api::Template;
use ordereddeployment_api::names::label;
use ordereddeployment_oracle::{View, count, current_sets};
use ordereddeployment_planner::SetChange;
use serde_json::Value;

use super::history::{
    History, Kind, Write, controller, deployment, found, instance_made, is_terminating, name, uid,
};
use super::violation::Violation;

fn creates<'h, 'a>(history: &'h History<'a>, decision: usize) -> Vec<&'h Write<'a>> {
    history.sent(decision).filter(|write| write.kind == Kind::CreatePod && !write.is_late).collect()
}

/// S4: a create leaves no more active pods than D and the surge; none where D is 0.
pub(super) fn ceiling(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for (place, decided, _) in history.acts() {
        let sent = creates(history, place);
        let Some(last) = sent.last() else { continue };
        let view = View::of(&decided.snapshot);
        let mut wrong = |words: String| found_all.push(found("S4", last.record.at, words));
        let after = view.present() + count(sent.len());
        // What a hold or a pause stored may include surge pods of a larger maxSurge.
        let stored = match (view.held(), &view.status.pause) {
            (Some(hold), _) => Some(&hold.sizes),
            (None, Some(pause)) if view.is_kept() => Some(&pause.sizes),
            _ => None,
        };
        let stored = stored.map_or(0, |sizes| sizes.values().map(|size| i64::from(*size)).sum());
        let ceiling = if view.desired == 0 { 0 } else { view.ceiling.max(stored) };
        if after > ceiling {
            wrong(format!("{after} active pods, where {ceiling} are allowed"));
        }
        let current = current_sets(&decided.snapshot);
        let old_there = decided.snapshot.pods.iter().any(|pod| !pod.finished && !current.contains(&*pod.set));
        if view.recreates() && !view.is_kept() && old_there {
            wrong("a pod is created while an old one is there, under Recreate".to_owned());
        }
    }
    found_all
}

/// S4: no pod is created beside one that matches and is nobody's, once that could be seen: it would be one too many when it is
/// adopted.
pub(super) fn beside_orphans(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for (place, decided, _) in history.acts() {
        let sent = creates(history, place);
        let Some(first) = sent.first() else { continue };
        let snapshot = &decided.snapshot;
        let staleness = super::bounds::staleness(history.case, history.log, decided.at);
        let Ok(since) = decided.at.checked_sub(staleness) else { continue };
        let hash =
            |pod: &Value| pod["metadata"]["labels"][label::POD_TEMPLATE_HASH].as_str().map(str::to_owned);
        let is_left = |pod: &Value| {
            let labels = serde_json::from_value(pod["metadata"]["labels"].clone()).unwrap_or_default();
            let adopter = hash(pod).and_then(|hash| snapshot.sets.iter().find(|set| *set.hash == *hash));
            controller(pod).is_none()
                && !is_terminating(pod)
                && !matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded"))
                && snapshot.deployment.spec.selector.matches(&labels)
                && adopter.is_some_and(|set| !set.terminating)
        };
        let was_left = |pod: &Value| {
            let earlier = history.changes(uid(pod)).take_while(|commit| commit.at <= since).last();
            let later = history.until(uid(pod), decided.requests);
            earlier.is_some_and(|commit| is_left(&commit.object))
                && later.iter().filter(|commit| commit.at > since).all(|commit| is_left(&commit.object))
        };
        let mut left = history.all_at("pods", decided.requests).filter(|pod| is_left(pod) && was_left(pod));
        if let Some(left) = left.next() {
            let words = format!("a pod is created beside {}, which matches and is nobody's", name(left));
            found_all.push(found("S4", first.record.at, words));
        }
    }
    found_all
}

/// S8: no more pods are sent than were decided, and none while one that was made before is not seen.
pub(super) fn one_a_slot(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for (place, decided, act) in history.acts() {
        let sent = creates(history, place);
        let Some(first) = sent.first() else { continue };
        let asked: usize = act.creates.iter().map(|create| create.count).sum();
        if sent.len() > asked {
            let words = format!("{} creates were sent where {asked} were decided", sent.len());
            found_all.push(found("S8", first.record.at, words));
        }
        let snapshot = &decided.snapshot;
        let ours = |pod: &&Value| {
            controller(pod).is_some_and(|set| history.is_set_of(set, deployment(decided), decided.requests))
        };
        let missing = history.all_at("pods", decided.requests).filter(ours).find(|pod| {
            snapshot.pods.iter().all(|known| *known.facts.uid != *uid(pod)) && was_created(history, pod)
        });
        if let Some(missing) = missing {
            let words = format!("a pod is created while {}, made before, is not seen", name(missing));
            found_all.push(found("S8", first.record.at, words));
        }
    }
    found_all
}

/// Whether a controller made that pod, and may have known of it.
fn was_created(history: &History<'_>, pod: &Value) -> bool {
    let first = history.changes(uid(pod)).next();
    let write = first.and_then(|commit| instance_made(history, commit.request?));
    write.is_some_and(|write| !write.is_late) && !history.may_seem_gone(uid(pod))
}

/// S9: of one template there is one set that does not terminate.
pub(super) fn one_set_a_template(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for (commit, write) in history.committed() {
        if write.kind != Kind::CreateSet || commit.previous.is_some() {
            continue;
        }
        let template = template(&commit.object);
        // A webhook may have taken the owner: then it is nobody's set.
        let Some(owner) = controller(&commit.object) else { continue };
        let same = history.all_at("orderedreplicasets", write.place).find(|set| {
            !is_terminating(set) && controller(set) == Some(owner) && self::template(set).same_as(&template)
        });
        if let Some(same) = same {
            let words = format!("{} is made although {} has its template", name(&commit.object), name(same));
            found_all.push(found("S9", commit.at, words));
        }
    }
    found_all.extend(decided_once(history));
    found_all
}

/// No decision has two sets made.
fn decided_once(history: &History<'_>) -> Vec<Violation> {
    let acts = history.acts().filter(|(place, _, act)| {
        let asked = act.sets.iter().filter(|change| matches!(change, SetChange::Create { .. })).count();
        let mut sent: BTreeMap<&str, usize> = BTreeMap::new();
        for write in history.sent(*place).filter(|write| write.kind == Kind::CreateSet && !write.is_late) {
            *sent.entry(write.owner.unwrap_or_default()).or_default() += 1;
        }
        sent.values().any(|sent| *sent > asked)
    });
    acts.map(|(_, decided, _)| found("S9", decided.at, "a set is made that was not decided")).collect()
}

fn template(set: &Value) -> Template {
    Template::new(&set["spec"]["template"]).without_hash()
}
