//! A [`SimulatedCluster`] whose scheduler and kubelets act when `tick` is called, and whose API server
//! refuses what a test asks for. The oracle checks every decision before it is applied.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::names::{condition, reason};
use ordereddeployment_api::{ConditionStatus, OrderedDeploymentStatus, Template};
use ordereddeployment_oracle::{History, Violation, check};
use ordereddeployment_planner::{
    Act, ComparisonResult, Decision, DryRun, Event, Pod, Purpose, Read, Regarding, Set, SetChange, Snapshot,
    whole_seconds,
};
use ordereddeployment_preview::SimulatedCluster;
use ordereddeployment_sorter::{NodeFacts, Phase};
use serde_json::{Value, json};

#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) simulated: SimulatedCluster,
    /// Images that the API server refuses.
    pub(crate) refused: BTreeSet<String>,
    /// Images that never become ready.
    pub(crate) broken: BTreeSet<String>,
    /// The quota of the namespace in pods, including terminating ones.
    pub(crate) quota: Option<usize>,
    /// How many pods one decision creates or deletes before the connection breaks.
    pub(crate) breaks_after: Option<usize>,
    /// Whether the status was forged: then nothing is known of the rollout.
    pub(crate) forged: bool,
    /// What somebody outside knows of the rollout.
    pub(crate) history: History,
    /// The requeue time of the last act.
    pub(crate) wake: Option<Timestamp>,
    /// Names of the deleted pods, in order, with the purpose.
    pub(crate) deleted: Vec<(String, Purpose)>,
    pub(crate) events: Vec<Event>,
    /// The API server that compares templates; without one, templates with different spellings are different.
    pub(crate) compares: Option<Compares>,
    /// How many pods were created.
    pub(crate) made: usize,
    /// How many dry runs were requested.
    pub(crate) dry_runs: usize,
    /// How many decisions were applied.
    pub(crate) steps: usize,
    /// Names of the pods that got a pause point, from the first.
    pub(crate) marked: Vec<String>,
    reached: BTreeSet<Arc<str>>,
}

/// An API server that compares templates. It reads only the image and the field `real` of a template.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compares {
    /// Since when it does not answer.
    pub(crate) silent: Option<Timestamp>,
    /// How often it was asked.
    pub(crate) asked: usize,
}

/// A template as that server reads it.
fn read(template: &Template) -> (String, Option<Value>) {
    (image(template), template.value().pointer("/spec/real").cloned())
}

impl Deref for Cluster {
    type Target = SimulatedCluster;

    fn deref(&self) -> &SimulatedCluster {
        &self.simulated
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut SimulatedCluster {
        &mut self.simulated
    }
}

impl Cluster {
    /// A deployment with the image `v1` and without sets and pods.
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
        // The clock of the controller has a finer resolution than the times that an API server stores.
        let now = Timestamp::from_millisecond(1_700_000_000_700).unwrap();
        let simulated = SimulatedCluster {
            // Pods also run on `n3`, which does not exist any more.
            nodes: ["n0", "n1", "n2"]
                .map(|name| {
                    let labels = [("pool".to_owned(), name.to_owned())].into();
                    (name.into(), NodeFacts { labels, ..NodeFacts::default() })
                })
                .into(),
            ..SimulatedCluster::new(serde_json::from_value(object).unwrap(), now)
        };
        Self {
            simulated,
            refused: BTreeSet::new(),
            broken: BTreeSet::new(),
            quota: None,
            breaks_after: None,
            forged: false,
            history: History::default(),
            wake: None,
            deleted: Vec::new(),
            events: Vec::new(),
            compares: None,
            made: 0,
            dry_runs: 0,
            steps: 0,
            marked: Vec::new(),
            reached: BTreeSet::new(),
        }
    }

    /// The same, with all its pods ready.
    pub(crate) fn running(spec: &Value) -> Self {
        let mut cluster = Self::new(spec);
        cluster.settle();
        cluster
    }

