//! Previews a scale-down: applies the planner's decisions to a copy of the observed state. It sends no request.

use std::collections::BTreeSet;
use std::sync::Arc;

use ordereddeployment_planner::{
    Act, ComparisonResult, Decision, Purpose, Read, SetChange, Snapshot, decide,
};

/// An upper limit of the decisions for one scale-down: each deletes at least one pod or stores one change.
const MAX_DECISIONS: usize = 10_000;
/// The maximum number of reads and status updates before an act.
const MAX_PREPARATIONS: usize = 16;

/// The next act of the controller, after the reads and status updates that it needs.
pub(crate) fn next_act(snapshot: &Snapshot) -> Option<Act> {
    let mut snapshot = snapshot.clone();
    prepare(&mut snapshot)
}

fn prepare(snapshot: &mut Snapshot) -> Option<Act> {
    for _ in 0..MAX_PREPARATIONS {
        match decide(snapshot) {
            Decision::Act(act) => return Some(act),
            Decision::Record(record) => store(snapshot, record.status),
            Decision::Read(Read::Nodes(nodes)) => {
                for node in nodes {
                    snapshot.nodes.entry(node).or_insert(None);
                }
            }
            // This preview sends no request. Until the controller has the comparison, it keeps the sets as they are.
            Decision::Read(Read::Template(_)) => {
                let (since, again) = (snapshot.now, snapshot.now);
                snapshot.comparison = ComparisonResult::NoAnswer { since, again, message: String::new() };
            }
            // The observed state is live already, and a scale-down needs no dry run.
            Decision::Read(Read::Live | Read::Sources(_) | Read::DryRun { .. }) => return None,
        }
    }
    None
}

fn store(snapshot: &mut Snapshot, status: ordereddeployment_api::OrderedDeploymentStatus) {
    Arc::make_mut(&mut snapshot.deployment).status = Some(status);
}

/// The UIDs of the pods that a scale-down to `replicas` deletes, in order.
pub(crate) fn scale_down(snapshot: &Snapshot, replicas: i32) -> Vec<Arc<str>> {
    let mut snapshot = snapshot.clone();
    let deployment = Arc::make_mut(&mut snapshot.deployment);
    deployment.spec.replicas = replicas;
    deployment.metadata.generation = deployment.metadata.generation.map(|generation| generation + 1);
    let mut deleted: Vec<Arc<str>> = Vec::new();
    for _ in 0..MAX_DECISIONS {
        let Some(act) = prepare(&mut snapshot) else { break };
        let groups = act.deletes.iter().filter(|group| group.purpose == Purpose::Scale);
        let now: Vec<Arc<str>> =
            groups.flat_map(|group| &group.targets).map(|target| Arc::clone(&target.uid)).collect();
        if now.is_empty() {
            break;
        }
        let leaving: BTreeSet<&Arc<str>> = now.iter().collect();
        snapshot.pods.retain(|pod| !leaving.contains(&pod.facts.uid));
        for change in &act.sets {
            if let SetChange::Update { uid, replicas: Some(replicas), .. } = change {
                for set in snapshot.sets.iter_mut().filter(|set| set.uid == *uid) {
                    set.replicas = *replicas;
                }
            }
        }
        store(&mut snapshot, act.status);
        deleted.extend(now);
    }
    deleted
}
