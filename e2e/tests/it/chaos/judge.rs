//! Checks the safety rules of rollouts commit by commit, from the history of the server and from its request log.

use std::collections::{BTreeMap, BTreeSet};

use e2e::{Commit, Deletion, Request};
use ordereddeployment_api::names::annotation;
use serde_json::Value;

/// What happened, within the rules.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Created pods.
    pub(super) created: usize,
    /// Priorities of the pods that our controller deleted in rollouts, in order.
    pub(super) rolled: Vec<i32>,
    /// Pods that our controller deleted in scale-downs.
    pub(super) scaled: usize,
    /// Pods that other clients deleted.
    pub(super) lost: usize,
    /// Created sets.
    pub(super) sets: usize,
    /// Deletes of our controller without a response.
    pub(super) unanswered: usize,
}

/// Checks all commits in a namespace with the object `web`. The error lists every violated rule.
pub(super) fn judge(commits: &[Commit], requests: &[Request], namespace: &str) -> Result<Findings, String> {
    let mut judge = Judge::new(requests, namespace);
    for commit in commits {
        judge.see(commit);
    }
    if judge.broken.is_empty() { Ok(judge.findings) } else { Err(judge.broken.join("\n")) }
}

/// A stored pod.
struct Pod<'a>(&'a Value);

impl<'a> Pod<'a> {
    fn text(&self, pointer: &str) -> &'a str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn annotation(&self, key: &str) -> Option<&'a str> {
        self.0.pointer("/metadata/annotations")?.get(key)?.as_str()
    }

    fn uid(&self) -> &'a str {
        self.text("/metadata/uid")
    }

    fn priority(&self) -> i32 {
        self.annotation(annotation::DELETE_PRIORITY).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    fn point(&self) -> Option<&'a str> {
        self.annotation(annotation::PAUSE_POINT)
    }

    fn image(&self) -> &'a str {
        self.text("/spec/containers/0/image")
    }

    fn is_active(&self) -> bool {
        self.text("/metadata/deletionTimestamp").is_empty()
            && !matches!(self.text("/status/phase"), "Succeeded" | "Failed")
    }

    fn is_available(&self) -> bool {
        let mut conditions =
            self.0.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        self.is_active() && conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
    }
}

/// The image in the template.
fn image(object: &Value) -> &str {
    object.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str).unwrap_or_default()
}

struct Judge<'a> {
    /// The deletes of our controller by pod, without rejected ones.
    deletes: BTreeMap<&'a str, Vec<&'a Request>>,
    pods: BTreeMap<&'a str, &'a Value>,
    object: Option<&'a Value>,
    /// The names of all pods so far, by UID.
    names: BTreeMap<&'a str, &'a str>,
    /// The IDs that resume requests contained.
    asked: BTreeSet<&'a str>,
    /// Priority and UID of deleted pods with a pause point `after`.
    halted: Vec<(i32, &'a str)>,
    findings: Findings,
    broken: Vec<String>,
}

impl<'a> Judge<'a> {
    fn new(requests: &'a [Request], namespace: &str) -> Self {
        let mut judge = Self {
            deletes: BTreeMap::new(),
            pods: BTreeMap::new(),
            object: None,
            names: BTreeMap::new(),
            asked: BTreeSet::new(),
            halted: Vec::new(),
            findings: Findings::default(),
            broken: Vec::new(),
        };
        for request in requests {
            let ours = request.by_the_controller() && request.namespace.as_deref() == Some(namespace);
            let deletes = request.verb == "delete" && request.plural == "pods" && request.writes();
            // A delete with a 5xx response, or without a response, may have been processed.
            let may_count = request.code < 300 || request.code >= 500;
            if let (true, true, true, Some(pod)) = (ours, deletes, may_count, &request.name) {
                judge.deletes.entry(pod).or_default().push(request);
                judge.findings.unanswered += usize::from(request.code == 0 || request.code >= 500);
            }
        }
        judge
    }

