//! A model of the cluster around the decisions: a scheduler, kubelets, and a user who resumes.
//!
//! At each point in time, the scheduler places the pods that were pending one interval before, the kubelets
//! report what is due, then the controller decides until there is nothing to do, and last the user resumes a
//! hold. The sandbox under a clock with the same interval has the same timing, so that a test can compare the
//! preview with a real run there.

mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::{Hold, PodDeletion, Template};
use ordereddeployment_placement::{Node, Wants, place};
use ordereddeployment_planner::{
    Act, ComparisonResult, Decision, DryRun, Pod, Snapshot, Target, whole_seconds,
};
use ordereddeployment_sorter::Phase;

use crate::simulation::SimulatedCluster;
use crate::{Action, Deleted, End, Preview, Step};

/// The interval of the scheduler.
const SCHEDULING_INTERVAL: SignedDuration = SignedDuration::from_secs(1);
/// More decisions than any rollout needs.
const MAX_DECISIONS: usize = 200_000;
/// More pods than any cluster has.
const MAX_PODS: usize = 200_000;
/// A limit for the pods of all decisions together: more than any useful preview evaluates.
const MAX_EVALUATED_PODS: usize = 1_000_000_000;
/// After this many rounds without a change, none is expected.
const MAX_IDLE_ROUNDS: usize = 100;

/// The node of new pods if the nodes are not known. No node has this name.
const UNKNOWN_NODE: &str = "?";

/// The assumed behavior of the cluster.
#[derive(Clone, Debug)]
pub struct Assumptions {
    /// From a pod's assignment to Ready. A running pod that is not ready stays unready.
    pub ready_after: Duration,
    /// From a pod's deletion to its end, if its grace period is not shorter.
    pub gone_after: Duration,
    /// From the begin of a hold to the user's resume.
    pub resumed_after: Duration,
    /// The nodes for new pods; `None`: they are not known, and every new pod is placed.
    pub nodes: Option<BTreeMap<String, Node>>,
    /// The number of other pods on each node.
    pub others: BTreeMap<String, usize>,
}

/// The events that a kubelet causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KubeletEvent {
    Ready,
    Gone,
}

struct Model<'a> {
    cluster: SimulatedCluster,
    assumptions: &'a Assumptions,
    /// The pending events of kubelets, by time, then UID.
    due: BTreeSet<(Timestamp, Arc<str>, KubeletEvent)>,
    /// When the scheduler places pods next.
    next_scheduling: Option<Timestamp>,
    /// The requeue time of the controller.
    requeue_at: Option<Timestamp>,
    /// When the hold is resumed.
    resume: Option<(Timestamp, String)>,
    /// The UIDs of pods that the preview created.
    created: BTreeSet<Arc<str>>,
    start: Timestamp,
    steps: Vec<Step>,
    decisions: usize,
    /// How many pods the decisions have evaluated.
    evaluated_pods: usize,
}

/// Previews what the controller will do, starting from a snapshot. `snapshot.deployment` is the future
/// object: with the new template or the new number of replicas.
#[must_use]
pub fn preview(snapshot: &Snapshot, assumptions: &Assumptions) -> Preview {
    let mut cluster = SimulatedCluster::of(snapshot);
    if cluster.comparison == ComparisonResult::Not {
        // No API server is asked: templates with different spellings count as different.
        cluster.comparison = ComparisonResult::New;
    }
    let mut model = Model {
        cluster,
        assumptions,
        due: BTreeSet::new(),
        next_scheduling: None,
        requeue_at: None,
        resume: None,
        created: BTreeSet::new(),
        start: snapshot.now,
        steps: Vec::new(),
        decisions: 0,
        evaluated_pods: 0,
    };
    model.schedule_pending_events();
    let end = model.run();
    Preview { start: model.start, steps: model.steps, end, ended: model.cluster.now }
}

