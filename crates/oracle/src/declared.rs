//! Declared pause points and aborts, computed from the contract.

use ordereddeployment_api::{
    DeclaredPausePoint, HeldPoint, OrderedDeploymentStatus, Rollout, updated_before_pause,
};
use ordereddeployment_planner::{Act, Purpose};

use crate::Messages;
use crate::deletes::targets;
use crate::view::{ActivePod, View, count};

/// A declared point with its place among the old pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredBarrier {
    /// How many old pods are ahead of it.
    pub at: usize,
    /// The name of the point.
    pub name: String,
    /// With `betweenNodeGroups`: the group behind it.
    pub group: Option<String>,
    /// With `afterUpdated`: the number of updated pods.
    pub updated: Option<i64>,
}

impl DeclaredBarrier {
    /// What the id of its hold begins with.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.group {
            Some(group) => format!("{}.{group}", self.name),
            None => self.name.clone(),
        }
    }

    /// Whether a hold is at this point.
    #[must_use]
    pub fn is(&self, held: &HeldPoint) -> bool {
        (&self.name, &self.group) == (&held.name, &held.group)
    }
}

impl<'a> View<'a> {
    /// The value of that label of the pod's node.
    #[must_use]
    pub fn group(&self, active: &ActivePod<'_>, label: &str) -> Option<&'a str> {
        let node = self.snapshot.nodes.get(active.pod.facts.node.as_ref()?)?.as_ref()?;
        node.labels.get(label).map(String::as_str)
    }

    /// The declared points that are not passed.
    fn points(&self) -> impl Iterator<Item = &'a DeclaredPausePoint> {
        let all = !self.aborts && !self.status.has_passed("*");
        let points = self.snapshot.deployment.spec.strategy.pause_points.iter().flatten();
        points.filter(move |point| {
            all && (point.between_node_groups.is_some() || !self.status.has_passed_point(&point.name, None))
        })
    }

    /// Whether a rollout is in progress, as far as the status says.
    fn rolls(&self) -> bool {
        let has_served = |rollout: &Rollout| {
            let set = crate::view::current_set(self).filter(|_| !self.aborts);
            set.is_some_and(|set| set.hash == rollout.template_hash && set.served == Some(rollout.revision))
        };
        let is_unfinished =
            |rollout: &Rollout| !rollout.completed && !has_served(rollout) && self.back().is_some();
        self.old().next().is_some() || self.status.rollout.as_ref().is_some_and(is_unfinished)
    }

    /// The most updated pods that may exist until the next point with `afterUpdated` is passed.
    #[must_use]
    pub fn most_updated(&self) -> Option<i64> {
        let replicas = self.snapshot.deployment.spec.replicas;
        // A hold keeps the number with which it began.
        let held = self.status.hold.as_ref().and_then(|hold| hold.declared.as_ref());
        let numbers = self.points().filter_map(|point| {
            let held = held.filter(|held| held.name == point.name);
            let number = held.and_then(|held| held.after_updated.as_ref()).or(point.after_updated.as_ref());
            updated_before_pause(number?, replicas)
        });
        numbers.min().filter(|_| self.rolls())
    }

