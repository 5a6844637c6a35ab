//! The pause points of a rollout: the next one, all of them before it starts, and those that are left when it
//! is complete. The planner computes the order; nothing is written.

use std::sync::Arc;

use ordereddeployment_api::{
    HeldPoint, OrderedDeploymentSpec, OrderedDeploymentStatus, PausePoint, Template,
};
use ordereddeployment_planner::{
    BarrierPlace, ComparisonResult, Point, RolloutOrder, Snapshot, rollout_order,
};

use crate::view::declared::{label_waits_for, of_hold};
use crate::view::phase::side;
use crate::view::state::ObservedState;

/// The pause point at which the rollout pauses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Barrier {
    pub(crate) uid: Arc<str>,
    pub(crate) pod: String,
    pub(crate) side: PausePoint,
    pub(crate) declared: Option<String>,
    /// What a declared pause point waits for: `3 of 12 updated`.
    pub(crate) waits_for: Option<String>,
    pub(crate) reached: bool,
    /// Whether a rollout is in progress; otherwise the next one pauses there.
    pub(crate) rolling: bool,
}

impl Barrier {
    /// `web-1 (before)`, or `canary (3 of 12 updated)` for a declared pause point.
    pub(crate) fn place(&self) -> String {
        match (&self.declared, &self.waits_for) {
            (None, _) => format!("{} ({})", self.pod, side(self.side)),
            (Some(name), Some(waits_for)) => format!("{name} ({waits_for})"),
            (Some(name), None) => name.clone(),
        }
    }
}

pub(super) fn barrier(
    status: &OrderedDeploymentStatus,
    lined_up: &RolloutOrder,
    spec: &OrderedDeploymentSpec,
) -> Option<Barrier> {
    if let Some(hold) = &status.hold {
        return Some(Barrier {
            uid: hold.pod_uid.as_str().into(),
            pod: hold.pod.clone(),
            side: hold.point,
            declared: hold.declared.as_ref().map(HeldPoint::label),
            waits_for: of_hold(hold, spec),
            reached: true,
            rolling: true,
        });
    }
    let BarrierPlace { at, side, declared } = lined_up.points.first().cloned()?;
    let place = lined_up.places.get(at)?;
    Some(Barrier {
        uid: Arc::clone(&place.uid),
        pod: place.name.clone(),
        side,
        waits_for: declared.as_ref().and_then(|label| label_waits_for(spec, label)),
        declared,
        reached: false,
        rolling: lined_up.rolls,
    })
}

/// The text that lists the pause points of a rollout to that template, in order, and how many there are. A
/// new rollout has passed none.
pub(crate) fn upcoming(state: &ObservedState, template: &Template) -> (String, usize) {
    let mut snapshot = state.observed();
    let deployment = Arc::make_mut(&mut snapshot.deployment);
    deployment.spec.template = template.clone();
    // The template is new, or identical to that of a set.
    snapshot.comparison = ComparisonResult::New;
    deployment.status = deployment.status.take().map(|status| OrderedDeploymentStatus {
        hold: None,
        passed: None,
        resume_requested: None,
        aborted: None,
        abort_requested: None,
        retry_requested: None,
        ..status
    });
    let lined_up = rollout_order(&snapshot);
    let (spec, pods) = (&snapshot.deployment.spec, &snapshot.pods);
    let line = |BarrierPlace { at, side: at_side, declared }: &BarrierPlace| {
        let (place, number) = (lined_up.places.get(*at)?, at + 1);
        if let Some(label) = declared {
            let waits_for = label_waits_for(spec, label).unwrap_or_default();
            return Some(format!("\n  {label} ({waits_for}), before place {number}"));
        }
        let pod = pods.iter().find(|pod| pod.facts.uid == place.uid)?;
        let node = pod.facts.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        Some(format!("\n  {} ({}){node}, place {number}", place.name, side(*at_side)))
    };
    let points = lined_up.points.iter().filter(|_| lined_up.rolls);
    let lines: Vec<String> = points.filter_map(line).collect();
    let count = match lines.len() {
        0 => return ("no pause points".to_owned(), 0),
        1 => "1 pause point".to_owned(),
        many => format!("{many} pause points"),
    };
    (format!("{count}, {} pods to replace:{}", lined_up.places.len(), lines.concat()), lines.len())
}

/// The pause points on active pods. When a rollout is complete, the next one pauses there.
pub(crate) fn on_pods(snapshot: &Snapshot) -> Vec<String> {
    let active = snapshot.pods.iter().filter(|pod| !pod.terminating && !pod.finished);
    let mut found: Vec<String> = active
        .filter_map(|pod| match pod.point {
            Point::At { side: at, .. } => Some(format!("{} ({})", pod.name, side(at))),
            Point::None | Point::Malformed => None,
        })
        .collect();
    found.sort();
    found
}

