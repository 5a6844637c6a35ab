//! A cluster in a few lines: it carries out decisions at once, and its kubelets are done when `tick` is called.
//!
//! It stops at a failure where the controller does, and knows no more of a decision than the controller does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::names::reason;
use ordereddeployment_api::{OrderedDeployment, OrderedDeploymentStatus, PausePoint, Template};
use ordereddeployment_planner::{
    Act, Decision, Event, Failure, Hindrance, Observed, Pod, Point, Proof, Purpose, Read, Regarding, Set,
    SetChange, decide,
};
use ordereddeployment_sorter::{Facts, NodeFacts, Nodes, Phase};
use serde_json::{Value, json};

use crate::oracle;

pub(crate) struct Cluster {
    pub(crate) deployment: OrderedDeployment,
    pub(crate) sets: Vec<Set>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) now: Timestamp,
    /// Images that the API server refuses.
    pub(crate) refused: BTreeSet<String>,
    /// Images that never become ready.
    pub(crate) broken: BTreeSet<String>,
    pub(crate) failure: Option<Failure>,
    /// How many pods the namespace may have, terminating ones included.
    pub(crate) quota: Option<usize>,
    /// How many pods one decision creates or deletes before the connection breaks.
    pub(crate) breaks_after: Option<usize>,
    /// The nodes: `n0` to `n2`. Pods run on `n3` too, which is gone.
    pub(crate) nodes: BTreeMap<Arc<str>, NodeFacts>,
    /// Names of sets that somebody else has.
    pub(crate) taken_names: BTreeSet<String>,
    /// When the last act wanted to be asked again.
    pub(crate) wake: Option<Timestamp>,
    /// Names of the pods deleted, in order, with what for.
    pub(crate) deleted: Vec<(String, Purpose)>,
    pub(crate) events: Vec<Event>,
    /// How many dry runs were asked for.
    pub(crate) dry_runs: usize,
    /// How many decisions were carried out.
    pub(crate) steps: usize,
    known_points: BTreeMap<Arc<str>, String>,
    rolled_out: BTreeSet<Arc<str>>,
    count: u32,
}

