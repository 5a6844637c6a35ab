//! The sizes of the ReplicaSets of a Deployment: the next step of a rollout, and scaling. Pure functions of
//! what was read.
//!
//! The rules are those of `rolling.go`, `recreate.go` and `sync.go` in Kubernetes'
//! `pkg/controller/deployment`.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use ordereddeployment_api::{Round, resolve};

const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// The sets of a Deployment.
pub(super) struct Sets<'a> {
    /// The set with the template of the Deployment.
    pub(super) new: Option<&'a ReplicaSet>,
    /// The others, the oldest first.
    pub(super) old: Vec<&'a ReplicaSet>,
}

impl<'a> Sets<'a> {
    pub(super) fn all(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        self.old.iter().copied().chain(self.new)
    }
}

/// A write.
pub(super) enum Change<'a> {
    Create { size: i64, annotations: BTreeMap<&'static str, String> },
    Resize { set: &'a ReplicaSet, size: i64, annotations: BTreeMap<&'static str, String> },
}

/// The desired number of pods of a set.
pub(super) fn size(set: &ReplicaSet) -> i64 {
    i64::from(set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1))
}

/// The number of pods of a set.
pub(super) fn pods(set: &ReplicaSet) -> i64 {
    set.status.as_ref().map_or(0, |status| i64::from(status.replicas))
}

pub(super) fn ready(set: &ReplicaSet) -> i64 {
    set.status.as_ref().and_then(|status| status.ready_replicas).map_or(0, i64::from)
}

pub(super) fn available(set: &ReplicaSet) -> i64 {
    set.status.as_ref().and_then(|status| status.available_replicas).map_or(0, i64::from)
}

fn annotated(set: &ReplicaSet, key: &str) -> Option<i64> {
    set.annotations().get(key)?.parse().ok()
}

/// What the Deployment asks for.
struct Wanted {
    desired: i64,
    surge: i64,
    unavailable: i64,
    recreates: bool,
    paused: bool,
}

impl Wanted {
    fn of(deployment: &Deployment) -> Self {
        let spec = deployment.spec.clone().unwrap_or_default();
        let desired = i64::from(spec.replicas.unwrap_or(1));
        let strategy = spec.strategy.unwrap_or_default();
        let recreates = strategy.type_.as_deref() == Some("Recreate");
        let rolling = strategy.rolling_update.unwrap_or_default();
        let quarter = || IntOrString::String("25%".to_owned());
        let part = |value: Option<IntOrString>, round| {
            resolve(&value.unwrap_or_else(quarter), spec.replicas.unwrap_or(1), round).unwrap()
        };
        let mut surge = part(rolling.max_surge, Round::Up);
        let mut unavailable = part(rolling.max_unavailable, Round::Down).min(desired);
        if recreates {
            (surge, unavailable) = (0, 0);
        } else if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        Self { desired, surge, unavailable, recreates, paused: spec.paused == Some(true) }
    }

    /// The annotations that a later scaling reads.
    fn annotations(&self) -> BTreeMap<&'static str, String> {
        BTreeMap::from([(DESIRED, self.desired.to_string()), (MAX, (self.desired + self.surge).to_string())])
    }

    fn resize<'a>(&self, set: &'a ReplicaSet, size: i64) -> Change<'a> {
        Change::Resize { set, size, annotations: self.annotations() }
    }
}

/// The next writes; none if the sizes are as they should be.
pub(super) fn changes<'a>(deployment: &Deployment, sets: &Sets<'a>) -> Vec<Change<'a>> {
    let wanted = Wanted::of(deployment);
    let is_scaled = sets
        .all()
        .any(|set| size(set) > 0 && annotated(set, DESIRED).is_some_and(|desired| desired != wanted.desired));
    if wanted.paused || is_scaled {
        return scaled(&wanted, sets);
    }
    if wanted.recreates {
        return recreated(&wanted, sets);
    }
    let total: i64 = sets.all().map(size).sum();
    let room = (wanted.desired + wanted.surge - total).max(0);
    match sets.new {
        None => {
            return vec![Change::Create {
                size: room.min(wanted.desired),
                annotations: wanted.annotations(),
            }];
        }
        Some(new) if size(new) > wanted.desired => return vec![wanted.resize(new, wanted.desired)],
        Some(new) => {
            let more = room.min(wanted.desired - size(new));
            if more > 0 {
                return vec![wanted.resize(new, size(new) + more)];
            }
        }
    }
    old_ones_shrunk(&wanted, sets, total)
}

