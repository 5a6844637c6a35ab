//! Checks the commits of a run against what the controller of plain Deployments promises.
//!
//! A decision is made for what was read shortly before. A promise counts for what has not changed lately.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::names::annotation;
use ordereddeployment_sandbox::{Commit, Record};
use serde_json::Value;

/// How long a decision can be carried out after the read that it was made for: without faults, and with them.
const LAGS: [SignedDuration; 2] = [SignedDuration::from_secs(1), SignedDuration::from_secs(12)];

/// A time, and how old a decision can be then.
type Moment = (Timestamp, SignedDuration);

/// A value, and the values that it had before.
#[derive(Debug, Clone)]
struct Dated<T>(Vec<(Timestamp, T)>);

impl<T> Default for Dated<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone + PartialEq> Dated<T> {
    fn set(&mut self, at: Timestamp, value: T) {
        if self.now() != Some(&value) {
            self.0.push((at, value));
        }
    }

    fn now(&self) -> Option<&T> {
        self.0.last().map(|(_, value)| value)
    }

    fn since(&self) -> Option<Timestamp> {
        self.0.last().map(|(since, _)| *since)
    }

    /// The value, if it has not changed lately.
    fn settled(&self, (at, lag): Moment) -> Option<&T> {
        self.0.last().filter(|(since, _)| at.duration_since(*since) > lag).map(|(_, value)| value)
    }

    /// The values of late, the one before included.
    fn lately(&self, (at, lag): Moment) -> impl Iterator<Item = &T> {
        let first = self.0.iter().rposition(|(since, _)| at.duration_since(*since) > lag).unwrap_or(0);
        self.0[first..].iter().map(|(_, value)| value)
    }
}

#[derive(Debug, Default)]
struct Pod {
    name: String,
    set: String,
    active: bool,
    ready: bool,
    priority: Dated<i64>,
    point: Dated<Option<String>>,
}

#[derive(Debug, Default)]
struct Set {
    size: Dated<i64>,
    desired: Dated<Option<i64>>,
    image: String,
}

#[derive(Debug, Default)]
struct History {
    lag: SignedDuration,
    /// Whether the controller says that the write is a step of a rollout, not of scaling.
    in_rollout: bool,
    pods: BTreeMap<String, Pod>,
    sets: BTreeMap<String, Set>,
    recreates: bool,
    paused: Dated<bool>,
    replicas: Dated<i64>,
    image: Dated<String>,
    held: Dated<Option<String>>,
    /// Pods at which the rollout was resumed.
    passed: BTreeSet<String>,
    /// A pod with a point `after` that is deleted, and when: none of a later decision goes before a pause.
    after: Option<(String, Timestamp)>,
    found: Vec<String>,
    seen: Seen,
}

/// What a run has shown, so that a campaign that checks nothing fails.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Seen {
    pub(super) deletes: usize,
    pub(super) holds: usize,
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn annotated<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

/// What broke a promise. `faulty`: requests were late.
pub(super) fn violations(commits: &[Commit], requests: &[Record], faulty: bool) -> (Vec<String>, Seen) {
    let mut history = History { lag: LAGS[usize::from(faulty)], ..History::default() };
    for commit in commits {
        let agent = commit.request.and_then(|place| requests.get(place)).map(|record| &*record.user_agent);
        let agent = agent.filter(|agent| agent.starts_with("ordered-controller-manager"));
        let by_controller = agent.is_some();
        history.in_rollout = agent.is_some_and(|agent| agent.ends_with("/rollout"));
        match commit.plural.as_str() {
            "pods" => history.pod(commit, by_controller),
            "replicasets" => history.set(commit),
            "deployments" => history.deployment(commit, by_controller),
            _ => {}
        }
    }
    (history.found, history.seen)
}

