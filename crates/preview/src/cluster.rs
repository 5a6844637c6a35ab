//! A model of the cluster around the decisions: a scheduler, kubelets, and a user who resumes.
//!
//! Time advances in beats. At each beat, the scheduler places the pods that were pending at the one before, the kubelets
//! report what is due, then the controller decides until there is nothing to do, and last the user resumes a hold. The
//! sandbox under a clock with a beat has the same timing, so that a test can compare the preview with a real run there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::names::condition;
use ordereddeployment_api::{ConditionStatus, Hold, PausePoint, PodDeletion, Template};
use ordereddeployment_placement::{Node, Wants, place};
use ordereddeployment_planner::{
    Act, ComparisonResult, Decision, DryRun, Pod, Snapshot, Target, whole_seconds,
};
use ordereddeployment_sorter::Phase;

use crate::simulation::SimulatedCluster;
use crate::{Deleted, End, Preview, Step, What};

/// The interval of the scheduler.
const BEAT: SignedDuration = SignedDuration::from_secs(1);
/// More decisions than any rollout needs.
const MOST_DECISIONS: usize = 200_000;
/// More pods than any cluster has.
const MOST_PODS: usize = 200_000;
/// A limit for the pods of all decisions together: more than any useful preview evaluates.
const MOST_WORK: usize = 1_000_000_000;
/// After this many rounds without a change, none is expected.
const QUIET: usize = 100;

/// The assumed behavior of the cluster.
#[derive(Clone, Debug)]
pub struct Assumptions {
    /// From a pod's assignment to Ready. A running pod that is not ready stays unready.
    pub ready_after: Duration,
    /// From a pod's deletion to its end, if its grace period is not shorter.
    pub gone_after: Duration,
    /// From the begin of a hold to the user's resume.
    pub resumed_after: Duration,
    /// The nodes for new pods.
    pub nodes: BTreeMap<String, Node>,
    /// The number of other pods on each node.
    pub others: BTreeMap<String, usize>,
}

/// The events that a kubelet causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Ready,
    Gone,
}

struct Model<'a> {
    world: SimulatedCluster,
    assumptions: &'a Assumptions,
    /// The pending events of kubelets, by time, then UID.
    due: BTreeSet<(Timestamp, Arc<str>, Due)>,
    /// The next round of the scheduler.
    round: Option<Timestamp>,
    /// The requeue time of the controller.
    wake: Option<Timestamp>,
    /// When the hold is resumed.
    resume: Option<(Timestamp, String)>,
    made: BTreeSet<Arc<str>>,
    start: Timestamp,
    steps: Vec<Step>,
    decisions: usize,
    /// How many pods the decisions have evaluated.
    work: usize,
}

/// Previews what the controller will do, starting from a snapshot. `snapshot.deployment` is the future object: with the new
/// template or the new number of replicas.
#[must_use]
pub fn preview(snapshot: &Snapshot, assumptions: &Assumptions) -> Preview {
    let mut world = SimulatedCluster::of(snapshot);
    if world.comparison == ComparisonResult::Not {
        // No API server is asked: templates with different spellings count as different.
        world.comparison = ComparisonResult::New;
    }
    let mut model = Model {
        world,
        assumptions,
        due: BTreeSet::new(),
        round: None,
        wake: None,
        resume: None,
        made: BTreeSet::new(),
        start: snapshot.now,
        steps: Vec::new(),
        decisions: 0,
        work: 0,
    };
    model.take_over();
    let end = model.run();
    Preview { start: model.start, steps: model.steps, end, ended: model.world.now }
}

