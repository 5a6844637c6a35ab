//! Checks what a deletion must leave, from the history of etcd and the audit log of the API server.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use scenarios::{Commit, Deletion, Request};
use serde_json::Value;

use super::owners;

/// The propagation policy of the deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    Orphan,
    Foreground,
    Background,
}

impl Policy {
    pub(super) const ALL: [Self; 3] = [Self::Orphan, Self::Foreground, Self::Background];
}

/// Requests that the controller sent before it could see the deletion may arrive this much later. A watch on a loaded
/// machine takes a fraction of this time.
const UNDER_WAY: SignedDuration = SignedDuration::from_secs(2);

/// One deletion of `web` in its own namespace.
pub(super) struct Case {
    pub(super) policy: Policy,
    pub(super) namespace: String,
    /// Whether the controller could see the deletion.
    pub(super) seen: bool,
}

/// Counters for the output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Pods that were not terminating when the deletion was accepted, by set.
    pub(super) running: BTreeMap<String, usize>,
    /// Pods that the controller deleted since then, with a request in transit.
    pub(super) under_way: usize,
    /// Pods that the controller created since then, with a request in transit.
    pub(super) created: usize,
}

/// The objects at one moment, by resource and name.
#[derive(Default)]
struct Objects<'a>(BTreeMap<(&'a str, &'a str), &'a Value>);

