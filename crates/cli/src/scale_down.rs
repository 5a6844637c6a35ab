//! What a scale-down would do: the planner's decisions, carried out on a copy of what was observed.
//!
//! Nothing leaves this module but names: no server hears of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use ordereddeployment_planner::{Act, Compared, Decision, Observed, Purpose, Read, SetChange, decide};

/// More decisions than any scale-down takes: each deletes at least one pod or stores one change.
const MOST_DECISIONS: usize = 10_000;
/// How many reads and records a decision may ask for before it acts.
const MOST_PREPARATIONS: usize = 16;

/// What the controller would do next, once it has read and stored what it must.
pub(crate) fn settle(observed: &Observed) -> Option<Act> {
    let mut observed = observed.clone();
    prepare(&mut observed)
}

fn prepare(observed: &mut Observed) -> Option<Act> {
    for _ in 0..MOST_PREPARATIONS {
        match decide(observed) {
            Decision::Act(act) => return Some(act),
            Decision::Record(record) => store(observed, record.status),
            Decision::Read(Read::Nodes(nodes)) => {
                for node in nodes {
                    observed.nodes.entry(node).or_insert(None);
                }
            }
            // No server is asked here: until the controller has asked, the sets stay what they are.
            Decision::Read(Read::Template(_)) => {
                let (since, again) = (observed.now, observed.now);
                observed.compared = Compared::NoAnswer { since, again, message: String::new() };
            }
            // What was observed is live, and a dry run proves nothing that a scale-down needs.
            Decision::Read(Read::Live | Read::Sources(_) | Read::DryRun { .. }) => return None,
        }
    }
    None
}

fn store(observed: &mut Observed, status: ordereddeployment_api::OrderedDeploymentStatus) {
    Arc::make_mut(&mut observed.deployment).status = Some(status);
}

/// The UIDs of the pods that go in a scale-down to `replicas`, in order.
pub(crate) fn scale_down(observed: &Observed, replicas: i32) -> Vec<Arc<str>> {
    let mut observed = observed.clone();
    let deployment = Arc::make_mut(&mut observed.deployment);
    deployment.spec.replicas = replicas;
    deployment.metadata.generation = deployment.metadata.generation.map(|generation| generation + 1);
    let mut gone: Vec<Arc<str>> = Vec::new();
    for _ in 0..MOST_DECISIONS {
        let Some(act) = prepare(&mut observed) else { break };
        let groups = act.deletes.iter().filter(|group| group.purpose == Purpose::Scale);
        let now: Vec<Arc<str>> =
            groups.flat_map(|group| &group.targets).map(|target| Arc::clone(&target.uid)).collect();
        if now.is_empty() {
            break;
        }
        let leaving: BTreeSet<&Arc<str>> = now.iter().collect();
        observed.pods.retain(|pod| !leaving.contains(&pod.facts.uid));
        for change in &act.sets {
            if let SetChange::Update { uid, replicas: Some(replicas), .. } = change {
                for set in observed.sets.iter_mut().filter(|set| set.uid == *uid) {
                    set.replicas = *replicas;
                }
            }
        }
        store(&mut observed, act.status);
        gone.extend(now);
    }
    gone
}
