//! The sizes of the ReplicaSets of a Deployment: the next step of a rollout, and scaling. Pure functions.
//!
//! The rules are those of Kubernetes' `pkg/controller/deployment` (`rolling.go`, `recreate.go`, `sync.go`).

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::ResourceExt;
use ordereddeployment_api::{Round, resolve};

/// The annotation that a later scaling reads.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";

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

/// A set, `None` for one to create, and the size that it gets.
pub(super) type Change<'a> = (Option<&'a ReplicaSet>, i64);

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
        None => return vec![(None, room.min(wanted.desired))],
        Some(new) => {
            let more = room.min(wanted.desired - size(new));
            if more != 0 {
                return vec![(Some(new), size(new) + more)];
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
    changed.map(|(place, set)| (Some(set), sizes[&place])).collect()
}

fn recreated<'a>(wanted: &Wanted, sets: &Sets<'a>) -> Vec<Change<'a>> {
    let shrunk = emptied(sets);
    if !shrunk.is_empty() || sets.old.iter().copied().any(|set| pods(set) > 0) {
        return shrunk;
    }
    match sets.new {
        Some(new) if size(new) == wanted.desired => Vec::new(),
        new => vec![(new, wanted.desired)],
    }
}

/// Each old set with pods, without them.
fn emptied<'a>(sets: &Sets<'a>) -> Vec<Change<'a>> {
    sets.old.iter().filter(|set| size(set) > 0).map(|set| (Some(*set), 0)).collect()
}

/// `replicas` has changed, or the Deployment is paused: no set grows at the cost of another one. The shares
/// of the sets are simpler here: the larger ones change first.
fn scaled<'a>(wanted: &Wanted, sets: &Sets<'a>) -> Vec<Change<'a>> {
    let mut active: Vec<&ReplicaSet> = sets.all().filter(|set| size(set) > 0).collect();
    let one = match active.as_slice() {
        [] => sets.new.or(sets.old.last().copied()),
        [one] => Some(*one),
        _ => None,
    };
    if let Some(one) = one {
        return if size(one) == wanted.desired { Vec::new() } else { vec![(Some(one), wanted.desired)] };
    }
    let is_saturated = |set: &ReplicaSet| {
        size(set) == wanted.desired
            && annotated(set, DESIRED) == Some(size(set))
            && available(set) == size(set)
    };
    if sets.new.is_some_and(is_saturated) {
        return emptied(sets);
    }
    if wanted.recreates {
        return Vec::new();
    }
    let allowed = if wanted.desired > 0 { wanted.desired + wanted.surge } else { 0 };
    let mut more = allowed - active.iter().copied().map(size).sum::<i64>();
    active.sort_by_key(|set| std::cmp::Reverse(size(set)));
    let sized = active.into_iter().map(|set| {
        let wants = (size(set) + more).max(0);
        more -= wants - size(set);
        (Some(set), wants)
    });
    let changes = |(set, wants): &Change<'_>| {
        set.is_some_and(|set| *wants != size(set) || annotated(set, DESIRED) != Some(wanted.desired))
    };
    sized.filter(changes).collect()
}
