//! The contract's rules, written anew: what no act may ever do, whatever was observed.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use ordereddeployment_api::{PausePoint, PodReplacementPolicy, StrategyType, UnavailablePods};
use ordereddeployment_planner::{Act, Observed, Pod, Point, Purpose, SetChange, Target};
use ordereddeployment_sorter::{Context, Placed, Ranks, order};

/// The active pods of an observation, in the order, with what the rules ask of each.
struct View<'a> {
    observed: &'a Observed,
    desired: i64,
    floor: i64,
    ceiling: i64,
    pods: Vec<(&'a Pod, Placed, bool, bool)>,
}

impl<'a> View<'a> {
    fn of(observed: &'a Observed) -> Self {
        let spec = &observed.deployment.spec;
        let active: Vec<_> = observed.pods.iter().filter(|pod| !pod.terminating && !pod.finished).collect();
        let facts: Vec<_> = active.iter().map(|pod| pod.facts.clone()).collect();
        let ranks = Ranks::of(&facts);
        let ctx = Context { now: Some(observed.now), rules: &[], nodes: &observed.nodes, ranks: &ranks };
        let pods = order(&facts, &ctx)
            .into_iter()
            .map(|placed| {
                let pod = active[placed.index];
                let set = observed.sets.iter().find(|set| set.uid == pod.set).unwrap();
                let updated = set.template.same_as(&spec.template);
                let min_ready = if updated { spec.min_ready_seconds } else { set.min_ready_seconds };
                let since = pod.facts.ready_since.filter(|_| pod.facts.ready);
                let ready_for = |since| observed.now.duration_since(since);
                let available = since
                    .is_some_and(|since| ready_for(since) >= SignedDuration::from_secs(min_ready.into()));
                (pod, placed, updated, available)
            })
            .collect();
        let desired = i64::from(spec.replicas);
        let ceiling = if desired == 0 { 0 } else { desired + spec.max_surge() };
        Self { observed, desired, floor: desired - spec.max_unavailable(), ceiling, pods }
    }

    fn old(&self) -> impl Iterator<Item = &(&'a Pod, Placed, bool, bool)> {
        self.pods.iter().filter(|(_, _, updated, _)| !updated)
    }

    fn place(&self, uid: &str) -> usize {
        self.pods.iter().position(|(pod, ..)| *pod.facts.uid == *uid).unwrap()
    }

    /// The place at and behind which nothing may be deleted by a rollout.
    fn barrier(&self) -> usize {
        let status = self.observed.deployment.status.clone().unwrap_or_default();
        let old: Vec<_> = self.old().collect();
        let begun = status.hold.filter(|hold| hold.point == PausePoint::After && hold.deleted == Some(false));
        for (index, (pod, ..)) in old.iter().enumerate() {
            let place = self.place(&pod.facts.uid);
            if let Some(hold) = &begun {
                if *pod.facts.uid == *hold.pod_uid {
                    return place + 1;
                }
                continue;
            }
            let Point::At { side, .. } = pod.point else { continue };
            if status
                .passed
                .iter()
                .flatten()
                .any(|passed| passed.pod_uid == "*" || *passed.pod_uid == *pod.facts.uid)
            {
                continue;
            }
            match side {
                PausePoint::Before => return place,
                // Without a stored hold its pod stays; without anything behind it there is no hold.
                PausePoint::After if index + 1 < old.len() => return place,
                PausePoint::After => {}
            }
        }
        usize::MAX
    }
}

/// Checks an act against what it was decided on.
pub(crate) fn check(observed: &Observed, act: &Act) {
    if !ordereddeployment_api::validate(&observed.deployment.spec).is_empty() {
        assert!(act.is_idle(), "an invalid spec moves nothing");
        return;
    }
    let view = View::of(observed);
    let status = observed.deployment.status.clone().unwrap_or_default();
    let hold = status.hold.as_ref();
    let held = hold.is_some_and(|hold| hold.point == PausePoint::Before || hold.deleted == Some(true));
    let paused = observed.deployment.spec.paused;
    let rollout: Vec<&Target> = targets(act, Purpose::Rollout);
    let scale: Vec<&Target> = targets(act, Purpose::Scale);
    groups(act);
    ceiling(&view, act, held || paused);
    sizes(&view, act);
    if held || paused {
        assert!(rollout.is_empty(), "no rollout deletion while held or paused");
    }
    floors(&view, &rollout);
    in_order(&view, &rollout);
    if !rollout.is_empty() {
        let barrier = view.barrier();
        for target in &rollout {
            assert!(view.place(&target.uid) < barrier, "{} is at or past the barrier", target.name);
        }
    }
    let rolls = view.old().next().is_some();
    if !rolls && !scale.is_empty() {
        let first: Vec<_> = view.pods.iter().take(scale.len()).map(|(pod, ..)| &pod.name).collect();
        let taken: Vec<_> = scale.iter().map(|target| &target.name).collect();
        assert_eq!(first, taken, "a scale-down outside a rollout takes the first of the order");
        assert_eq!(scale.len(), view.pods.len() - usize::try_from(view.desired).unwrap());
    }
}

