//! Checks the safety rules of rollouts commit by commit, from the history of the server and from its request
//! log.
//!
//! The rules are those of `e2e/oracle`. They check a decision against the state that it was made on; here
//! that is what the server stores just before a commit. The controller decided on a slightly earlier state.
//! The deleted pod is the same in both, since its version is a precondition of a delete; so is the object of
//! a stored status. Other objects may have changed since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_api::{OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_oracle::{
    History, Messages, View, above_ceiling, below_floor, collected, rollout_order,
};
use ordereddeployment_planner::{
    Act, ComparisonResult, Create, Decision, DeleteGroup, DryRun, Pod, Purpose, Record, Set, Snapshot, Target,
};
use ordereddeployment_sorter::Why;
use ordereddeployment_wire::{self as wire, PodView};
use scenarios::{Commit, Deletion, Request};
use serde::de::DeserializeOwned;

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
pub(super) fn check(commits: &[Commit], requests: &[Request], namespace: &str) -> Result<Findings, String> {
    let mut checker = Checker::new(requests, namespace);
    for commit in commits {
        checker.see(commit);
    }
    if checker.broken.is_empty() { Ok(checker.findings) } else { Err(checker.broken.join("\n")) }
}

#[derive(Default)]
struct Checker<'a> {
    /// The deletes of our controller by pod, without rejected ones.
    deletes: BTreeMap<&'a str, Vec<&'a Request>>,
    /// What is stored before the commit.
    object: Option<Arc<OrderedDeployment>>,
    sets: BTreeMap<&'a str, Set>,
    pods: BTreeMap<&'a str, Arc<Pod>>,
    /// The UIDs of all pods so far.
    uids: BTreeSet<Arc<str>>,
    /// What is known of the rollout.
    history: History,
    findings: Findings,
    broken: Vec<String>,
}

impl<'a> Checker<'a> {
    fn new(requests: &'a [Request], namespace: &str) -> Self {
        let mut checker = Self::default();
        for request in requests {
            let ours = request.by_the_controller() && request.namespace.as_deref() == Some(namespace);
            let deletes = request.verb == "delete" && request.plural == "pods" && request.writes();
            // A delete with a 5xx response, or without a response, may have been processed.
            let may_count = request.code < 300 || request.code >= 500;
            if let (true, true, true, Some(pod)) = (ours, deletes, may_count, &request.name) {
                checker.deletes.entry(pod).or_default().push(request);
                checker.findings.unanswered += usize::from(request.code == 0 || request.code >= 500);
            }
        }
        checker
    }

    fn see(&mut self, commit: &'a Commit) {
        if self.object.is_some() {
            self.history.look(&self.snapshot());
        }
        match commit.plural.as_str() {
            "pods" => self.see_pod(commit),
            "ordereddeployments" if commit.name == "web" => self.see_object(commit),
            "orderedreplicasets" => {
                let after = decode(commit).map(|set: OrderedReplicaSet| wire::set(&set));
                let before = store(&mut self.sets, commit, after);
                self.findings.sets += usize::from(before.is_none());
            }
            _ => {}
        }
    }

    /// What is stored before the commit, as a snapshot of the controller.
    fn snapshot(&self) -> Snapshot {
        Snapshot {
            deployment: Arc::clone(self.object.as_ref().unwrap()),
            sets: self.sets.values().cloned().collect(),
            pods: self.pods.values().cloned().collect(),
            // The history has no nodes and no times, and no scenario needs them. At this time, pods with
            // `minReadySeconds` are never available and timed holds never end, so a scenario that has them
            // fails.
            nodes: BTreeMap::new(),
            now: Timestamp::UNIX_EPOCH,
            live: true,
            dry_run: DryRun::Accepted,
            failure: None,
            known_points: BTreeMap::new(),
            unclaimed: BTreeSet::new(),
            taken_names: BTreeSet::new(),
            sources: BTreeMap::new(),
            comparison: ComparisonResult::Not,
        }
    }

    fn report(&mut self, commit: &Commit, messages: impl IntoIterator<Item = String>) {
        self.broken.extend(messages.into_iter().map(|message| format!("{}: {message}", commit.version)));
    }

    /// S5: what this decision breaks of what is known of the rollout. The state may have changed since the
    /// decision, so only what nobody may get past is exact.
    fn passed(&mut self, commit: &Commit, decision: &Decision) {
        let snapshot = self.snapshot();
        let violations = self.history.check(&snapshot, decision).into_iter();
        let messages: Vec<String> = violations.map(|violation| violation.message).collect();
        self.report(commit, messages.into_iter().filter(|message| message.starts_with("passed by nobody")));
        self.history.decided(&snapshot, decision);
    }