/// Old sets become smaller: first by their unavailable pods, then as far as enough pods stay available.
fn old_ones_shrunk<'a>(wanted: &Wanted, sets: &Sets<'a>, total: i64) -> Vec<Change<'a>> {
    let floor = wanted.desired - wanted.unavailable;
    let starting = sets.new.map_or(0, |new| size(new) - available(new));
    let most = total - floor - starting;
    if most <= 0 {
        return Vec::new();
    }
    let mut sizes: BTreeMap<usize, i64> = sets.old.iter().copied().map(size).enumerate().collect();
    let mut unhealthy = 0;
    for (place, set) in sets.old.iter().enumerate() {
        let less = (size(set) - available(set)).max(0).min(most - unhealthy).min(size(set));
        unhealthy += less;
        *sizes.entry(place).or_default() -= less;
    }
    let mut spare = (sets.all().map(available).sum::<i64>() - floor).max(0);
    for left in sizes.values_mut() {
        let less = spare.min(*left);
        spare -= less;
        *left -= less;
    }
    let changed = sets.old.iter().copied().enumerate().filter(|(place, set)| sizes[place] != size(set));
    changed.map(|(place, set)| wanted.resize(set, sizes[&place])).collect()
}

fn recreated<'a>(wanted: &Wanted, sets: &Sets<'a>) -> Vec<Change<'a>> {
    let shrunk: Vec<_> =
        sets.old.iter().copied().filter(|set| size(set) > 0).map(|set| wanted.resize(set, 0)).collect();
    if !shrunk.is_empty() || sets.old.iter().copied().any(|set| pods(set) > 0) {
        return shrunk;
    }
    match sets.new {
        None => vec![Change::Create { size: wanted.desired, annotations: wanted.annotations() }],
        Some(new) if size(new) != wanted.desired => vec![wanted.resize(new, wanted.desired)],
        Some(_) => Vec::new(),
    }
}