    pub(crate) fn status(&self) -> OrderedDeploymentStatus {
        self.deployment.status.clone().unwrap_or_default()
    }

    pub(crate) fn set_image(&mut self, image: &str) {
        self.edit(|spec| {
            spec.template.edit(|template| template["spec"]["containers"][0]["image"] = json!(image));
        });
    }

    pub(crate) fn request_resume(&mut self, id: &str) {
        self.deployment.status.get_or_insert_default().resume_requested = Some(id.to_owned());
    }

    pub(crate) fn request_abort(&mut self, revision: i64) {
        self.deployment.status.get_or_insert_default().abort_requested = Some(revision);
    }

    pub(crate) fn request_retry(&mut self, revision: i64) {
        self.deployment.status.get_or_insert_default().retry_requested = Some(revision);
    }

    pub(crate) fn resume(&mut self) {
        let id = self.status().hold.unwrap().id;
        self.request_resume(&id);
    }

    /// The point at which the rollout waits or is blocked.
    pub(crate) fn stands_at(&self) -> Option<String> {
        let status = self.status();
        let stalled = status.condition(condition::STALLED)?.clone();
        let stands = [reason::BLOCKED, reason::WAITS_AT_PAUSE_POINT].contains(&stalled.reason.as_str());
        Some(status.blocked.filter(|_| stands)?.id)
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

    /// Active pods with that image.
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

    /// Another process becomes leader: state in memory is lost.
    pub(crate) fn restart(&mut self) {
        self.known_points.clear();
        self.failure = None;
    }

    /// A user deletes a set, and its pods with it.
    pub(crate) fn delete_set(&mut self, index: usize) {
        let SimulatedCluster { sets, pods, .. } = &mut self.simulated;
        let set = &mut sets[index];
        set.terminating = true;
        for pod in pods.iter_mut().filter(|pod| pod.set == set.uid) {
            pod.terminating = true;
        }
    }

    /// Makes, checks and applies one decision. Returns whether anything was done.
    pub(crate) fn step(&mut self) -> bool {
        self.steps += 1;
        if self.compares.is_some() {
            self.simulated.comparison = ComparisonResult::Not;
        }
        let mut dry_runs = 0;
        let (snapshot, decision) = self.simulated.decide(|template| {
            dry_runs += 1;
            if self.refused.contains(&image(template)) {
                DryRun::Refused("no".into())
            } else {
                DryRun::Accepted
            }
        });
        self.dry_runs += dry_runs;
        let (snapshot, decision) = match decision {
            Decision::Read(Read::Template(sets)) if self.compares.is_some() => self.compare(&sets),
            decision => (snapshot, decision),
        };
        let mut wrong = check(&snapshot, &decision);
        if !self.forged {
            self.history.look(&snapshot);
            wrong.extend(self.history.check(&snapshot, &decision));
        }
        assert_eq!(wrong, Vec::<Violation>::new(), "{decision:#?}\n{:#?}\n{:?}", self.history, snapshot.sets);
        self.history.decided(&snapshot, &decision);
        match decision {
            Decision::Read(read) => panic!("asked for what it has: {read:?}"),
            Decision::Record(record) => {
                self.store(&record.status);
                self.events.extend(record.events);
                true
            }
            Decision::Act(act) => {
                self.check_that_no_equal_pod_goes(&act);
                self.carry_out(&act)
            }
        }
    }

    /// Asks the API server, and decides with its answer.
    fn compare(&mut self, sets: &[Arc<str>]) -> (Snapshot, Decision) {
        let own = read(&self.deployment.spec.template);
        let is_equal = |uid: &&Arc<str>| {
            self.simulated.sets.iter().any(|set| set.uid == **uid && read(&set.template) == own)
        };
        let equal = sets.iter().find(is_equal).cloned();
        let (now, compares) = (self.now, self.compares.as_mut().unwrap());
        compares.asked += 1;
        self.simulated.comparison = match compares.silent {
            Some(since) => {
                let again = now + SignedDuration::from_secs(1);
                ComparisonResult::NoAnswer { since, again, message: "it is down".to_owned() }
            }
            None => equal.map_or(ComparisonResult::New, ComparisonResult::Equal),
        };
        let mut dry_runs = 0;
        let decided = self.simulated.decide(|_| {
            dry_runs += 1;
            DryRun::Accepted
        });
        self.dry_runs += dry_runs;
        assert!(!matches!(decided.1, Decision::Read(_)), "asked for what it has: {:?}", decided.1);
        decided
    }

    /// No rollout deletes a pod whose template equals the spec's, however it is spelled. An abort does.
    fn check_that_no_equal_pod_goes(&self, act: &Act) {
        if self.compares.is_none() || self.status().aborted.is_some() {
            return;
        }
        let own = read(&self.deployment.spec.template);
        let rollout = act.deletes.iter().filter(|group| group.purpose == Purpose::Rollout);
        for target in rollout.flat_map(|group| &group.targets) {
            let pod = self.pods.iter().find(|pod| pod.facts.uid == *target.uid()).unwrap();
            let set = self.sets.iter().find(|set| set.uid == pod.set).unwrap();
            assert_ne!(read(&set.template), own, "{} is deleted for its own template", pod.name);
        }
    }

    /// Writes the same template in another spelling.
    pub(crate) fn respell(&mut self, how: u32) {
        self.edit(|spec| spec.template.edit(|template| template["spec"]["spelling"] = json!(how)));
    }

    /// The API server stops answering, or answers again.
    pub(crate) fn silence(&mut self, silent: bool) {
        let now = self.now;
        self.compares.get_or_insert_default().silent = silent.then_some(now);
        self.simulated.comparison = ComparisonResult::Not;
    }

    pub(crate) fn asked(&self) -> usize {
        self.compares.as_ref().map_or(0, |compares| compares.asked)
    }

    fn carry_out(&mut self, act: &Act) -> bool {
        for event in act.events.iter().filter(|event| event.reason == reason::PAUSE_POINT_LOST) {
            let Regarding::Pod { uid, .. } = &event.regarding else { continue };
            assert!(!self.reached.contains(uid), "the rollout itself deleted {}", event.message);
        }
        assert_ne!(act.requeue, Some(Duration::ZERO), "asks again at once");
        self.wake = act.requeue.map(|wait| self.now + SignedDuration::try_from(wait).unwrap());
        self.events.extend(act.events.clone());
        for change in &act.sets {
            self.check_change(change);
        }
        self.check_counted(act);
        let act = &self.as_far_as_it_comes(act);
        let (refused, quota) = (&self.refused, self.quota);
        let done = self.simulated.carry_out(act, |simulated, set| {
            let present = simulated.pods.iter().filter(|pod| !pod.finished).count();
            if refused.contains(&image(&set.template)) {
                return Err("pods is invalid".to_owned());
            }
            if quota.is_some_and(|quota| present >= quota) {
                Err("exceeded quota".to_owned())
            } else {
                Ok(())
            }
        });
        self.made += done.created.len();
        for uid in &done.created {
            let pod = self.simulated.pods.iter_mut().find(|pod| pod.facts.uid == *uid).unwrap();
            let number: u32 = pod.resource_version.parse().unwrap();
            // Some are not scheduled at once.
            pod.facts.node = (!number.is_multiple_of(4)).then(|| format!("n{}", number % 4).into());
        }
        for group in act.deletes.iter().filter(|_| done.deleted) {
            for target in &group.targets {
                self.deleted.push((target.name().to_owned(), group.purpose));
                if group.purpose == Purpose::Rollout {
                    self.reached.insert(Arc::clone(target.uid()));
                }
            }
        }
        done.changed
    }

    /// The part of an act that is applied before the connection breaks.
    fn as_far_as_it_comes(&self, act: &Act) -> Act {
        let mut act = act.clone();
        let mut left = self.breaks_after.unwrap_or(usize::MAX);
        for create in &mut act.creates {
            create.count = create.count.min(left);
            left -= create.count;
        }
        for group in &mut act.deletes {
            group.targets.truncate(left);
            left -= group.targets.len();
        }
        act
    }

    /// A disruption budget adds up the sizes of the sets that have pods: no size moves from a set with pods
    /// to one without.
    fn check_counted(&self, act: &Act) {
        let has_pods = |uid: &str| self.pods.iter().any(|pod| *pod.set == *uid && !pod.finished);
        let creates = |hash: &str| act.creates.iter().any(|create| create.hash == hash);
        let (mut hides, mut shrinks) = (false, false);
        for change in &act.sets {
            match change {
                SetChange::Create { hash, replicas, .. } => hides |= *replicas > 0 && !creates(hash),
                SetChange::Update { uid, replicas: Some(replicas), .. } => {
                    let set = self.sets.iter().find(|set| set.uid == *uid).unwrap();
                    hides |= *replicas > set.replicas && !has_pods(uid) && !creates(&set.hash);
                    shrinks |= *replicas < set.replicas && has_pods(uid);
                }
                _ => {}
            }
        }
        assert!(!(hides && shrinks), "{act:#?}");
    }

    fn check_change(&self, change: &SetChange) {
        match change {
            SetChange::Create { name, .. } => {
                assert!(self.sets.iter().all(|set| set.name != *name), "one set a template");
            }
            SetChange::Update { uid, .. } | SetChange::Equal { uid, .. } => {
                assert!(self.sets.iter().any(|set| set.uid == *uid));
            }
            SetChange::Delete { uid } => {
                assert!(self.pods.iter().all(|pod| pod.set != *uid), "a set with pods is kept");
            }
        }
    }

    /// Advances the time: pods become ready, terminating ones are gone.
    pub(crate) fn tick(&mut self, seconds: i64) {
        self.tick_to(self.now + SignedDuration::from_secs(seconds));
    }

    fn tick_to(&mut self, time: Timestamp) {
        self.now = time;
        let now = whole_seconds(self.now);
        self.pods.retain(|pod| !pod.terminating);
        let SimulatedCluster { sets, pods, .. } = &mut self.simulated;
        sets.retain(|set| !set.terminating || pods.iter().any(|pod| pod.set == set.uid));
        let broken = &self.broken;
        let broken: Vec<_> = self
            .simulated
            .sets
            .iter()
            .filter(|set| broken.contains(&image(&set.template)))
            .map(|set| Arc::clone(&set.uid))
            .collect();
        for pod in
            self.simulated.pods.iter_mut().filter(|pod| !pod.finished && pod.facts.phase == Phase::Pending)
        {
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

    /// Decides and advances the time until nothing has changed for some seconds.
    pub(crate) fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..1000 {
            self.rest();
            let before = self.seen();
            self.tick(1);
            self.rest();
            quiet = if before == self.seen() { quiet + 1 } else { 0 };
            if quiet > 3 {
                return;
            }
        }
        panic!("it does not settle: {:#?}", self.status());
    }

    /// Decides, and advances the time only to the next action of a kubelet, or to the requeue time of the
    /// last act: without a requeue time there is no further decision.
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
            let before = self.seen();
            self.tick_to(next);
            self.rest();
            quiet = if before == self.seen() { quiet + 1 } else { 0 };
            if quiet > 10 {
                return;
            }
        }
        panic!("it does not settle: {:#?}", self.status());
    }

    /// What changes while there is something to do.
    fn seen(&self) -> impl PartialEq + use<> {
        (self.pods.len(), self.deleted.len(), self.count, self.deployment.status.clone())
    }

    pub(crate) fn is_complete(&self) -> bool {
        let status = self.status();
        let complete = status.condition(condition::COMPLETE);
        complete.is_some_and(|found| found.status == ConditionStatus::True)
    }

    pub(crate) fn count_events(&self, reason: &str) -> usize {
        self.events.iter().filter(|event| event.reason == reason).count()
    }
}

fn image(template: &Template) -> String {
    template.value()["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
}