    fn see_object(&mut self, commit: &Commit) {
        let after: Option<OrderedDeployment> = decode(commit);
        if let (Some(_), Some(object)) = (&self.object, &after) {
            let status = object.status.clone().unwrap_or_default();
            self.passed(commit, &Decision::Record(Record { status, events: Vec::new() }));
        }
        self.object = after.map(Arc::new);
    }

    fn see_pod(&mut self, commit: &'a Commit) {
        let before = self.pods.get(commit.name.as_str()).cloned();
        let after = decode(commit).map(|object: PodView| Arc::new(object.pod()));
        match (before, &after) {
            (None, Some(pod)) => self.created(commit, pod),
            // Terminating, or removed immediately, as a pod without a node.
            (Some(pod), after) if !pod.terminating && after.as_ref().is_none_or(|pod| pod.terminating) => {
                self.went(commit, &pod);
            }
            _ => {}
        }
        store(&mut self.pods, commit, after);
    }

    /// S4: the ceiling.
    fn created(&mut self, commit: &Commit, pod: &Pod) {
        self.findings.created += 1;
        if !self.uids.insert(Arc::clone(&pod.facts.uid)) {
            self.report(commit, [format!("{} comes twice", pod.name)]);
        }
        self.report(commit, above_ceiling(&View::of(&self.snapshot()), 1));
        if let Some(set) = self.sets.values().find(|set| set.uid == pod.set) {
            let creates = vec![Create { hash: set.hash.clone(), count: 1 }];
            self.passed(commit, &Decision::Act(Act { creates, ..Act::default() }));
        }
    }

    fn went(&mut self, commit: &Commit, pod: &Arc<Pod>) {
        let Some(requests) = self.deletes.get(commit.name.as_str()).cloned() else {
            self.findings.lost += 1;
            return;
        };
        self.bound(&requests, pod);
        if requests.iter().all(|request| request.user_agent.ends_with("/scale")) {
            self.findings.scaled += 1;
            return;
        }
        self.findings.rolled.push(priority(pod));
        let snapshot = self.snapshot();
        let act = deletion(&View::of(&snapshot), pod);
        self.report(commit, rolled(&snapshot, pod));
        self.passed(commit, &Decision::Act(act));
    }

    /// S7: every delete has the UID and a version of the pod as preconditions, if the log has its body; at
    /// most one was accepted.
    fn bound(&mut self, requests: &[&Request], pod: &Pod) {
        let (name, uid) = (&pod.name, &*pod.facts.uid);
        let accepted = requests.iter().filter(|request| request.code != 0 && request.code < 300).count();
        if accepted > 1 {
            self.broken.push(format!("{accepted} deletes of {name} were accepted"));
        }
        for request in requests.iter().filter(|request| request.code != 0) {
            let counted = Request { code: 200, ..(*request).clone() };
            let bound = Deletion::of(&counted);
            let bound =
                bound.is_some_and(|one| one.uid.as_deref() == Some(uid) && one.resource_version.is_some());
            if !bound {
                self.broken.push(format!("a delete of {name} is not bound to a version of it: {request:?}"));
            }
        }
    }
}

/// The act that deletes that pod in a rollout.
fn deletion(view: &View<'_>, pod: &Arc<Pod>) -> Act {
    let deleted = view.pods.iter().find(|one| one.is(&pod.facts.uid));
    let available = deleted.is_some_and(|deleted| deleted.available);
    let target = Target { pod: Arc::clone(pod), priority: priority(pod), available, why: Why::default() };
    let group = DeleteGroup { purpose: Purpose::Rollout, targets: vec![target] };
    Act { deletes: vec![group], ..Act::default() }
}

/// S1, S2, S3: the rules that the deletion of that pod by a rollout breaks.
fn rolled(snapshot: &Snapshot, pod: &Arc<Pod>) -> Messages {
    let mut view = View::of(snapshot);
    let deleted = view.pods.iter().find(|one| one.is(&pod.facts.uid)).copied();
    let available = deleted.is_some_and(|deleted| deleted.available);
    let act = deletion(&view, pod);
    let mut messages = collected(&view, &act);
    messages.extend(below_floor(&view, &act, deleted.into_iter()).map(|(_, message)| message));
    // The order of pods of one priority is not checked: they are deleted in parallel, and the rules below the
    // priority depend on other pods and on time. With `WhenBlocked`, nor is that of an unavailable pod:
    // whether the rollout is blocked depends on the availability of other pods, which may have changed since.
    let may_overtake = !available && view.is_when_blocked();
    let is_ordered = |other: &Pod| !may_overtake && priority(other) != priority(pod);
    view.pods.retain(|one| one.updated || one.is(&pod.facts.uid) || is_ordered(one.pod));
    messages.extend(rollout_order(&view, &act));
    messages
}