/// That these pause points are left when a rollout is complete; `unmark --all` removes them.
pub(crate) fn left(points: &[String]) -> Option<String> {
    let left = match points.len() {
        0 => return None,
        1 => "1 pause point is left".to_owned(),
        many => format!("{many} pause points are left"),
    };
    Some(format!("{left} for the next rollout: {}", some_of(points)))
}

const LISTED: usize = 3;

/// The first names, and how many others there are.
pub(crate) fn some_of(names: &[String]) -> String {
    let listed = names.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(LISTED) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{left, on_pods, some_of, upcoming};
    use crate::testing::{at_revision, declaring, observed_state, paused_before, pod};

    #[test]
    fn pause_points_are_listed_in_the_order_of_the_rollout() {
        let pods = [
            pod("web:1", "bbbbbbbb", "n1").pause("after"),
            pod("web:1", "cccccccc", "n2").priority(3).pause("before"),
            pod("web:1", "dddddddd", "n3"),
            pod("web:1", "ffffffff", "n2").priority(-1).pause("after"),
        ];
        let current = observed_state(4, "web:1", &at_revision(1), &pods);
        let target = &observed_state(4, "web:2", &at_revision(1), &pods).deployment.spec.template;
        insta::assert_snapshot!(upcoming(&current, target).0);
        assert_eq!(upcoming(&current, &current.deployment.spec.template).1, 0);
    }

    #[test]
    fn declared_pause_points_are_listed_among_those_of_pods() {
        let pods = [
            pod("web:1", "bbbbbbbb", "n1").pause("after"),
            pod("web:1", "cccccccc", "n2").pause("before"),
            pod("web:1", "dddddddd", "n3").pause("before"),
            pod("web:1", "ffffffff", "n4").priority(-1),
        ];
        let mut status = at_revision(2);
        // The abort of another rollout does not count.
        status["aborted"] = crate::testing::aborted()["aborted"].clone();
        let points = json!([
            {"name": "canary", "afterUpdated": 1},
            {"name": "each-pool", "betweenNodeGroups": "node.usage"},
            {"name": "last", "beforePriority": -1, "duration": "10m"},
            {"name": "nothing", "beforePriority": -9},
        ]);
        let current = declaring(observed_state(4, "web:2", &status, &pods), &points);
        let target = &observed_state(4, "web:3", &status, &pods).deployment.spec.template;
        insta::assert_snapshot!(upcoming(&current, target).0);
    }

    #[test]
    fn the_pause_points_that_are_left_are_those_of_active_pods() {
        let mut gone = pod("web:1", "dddddddd", "n3").pause("before");
        gone.terminating = true;
        let pods = [
            pod("web:1", "cccccccc", "n2").pause("after"),
            pod("web:1", "bbbbbbbb", "n1").pause("true"),
            pod("web:1", "ffffffff", "n2").pause("Before"),
            gone,
        ];
        let points = on_pods(&observed_state(4, "web:1", &at_revision(1), &pods).observed());
        assert_eq!(points, ["web-5d9c7b8c4d-bbbbbbbb (before)", "web-5d9c7b8c4d-cccccccc (after)"]);
        assert_eq!(left(&[]), None);
        assert_eq!(
            [&points[..1], &points].map(|points| left(points).unwrap()),
            [
                "1 pause point is left for the next rollout: web-5d9c7b8c4d-bbbbbbbb (before)",
                "2 pause points are left for the next rollout: web-5d9c7b8c4d-bbbbbbbb (before), \
                 web-5d9c7b8c4d-cccccccc (after)",
            ]
        );
    }

    #[test]
    fn a_long_list_of_names_is_cut() {
        let names = ["a", "b", "c", "d", "e"].map(str::to_owned);
        assert_eq!([3, 5].map(|count| some_of(&names[..count])), ["a, b, c", "a, b, c and 2 more"]);
    }

    #[test]
    fn a_new_rollout_pauses_again_at_points_that_this_one_has_passed() {
        let old = pod("web:1", "cccccccc", "n2").pause("before");
        let mut status = paused_before(&old);
        status["hold"].take();
        status["passed"] = serde_json::json!([{"podUID": old.name, "resumedAt": "2030-01-01T11:59:00Z"}]);
        let other = pod("web:2", "gggggggg", "n1").pause("before");
        let state = observed_state(2, "web:2", &status, &[old.clone(), other.clone()]);
        let third = serde_json::json!({"spec": {"containers": [{"name": "web", "image": "web:3"}]}});
        let (text, count) = upcoming(&state, &ordereddeployment_api::Template::new(&third));
        assert!(count == 2 && text.contains(&old.name) && text.contains(&other.name), "{text}");
        // A rollback to the revision that served last has none.
        assert_eq!(upcoming(&state, &state.sets[0].template).1, 0);
    }
}