impl Model<'_> {
    /// Schedules the events that are pending in the snapshot.
    fn schedule_pending_events(&mut self) {
        let mut due = BTreeSet::new();
        for pod in self.cluster.pods.iter().filter(|pod| !pod.finished) {
            let uid = || Arc::clone(&pod.facts.uid);
            if pod.terminating {
                due.insert((self.at(self.gone_after(pod)), uid(), KubeletEvent::Gone));
            } else if pod.facts.node.is_some() && pod.facts.phase == Phase::Pending {
                due.insert((self.at(self.assumptions.ready_after), uid(), KubeletEvent::Ready));
            }
        }
        self.due = due;
        if let Some(hold) = self.hold() {
            self.add_held(hold);
        }
        self.expect_scheduling();
    }

    fn run(&mut self) -> End {
        let mut idle_rounds = 0;
        loop {
            let changed = self.decide();
            if self.is_beyond_limits() {
                return End::LimitReached;
            }
            if self.is_complete() {
                return End::Complete;
            }
            if let Some(end) = self.rolled_back().filter(|_| !changed) {
                return end;
            }
            self.expect_resume();
            let resume = self.resume.as_ref().map(|(at, _)| *at);
            let kubelet = self.due.first().map(|(at, ..)| *at);
            let Some(next) =
                [kubelet, self.next_scheduling, self.requeue_at, resume].into_iter().flatten().min()
            else {
                return self.final_state();
            };
            idle_rounds = if changed { 0 } else { idle_rounds + 1 };
            if idle_rounds > MAX_IDLE_ROUNDS && kubelet.is_none() && resume.is_none() {
                return self.final_state();
            }
            self.cluster.now = next.max(self.cluster.now);
            self.schedule();
            self.kubelets();
            if self.requeue_at.is_some_and(|at| at <= self.cluster.now) {
                self.requeue_at = None;
            }
            if resume.is_some_and(|at| at <= self.cluster.now) {
                // The user resumes last at this time.
                self.decide();
                self.request_resume();
            }
        }
    }

    fn at(&self, delay: Duration) -> Timestamp {
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
        self.cluster.now.checked_add(delay).unwrap_or(Timestamp::MAX)
    }

    /// Decides until there is nothing to do at this time. Returns whether anything was done.
    fn decide(&mut self) -> bool {
        let mut changed = false;
        loop {
            self.decisions += 1;
            self.evaluated_pods = self.evaluated_pods.saturating_add(self.cluster.pods.len());
            let before = self.hold();
            let (_, decision) = self.cluster.decide(|_| DryRun::Accepted);
            let again = match decision {
                Decision::Record(record) => {
                    for event in record.events {
                        self.add_step(Action::Event(event));
                    }
                    self.cluster.store(&record.status);
                    true
                }
                Decision::Act(act) => self.apply(&act),
                // The snapshot already contains everything that it can ask for.
                Decision::Read(_) => false,
            };
            self.add_hold_change(before);
            changed |= again;
            if !again || self.is_beyond_limits() {
                break;
            }
        }
        if changed {
            self.expect_scheduling();
        }
        changed
    }

    fn is_beyond_limits(&self) -> bool {
        self.decisions > MAX_DECISIONS || self.evaluated_pods > MAX_EVALUATED_PODS
    }

    /// Applies an act. Returns whether there may be more to do.
    fn apply(&mut self, act: &Act) -> bool {
        for event in &act.events {
            self.add_step(Action::Event(event.clone()));
        }
        let created = act.creates.iter().fold(0, |sum: usize, create| sum.saturating_add(create.count));
        if self.cluster.pods.len().saturating_add(created) > MAX_PODS {
            self.evaluated_pods = usize::MAX;
            return false;
        }
        let idle = act.is_idle();
        let deleted = self.add_deletions(act);
        let done = self.cluster.carry_out(act, |_, _| Ok(()));
        let ready = self.at(self.assumptions.ready_after);
        for uid in &done.created {
            self.created.insert(Arc::clone(uid));
            let assigned =
                self.cluster.pods.iter().any(|pod| pod.facts.uid == *uid && pod.facts.node.is_some());
            if assigned {
                self.due.insert((ready, Arc::clone(uid), KubeletEvent::Ready));
            }
        }
        for create in act.creates.iter().filter(|create| create.count > 0) {
            let set = self.cluster.sets.iter().find(|set| set.hash == create.hash && !set.terminating);
            let (set, revision) = set.map(|set| (set.name.clone(), set.revision)).unwrap_or_default();
            let count = create.count;
            let at = self.steps.len() - deleted;
            let action = Action::Create { set, revision, count };
            self.steps.insert(at, Step { at: self.cluster.now, action });
        }
        for uid in act.deletes.iter().flat_map(|group| &group.targets).map(Target::uid) {
            let Some(pod) = self.cluster.pods.iter().find(|pod| pod.facts.uid == *uid) else { continue };
            let gone_after = self.gone_after(pod);
            // No kubelet terminates a pod without a node.
            if pod.facts.node.is_none() || gone_after.is_zero() {
                self.cluster.pods.retain(|pod| pod.facts.uid != *uid);
            } else {
                self.due.insert((self.at(gone_after), Arc::clone(uid), KubeletEvent::Gone));
            }
        }
        if idle {
            self.requeue_at = act.requeue.map(|wait| self.at(wait));
        }
        done.changed && !idle
    }

    /// Adds a step per deletion request and returns their number. Pods that are deleted together are one
    /// step: a group; evictions are one step each, after the deletions of unavailable pods.
    fn add_deletions(&mut self, act: &Act) -> usize {
        let evict = self.cluster.deployment.spec.pod_deletion == PodDeletion::Evict;
        let mut actions = Vec::new();
        for group in &act.deletes {
            let (evicted, together): (Vec<_>, Vec<_>) =
                group.targets.iter().partition(|target| evict && target.available);
            let batches = [together].into_iter().chain(evicted.into_iter().map(|target| vec![target]));
            for batch in batches.filter(|batch| !batch.is_empty()) {
                let pods = batch.into_iter().map(|target| self.deleted(target)).collect();
                actions.push(Action::Delete { purpose: group.purpose, pods });
            }
        }
        let count = actions.len();
        for action in actions {
            self.add_step(action);
        }
        count
    }

    fn deleted(&self, target: &Target) -> Deleted {
        let pod = self.cluster.pods.iter().find(|pod| pod.facts.uid == *target.uid());
        Deleted {
            name: target.name().to_owned(),
            is_simulated: self.created.contains(target.uid()),
            node: pod.and_then(|pod| pod.facts.node.clone()),
            priority: target.priority,
            available: target.available,
            why: target.why.clone(),
        }
    }

    /// The hold that keeps the sets at their sizes now, if any.
    fn hold(&self) -> Option<Hold> {
        self.cluster.deployment.stored_status().hold.clone()
    }

    fn add_hold_change(&mut self, before: Option<Hold>) {
        match (before, self.hold()) {
            (None, Some(hold)) => self.add_held(hold),
            // An abort ends a hold without a resume.
            (Some(_), None) if self.aborted().is_some() => self.resume = None,
            (Some(hold), None) => {
                let assumed = self.resume.take().is_some_and(|(at, _)| at <= self.cluster.now);
                self.add_step(Action::Resumed { id: hold.id, assumed });
            }
            _ => {}
        }
    }

    fn add_held(&mut self, hold: Hold) {
        let counts = self.counts();
        self.add_step(Action::Held { hold, counts });
    }

    fn add_step(&mut self, action: Action) {
        self.steps.push(Step { at: self.cluster.now, action });
    }

    /// The scheduler handles pending pods one interval after a change.
    fn expect_scheduling(&mut self) {
        let waiting = self.cluster.pods.iter().any(is_unscheduled);
        self.next_scheduling =
            waiting.then(|| self.next_scheduling.unwrap_or(self.cluster.now + SCHEDULING_INTERVAL));
    }

    fn schedule(&mut self) {
        if self.next_scheduling.is_none_or(|at| at > self.cluster.now) {
            return;
        }
        self.next_scheduling = None;
        let mut load = self.assumptions.others.clone();
        for node in
            self.cluster.pods.iter().filter(|pod| !pod.finished).filter_map(|pod| pod.facts.node.as_ref())
        {
            *load.entry(node.to_string()).or_default() += 1;
        }
        let ready = self.at(self.assumptions.ready_after);
        let SimulatedCluster { pods, sets, .. } = &mut self.cluster;
        let mut waiting: Vec<&mut Pod> = pods.iter_mut().filter(|pod| is_unscheduled(pod)).collect();
        waiting.sort_by(|one, other| (one.facts.created, &one.name).cmp(&(other.facts.created, &other.name)));
        for pod in waiting {
            let set = sets.iter().find(|set| set.uid == pod.set);
            let wants = set.map(|set| wants(&set.template)).unwrap_or_default();
            let nodes = self.assumptions.nodes.as_ref();
            if let Ok(node) = nodes.map_or(Ok(UNKNOWN_NODE), |nodes| place(&wants, nodes, &load)) {
                *load.entry(node.to_owned()).or_default() += 1;
                pod.facts.node = Some(node.into());
                self.due.insert((ready, Arc::clone(&pod.facts.uid), KubeletEvent::Ready));
            }
        }
    }

    fn kubelets(&mut self) {
        let mut freed = false;
        while self.due.first().is_some_and(|(at, ..)| *at <= self.cluster.now)
            && let Some((_, uid, what)) = self.due.pop_first()
        {
            match what {
                KubeletEvent::Gone => {
                    self.cluster.pods.retain(|pod| pod.facts.uid != uid);
                    freed = true;
                }
                KubeletEvent::Ready => {
                    let since = whole_seconds(self.cluster.now);
                    let pods = self.cluster.pods.iter_mut();
                    for pod in pods.filter(|pod| pod.facts.uid == uid && !pod.terminating) {
                        pod.facts.phase = Phase::Running;
                        pod.facts.ready = true;
                        pod.facts.ready_since = Some(since);
                    }
                }
            }
        }
        if freed {
            self.expect_scheduling();
        }
    }

    fn expect_resume(&mut self) {
        let Some(hold) = self.hold() else {
            self.resume = None;
            return;
        };
        if self.resume.as_ref().is_none_or(|(_, id)| *id != hold.id) {
            let delay =
                SignedDuration::try_from(self.assumptions.resumed_after).unwrap_or(SignedDuration::MAX);
            let at = hold.since.0.max(self.start).checked_add(delay).unwrap_or(Timestamp::MAX);
            self.resume = Some((at.max(self.cluster.now), hold.id.clone()));
        }
    }

    fn request_resume(&mut self) {
        let Some((_, id)) = &self.resume else { return };
        if let Some(status) = self.cluster.deployment.status.as_mut().filter(|status| status.hold.is_some()) {
            status.resume_requested = Some(id.clone());
        }
    }

    fn gone_after(&self, pod: &Pod) -> Duration {
        let set = self.cluster.sets.iter().find(|set| set.uid == pod.set);
        let grace =
            set.and_then(|set| set.template.value().pointer("/spec/terminationGracePeriodSeconds")?.as_u64());
        self.assumptions.gone_after.min(Duration::from_secs(grace.unwrap_or(30)))
    }
}

fn is_unscheduled(pod: &Pod) -> bool {
    !pod.terminating && !pod.finished && pod.facts.node.is_none()
}

fn wants(template: &Template) -> Wants {
    let spec = template.value().get("spec").cloned().unwrap_or_default();
    serde_json::from_value(spec).unwrap_or_default()
}