fn targets(act: &Act, purpose: Purpose) -> Vec<&Target> {
    act.deletes.iter().filter(|group| group.purpose == purpose).flat_map(|group| &group.targets).collect()
}

fn groups(act: &Act) {
    for group in &act.deletes {
        assert!((1..=16).contains(&group.targets.len()));
        assert!(group.targets.iter().all(|target| target.priority == group.targets[0].priority));
    }
}

fn ceiling(view: &View<'_>, act: &Act, kept: bool) {
    let created: usize = act.creates.iter().map(|create| create.count).sum();
    if created == 0 {
        return;
    }
    let spec = &view.observed.deployment.spec;
    let terminating = view.observed.pods.iter().filter(|pod| pod.terminating && !pod.finished).count();
    let waits = spec.pod_replacement_policy == PodReplacementPolicy::TerminationComplete;
    let present = view.pods.len() + if waits { terminating } else { 0 };
    let after = i64::try_from(present + created).unwrap();
    assert!(view.desired > 0, "D = 0 allows no pod");
    // What a hold or a pause stored may include surge pods of a larger maxSurge.
    assert!(kept || after <= view.ceiling, "{after} pods exceed the ceiling of {}", view.ceiling);
    if spec.strategy.type_ == StrategyType::Recreate && !kept {
        assert!(view.old().next().is_none(), "under Recreate creation starts when no old pod is left");
    }
}

/// The published sizes sum up to D.
fn sizes(view: &View<'_>, act: &Act) {
    let mut sizes: BTreeMap<String, i32> = view
        .observed
        .sets
        .iter()
        .filter(|set| !set.terminating)
        .map(|set| (set.uid.to_string(), set.replicas))
        .collect();
    for change in &act.sets {
        match change {
            SetChange::Create { replicas, .. } => {
                sizes.insert("new".into(), *replicas);
            }
            SetChange::Update { uid, replicas: Some(replicas), .. } => {
                sizes.insert(uid.to_string(), *replicas);
            }
            SetChange::Update { .. } => {}
            SetChange::Delete { uid } => {
                assert_eq!(sizes.remove(&**uid), Some(0), "only empty sets are deleted");
            }
        }
    }
    if !sizes.is_empty() {
        assert_eq!(sizes.values().map(|size| i64::from(*size)).sum::<i64>(), view.desired, "{sizes:?}");
    }
}

fn floors(view: &View<'_>, rollout: &[&Target]) {
    let count = |items: usize| i64::try_from(items).unwrap();
    let mut available = count(view.pods.iter().filter(|(_, _, _, available)| *available).count());
    let mut reliable =
        count(view.pods.iter().filter(|(_, _, updated, available)| !updated || *available).count());
    for target in rollout {
        let (.., updated, is_available) = view.pods[view.place(&target.uid)];
        assert!(!updated, "a rollout deletes old pods");
        available -= i64::from(is_available);
        reliable -= 1;
        assert!(
            !is_available || available >= view.floor,
            "{} leaves {available} available pods",
            target.name
        );
        assert!(reliable >= view.floor, "{} leaves {reliable} pods to rely on", target.name);
    }
}

/// Nothing goes while an old pod ahead of it stays, but for unavailable pods that pass available ones (`WhenBlocked`).
fn in_order(view: &View<'_>, rollout: &[&Target]) {
    let mode = view.observed.deployment.spec.deletion_order.clone().unwrap_or_default().unavailable_pods;
    let places: Vec<_> = rollout.iter().map(|target| view.place(&target.uid)).collect();
    assert!(places.is_sorted(), "deletions follow the order");
    for place in &places {
        for (ahead, (pod, _, updated, available)) in view.pods[..*place].iter().enumerate() {
            if *updated || places.contains(&ahead) {
                continue;
            }
            let passes = mode == UnavailablePods::WhenBlocked && *available && !view.pods[*place].3;
            assert!(passes, "{} stays behind although it goes first", pod.name);
        }
    }
}
