//! S4, S8, S9: how many pods and sets are created.

use std::collections::BTreeMap;

use ordereddeployment_api::Template;
use ordereddeployment_api::names::label;
use ordereddeployment_planner::SetChange;
use serde_json::Value;

use super::history::Violation;
use super::history::{
    History, Kind, Write, controller, deployment, found, is_terminating, name, uid, write_at,
};
use super::staleness::max_staleness;

fn creates<'h, 'a>(history: &'h History<'a>, decision: usize) -> Vec<&'h Write<'a>> {
    history.sent(decision).filter(|write| write.kind == Kind::CreatePod && !write.is_delayed).collect()
}

/// S4: no pod is created while an orphan matches, once the controller can know it. Otherwise there is one pod
/// too many when the orphan is adopted.
pub(super) fn beside_orphans(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for (place, decided, _) in history.acts() {
        let sent = creates(history, place);
        let Some(first) = sent.first() else { continue };
        let snapshot = &decided.snapshot;
        let staleness = max_staleness(history.case, history.log, decided.at);
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
            let message = format!("a pod is created while the orphan {} matches", name(left));
            found_all.push(found("S4", first.record.at, message));
        }
    }
    found_all
}

/// S8: no more creates are sent than were decided, and none while a pod that was created before is not
/// observed.
pub(super) fn one_per_slot(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for (place, decided, act) in history.acts() {
        let sent = creates(history, place);
        let Some(first) = sent.first() else { continue };
        let asked: usize = act.creates.iter().map(|create| create.count).sum();
        if sent.len() > asked {
            let message = format!("{} creates are sent, {asked} were decided", sent.len());
            found_all.push(found("S8", first.record.at, message));
        }
        let snapshot = &decided.snapshot;
        let is_owned = |pod: &&Value| history.is_pod_of(pod, deployment(decided), decided.requests);
        let missing = history.all_at("pods", decided.requests).filter(is_owned).find(|pod| {
            snapshot.pods.iter().all(|known| *known.facts.uid != *uid(pod)) && was_created(history, pod)
        });
        if let Some(missing) = missing {
            let message =
                format!("a pod is created while {}, created before, is not observed", name(missing));
            found_all.push(found("S8", first.record.at, message));
        }
    }
    found_all
}

/// Whether a controller created that pod and may know it.
fn was_created(history: &History<'_>, pod: &Value) -> bool {
    let first = history.changes(uid(pod)).next();
    let write = first.and_then(|commit| write_at(history, commit.request?));
    write.is_some_and(|write| !write.is_delayed) && !history.may_seem_deleted(uid(pod))
}

/// S9: each template has one set that does not terminate.
pub(super) fn one_set_per_template(history: &History<'_>) -> Vec<Violation> {
    let mut found_all = Vec::new();
    for (commit, write) in history.committed() {
        if write.kind != Kind::CreateSet || commit.previous.is_some() {
            continue;
        }
        let template = template(&commit.object);
        // A webhook may have removed the owner.
        let Some(owner) = controller(&commit.object) else { continue };
        let same = history.all_at("orderedreplicasets", write.place).find(|set| {
            !is_terminating(set) && controller(set) == Some(owner) && self::template(set).same_as(&template)
        });
        if let Some(same) = same {
            let message =
                format!("{} is created although {} has its template", name(&commit.object), name(same));
            found_all.push(found("S9", commit.at, message));
        }
    }
    found_all.extend(decided_once(history));
    found_all
}

/// A decision creates no more sets than decided.
fn decided_once(history: &History<'_>) -> Vec<Violation> {
    let acts = history.acts().filter(|(place, _, act)| {
        let asked = act.sets.iter().filter(|change| matches!(change, SetChange::Create { .. })).count();
        let mut sent: BTreeMap<&str, usize> = BTreeMap::new();
        for write in history.sent(*place).filter(|write| write.kind == Kind::CreateSet && !write.is_delayed) {
            *sent.entry(write.owner.unwrap_or_default()).or_default() += 1;
        }
        sent.values().any(|sent| *sent > asked)
    });
    acts.map(|(_, decided, _)| found("S9", decided.at, "a set is created without a decision")).collect()
}

fn template(set: &Value) -> Template {
    Template::new(&set["spec"]["template"]).without_hash()
}