impl<'a> Objects<'a> {
    fn apply(&mut self, commit: &'a Commit) -> Option<&'a Value> {
        let key = (commit.plural.as_str(), commit.name.as_str());
        match &commit.object {
            Some(object) => self.0.insert(key, object),
            None => self.0.remove(&key),
        }
    }

    fn all(&self, plural: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.0.iter().filter(move |((one, _), _)| *one == plural).map(|((_, name), object)| (*name, *object))
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn terminates(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

impl Case {
    /// Returns what happened, or all violated rules.
    pub(super) fn check(&self, commits: &[Commit], requests: &[Request]) -> Result<Findings, String> {
        let commits: Vec<&Commit> =
            commits.iter().filter(|commit| commit.namespace == self.namespace).collect();
        let requests: Vec<&Request> =
            requests.iter().filter(|one| one.namespace.as_deref() == Some(&self.namespace)).collect();
        let is_deletion = |commit: &&Commit| {
            commit.plural == "ordereddeployments" && commit.object.as_ref().is_none_or(terminates)
        };
        let Some(moment) = commits.iter().position(is_deletion) else {
            return Err("it was not deleted".to_owned());
        };
        let accepted = requests.iter().find(|one| {
            (one.verb.as_str(), one.plural.as_str()) == ("delete", "ordereddeployments") && one.code < 300
        });
        let Some(accepted) = accepted.and_then(|one| one.answered) else {
            return Err("the audit log knows no deletion".to_owned());
        };
        let (mut then, mut owner) = (Objects::default(), "");
        for commit in &commits[..moment] {
            then.apply(commit);
            if let (true, Some(object)) = (commit.plural == "ordereddeployments", &commit.object) {
                owner = text(object, "/metadata/uid");
            }
        }
        let mut checker = Checker { requests, accepted, findings: Findings::default(), broken: Vec::new() };
        for (_, pod) in then.all("pods").filter(|(_, pod)| !terminates(pod)) {
            let set = text(pod, "/metadata/labels/pod-template-hash").to_owned();
            *checker.findings.running.entry(set).or_default() += 1;
        }
        let mut end = Objects(then.0.clone());
        for commit in &commits[moment..] {
            let before = end.apply(commit);
            checker.adoption(commit, before, owner);
        }
        if self.seen {
            checker.late_writes();
        }
        match self.policy {
            Policy::Orphan => checker.all_is_left(&then, &commits[moment..], &end, owner),
            Policy::Foreground | Policy::Background => checker.nothing_is_left(&end),
        }
        if checker.broken.is_empty() { Ok(checker.findings) } else { Err(checker.broken.join("; ")) }
    }
}

struct Checker<'a> {
    requests: Vec<&'a Request>,
    accepted: Timestamp,
    findings: Findings,
    broken: Vec<String>,
}

impl Checker<'_> {
    /// No set is adopted by the deleted object.
    fn adoption(&mut self, commit: &Commit, before: Option<&Value>, owner: &str) {
        let (Some(before), Some(after)) = (before, &commit.object) else { return };
        if commit.plural == "orderedreplicasets"
            && owners(after).any(|uid| uid == owner)
            && !owners(before).any(|uid| uid == owner)
        {
            self.broken.push(format!("{}: {} is adopted again", commit.version, commit.name));
        }
    }

    /// After the controller can see the deletion, it creates, deletes and adopts nothing.
    fn late_writes(&mut self) {
        for request in self.requests.iter().filter(|one| one.by_the_controller() && one.writes()) {
            let whole = request.subresource.is_none() || request.subresource.as_deref() == Some("eviction");
            let counts = matches!(request.plural.as_str(), "pods" | "orderedreplicasets") && whole;
            let since = request.received.map(|received| received.duration_since(self.accepted));
            let Some(since) = since.filter(|since| counts && since.is_positive()) else { continue };
            if request.code < 300 && (request.verb.as_str(), request.plural.as_str()) == ("create", "pods") {
                self.findings.created += 1;
            }
            if since > UNDER_WAY && matches!(request.verb.as_str(), "create" | "delete") {
                let path = &request.path;
                self.broken.push(format!("{} {path}, {since:?} after the deletion", request.verb));
            }
        }
    }

    /// All pods remain that were not terminating when the deletion was accepted or that were created since, except
    /// those that the controller was deleting. The sets remain without an owner.
    fn all_is_left(&mut self, then: &Objects<'_>, since: &[&Commit], end: &Objects<'_>, owner: &str) {
        let made = since.iter().filter(|commit| commit.plural == "pods" && commit.object.is_some());
        let pods: BTreeSet<&str> = then
            .all("pods")
            .filter(|(_, pod)| !terminates(pod))
            .map(|(name, _)| name)
            .chain(made.map(|commit| commit.name.as_str()))
            .filter(|name| then.0.get(&("pods", *name)).is_none_or(|pod| !terminates(pod)))
            .collect();
        for name in pods {
            if end.0.get(&("pods", name)).is_some_and(|pod| !terminates(pod)) {
                continue;
            }
            let deletes = self.requests.iter().filter(|one| one.name.as_deref() == Some(name));
            let deletions: Vec<Deletion> = deletes.filter_map(|one| Deletion::of(one)).collect();
            if !deletions.is_empty() && deletions.iter().all(Deletion::by_the_controller) {
                self.findings.under_way += 1;
            } else {
                let by: Vec<_> = deletions.iter().filter_map(|one| one.user.as_deref()).collect();
                self.broken.push(format!("{name} is lost to {by:?}"));
            }
        }
        let sets = then.all("orderedreplicasets").filter(|(_, set)| !terminates(set));
        for (name, _) in sets {
            match end.0.get(&("orderedreplicasets", name)) {
                None => self.broken.push(format!("the set {name} is gone")),
                Some(set) if terminates(set) => self.broken.push(format!("the set {name} terminates")),
                Some(set) if owners(set).any(|uid| uid == owner) => {
                    self.broken.push(format!("the set {name} still has its owner"));
                }
                Some(_) => {}
            }
        }
    }

    fn nothing_is_left(&mut self, end: &Objects<'_>) {
        for plural in ["orderedreplicasets", "pods"] {
            for (name, _) in end.all(plural) {
                self.broken.push(format!("{name} of {plural} is left"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests that the checks detect violations.

    use serde_json::json;

    use super::*;

    const ACCEPTED: &str = "2026-01-01T00:00:10Z";

    fn at(second: i64) -> Timestamp {
        ACCEPTED.parse::<Timestamp>().unwrap() + SignedDuration::from_secs(second)
    }

    fn commit(version: u64, plural: &str, name: &str, object: Option<Value>) -> Commit {
        let [plural, namespace, name] = [plural, "x", name].map(str::to_owned);
        Commit { version, plural, namespace, name, object }
    }

    fn web(version: u64, terminates: bool) -> Commit {
        let mut metadata = json!({"uid": "uid-web"});
        if terminates {
            metadata["deletionTimestamp"] = ACCEPTED.into();
        }
        commit(version, "ordereddeployments", "web", Some(json!({"metadata": metadata})))
    }

    fn set(version: u64, owned: bool) -> Commit {
        let owners = if owned { json!([{"uid": "uid-web"}]) } else { json!([]) };
        commit(version, "orderedreplicasets", "s", Some(json!({"metadata": {"ownerReferences": owners}})))
    }

    fn pod(version: u64, terminates: bool) -> Commit {
        let mut metadata = json!({"labels": {"pod-template-hash": "s"}});
        if terminates {
            metadata["deletionTimestamp"] = ACCEPTED.into();
        }
        commit(version, "pods", "p", Some(json!({"metadata": metadata})))
    }

    fn gone(version: u64, plural: &str, name: &str) -> Commit {
        commit(version, plural, name, None)
    }

    fn request(agent: &str, verb: &str, plural: &str, name: &str, second: i64) -> Request {
        Request {
            user_agent: agent.to_owned(),
            verb: verb.to_owned(),
            plural: plural.to_owned(),
            namespace: Some("x".to_owned()),
            name: Some(name.to_owned()),
            code: 200,
            received: Some(at(second)),
            answered: Some(at(second)),
            ..Request::default()
        }
    }

    fn check(policy: Policy, commits: Vec<Commit>, requests: Vec<Request>) -> Result<Findings, String> {
        let start = vec![web(1, false), set(2, true), pod(3, false), web(10, true)];
        let commits: Vec<Commit> = start.into_iter().chain(commits).collect();
        let deletion = request("kubectl", "delete", "ordereddeployments", "web", 0);
        let requests: Vec<Request> = std::iter::once(deletion).chain(requests).collect();
        Case { policy, namespace: "x".to_owned(), seen: true }.check(&commits, &requests)
    }

    fn ours(verb: &str, second: i64) -> Request {
        request("ordered-controller-manager/1/rollout", verb, "pods", "p", second)
    }

    #[test]
    fn expected_results_pass() {
        let orphaned = vec![set(11, false), gone(12, "ordereddeployments", "web")];
        let findings = check(Policy::Orphan, orphaned, vec![]).unwrap();
        assert_eq!(findings.running, BTreeMap::from([("s".to_owned(), 1)]));
        let all = vec![
            gone(11, "pods", "p"),
            gone(12, "orderedreplicasets", "s"),
            gone(13, "ordereddeployments", "web"),
        ];
        assert!(check(Policy::Foreground, all, vec![]).is_ok());
        let under_way = vec![pod(11, true), set(12, false)];
        assert_eq!(check(Policy::Orphan, under_way, vec![ours("delete", 1)]).unwrap().under_way, 1);
    }

    #[test]
    fn each_violation_is_reported() {
        let collector =
            || request("kube-controller-manager/generic-garbage-collector", "delete", "pods", "p", 1);
        let table = [
            (Policy::Orphan, vec![pod(11, true), set(12, false)], vec![collector()], "p is lost"),
            (Policy::Orphan, vec![set(11, false), set(12, true), set(13, false)], vec![], "adopted again"),
            (Policy::Orphan, vec![], vec![], "still has its owner"),
            (Policy::Orphan, vec![gone(11, "orderedreplicasets", "s")], vec![], "s is gone"),
            (Policy::Orphan, vec![pod(11, true), set(12, false)], vec![ours("delete", 3)], "delete"),
            (Policy::Background, vec![gone(11, "orderedreplicasets", "s")], vec![], "p of pods is left"),
            (
                Policy::Background,
                vec![gone(11, "orderedreplicasets", "s"), gone(12, "pods", "p")],
                vec![ours("create", 3)],
                "create",
            ),
        ];
        for (policy, commits, requests, words) in table {
            let said = check(policy, commits, requests);
            assert!(said.as_ref().is_err_and(|said| said.contains(words)), "{words}: {said:?}");
        }
    }
}