impl History {
    fn deployment(&mut self, commit: &Commit, by_controller: bool) {
        let (at, object) = (commit.at, &commit.object);
        let state = annotated(object, annotation::ROLLOUT_STATE);
        let state: Value = state.and_then(|state| serde_json::from_str(state).ok()).unwrap_or_default();
        let held = state.pointer("/hold/podUID").and_then(Value::as_str).map(str::to_owned);
        let image = text(object, "/spec/template/spec/containers/0/image").to_owned();
        let before = self.held.now().cloned().flatten();
        if let Some(uid) = before.filter(|before| Some(before) != held.as_ref()) {
            if by_controller && self.has_no_end(&uid, &image) {
                self.found.push(format!("{at}: the rollout goes on, and nobody has resumed it"));
            }
            self.passed.insert(uid);
        }
        self.seen.holds += usize::from(held.is_some() && self.held.now() != Some(&held));
        if self.image.now() != Some(&image) {
            // Another rollout passes the points again.
            self.passed.clear();
            self.after = None;
        }
        if held.is_some() || object.pointer("/spec/replicas") == Some(&Value::from(0)) {
            self.after = None;
        }
        self.recreates = text(object, "/spec/strategy/type") == "Recreate";
        self.paused.set(at, object.pointer("/spec/paused") == Some(&Value::Bool(true)));
        self.replicas.set(at, object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1));
        self.image.set(at, image);
        self.held.set(at, held);
    }

    /// Whether the hold of this pod still has a reason: it is there and old, and its point too, the
    /// Deployment is paused, and its template has not changed since.
    fn has_no_end(&self, uid: &str, image: &str) -> bool {
        let Some(pod) = self.pods.get(uid) else { return false };
        let is_old = self.sets.get(&pod.set).is_some_and(|set| set.image != image);
        let has_point = pod.point.now().is_some_and(Option::is_some);
        let is_same = self.image.since() <= self.held.since();
        let is_wanted = self.paused.now() == Some(&true) && self.replicas.now() != Some(&0);
        pod.active && is_old && is_same && has_point && is_wanted
    }

    fn set(&mut self, commit: &Commit) {
        let (at, object) = (commit.at, &commit.object);
        let set = self.sets.entry(text(object, "/metadata/uid").to_owned()).or_default();
        set.size.set(at, object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1));
        let desired = annotated(object, annotation::DESIRED_REPLICAS).and_then(|text| text.parse().ok());
        set.desired.set(at, desired);
        text(object, "/spec/template/spec/containers/0/image").clone_into(&mut set.image);
    }

    fn pod(&mut self, commit: &Commit, by_controller: bool) {
        let (at, object) = (commit.at, &commit.object);
        let uid = text(object, "/metadata/uid").to_owned();
        let was_active = self.pods.get(&uid).is_some_and(|pod| pod.active);
        let finished = ["Failed", "Succeeded"].contains(&text(object, "/status/phase"));
        let terminates = object.pointer("/metadata/deletionTimestamp").is_some();
        let active = !commit.deleted && !terminates && !finished;
        if was_active && !active && !finished && by_controller {
            self.seen.deletes += 1;
            self.check_delete(&uid, at);
        }
        let is_new = !self.pods.contains_key(&uid);
        let pod = self.pods.entry(uid).or_default();
        text(object, "/metadata/name").clone_into(&mut pod.name);
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let owner = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
        pod.set = owner.map(|owner| text(owner, "/uid").to_owned()).unwrap_or_default();
        pod.active = active;
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        pod.ready = conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        let priority = annotated(object, annotation::DELETE_PRIORITY);
        pod.priority.set(at, priority.and_then(|text| text.parse().ok()).unwrap_or(0));
        pod.point.set(at, annotated(object, annotation::PAUSE_POINT).map(str::to_owned));
        if is_new && by_controller {
            self.check_create(commit);
        }
    }

    /// Whether the rollout pauses at this pod: not behind the last old pod.
    fn has_point(&self, uid: &str, pod: &Pod, at: Moment) -> bool {
        let Some(point) = pod.point.settled(at).and_then(Option::as_deref) else { return false };
        let of_old_set = |pod: &Pod| {
            let image = self.sets.get(&pod.set).map(|set| &set.image);
            image.is_some() && image != self.image.now()
        };
        point == "before"
            || self.pods.iter().any(|(other, pod)| other != uid && pod.active && of_old_set(pod))
    }

    fn active_of<'h>(&'h self, set: &'h str) -> impl Iterator<Item = (&'h String, &'h Pod)> {
        self.pods.iter().filter(move |(_, pod)| pod.active && pod.set == set)
    }

    fn check_create(&mut self, commit: &Commit) {
        let Some(pod) = self.pods.get(text(&commit.object, "/metadata/uid")) else { return };
        let Some(set) = self.sets.get(&pod.set) else { return };
        let (count, most) =
            (self.active_of(&pod.set).count(), set.size.lately((commit.at, self.lag)).max().copied());
        if i64::try_from(count).unwrap() > most.unwrap_or(0) {
            let why = format!("{}: {} is pod {count} of a set of {most:?}", commit.at, pod.name);
            self.found.push(why);
        }
        // With faults, a create from before the pause can still be carried out.
        let is_exact = self.lag == LAGS[0];
        let is_new = self.image.now().is_some_and(|image| *image == set.image);
        let others = || {
            self.pods.values().any(|other| {
                other.active && self.sets.get(&other.set).is_some_and(|of| of.image != set.image)
            })
        };
        if is_exact && self.recreates && is_new && self.held.now().is_some_and(Option::is_some) && others() {
            self.found.push(format!("{}: {} is created beside old pods", commit.at, pod.name));
        }
    }

    fn check_delete(&mut self, uid: &str, time: Timestamp) {
        let at = (time, self.lag);
        let (Some(pod), mut found) = (self.pods.get(uid), Vec::new()) else { return };
        let Some(set) = self.sets.get(&pod.set) else { return };
        let (count, least) =
            (self.active_of(&pod.set).count(), set.size.lately(at).min().copied().unwrap_or(0));
        if i64::try_from(count).unwrap() <= least {
            found.push(format!("one of {count} pods of a set of {least}"));
        }
        let held = self.held.now().and_then(Option::as_deref);
        let first = self.active_of(&pod.set).filter(|(other, _)| Some(other.as_str()) != held);
        let first = first.filter_map(|(_, other)| Some((other, *other.priority.settled(at)?)));
        let first = first.max_by_key(|(_, priority)| *priority);
        if let (Some((other, larger)), Some(own)) = (first, pod.priority.settled(at))
            && larger > *own
            && pod.ready
            // The pod of a point `after` was the first one when the point was reached.
            && held != Some(uid)
        {
            found.push(format!("its priority is {own}, and that of {} is {larger}", other.name));
        }
        if self.held.settled(at).and_then(Option::as_deref) == Some(uid)
            && self.paused.settled(at) == Some(&true)
            && set.size.lately(at).all(|size| *size > 0)
            && pod.point.settled(at).and_then(Option::as_deref) == Some("before")
        {
            found.push("the rollout is paused before it".to_owned());
        }
        let sizes_stand = || self.sets.values().all(|set| set.size.settled(at).is_some());
        let is_old = self.image.settled(at).is_some_and(|image| *image != set.image);
        // With faults, a scale-down from before can still be carried out.
        if self.lag == LAGS[0]
            && self.held.settled(at).is_some_and(Option::is_some)
            && self.paused.settled(at) == Some(&true)
            && is_old
            && held != Some(uid)
            && self.replicas.settled(at).is_some_and(|replicas| *replicas > 0)
            && sizes_stand()
        {
            found.push("the rollout is paused".to_owned());
        }
        let replicas = self.replicas.settled(at);
        let has_new = self.image.now().is_some_and(|image| self.sets.values().any(|set| set.image == *image));
        let scales = self.sets.values().any(|set| {
            set.size.now() != Some(&0) && set.desired.now().copied().flatten() != replicas.copied()
        });
        let steps =
            self.in_rollout && is_old && has_new && !scales && replicas.is_some_and(|replicas| *replicas > 0);
        let is_marked = self.has_point(uid, pod, at) && !self.passed.contains(uid) && held != Some(uid);
        let mut after = self.after.clone();
        let is_later = |since: Timestamp| time.duration_since(since) > self.lag;
        if let Some((other, _)) =
            after.as_ref().filter(|(_, since)| steps && held.is_none() && is_later(*since))
        {
            found.push(format!("and its rollout did not pause after {other}"));
        }
        if steps && is_marked {
            match pod.point.now() {
                Some(Some(point)) if point == "after" => after = Some((pod.name.clone(), time)),
                _ => found.push("its pause point was not reached".to_owned()),
            }
        }
        let what = format!("{time}: {} is deleted", pod.name);
        self.found.extend(found.into_iter().map(|why| format!("{what}, {why}")));
        self.after = after;
    }
}