/// The delete priority. No scenario has node rules.
fn priority(pod: &Pod) -> i32 {
    pod.facts.priority.unwrap_or(0)
}

fn decode<T: DeserializeOwned>(commit: &Commit) -> Option<T> {
    Some(serde_json::from_value(commit.object.clone()?).unwrap())
}

/// Applies a commit. Returns the object before it.
fn store<'a, T>(all: &mut BTreeMap<&'a str, T>, commit: &'a Commit, after: Option<T>) -> Option<T> {
    match after {
        Some(after) => all.insert(&commit.name, after),
        None => all.remove(commit.name.as_str()),
    }
}

#[cfg(test)]
mod tests {
    //! Tests that the checks detect violations.

    use ordereddeployment_api::Template;
    use ordereddeployment_api::names::annotation::{DELETE_PRIORITY, PAUSE_POINT};
    use ordereddeployment_wire::{Family, new_pod, new_set};
    use scenarios::{Commit, Request, manifest};
    use serde_json::{Value, json};

    use super::check;

    const OLD: &str = "web:1";
    const NEW: &str = "web:2";

    /// Four pods `a` to `d` with the priorities 3 to 0, a pause point on `b`; D = 4, S = U = 1; a new
    /// template.
    fn start() -> Vec<Commit> {
        let pods = ["a", "b", "c", "d"].into_iter().enumerate();
        let pods = pods.map(|(index, name)| pod(3 + index, name, OLD));
        let new = [object(10, NEW, &json!({})), set(11, NEW)];
        [object(1, OLD, &json!({})), set(2, OLD)].into_iter().chain(pods).chain(new).collect()
    }

    fn commit(version: usize, plural: &str, name: &str, object: Value) -> Commit {
        let version = u64::try_from(version).unwrap();
        let [plural, namespace, name] = [plural, "x", name].map(str::to_owned);
        Commit { version, plural, namespace, name, object: Some(object) }
    }