/// `replicas` has changed, or the Deployment is paused: the sets keep their shares.
fn scaled<'a>(wanted: &Wanted, sets: &Sets<'a>) -> Vec<Change<'a>> {
    let active: Vec<&ReplicaSet> = sets.all().filter(|set| size(set) > 0).collect();
    let one = match active.as_slice() {
        [] => sets.new.or(sets.old.last().copied()),
        [one] => Some(*one),
        _ => None,
    };
    if let Some(one) = one {
        let is_same = size(one) == wanted.desired;
        return if is_same { Vec::new() } else { vec![wanted.resize(one, wanted.desired)] };
    }
    let is_saturated = |set: &ReplicaSet| {
        size(set) == wanted.desired
            && annotated(set, DESIRED) == Some(size(set))
            && available(set) == size(set)
    };
    if sets.new.is_some_and(is_saturated) {
        let old = sets.old.iter().copied().filter(|set| size(set) > 0);
        return old.map(|set| wanted.resize(set, 0)).collect();
    }
    if wanted.recreates {
        return Vec::new();
    }
    let total: i64 = active.iter().copied().map(size).sum();
    let allowed = if wanted.desired > 0 { wanted.desired + wanted.surge } else { 0 };
    let mut left = allowed - total;
    let mut by_size = active;
    // The larger sets take the rest; at equal sizes the newer ones grow, and the older ones shrink.
    by_size.sort_by_key(|set| (set.creation_timestamp(), set.name_any()));
    if left > 0 {
        by_size.reverse();
    }
    by_size.sort_by_key(|set| std::cmp::Reverse(size(set)));
    let mut sizes: Vec<i64> = by_size.iter().copied().map(size).collect();
    for (place, set) in by_size.iter().enumerate() {
        let before = annotated(set, MAX).filter(|most| *most > 0).unwrap_or(total.max(1));
        // Half a pod is rounded up.
        let share =
            (2 * size(set) * (wanted.desired + wanted.surge) + before).div_euclid(2 * before) - size(set);
        let share = if wanted.desired == 0 { -size(set) } else { share };
        let share = if left > 0 { share.min(left) } else { share.max(left) };
        sizes[place] += share;
        left -= share;
    }
    if let Some(first) = sizes.first_mut() {
        *first = (*first + left).max(0);
    }
    let pairs = by_size.into_iter().zip(sizes);
    let changed =
        pairs.filter(|(set, wants)| *wants != size(set) || annotated(set, DESIRED) != Some(wanted.desired));
    changed.map(|(set, wants)| wanted.resize(set, wants)).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
    use kube::ResourceExt;
    use serde_json::json;

    use super::{Change, Sets, changes};

    fn deployment(replicas: i64, surge: i64, unavailable: i64, paused: bool) -> Deployment {
        let rolling = json!({"maxSurge": surge, "maxUnavailable": unavailable});
        serde_json::from_value(json!({"spec": {
            "replicas": replicas, "paused": paused, "strategy": {"rollingUpdate": rolling},
            "selector": {}, "template": {},
        }}))
        .unwrap()
    }

    fn set(name: &str, size: i64, available: i64, desired: i64, most: i64) -> ReplicaSet {
        let annotations = json!({
            "deployment.kubernetes.io/desired-replicas": desired.to_string(),
            "deployment.kubernetes.io/max-replicas": most.to_string(),
        });
        serde_json::from_value(json!({
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"replicas": size, "selector": {}},
            "status": {"replicas": size, "availableReplicas": available},
        }))
        .unwrap()
    }

    fn sizes(deployment: &Deployment, new: Option<&ReplicaSet>, old: &[&ReplicaSet]) -> Vec<(String, i64)> {
        let named = |change: Change<'_>| match change {
            Change::Create { size, .. } => ("new".to_owned(), size),
            Change::Resize { set, size, .. } => (set.name_any(), size),
        };
        changes(deployment, &Sets { new, old: old.to_vec() }).into_iter().map(named).collect()
    }

    fn expect(found: &[(String, i64)], wanted: &[(&str, i64)]) {
        let wanted: Vec<_> = wanted.iter().map(|(name, size)| ((*name).to_owned(), *size)).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_rollout_grows_the_new_set_and_shrinks_the_old_one_as_far_as_pods_are_available() {
        let wanted = deployment(10, 1, 1, false);
        let old = |size, available| set("old", size, available, 10, 11);
        let new = |size, available| set("new", size, available, 10, 11);
        expect(&sizes(&wanted, None, &[&old(10, 10)]), &[("new", 1)]);
        expect(&sizes(&wanted, Some(&new(1, 0)), &[&old(10, 10)]), &[("old", 9)]);
        expect(&sizes(&wanted, Some(&new(2, 0)), &[&old(9, 9)]), &[]);
        expect(&sizes(&wanted, Some(&new(2, 1)), &[&old(9, 9)]), &[("old", 8)]);
        // Unavailable old pods go first.
        expect(&sizes(&wanted, Some(&new(1, 1)), &[&old(10, 8)]), &[("old", 8)]);
        expect(&sizes(&wanted, Some(&new(10, 10)), &[&old(1, 1)]), &[("old", 0)]);
        expect(&sizes(&wanted, Some(&new(10, 10)), &[&old(0, 0)]), &[]);
    }

    #[test]
    fn scaling_in_a_rollout_or_while_paused_keeps_the_shares() {
        let (new, old) = (set("new", 4, 4, 10, 12), set("old", 8, 8, 10, 12));
        expect(&sizes(&deployment(20, 2, 0, false), Some(&new), &[&old]), &[("old", 15), ("new", 7)]);
        expect(&sizes(&deployment(5, 2, 0, true), Some(&new), &[&old]), &[("old", 5), ("new", 2)]);
        expect(&sizes(&deployment(0, 2, 0, false), Some(&new), &[&old]), &[("old", 0), ("new", 0)]);
        let one = set("one", 10, 10, 10, 12);
        expect(&sizes(&deployment(4, 2, 0, true), Some(&one), &[]), &[("one", 4)]);
        expect(&sizes(&deployment(10, 2, 0, true), Some(&one), &[]), &[]);
    }
}
