//! Pods to create and to delete, and the limits of their number.

use jiff::SignedDuration;
use std::collections::BTreeMap;
use std::sync::Arc;

use ordereddeployment_api::{Blocked, Scaling};

use crate::inventory::{Inventory, RankedPod};
use crate::sizes::Sizes;
use crate::{Create, DeleteGroup, FailureKind, Purpose, Target};

/// How many pods of one priority are deleted in parallel.
const PARALLEL_DELETES: usize = 16;

/// Pods to create and delete, and the reasons for no more.
#[derive(Debug, Default)]
pub(crate) struct PodChanges {
    pub(crate) creates: BTreeMap<String, i64>,
    pub(crate) deletes: Vec<DeleteGroup>,
    /// The sizes of the sets after these changes.
    pub(crate) sizes: Sizes,
    /// A problem that a user must solve: reason and message of the condition Stalled.
    pub(crate) stalled: Option<(&'static str, String)>,
    /// The pause point that the rollout cannot reach, since the only unavailable pods are at or behind it.
    pub(crate) blocked: Option<Blocked>,
    /// The number of replicas whose sizes are reached, and those of a scale-down under way.
    pub(crate) scaling: Option<Scaling>,
    /// Why deletions wait for a dry run of the template: the result of the last one.
    pub(crate) awaiting_dry_run: Option<String>,
}

/// The two floors, as deletions use them up.
pub(crate) struct Budget {
    available: i64,
    reliable: i64,
    floor: i64,
}

impl Budget {
    pub(crate) fn of(inventory: &Inventory<'_>) -> Self {
        let (available, reliable) = (inventory.available, reliable(inventory));
        Self { available, reliable, floor: inventory.bounds.floor }
    }

    /// Checks the first floor only, for available pods.
    pub(crate) fn take_available(&mut self, ranked: &RankedPod<'_>) -> bool {
        if ranked.available && self.forbids_available() {
            return false;
        }
        self.available -= i64::from(ranked.available);
        true
    }

    /// Of a part of a rollout: the second floor is that of old pods.
    pub(crate) fn take_of(&mut self, ranked: &RankedPod<'_>, is_old: bool) -> bool {
        if is_old {
            return self.take(ranked);
        }
        let is_taken = self.take_available(ranked);
        self.reliable -= i64::from(is_taken && ranked.available);
        is_taken
    }

    pub(crate) fn forbids_available(&self) -> bool {
        self.available - 1 < self.floor
    }

    pub(crate) fn take(&mut self, ranked: &RankedPod<'_>) -> bool {
        if (ranked.available && self.forbids_available()) || self.reliable - 1 < self.floor {
            return false;
        }
        self.available -= i64::from(ranked.available);
        self.reliable -= 1;
        true
    }
}

/// How many pods the second floor counts.
pub(crate) fn reliable(inventory: &Inventory<'_>) -> i64 {
    inventory.old_count() + inventory.updated_available
}

/// Whether creates failed in the last act.
pub(crate) fn create_failed(inventory: &Inventory<'_>) -> bool {
    inventory.snapshot.failure.as_ref().is_some_and(|failure| failure.what == FailureKind::Create)
}

/// How long creates must be refused, or wait for a backoff, before a rollout no longer counts on them.
pub(crate) const NO_CREATES: SignedDuration = SignedDuration::from_secs(10);

/// Whether the API server has refused creates for some time.
pub(crate) fn are_creates_refused(inventory: &Inventory<'_>) -> bool {
    let refused = inventory.snapshot.failure.as_ref().filter(|failure| failure.what == FailureKind::Create);
    refused.is_some_and(|failure| inventory.snapshot.now.duration_since(failure.since) >= NO_CREATES)
}

/// Whether a terminating pod of an older revision still runs.
pub(crate) fn old_terminating(inventory: &Inventory<'_>) -> bool {
    inventory.ending.iter().any(|pod| !inventory.is_current_set(&pod.set))
}

/// Whether `Recreate` waits for a terminating pod of an older revision before it starts updated ones.
pub(crate) fn recreate_waits(inventory: &Inventory<'_>) -> bool {
    inventory.recreate() && old_terminating(inventory)
}

/// Adds creates, without those that wait for the backoff, and only for a set that takes part in the rollout.
pub(crate) fn create(inventory: &Inventory<'_>, changes: &mut PodChanges, hash: &str, count: i64) {
    let set = inventory.usable_sets().find(|set| set.hash == hash);
    let count = count - set.map_or(0, |set| inventory.backoff.waiting(&set.uid));
    if count > 0 && inventory.takes_part(hash) {
        *changes.creates.entry(hash.to_owned()).or_default() += count;
    }
}

/// The creates of `changes`, in their order.
pub(crate) fn creates(inventory: &Inventory<'_>, changes: &PodChanges) -> Vec<Create> {
    let mut counted: Vec<_> = changes.creates.iter().collect();
    // The current set comes first: if there is room for few pods only, the rollout waits for these. After
    // failed creates it comes last: often only creates of the new template are refused or not answered, and
    // the other sets recover first.
    let failed = create_failed(inventory);
    counted.sort_by_key(|(hash, _)| (**hash == inventory.hash) == failed);
    let counted = counted.into_iter().map(|(hash, count)| (hash, usize::try_from(*count).unwrap_or(0)));
    counted.map(|(hash, count)| Create { hash: hash.clone(), count }).collect()
}

/// Splits the pods, given in order, into groups of one priority and one group of nodes. Pods of a terminating
/// set are left out: the garbage collector deletes them, or orphans them for adoption.
pub(crate) fn groups<'c, 'a: 'c>(
    inventory: &Inventory<'_>,
    ranked_pods: impl IntoIterator<Item = &'c RankedPod<'a>>,
    purpose: Purpose,
) -> Vec<DeleteGroup> {
    let mut groups: Vec<DeleteGroup> = Vec::new();
    let mut last = None;
    for ranked in ranked_pods.into_iter().filter(|ranked| !ranked.collected) {
        let target = target(inventory, ranked);
        let place = (ranked.served, ranked.priority, ranked.group);
        let is_next = last.replace(place) == Some(place);
        match groups.last_mut() {
            Some(group) if is_next && group.targets.len() < PARALLEL_DELETES => group.targets.push(target),
            _ => groups.push(DeleteGroup { purpose, targets: vec![target] }),
        }
    }
    groups
}

fn target(inventory: &Inventory<'_>, ranked: &RankedPod<'_>) -> Target {
    // The next candidate is an old pod in a rollout, a pod of its revision elsewhere.
    let next = inventory.next_of_kind(ranked);
    Target {
        pod: Arc::clone(ranked.pod),
        priority: ranked.priority,
        available: ranked.available,
        why: inventory.why(ranked, next),
    }
}