    fn see(&mut self, commit: &'a Commit) {
        match commit.plural.as_str() {
            "pods" => self.see_pod(commit),
            "ordereddeployments" if commit.name == "web" => self.see_object(commit),
            "orderedreplicasets" => {
                let version = commit.object.as_ref().map(|set| &set["metadata"]["generation"]);
                let fresh = commit.object.as_ref().is_some_and(|set| set["status"].is_null());
                self.findings.sets += usize::from(fresh && version == Some(&1.into()));
            }
            _ => {}
        }
    }

    /// A pause point is passed only after a resume request with its name.
    fn see_object(&mut self, commit: &'a Commit) {
        let before = std::mem::replace(&mut self.object, commit.object.as_ref());
        let Some(object) = self.object else { return };
        if before.map(image) != Some(image(object)) {
            // A new template starts a new rollout, and the previous pause points no longer hold it.
            self.halted.clear();
        }
        if let Some(asked) = object.pointer("/status/resumeRequested").and_then(Value::as_str) {
            self.asked.insert(asked);
        }
        let passed = object.pointer("/status/passed").and_then(Value::as_array).into_iter().flatten();
        for uid in passed.filter_map(|one| one["podUID"].as_str()) {
            let name = self.names.get(uid).copied().unwrap_or_default();
            if !self.asked.iter().any(|asked| asked.split_once('@').is_some_and(|(pod, _)| pod == name)) {
                self.broken.push(format!("{}: the point of {name} is passed unasked", commit.version));
            }
        }
    }

    fn see_pod(&mut self, commit: &'a Commit) {
        let before = self.pods.get(commit.name.as_str()).copied();
        let went = |pod: &Value| Pod(pod).text("/metadata/deletionTimestamp").is_empty();
        match (before, commit.object.as_ref()) {
            (None, Some(pod)) => self.created(commit, pod),
            // Terminating, or removed immediately, as a pod without a node.
            (Some(pod), after) if went(pod) && !after.is_some_and(went) => self.went(commit, pod),
            _ => {}
        }
        match &commit.object {
            Some(pod) => _ = self.pods.insert(&commit.name, pod),
            None => _ = self.pods.remove(commit.name.as_str()),
        }
    }

    fn number(&self, pointer: &str) -> usize {
        let number = self.object.and_then(|object| object.pointer(pointer)).and_then(Value::as_u64);
        usize::try_from(number.unwrap_or_default()).unwrap()
    }

    fn surge(&self) -> usize {
        self.number("/spec/strategy/rollingUpdate/maxSurge")
    }

    fn floor(&self) -> usize {
        self.number("/spec/replicas") - self.number("/spec/strategy/rollingUpdate/maxUnavailable")
    }

    fn is_old(&self, pod: &Pod<'_>) -> bool {
        self.object.map(image) != Some(pod.image())
    }

    /// S4: at most D + S pods.
    fn created(&mut self, commit: &'a Commit, pod: &'a Value) {
        self.findings.created += 1;
        if self.names.insert(Pod(pod).uid(), &commit.name).is_some() {
            self.broken.push(format!("{}: {} comes twice", commit.version, commit.name));
        }
        let active = 1 + self.pods.values().filter(|pod| Pod(pod).is_active()).count();
        let ceiling = self.number("/spec/replicas") + self.surge();
        if active > ceiling {
            self.broken.push(format!("{}: {active} pods with {}", commit.version, commit.name));
        }
    }

