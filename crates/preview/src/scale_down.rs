//! The pods that a smaller number of replicas removes, and the controller's next act, simulated.

use std::sync::Arc;

use ordereddeployment_planner::{
    Act, ComparisonResult, Decision, DryRun, Pod, Purpose, Read, Set, Snapshot, decide_sets, rollout_order,
};

use crate::simulation::SimulatedCluster;

/// More decisions than any scale-down needs: each deletes at least one pod or stores one change.
const MOST_DECISIONS: usize = 10_000;
/// How many reads and records may come before an act.
const MOST_PREPARATIONS: usize = 16;

/// The controller's next act, after reads and records. `None` if that needs an answer of the API server.
#[must_use]
pub fn next_act(snapshot: &Snapshot) -> Option<Act> {
    act_of(&mut SimulatedCluster::of(snapshot), &snapshot.dry_run)
}

/// The UIDs of the pods that a scale-down to `replicas` deletes, in order.
#[must_use]
pub fn scale_down(snapshot: &Snapshot, replicas: i32) -> Vec<Arc<str>> {
    let mut cluster = SimulatedCluster::of(snapshot);
    cluster.edit(|spec| spec.replicas = replicas);
    let mut gone: Vec<Arc<str>> = Vec::new();
    for _ in 0..MOST_DECISIONS {
        let Some(act) = act_of(&mut cluster, &snapshot.dry_run) else { break };
        let groups = act.deletes.iter().filter(|group| group.purpose == Purpose::Scale);
        let deleted: Vec<Arc<str>> =
            groups.flat_map(|group| &group.targets).map(|target| Arc::clone(target.uid())).collect();
        if deleted.is_empty() {
            break;
        }
        // Only deletions matter here: no pod is created.
        cluster.carry_out(&Act { creates: Vec::new(), ..act.clone() }, |_, _| Ok(()));
        cluster.pods.retain(|pod| !deleted.contains(&pod.facts.uid));
        cluster.store(&act.status);
        gone.extend(deleted);
    }
    gone
}

/// The UIDs of the pods that a scale-down of a plain Deployment deletes, in order. `None` in a rollout: then
/// the Deployment controller decides how many pods of each set go.
#[must_use]
pub fn scale_down_plain(snapshot: &Snapshot, replicas: i32) -> Option<Vec<Arc<str>>> {
    let mut scaled = snapshot.clone();
    if rollout_order(snapshot).rolls {
        return None;
    }
    let is_active = |pod: &Pod| !pod.terminating && !pod.finished;
    let has_pods =
        |set: &Set| set.replicas > 0 || snapshot.pods.iter().any(|pod| pod.set == set.uid && is_active(pod));
    let mut sets = scaled.sets.iter_mut().filter(|set| has_pods(set));
    if let Some(set) = sets.next() {
        set.replicas = replicas;
    }
    if sets.next().is_some() {
        return None;
    }
    let deployment = Arc::make_mut(&mut scaled.deployment);
    deployment.spec.replicas = replicas;
    // It has no rollout that could be paused.
    deployment.status = None;
    let Decision::Act(act) = decide_sets(&scaled) else { return None };
    let targets = act.deletes.iter().flat_map(|group| &group.targets);
    Some(targets.map(|target| Arc::clone(target.uid())).collect())
}

/// `dry_run`: what is known of the template.
pub(crate) fn act_of(cluster: &mut SimulatedCluster, dry_run: &DryRun) -> Option<Act> {
    for _ in 0..MOST_PREPARATIONS {
        match cluster.decide(|_| dry_run.clone()).1 {
            Decision::Act(act) => return Some(act),
            Decision::Record(record) => _ = cluster.store(&record.status),
            // No API server is asked here: until the controller has asked, the sets stay as they are.
            Decision::Read(Read::Template(_)) => {
                let (since, again) = (cluster.now, cluster.now);
                cluster.comparison = ComparisonResult::NoAnswer { since, again, message: String::new() };
            }
            // A scale-down needs no dry run; everything else is in the snapshot.
            Decision::Read(Read::Live | Read::Nodes(_) | Read::Sources(_) | Read::DryRun { .. }) => {
                return None;
            }
        }
    }
    None
}