    fn web(image: &str) -> Value {
        let (version, kind) = ("ordereddeployment.io/v1alpha1", "OrderedDeployment");
        let mut web = manifest(version, kind, &json!({"replicas": 4}));
        web["metadata"]["uid"] = "uid-web".into();
        web["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
        web
    }

    fn object(version: usize, image: &str, status: &Value) -> Commit {
        let mut object = web(image);
        object["status"] = status.clone();
        commit(version, "ordereddeployments", "web", object)
    }

    /// The set of that image, whose UID is the image.
    fn set(version: usize, image: &str) -> Commit {
        let object = serde_json::from_value(web(image)).unwrap();
        let mut set = serde_json::to_value(new_set(&object, image, image, 1, 4)).unwrap();
        set["metadata"]["uid"] = image.into();
        commit(version, "orderedreplicasets", image, set)
    }

    fn pod(version: usize, name: &str, image: &str) -> Commit {
        let mut pod = new_pod(Family::Ordered, image, image, &Template::default(), name, "x");
        pod["metadata"]["uid"] = format!("uid-{name}").into();
        pod["status"] = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        let priority = (i32::from(b'd') - i32::from(name.as_bytes()[0])).max(0);
        pod["metadata"]["annotations"] = json!({DELETE_PRIORITY: priority.to_string()});
        if name == "b" {
            pod["metadata"]["annotations"][PAUSE_POINT] = "before".into();
        }
        commit(version, "pods", name, pod)
    }

    fn new(version: usize, name: &str) -> Commit {
        pod(version, name, NEW)
    }

    fn with(mut commit: Commit, change: impl FnOnce(&mut Value)) -> Commit {
        change(commit.object.as_mut().unwrap());
        commit
    }

    fn terminating(commit: Commit) -> Commit {
        with(commit, |object| object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into())
    }

    fn gone(version: usize, name: &str) -> Commit {
        terminating(pod(version, name, OLD))
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

    /// A status that is held at `b`.
    fn held(point: &str, resume: Option<&str>) -> Value {
        let hold = json!({
            "id": "b@0", "pod": "b", "podUID": "uid-b", "point": point, "revision": 0,
            "since": "2026-01-01T00:00:00Z", "replicas": 4, "limit": 1,
        });
        json!({"hold": hold, "resumeRequested": resume})
    }

    /// A status that has passed the pause point of `b`.
    fn passed() -> Value {
        json!({"passed": [{"id": "b@0", "podUID": "uid-b", "resumedAt": "2026-01-01T00:00:00Z"}]})
    }

    #[test]
    fn each_violation_is_reported_and_nothing_else() {
        let mut unbound = deletes(&["a"]);
        unbound[0].body = Some(json!({"preconditions": {"uid": "uid-a"}}));
        let at_b = |version| object(version, NEW, &held("Before", None));
        let resumed = |version| object(version, NEW, &held("Before", Some("b@0")));
        let is_passed = |version| object(version, NEW, &passed());
        let (ab, unresumed) = (deletes(&["a", "b"]), "passed by nobody: b is deleted");
        // Pods of one priority and unavailable pods may go in any order.
        let unmarked = |pod: &mut Value| {
            pod["metadata"]["annotations"].as_object_mut().unwrap().remove(PAUSE_POINT);
        };
        let equal = |pod: &mut Value| pod["metadata"]["annotations"][DELETE_PRIORITY] = "3".into();
        let unready = |pod: &mut Value| pod["status"]["conditions"] = json!([]);
        let early = |change: fn(&mut Value), mode: &str| {
            let in_order = |web: &mut Value| web["spec"]["deletionOrder"] = json!({"unavailablePods": mode});
            let (web, b) = (object(18, NEW, &json!({})), pod(19, "b", OLD));
            let c = [pod(20, "c", OLD), gone(21, "c")].map(|one| with(one, change));
            [with(web, in_order), with(b, unmarked)].into_iter().chain(c).collect()
        };
        // Nothing goes beyond a pause point `after`.
        let after = |commit| with(commit, |pod| pod["metadata"]["annotations"][PAUSE_POINT] = "after".into());
        let beyond = |more: Vec<Commit>| {
            let marked = after(pod(9, "b", OLD));
            [marked, new(20, "n1"), gone(21, "a"), new(22, "n2"), after(gone(24, "b"))]
                .into_iter()
                .chain(more)
                .collect()
        };
        let (c, abc) = (deletes(&["c"]), deletes(&["a", "b", "c"]));
        let after_b = || object(25, NEW, &held("After", None));
        let table: [(Vec<Commit>, Vec<Request>, &str); 12] = [
            (
                vec![new(20, "n1"), gone(21, "a"), at_b(22), resumed(23), is_passed(24), gone(25, "b")],
                ab.clone(),
                "[3, 2]",
            ),
            (vec![new(20, "n1"), gone(21, "d")], deletes(&["d"]), "d is deleted before a"),
            (vec![gone(21, "a"), gone(22, "b")], ab.clone(), "leaves 2 available"),
            (vec![new(20, "n1"), gone(21, "a"), gone(22, "b")], ab.clone(), unresumed),
            (vec![new(20, "n1"), at_b(21), new(22, "n2")], deletes(&[]), "passed by nobody: b allows 0"),
            (vec![new(20, "n1"), new(21, "n2")], deletes(&[]), "6 active pods"),
            (vec![new(20, "n1"), gone(21, "a"), is_passed(22), gone(23, "b")], ab, unresumed),
            (vec![gone(20, "a")], unbound, "not bound"),
            (vec![gone(20, "a")], deletes(&["a", "a"]), "2 deletes of a"),
            (vec![new(20, "n1"), terminating(new(21, "n1"))], deletes(&["n1"]), "n1, which is updated"),
            (
                vec![terminating(set(20, OLD)), gone(21, "a")],
                deletes(&["a"]),
                "while its set is being deleted",
            ),
            (early(unready, "InOrder"), c.clone(), "c is deleted before a"),
        ];
        let said = |commits: Vec<Commit>, requests: &[Request]| {
            let mut commits: Vec<Commit> = start().into_iter().chain(commits).collect();
            commits.sort_by_key(|commit| commit.version);
            let said = check(&commits, requests, "x");
            said.map_or_else(|broken| broken, |findings| format!("{:?}", findings.rolled))
        };
        for (commits, requests, words) in table {
            let said = said(commits, &requests);
            assert!(said.contains(words), "{words}: {said}");
        }
        for (commits, requests, first) in [
            (early(equal, "InOrder"), &c, "[3]"),
            (early(unready, "WhenBlocked"), &c, "[1]"),
            (beyond(vec![after_b()]), &abc, "[3, 2]"),
            (beyond(vec![after_b(), gone(26, "c")]), &abc, "26: passed by nobody"),
            (beyond(vec![gone(26, "c")]), &abc, "26: passed by nobody"),
        ] {
            let said = said(commits, requests);
            assert!(said.starts_with(first), "{first}: {said}");
        }
    }
}