    fn went(&mut self, commit: &'a Commit, pod: &'a Value) {
        let (name, version, pod) = (&commit.name, commit.version, Pod(pod));
        let Some(requests) = self.deletes.get(name.as_str()).cloned() else {
            self.findings.lost += 1;
            return;
        };
        self.bound(&requests, &pod, name);
        if requests.iter().all(|request| request.user_agent.ends_with("/scale")) {
            self.findings.scaled += 1;
            return;
        }
        self.findings.rolled.push(pod.priority());
        if !self.is_old(&pod) {
            self.broken.push(format!("{version}: {name} is of the current revision"));
        }
        let others =
            || self.pods.iter().filter(|(other, _)| **other != name).map(|(name, pod)| (name, Pod(pod)));
        let mut broken = Vec::new();
        // S1, S2: no old pod with a higher priority exists.
        for (other, one) in others().filter(|(_, one)| one.is_active() && self.is_old(one)) {
            if one.priority() > pod.priority() && pod.is_available() {
                broken.push(format!(
                    "{version}: {name} of priority {} goes before {other} of priority {}",
                    pod.priority(),
                    one.priority()
                ));
            }
        }
        // S3: both floors.
        let available = others().filter(|(_, one)| one.is_available()).count();
        let counted =
            others().filter(|(_, one)| one.is_active() && (self.is_old(one) || one.is_available())).count();
        if pod.is_available() && available < self.floor() {
            broken.push(format!("{version}: {name} leaves {available} available pods"));
        }
        if counted < self.floor() {
            broken.push(format!("{version}: {name} leaves {counted} old or available pods"));
        }
        // S5: no deletion after a pause point that is not passed.
        let passed = |uid: &str| {
            let passed =
                self.object.and_then(|object| object.pointer("/status/passed")).and_then(Value::as_array);
            passed.into_iter().flatten().any(|one| one["podUID"] == uid)
        };
        if pod.point() == Some("before") && !passed(pod.uid()) {
            broken.push(format!("{version}: {name} goes though the rollout halts before it"));
        }
        for (priority, uid) in &self.halted {
            if *priority > pod.priority() && !passed(uid) {
                broken.push(format!(
                    "{version}: {name} goes though the rollout halts after {}",
                    self.names[uid]
                ));
            }
        }
        if pod.point() == Some("after") {
            self.halted.push((pod.priority(), pod.uid()));
        }
        self.broken.extend(broken);
    }

