//! Checks what a deletion must leave, from the history of etcd and the audit log of the API server.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kube::api::PropagationPolicy;
use scenarios::{Commit, Deletion, Request};
use serde_json::Value;

/// Requests that the controller sent before it could see the deletion may arrive this much later. A watch on
/// a loaded machine takes a fraction of this time.
const UNDER_WAY: SignedDuration = SignedDuration::from_secs(2);

/// The objects at one moment, by resource and name.
type Objects<'a> = BTreeMap<(&'a str, &'a str), &'a Value>;

fn terminates(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

/// Whether `web` with this UID owns the object.
fn is_owned(object: &Value, owner: &str) -> bool {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().any(|one| one["uid"] == owner)
}

/// All rules that a deletion of `web` by this policy in its own namespace has violated.
pub(super) fn check(
    policy: &PropagationPolicy,
    namespace: &str,
    commits: &[Commit],
    requests: &[Request],
) -> Vec<String> {
    let commits: Vec<&Commit> = commits.iter().filter(|one| one.namespace == namespace).collect();
    let is_ours = |one: &&Request| one.namespace.as_deref() == Some(namespace);
    let requests: Vec<&Request> = requests.iter().filter(is_ours).collect();
    let accepted = requests.iter().find(|one| {
        (one.verb.as_str(), one.plural.as_str()) == ("delete", "ordereddeployments") && one.code < 300
    });
    let Some(accepted) = accepted.and_then(|one| one.answered) else {
        return vec!["the audit log knows no deletion".to_owned()];
    };
    let (mut broken, mut owner, mut is_deleted) = (Vec::new(), "", false);
    // The objects when the deletion was accepted and the pods that were created since, and the objects at
    // the end.
    let (mut then, mut end) = (Objects::new(), Objects::new());
    for commit in commits {
        let (key, after) = ((commit.plural.as_str(), commit.name.as_str()), commit.object.as_ref());
        let before = match after {
            Some(object) => end.insert(key, object),
            None => end.remove(&key),
        };
        match (key.0, before, after) {
            ("ordereddeployments", _, Some(web)) if !terminates(web) => {
                owner = web["metadata"]["uid"].as_str().unwrap_or_default();
            }
            ("ordereddeployments", ..) if !is_deleted => (is_deleted, then) = (true, end.clone()),
            ("pods", None, Some(pod)) if is_deleted => _ = then.insert(key, pod),
            ("orderedreplicasets", Some(before), Some(after))
                if is_deleted && is_owned(after, owner) && !is_owned(before, owner) =>
            {
                broken.push(format!("{}: {} is adopted again", commit.version, commit.name));
            }
            _ => {}
        }
    }
    broken.extend(late_writes(&requests, accepted));
    let is_dependent = |(plural, _): &&(&str, &str)| matches!(*plural, "pods" | "orderedreplicasets");
    if matches!(policy, PropagationPolicy::Orphan) {
        let kept = then.iter().filter(|(key, object)| is_dependent(key) && !terminates(object));
        broken.extend(kept.filter_map(|(key, _)| lost(*key, end.get(key).copied(), owner, &requests)));
    } else {
        let left = end.keys().filter(is_dependent);
        broken.extend(left.map(|(plural, name)| format!("{name} of {plural} is left")));
    }
    broken
}

/// After the controller can see the deletion, it creates and deletes nothing.
fn late_writes(requests: &[&Request], accepted: Timestamp) -> Vec<String> {
    let is_write = |request: &&&Request| {
        let whole = matches!(request.subresource.as_deref(), None | Some("eviction"));
        request.by_the_controller()
            && request.writes()
            && whole
            && matches!(request.plural.as_str(), "pods" | "orderedreplicasets")
            && matches!(request.verb.as_str(), "create" | "delete")
    };
    let since = |request: &Request| request.received.map(|received| received.duration_since(accepted));
    let late = requests.iter().filter(is_write).filter(|one| since(one) > Some(UNDER_WAY));
    late.map(|one| format!("{} {}, {:?} after the deletion", one.verb, one.path, since(one))).collect()
}

/// How a pod or a set is lost that must remain: a pod, except if the controller was deleting it, and a set
/// without an owner.
fn lost(
    (plural, name): (&str, &str),
    end: Option<&Value>,
    owner: &str,
    requests: &[&Request],
) -> Option<String> {
    match end {
        Some(set) if plural != "pods" && is_owned(set, owner) => {
            Some(format!("the set {name} still has its owner"))
        }
        Some(object) if !terminates(object) => None,
        _ if plural != "pods" => Some(format!("the set {name} is gone")),
        _ => {
            let deletes = requests.iter().filter(|one| one.name.as_deref() == Some(name));
            let deletions: Vec<Deletion> = deletes.filter_map(|one| Deletion::of(one)).collect();
            let is_ours = !deletions.is_empty() && deletions.iter().all(Deletion::by_the_controller);
            (!is_ours).then(|| format!("{name} is lost to {deletions:?}"))
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests that the checks detect violations.

    use kube::api::PropagationPolicy::{self, Background, Foreground, Orphan};
    use serde_json::json;

    use super::*;

    const ACCEPTED: &str = "2026-01-01T00:00:10Z";

    fn commit(version: u64, plural: &str, name: &str, metadata: Option<Value>) -> Commit {
        let [plural, namespace, name] = [plural, "x", name].map(str::to_owned);
        Commit { version, plural, namespace, name, object: metadata.map(|one| json!({"metadata": one})) }
    }

    fn set(version: u64, is_owned: bool) -> Commit {
        let owners = if is_owned { json!([{"uid": "uid-web"}]) } else { json!([]) };
        commit(version, "orderedreplicasets", "s", Some(json!({"ownerReferences": owners})))
    }

    fn gone(version: u64, plural: &str, name: &str) -> Commit {
        commit(version, plural, name, None)
    }

    fn request(agent: &str, verb: &str, plural: &str, name: &str, second: i64) -> Request {
        let at = ACCEPTED.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second);
        Request {
            user_agent: agent.to_owned(),
            verb: verb.to_owned(),
            plural: plural.to_owned(),
            namespace: Some("x".to_owned()),
            name: Some(name.to_owned()),
            code: 200,
            received: Some(at),
            answered: Some(at),
            ..Request::default()
        }
    }

    fn ours(verb: &str, second: i64) -> Request {
        request("ordered-controller-manager/1/rollout", verb, "pods", "p", second)
    }

    #[test]
    fn each_violation_is_reported_and_nothing_else() {
        let collector = || request("kube-controller-manager/collector", "delete", "pods", "p", 1);
        let ends = || commit(11, "pods", "p", Some(json!({"deletionTimestamp": ACCEPTED})));
        let no_set = |version| gone(version, "orderedreplicasets", "s");
        let no_pod = |version| gone(version, "pods", "p");
        let table: [(PropagationPolicy, Vec<Commit>, Vec<Request>, &str); 11] = [
            (Orphan, vec![set(11, false), gone(12, "ordereddeployments", "web")], vec![], ""),
            (Orphan, vec![ends(), set(12, false)], vec![ours("delete", 1)], ""),
            (Foreground, vec![no_pod(11), no_set(12), gone(13, "ordereddeployments", "web")], vec![], ""),
            (Orphan, vec![ends(), set(12, false)], vec![collector()], "p is lost"),
            (Orphan, vec![set(11, false), set(12, true), set(13, false)], vec![], "adopted again"),
            (Orphan, vec![], vec![], "still has its owner"),
            (Orphan, vec![no_set(11)], vec![], "s is gone"),
            (Orphan, vec![ends(), set(12, false)], vec![ours("delete", 3)], "delete , Some(3s) after"),
            (Background, vec![no_set(11)], vec![], "p of pods is left"),
            (Foreground, vec![no_pod(11)], vec![], "s of orderedreplicasets is left"),
            (Background, vec![no_set(11), no_pod(12)], vec![ours("create", 3)], "create , Some(3s) after"),
        ];
        for (policy, commits, requests, words) in table {
            let web = |version, metadata| commit(version, "ordereddeployments", "web", Some(metadata));
            let start = [
                web(1, json!({"uid": "uid-web"})),
                set(2, true),
                commit(3, "pods", "p", Some(json!({}))),
                web(10, json!({"uid": "uid-web", "deletionTimestamp": ACCEPTED})),
            ];
            let commits: Vec<Commit> = start.into_iter().chain(commits).collect();
            let deletion = request("kubectl", "delete", "ordereddeployments", "web", 0);
            let requests: Vec<Request> = std::iter::once(deletion).chain(requests).collect();
            let broken = check(&policy, "x", &commits, &requests);
            assert!(
                if words.is_empty() { broken.is_empty() } else { broken.concat().contains(words) },
                "{words}: {broken:?}"
            );
        }
    }
}