impl Cluster {
    /// A deployment of the image `v1`, with nothing of it there yet.
    pub(crate) fn new(spec: &Value) -> Self {
        let mut object = json!({
            "apiVersion": "ordereddeployment.io/v1alpha1",
            "kind": "OrderedDeployment",
            "metadata": {"name": "web", "namespace": "default", "uid": "od", "generation": 1},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "v1"}]},
                },
            },
        });
        for (key, value) in spec.as_object().unwrap() {
            object["spec"][key] = value.clone();
        }
        Self {
            deployment: serde_json::from_value(object).unwrap(),
            sets: Vec::new(),
            pods: Vec::new(),
            // The controller's clock is finer than the times that an API server stores.
            now: Timestamp::from_millisecond(1_700_000_000_700).unwrap(),
            refused: BTreeSet::new(),
            broken: BTreeSet::new(),
            failure: None,
            quota: None,
            breaks_after: None,
            nodes: ["n0", "n1", "n2"]
                .map(|name| {
                    let labels = [("pool".to_owned(), name.to_owned())].into();
                    (name.into(), NodeFacts { labels, ..NodeFacts::default() })
                })
                .into(),
            taken_names: BTreeSet::new(),
            wake: None,
            deleted: Vec::new(),
            events: Vec::new(),
            dry_runs: 0,
            steps: 0,
            known_points: BTreeMap::new(),
            rolled_out: BTreeSet::new(),
            count: 0,
        }
    }

    /// The same, with all its pods there and ready.
    pub(crate) fn running(spec: &Value) -> Self {
        let mut cluster = Self::new(spec);
        cluster.settle();
        cluster
    }

    pub(crate) fn status(&self) -> OrderedDeploymentStatus {
        self.deployment.status.clone().unwrap_or_default()
    }

    pub(crate) fn edit(&mut self, change: impl FnOnce(&mut ordereddeployment_api::OrderedDeploymentSpec)) {
        change(&mut self.deployment.spec);
        *self.deployment.metadata.generation.get_or_insert(0) += 1;
    }

    pub(crate) fn set_image(&mut self, image: &str) {
        self.edit(|spec| spec.template.0["spec"]["containers"][0]["image"] = json!(image));
    }

    pub(crate) fn request_resume(&mut self, id: &str) {
        self.deployment.status.get_or_insert_default().resume_requested = Some(id.to_owned());
    }

    pub(crate) fn resume(&mut self) {
        let id = self.status().hold.unwrap().id;
        self.request_resume(&id);
    }

    pub(crate) fn active(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().filter(|pod| !pod.terminating && !pod.finished)
    }

    pub(crate) fn image(&self, pod: &Pod) -> String {
        let set = self.sets.iter().find(|set| set.uid == pod.set).unwrap();
        image(&set.template)
    }

    #[allow(clippy::unused_self, reason = "asked of a cluster, as of its pods")]
    pub(crate) fn image_of(&self, set: &Set) -> String {
        image(&set.template)
    }

    /// Active pods of that image.
    pub(crate) fn of_image(&self, name: &str) -> usize {
        self.active().filter(|pod| self.image(pod) == name).count()
    }

    pub(crate) fn pod(&mut self, index: usize) -> &mut Pod {
        self.pods.iter_mut().filter(|pod| !pod.terminating && !pod.finished).nth(index).unwrap()
    }

    pub(crate) fn prioritize(&mut self, priorities: &[i32]) {
        for (index, priority) in priorities.iter().enumerate() {
            self.pod(index).facts.priority = Some(*priority);
        }
    }

    pub(crate) fn pause_at(&mut self, index: usize, side: PausePoint) -> String {
        let pod = self.pod(index);
        pod.point = Point::At { side, duration: Ok(None) };
        pod.name.clone()
    }

    pub(crate) fn observed(&self, live: bool, proof: Proof, nodes: Nodes) -> Observed {
        Observed {
            deployment: Arc::new(self.deployment.clone()),
            sets: self.sets.clone(),
            pods: self.pods.clone(),
            nodes,
            now: self.now,
            live,
            proof,
            failure: self.failure.clone(),
            known_points: self.known_points.clone(),
            taken_names: self.taken_names.clone(),
        }
    }

    /// Another process takes over: what only memory held is gone.
    pub(crate) fn restart(&mut self) {
        self.known_points.clear();
        self.failure = None;
    }

    /// Somebody deletes a set, and its pods with it.
    pub(crate) fn delete_set(&mut self, index: usize) {
        let set = &mut self.sets[index];
        set.terminating = true;
        for pod in self.pods.iter_mut().filter(|pod| pod.set == set.uid) {
            pod.terminating = true;
        }
    }

    /// One decision, carried out and checked. Whether anything was done.
    pub(crate) fn step(&mut self) -> bool {
        self.steps += 1;
        let (mut live, mut proof, mut nodes) = (false, Proof::Unknown, Nodes::new());
        loop {
            let observed = self.observed(live, proof.clone(), nodes.clone());
            match decide(&observed) {
                Decision::Read(Read::Live) => {
                    assert!(!live, "asked for what it has");
                    live = true;
                }
                Decision::Read(Read::Nodes(names)) => {
                    let read = |name: Arc<str>| (Arc::clone(&name), self.nodes.get(&name).cloned());
                    let before = nodes.len();
                    nodes.extend(names.into_iter().map(read));
                    assert!(nodes.len() > before, "asked for what it has");
                }
                Decision::Read(Read::DryRun { .. }) => {
                    assert_eq!(proof, Proof::Unknown, "asked for what it has");
                    self.dry_runs += 1;
                    let refused = self.refused.contains(&image(&self.deployment.spec.template));
                    proof = if refused { Proof::Refused("no".into()) } else { Proof::Accepted };
                }
                Decision::Record(record) => {
                    oracle::check_record(&observed, &record);
                    self.store(&record.status);
                    self.events.extend(record.events);
                    return true;
                }
                Decision::Act(act) => {
                    oracle::check(&observed, &act);
                    return self.carry_out(&act);
                }
            }
        }
    }

    /// The status as it comes back from a server: times in whole seconds.
    fn store(&mut self, status: &OrderedDeploymentStatus) {
        let text = serde_json::to_string(status).unwrap();
        self.deployment.status = Some(serde_json::from_str(&text).unwrap());
    }

    fn carry_out(&mut self, act: &Act) -> bool {
        for event in act.events.iter().filter(|event| event.reason == reason::PAUSE_POINT_LOST) {
            let Regarding::Pod { uid, .. } = &event.regarding else { panic!("{event:?}") };
            assert!(!self.rolled_out.contains(uid), "the rollout itself deleted {}", event.message);
        }
        assert_ne!(act.requeue, Some(Duration::ZERO), "asks again at once");
        self.wake = act.requeue.map(|wait| self.now + SignedDuration::try_from(wait).unwrap());
        self.events.extend(act.events.clone());
        self.known_points.clone_from(&act.points);
        self.failure = None;
        for change in &act.sets {
            self.change_set(change);
        }
        let mut left = self.breaks_after.unwrap_or(usize::MAX);
        let mut created = 0;
        for create in &act.creates {
            let set = self.sets.iter().find(|set| set.hash == create.hash && !set.terminating);
            let set = set.unwrap().clone();
            for _ in 0..create.count.min(left) {
                let refused = self.refused.contains(&image(&set.template));
                let present = self.pods.iter().filter(|pod| !pod.finished).count();
                if refused || self.quota.is_some_and(|quota| present >= quota) {
                    let message = if refused { "pods is invalid" } else { "exceeded quota" }.to_owned();
                    // The round of that set ends; the others have theirs.
                    self.failure.get_or_insert(Failure { what: Hindrance::Create, message });
                    break;
                }
                self.create(&set);
                created += 1;
                left -= 1;
            }
        }
        let targets: Vec<_> = act.deletes.iter().flat_map(|group| &group.targets).collect();
        if self.failure.is_none() {
            for group in &act.deletes {
                for target in group.targets.iter().take(left) {
                    left -= 1;
                    self.delete(&target.uid);
                    self.deleted.push((target.name.clone(), group.purpose));
                    if group.purpose == Purpose::Rollout {
                        self.rolled_out.insert(Arc::clone(&target.uid));
                    }
                }
            }
        }
        let done = !act.sets.is_empty() || created > 0 || !targets.is_empty();
        if !done || self.failure.is_some() {
            let before = self.deployment.status.clone();
            self.store(&act.status);
            return before != self.deployment.status;
        }
        done
    }

    fn change_set(&mut self, change: &SetChange) {
        match change {
            SetChange::Create { name, hash, revision, replicas } => {
                assert!(self.sets.iter().all(|set| set.name != *name), "one set a template");
                self.count += 1;
                self.sets.push(Set {
                    name: name.clone(),
                    uid: format!("set-{}", self.count).into(),
                    hash: hash.clone(),
                    revision: *revision,
                    created: Some(seconds(self.now)),
                    replicas: *replicas,
                    min_ready_seconds: self.deployment.spec.min_ready_seconds,
                    template: ordereddeployment_planner::without_hash(&self.deployment.spec.template),
                    terminating: false,
                });
            }
            SetChange::Update { uid, replicas, revision, min_ready_seconds } => {
                let set = self.sets.iter_mut().find(|set| set.uid == *uid).unwrap();
                set.replicas = replicas.unwrap_or(set.replicas);
                set.revision = revision.unwrap_or(set.revision);
                set.min_ready_seconds = min_ready_seconds.unwrap_or(set.min_ready_seconds);
            }
            SetChange::Delete { uid } => {
                assert!(self.pods.iter().all(|pod| pod.set != *uid), "a set with pods is kept");
                self.sets.retain(|set| set.uid != *uid);
            }
        }
    }

    fn create(&mut self, set: &Set) {
        self.count += 1;
        let name = format!("{}-{:04}", set.name, self.count);
        self.pods.push(Pod {
            facts: Facts {
                uid: format!("uid-{:04}", self.count).into(),
                // Some are not scheduled at once.
                node: (!self.count.is_multiple_of(4)).then(|| format!("n{}", self.count % 4).into()),
                phase: Phase::Pending,
                created: Some(seconds(self.now)),
                ..Facts::default()
            },
            name,
            set: Arc::clone(&set.uid),
            resource_version: self.count.to_string(),
            terminating: false,
            finished: false,
            point: Point::None,
        });
    }

    pub(crate) fn delete(&mut self, uid: &str) {
        let pod = self.pods.iter_mut().find(|pod| *pod.facts.uid == *uid && !pod.terminating).unwrap();
        pod.terminating = true;
    }

    /// Time passes: pods become ready, terminating ones are gone.
    pub(crate) fn tick(&mut self, seconds: i64) {
        self.tick_to(self.now + SignedDuration::from_secs(seconds));
    }

    fn tick_to(&mut self, time: Timestamp) {
        self.now = time;
        let now = seconds(self.now);
        self.pods.retain(|pod| !pod.terminating);
        self.sets.retain(|set| !set.terminating || self.pods.iter().any(|pod| pod.set == set.uid));
        let broken: Vec<_> = self
            .sets
            .iter()
            .filter(|set| self.broken.contains(&image(&set.template)))
            .map(|set| Arc::clone(&set.uid))
            .collect();
        for pod in self.pods.iter_mut().filter(|pod| !pod.finished && pod.facts.phase == Phase::Pending) {
            pod.facts.node.get_or_insert_with(|| "n0".into());
            pod.facts.phase = Phase::Running;
            pod.facts.ready = !broken.contains(&pod.set);
            pod.facts.ready_since = pod.facts.ready.then_some(now);
        }
    }

    /// Decides until there is nothing to do at this time.
    pub(crate) fn rest(&mut self) {
        for _ in 0..1000 {
            if !self.step() {
                return;
            }
        }
        panic!("it does not come to rest: {:#?}", self.status());
    }

    /// Decides and lets time pass until nothing has changed for some seconds.
    pub(crate) fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..1000 {
            self.rest();
            let seen = |cluster: &Self| {
                (cluster.pods.len(), cluster.deleted.len(), cluster.count, cluster.deployment.status.clone())
            };
            let before = seen(self);
            self.tick(1);
            self.rest();
            quiet = if before == seen(self) { quiet + 1 } else { 0 };
            if quiet > 3 {
                return;
            }
        }
        panic!("it does not settle: {:#?}", self.status());
    }

    /// Decides, and lets time pass only to the next thing that a kubelet does, or to when the last act wanted to be asked
    /// again: what it does not ask for it does not get.
    pub(crate) fn settle_when_asked(&mut self) {
        let mut quiet = 0;
        for _ in 0..3000 {
            self.rest();
            let busy = self.failure.is_some()
                || self.sets.iter().any(|set| set.terminating)
                || self
                    .pods
                    .iter()
                    .any(|pod| pod.terminating || (!pod.finished && pod.facts.phase == Phase::Pending));
            let kubelet = busy.then(|| self.now + SignedDuration::from_secs(1));
            let Some(next) = [kubelet, self.wake].into_iter().flatten().min() else { return };
            let before = (self.pods.len(), self.deleted.len(), self.count, self.deployment.status.clone());
            self.tick_to(next);
            self.rest();
            let after = (self.pods.len(), self.deleted.len(), self.count, self.deployment.status.clone());
            quiet = if before == after { quiet + 1 } else { 0 };
            if quiet > 10 {
                return;
            }
        }
        panic!("it does not settle: {:#?}", self.status());
    }

    pub(crate) fn is_complete(&self) -> bool {
        let complete = ordereddeployment_api::names::condition::COMPLETE;
        let status = self.status();
        let condition = status.condition(complete).cloned();
        condition.is_some_and(|found| found.status == ordereddeployment_api::ConditionStatus::True)
    }

    pub(crate) fn told(&self, reason: &str) -> usize {
        self.events.iter().filter(|event| event.reason == reason).count()
    }
}

fn image(template: &Template) -> String {
    template.0["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
}

/// As an API server stores times.
fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap()
}