    /// S7: every delete has the UID and a version of the pod as preconditions, if the log has its body; at most one was
    /// accepted.
    fn bound(&mut self, requests: &[&Request], pod: &Pod<'_>, name: &str) {
        let accepted = requests.iter().filter(|request| request.code != 0 && request.code < 300).count();
        if accepted > 1 {
            self.broken.push(format!("{accepted} deletes of {name} were accepted"));
        }
        for request in requests.iter().filter(|request| request.code != 0) {
            let counted = Request { code: 200, ..(*request).clone() };
            let bound = Deletion::of(&counted);
            let bound = bound
                .is_some_and(|one| one.uid.as_deref() == Some(pod.uid()) && one.resource_version.is_some());
            if !bound {
                self.broken.push(format!("a delete of {name} is not bound to a version of it: {request:?}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests that the checks detect violations.

    use e2e::{Commit, Request};
    use serde_json::{Value, json};

    use super::judge;

    /// Four pods `a` to `d` with the priorities 3 to 0, a pause point on `b`; D = 4, S = U = 1; a new template.
    fn start() -> Vec<Commit> {
        let mut commits = vec![object(1, &json!({}))];
        for (index, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
            commits.push(pod(2 + index, name, &json!({})));
        }
        commits.push(object(10, &json!({"template": "web:2"})));
        commits
    }

    fn commit(version: usize, plural: &str, name: &str, object: Option<Value>) -> Commit {
        let version = u64::try_from(version).unwrap();
        let [plural, namespace, name] = [plural, "x", name].map(str::to_owned);
        Commit { version, plural, namespace, name, object }
    }

    fn object(version: usize, more: &Value) -> Commit {
        let image = more.get("template").cloned().unwrap_or("web:1".into());
        let bounds = json!({"maxSurge": 1, "maxUnavailable": 1});
        let mut object = json!({"spec": {
            "replicas": 4, "strategy": {"rollingUpdate": bounds},
            "template": {"spec": {"containers": [{"image": image}]}},
        }});
        object["status"] = more.get("status").cloned().unwrap_or_default();
        commit(version, "ordereddeployments", "web", Some(object))
    }

    fn pod(version: usize, name: &str, more: &Value) -> Commit {
        let priority = (i32::from(b'd') - i32::from(name.as_bytes()[0])).max(0);
        let mut annotations = json!({"ordereddeployment.io/delete-priority": priority.to_string()});
        if name == "b" {
            annotations["ordereddeployment.io/pause-point"] =
                more.get("point").cloned().unwrap_or("before".into());
        }
        let mut pod = json!({
            "metadata": {"uid": format!("uid-{name}"), "annotations": annotations},
            "spec": {"containers": [{"image": more.get("image").cloned().unwrap_or("web:1".into())}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        if more.get("gone").is_some() {
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        commit(version, "pods", name, Some(pod))
    }

    fn gone(version: usize, name: &str) -> Commit {
        pod(version, name, &json!({"gone": true}))
    }

    fn deletes(pods: &[&str]) -> Vec<Request> {
        let delete = |pod: &&str| Request {
            user_agent: "ordered-controller-manager/1/rollout".to_owned(),
            verb: "delete".to_owned(),
            plural: "pods".to_owned(),
            namespace: Some("x".to_owned()),
            name: Some((*pod).to_owned()),
            body: Some(json!({"preconditions": {"uid": format!("uid-{pod}"), "resourceVersion": "1"}})),
            code: 200,
            ..Request::default()
        };
        pods.iter().map(delete).collect()
    }

    fn complaint(commits: Vec<Commit>, requests: &[Request]) -> String {
        let commits: Vec<Commit> = start().into_iter().chain(commits).collect();
        judge(&commits, requests, "x")
            .map_or_else(|broken| broken, |findings| format!("{:?}", findings.rolled))
    }

    fn new(version: usize, name: &str) -> Commit {
        pod(version, name, &json!({"image": "web:2"}))
    }

    #[test]
    fn valid_histories_pass() {
        let passed = json!({"passed": [{"podUID": "uid-b"}]});
        let asked = json!({"resumeRequested": "b@2"});
        let commits = vec![
            new(20, "n1"),
            gone(21, "a"),
            object(22, &json!({"template": "web:2", "status": asked})),
            object(23, &json!({"template": "web:2", "status": passed})),
            gone(24, "b"),
        ];
        assert_eq!(complaint(commits, &deletes(&["a", "b"])), "[3, 2]");
    }

    #[test]
    fn each_violation_is_reported() {
        let asked = json!({"template": "web:2", "status": {"passed": [{"podUID": "uid-b"}]}});
        let mut unbound = deletes(&["a"]);
        unbound[0].body = Some(json!({"preconditions": {"uid": "uid-a"}}));
        let twice = deletes(&["a", "a"]);
        let table = [
            (vec![new(20, "n1"), gone(21, "d")], deletes(&["d"]), "goes before a"),
            (vec![gone(21, "a"), gone(22, "b")], deletes(&["a", "b"]), "leaves 2 available"),
            (vec![new(20, "n1"), gone(21, "a"), gone(22, "b")], deletes(&["a", "b"]), "halts before"),
            (vec![new(20, "n1"), new(21, "n2")], deletes(&[]), "6 pods"),
            (vec![object(20, &asked)], deletes(&[]), "passed unasked"),
            (vec![gone(20, "a")], unbound, "not bound"),
            (vec![gone(20, "a")], twice, "2 deletes of a"),
            (
                vec![new(20, "n1"), pod(21, "n1", &json!({"gone": 1, "image": "web:2"}))],
                deletes(&["n1"]),
                "current",
            ),
        ];
        for (commits, requests, words) in table {
            let said = complaint(commits, &requests);
            assert!(said.contains(words), "{words}: {said}");
        }
    }

    #[test]
    fn a_deletion_beyond_a_pause_point_after_is_a_violation() {
        let after = |version, gone: bool| {
            let mut more = json!({"point": "after"});
            if gone {
                more["gone"] = true.into();
            }
            pod(version, "b", &more)
        };
        let commits = vec![
            after(19, false),
            new(20, "n1"),
            gone(21, "a"),
            new(22, "n2"),
            after(23, true),
            gone(24, "c"),
        ];
        let said = complaint(commits, &deletes(&["a", "b", "c"]));
        assert!(said.contains("halts after b"), "{said}");
    }
}