impl Model<'_> {
    /// Schedules the events that are pending in the snapshot.
    fn take_over(&mut self) {
        let mut due = BTreeSet::new();
        for pod in self.world.pods.iter().filter(|pod| !pod.finished) {
            let uid = || Arc::clone(&pod.facts.uid);
            if pod.terminating {
                due.insert((self.at(self.gone_after(pod)), uid(), Due::Gone));
            } else if pod.facts.node.is_some() && pod.facts.phase == Phase::Pending {
                due.insert((self.at(self.assumptions.ready_after), uid(), Due::Ready));
            }
        }
        self.due = due;
        let hold = self.world.deployment.status.as_ref().and_then(|status| status.hold.clone());
        if let Some(hold) = hold.filter(stands) {
            self.tell(What::Held(hold));
        }
        self.expect_round();
    }

    fn run(&mut self) -> End {
        let mut quiet = 0;
        loop {
            let changed = self.decide();
            if self.is_too_much() {
                return End::Unending;
            }
            if self.is_complete() {
                return End::Complete;
            }
            self.expect_resume();
            let resume = self.resume.as_ref().map(|(at, _)| *at);
            let kubelet = self.due.first().map(|(at, ..)| *at);
            let Some(next) = [kubelet, self.round, self.wake, resume].into_iter().flatten().min() else {
                return self.rest();
            };
            quiet = if changed { 0 } else { quiet + 1 };
            if quiet > QUIET && kubelet.is_none() && resume.is_none() {
                return self.rest();
            }
            self.world.now = next.max(self.world.now);
            self.schedule();
            self.kubelets();
            if self.wake.is_some_and(|at| at <= self.world.now) {
                self.wake = None;
            }
            if resume.is_some_and(|at| at <= self.world.now) {
                // The user resumes last at this time.
                self.decide();
                self.request_resume();
            }
        }
    }

    fn at(&self, delay: Duration) -> Timestamp {
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
        self.world.now.checked_add(delay).unwrap_or(Timestamp::MAX)
    }

    /// Decides until there is nothing to do at this time. Returns whether anything was done.
    fn decide(&mut self) -> bool {
        let mut changed = false;
        loop {
            self.decisions += 1;
            self.work = self.work.saturating_add(self.world.pods.len());
            let before = self.world.deployment.status.as_ref().and_then(|status| status.hold.clone());
            let (_, decision) = self.world.decide(|_| DryRun::Accepted);
            let again = match decision {
                Decision::Record(record) => {
                    for event in record.events {
                        self.tell(What::Told(event));
                    }
                    self.world.store(&record.status);
                    true
                }
                Decision::Act(act) => self.carry_out(&act),
                // The snapshot already contains everything that it can ask for.
                Decision::Read(_) => false,
            };
            self.tell_of_the_hold(before.as_ref());
            changed |= again;
            if !again || self.is_too_much() {
                break;
            }
        }
        if changed {
            self.expect_round();
        }
        changed
    }

    fn is_too_much(&self) -> bool {
        self.decisions > MOST_DECISIONS || self.work > MOST_WORK
    }

    /// Applies an act. Returns whether there may be more to do.
    fn carry_out(&mut self, act: &Act) -> bool {
        for event in &act.events {
            self.tell(What::Told(event.clone()));
        }
        let created = act.creates.iter().fold(0, |sum: usize, create| sum.saturating_add(create.count));
        if self.world.pods.len().saturating_add(created) > MOST_PODS {
            self.work = usize::MAX;
            return false;
        }
        let idle = act.is_idle();
        let deleted = self.tell_of_deletions(act);
        let done = self.world.carry_out(act, |_, _| Ok(()));
        let ready = self.at(self.assumptions.ready_after);
        for uid in &done.created {
            self.made.insert(Arc::clone(uid));
            let assigned =
                self.world.pods.iter().any(|pod| pod.facts.uid == *uid && pod.facts.node.is_some());
            if assigned {
                self.due.insert((ready, Arc::clone(uid), Due::Ready));
            }
        }
        for create in act.creates.iter().filter(|create| create.count > 0) {
            let set = self.world.sets.iter().find(|set| set.hash == create.hash && !set.terminating);
            let (set, revision) = set.map(|set| (set.name.clone(), set.revision)).unwrap_or_default();
            let count = create.count;
            let at = self.steps.len() - deleted;
            let what = What::Create { set, revision, count };
            self.steps.insert(at, Step { at: self.world.now, what });
        }
        for uid in act.deletes.iter().flat_map(|group| &group.targets).map(Target::uid) {
            let Some(pod) = self.world.pods.iter().find(|pod| pod.facts.uid == *uid) else { continue };
            let gone_after = self.gone_after(pod);
            // No kubelet terminates a pod without a node.
            if pod.facts.node.is_none() || gone_after.is_zero() {
                self.world.pods.retain(|pod| pod.facts.uid != *uid);
            } else {
                self.due.insert((self.at(gone_after), Arc::clone(uid), Due::Gone));
            }
        }
        if idle {
            self.wake = act.requeue.map(|wait| self.at(wait));
        }
        done.changed && !idle
    }

    /// Adds a step per deletion request and returns their number. Pods that are deleted together are one step: a group;
    /// evictions are one step each, after the deletions of unavailable pods.
    fn tell_of_deletions(&mut self, act: &Act) -> usize {
        let evict = self.world.deployment.spec.pod_deletion == PodDeletion::Evict;
        let mut told = Vec::new();
        for group in &act.deletes {
            let (evicted, together): (Vec<_>, Vec<_>) =
                group.targets.iter().partition(|target| evict && target.available);
            let batches = [together].into_iter().chain(evicted.into_iter().map(|target| vec![target]));
            for batch in batches.filter(|batch| !batch.is_empty()) {
                let pods = batch.into_iter().map(|target| self.deleted(target)).collect();
                told.push(What::Delete { purpose: group.purpose, pods });
            }
        }
        let count = told.len();
        for what in told {
            self.tell(what);
        }
        count
    }

    fn deleted(&self, target: &Target) -> Deleted {
        let pod = self.world.pods.iter().find(|pod| pod.facts.uid == *target.uid());
        Deleted {
            name: target.name().to_owned(),
            made_up: self.made.contains(target.uid()),
            node: pod.and_then(|pod| pod.facts.node.clone()),
            priority: target.priority,
            available: target.available,
            why: target.why.clone(),
        }
    }

    fn tell_of_the_hold(&mut self, before: Option<&Hold>) {
        let after = self.world.deployment.status.as_ref().and_then(|status| status.hold.clone());
        match (before.filter(|hold| stands(hold)), after.filter(stands)) {
            (None, Some(hold)) => self.tell(What::Held(hold)),
            (Some(hold), None) => {
                let assumed = self.resume.take().is_some_and(|(at, _)| at <= self.world.now);
                self.tell(What::Resumed { id: hold.id.clone(), assumed });
            }
            _ => {}
        }
    }

    fn tell(&mut self, what: What) {
        self.steps.push(Step { at: self.world.now, what });
    }

    /// The scheduler handles pending pods one beat after a change.
    fn expect_round(&mut self) {
        let waiting = self.world.pods.iter().any(waits);
        self.round = waiting.then(|| self.round.unwrap_or(self.world.now + BEAT));
    }

    fn schedule(&mut self) {
        if self.round.is_none_or(|at| at > self.world.now) {
            return;
        }
        self.round = None;
        let mut load = self.assumptions.others.clone();
        for node in
            self.world.pods.iter().filter(|pod| !pod.finished).filter_map(|pod| pod.facts.node.as_ref())
        {
            *load.entry(node.to_string()).or_default() += 1;
        }
        let ready = self.at(self.assumptions.ready_after);
        let SimulatedCluster { pods, sets, .. } = &mut self.world;
        let mut waiting: Vec<&mut Pod> = pods.iter_mut().filter(|pod| waits(pod)).collect();
        waiting.sort_by(|one, other| (one.facts.created, &one.name).cmp(&(other.facts.created, &other.name)));
        for pod in waiting {
            let set = sets.iter().find(|set| set.uid == pod.set);
            let wants = set.map(|set| wants(&set.template)).unwrap_or_default();
            if let Ok(node) = place(&wants, &self.assumptions.nodes, &load) {
                *load.entry(node.to_owned()).or_default() += 1;
                pod.facts.node = Some(node.into());
                self.due.insert((ready, Arc::clone(&pod.facts.uid), Due::Ready));
            }
        }
    }

    fn kubelets(&mut self) {
        let mut freed = false;
        while let Some((at, uid, what)) = self.due.pop_first() {
            if at > self.world.now {
                self.due.insert((at, uid, what));
                break;
            }
            match what {
                Due::Gone => {
                    self.world.pods.retain(|pod| pod.facts.uid != uid);
                    freed = true;
                }
                Due::Ready => {
                    let since = whole_seconds(self.world.now);
                    let pods = self.world.pods.iter_mut();
                    for pod in pods.filter(|pod| pod.facts.uid == uid && !pod.terminating) {
                        pod.facts.phase = Phase::Running;
                        pod.facts.ready = true;
                        pod.facts.ready_since = Some(since);
                    }
                }
            }
        }
        if freed {
            self.expect_round();
        }
    }

    fn expect_resume(&mut self) {
        let hold = self.world.deployment.status.as_ref().and_then(|status| status.hold.as_ref());
        let Some(hold) = hold.filter(|hold| stands(hold)) else {
            self.resume = None;
            return;
        };
        if self.resume.as_ref().is_none_or(|(_, id)| *id != hold.id) {
            let delay =
                SignedDuration::try_from(self.assumptions.resumed_after).unwrap_or(SignedDuration::MAX);
            let at = hold.since.0.max(self.start).checked_add(delay).unwrap_or(Timestamp::MAX);
            self.resume = Some((at.max(self.world.now), hold.id.clone()));
        }
    }

    fn request_resume(&mut self) {
        let Some((_, id)) = &self.resume else { return };
        if let Some(status) = self.world.deployment.status.as_mut().filter(|status| status.hold.is_some()) {
            status.resume_requested = Some(id.clone());
        }
    }

    fn gone_after(&self, pod: &Pod) -> Duration {
        let set = self.world.sets.iter().find(|set| set.uid == pod.set);
        let grace =
            set.and_then(|set| set.template.value().pointer("/spec/terminationGracePeriodSeconds")?.as_u64());
        self.assumptions.gone_after.min(Duration::from_secs(grace.unwrap_or(30)))
    }

    fn is_complete(&self) -> bool {
        let status = self.world.deployment.status.as_ref();
        status.is_some_and(|status| {
            status.observed_generation == self.world.deployment.metadata.generation
                && is(status, condition::COMPLETE)
        })
    }

    /// Why the rollout does not continue.
    fn rest(&self) -> End {
        if self.world.deployment.spec.paused {
            return End::Paused;
        }
        let status = self.world.deployment.status.clone().unwrap_or_default();
        let stalled = status.condition(condition::STALLED).filter(|_| is(&status, condition::STALLED));
        let found = stalled.or_else(|| status.condition(condition::COMPLETE));
        found.map_or(End::Unending, |found| End::Stuck {
            reason: found.reason.clone(),
            message: found.message.clone(),
        })
    }
}

/// Whether the rollout is paused at the hold already: one `after` a pod begins with that pod's deletion.
fn stands(hold: &Hold) -> bool {
    hold.point != PausePoint::After || hold.deleted != Some(false)
}

fn waits(pod: &Pod) -> bool {
    !pod.terminating && !pod.finished && pod.facts.node.is_none()
}

fn is(status: &ordereddeployment_api::OrderedDeploymentStatus, type_: &str) -> bool {
    status.condition(type_).is_some_and(|found| found.status == ConditionStatus::True)
}

fn wants(template: &Template) -> Wants {
    let spec = template.value().get("spec").cloned().unwrap_or_default();
    serde_json::from_value(spec).unwrap_or_default()
}