    /// The declared point that the rollout reaches first.
    #[must_use]
    pub fn declared_barrier(&self) -> Option<DeclaredBarrier> {
        let old: Vec<_> = self.old().collect();
        let mut first: Option<DeclaredBarrier> = None;
        for point in self.points() {
            let at =
                |is_behind: &dyn Fn(&ActivePod<'_>) -> bool| old.iter().position(|active| is_behind(active));
            let (mut group, mut updated) = (None, None);
            let place = if let Some(number) = &point.after_updated {
                updated = updated_before_pause(number, self.snapshot.deployment.spec.replicas);
                updated.map(|updated| {
                    let ahead = count(old.len()) - (self.desired - updated);
                    usize::try_from(ahead).unwrap_or(0)
                })
            } else if let Some(priority) = point.before_priority {
                at(&|active| self.priority(active) <= priority)
            } else if let Some(nodes) = &point.before_nodes {
                at(&|active| {
                    let node = active.pod.facts.node.as_ref().and_then(|name| self.snapshot.nodes.get(name));
                    node.and_then(Option::as_ref).is_some_and(|node| nodes.matches(&node.labels))
                })
            } else {
                let label = point.between_node_groups.as_deref().unwrap_or_default();
                let any_opened = self.status.passed_points.iter().flatten().any(|one| one.name == point.name);
                let head = old.first().map(|head| self.group(head, label));
                let place = at(&|active| {
                    let group = self.group(active, label);
                    let is_first = !any_opened && head == Some(group);
                    !is_first && !self.status.has_passed_point(&point.name, group)
                });
                group = place.and_then(|at| self.group(old[at], label)).map(ToOwned::to_owned);
                place
            };
            let Some(at) = place.filter(|at| *at < old.len()) else { continue };
            if first.as_ref().is_none_or(|first| at < first.at) {
                first = Some(DeclaredBarrier { at, name: point.name.clone(), group, updated });
            }
        }
        first
    }

    /// Whether all old pods of a rollout were lost before a point with `afterUpdated`, and an old set can bring them back.
    #[must_use]
    pub fn lacks_old(&self) -> bool {
        self.old().next().is_none() && self.most_updated().is_some()
    }
}

/// Until a point with `afterUpdated` is passed, no more updated pods are created than it lets exist.
pub(crate) fn most_updated(view: &View<'_>, act: &Act) -> Messages {
    let mut messages = Messages::new();
    let Some(most) = view.most_updated() else { return messages };
    let current = crate::view::current_set(view);
    let is_new = |hash: &str| {
        let other = || view.snapshot.sets.iter().all(|set| set.terminating || set.hash != hash);
        current.map_or_else(other, |set| set.hash == hash)
    };
    let new = act.creates.iter().filter(|create| is_new(&create.hash)).map(|create| create.count).sum();
    if new > 0 && view.updated() + count(new) > most {
        let updated = view.updated();
        messages.push(format!("{new} updated pods are created in addition to {updated}, {most} may exist"));
    }
    messages
}

/// Scaling in a running rollout leaves an old pod, if a declared point has old pods behind it.
pub(crate) fn old_pod_stays(view: &View<'_>, act: &Act) -> Messages {
    if view.keeps_sizes() {
        return Messages::new();
    }
    if view.desired == 0 {
        // First the sizes are stored, so that the rollout goes on where it was.
        let is_scaled =
            |active: &ActivePod<'_>| targets(act, Purpose::Scale).any(|target| active.is(target.uid()));
        let lost = view.points().next().is_some() && view.old().any(is_scaled);
        let message =
            "scaling to 0 deletes old pods ahead of a declared pause point, and no sizes are stored";
        return if lost { vec![message.to_owned()] } else { Messages::new() };
    }
    if view.recreates() || view.declared_barrier().is_none() {
        return Messages::new();
    }
    let is_scaled =
        |active: &&ActivePod<'_>| targets(act, Purpose::Scale).any(|target| active.is(target.uid()));
    let old: Vec<_> = view.old().filter(|active| !view.is_collected(active)).collect();
    if !old.is_empty() && old.iter().all(is_scaled) {
        return vec!["scaling deletes the last old pod ahead of a declared pause point".to_owned()];
    }
    Messages::new()
}

/// An abort begins by a request that names the revision, or by the deadline, and rolls back to the last complete revision.
pub(crate) fn abort(
    view: &View<'_>,
    before: &OrderedDeploymentStatus,
    after: &OrderedDeploymentStatus,
) -> Option<String> {
    let (Some(aborted), Some(rollout)) = (&after.aborted, &before.rollout) else {
        return Some("an abort ended without a new rollout".to_owned());
    };
    let spec = &view.snapshot.deployment.spec;
    let by_deadline = spec.progress_deadline_action == ordereddeployment_api::ProgressDeadlineAction::Abort
        && view.is_overdue()
        && !spec.paused;
    if before.abort_requested != Some(rollout.revision) && !by_deadline {
        return Some("the rollout is aborted without a request".to_owned());
    }
    let to = Some((aborted.to, &aborted.template_hash));
    if view.back().map(|back| (back.revision, &back.hash)) != to || rollout.completed {
        return Some(format!(
            "the rollout is aborted to revision {}, which is not the last complete one",
            aborted.to
        ));
    }
    let cleared = (&after.hold, &after.passed, &after.passed_points, &after.resume_requested);
    let is_clear = cleared == (&None, &None, &None, &None) && after.abort_requested.is_none();
    (!is_clear || aborted.revision != rollout.revision)
        .then(|| "an abort does not begin with a clear status".to_owned())
}

/// Declared points are passed by the end of their hold, if more updated pods exist already, or as the first group of nodes.
pub(crate) fn passed_points(
    view: &View<'_>,
    before: &OrderedDeploymentStatus,
    after: &OrderedDeploymentStatus,
    is_ended: bool,
    blocked: Option<&DeclaredBarrier>,
) -> Option<String> {
    let held = before.hold.as_ref().and_then(|hold| hold.declared.as_ref());
    let points = view.snapshot.deployment.spec.strategy.pause_points.iter().flatten();
    let points: Vec<_> = points.collect();
    let rollout = before.rollout.as_ref();
    let old = before.passed_points.as_deref().unwrap_or_default();
    let mut new = after.passed_points.iter().flatten().filter(|one| !old.contains(one));
    let wrong = new.find(|one| {
        let of_hold =
            is_ended && held.is_some_and(|held| (&held.name, &held.group) == (&one.name, &one.group));
        let of_blocked =
            blocked.is_some_and(|barrier| (&barrier.name, &barrier.group) == (&one.name, &one.group));
        let point = points.iter().find(|point| point.name == one.name);
        let number = point.and_then(|point| point.after_updated.as_ref());
        let scaled_from = rollout.and_then(|rollout| {
            rollout.scaled_from.as_ref()?.get(&rollout.template_hash).map(|size| i64::from(*size))
        });
        let updated = scaled_from.unwrap_or_else(|| view.updated());
        let replicas = rollout.map_or(0, |rollout| rollout.replicas);
        let exceeded = number
            .and_then(|number| {
                // With one replica no number leaves an old pod.
                let now = view.snapshot.deployment.spec.replicas;
                updated_before_pause(number, replicas).or_else(|| updated_before_pause(number, now))
            })
            .is_some_and(|most| updated > most);
        let label = point.and_then(|point| point.between_node_groups.as_deref());
        let is_first = old.iter().all(|other| other.name != one.name)
            && label.is_some_and(|label| {
                view.old().next().is_some_and(|head| view.group(head, label) == one.group.as_deref())
            });
        !(of_hold || of_blocked || exceeded || is_first)
    });
    wrong.map(|one| format!("the declared point {} is passed without a request", one.name))
}
