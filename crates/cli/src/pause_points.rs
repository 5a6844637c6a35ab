//! The pause points of a rollout before it starts. The planner computes the order; nothing is written.

use std::sync::Arc;

use ordereddeployment_api::{PausePoint, Template};
use ordereddeployment_planner::{ComparisonResult, Point, rollout_order};

use crate::observe::ObservedState;
use crate::state::side;

/// A pause point of a rollout that has not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpcomingPausePoint {
    pub(crate) pod: String,
    pub(crate) side: PausePoint,
    pub(crate) node: Option<String>,
    /// The place of its pod among those that the rollout replaces: 1 is first.
    pub(crate) place: usize,
    /// The number of pods that the rollout replaces.
    pub(crate) of: usize,
}

/// The pause points of a rollout to that template, in order. A new rollout has passed none.
pub(crate) fn upcoming(state: &ObservedState, template: &Template) -> Vec<UpcomingPausePoint> {
    let mut snapshot = state.observed();
    let deployment = Arc::make_mut(&mut snapshot.deployment);
    deployment.spec.template = template.clone();
    // The template is new, or identical to that of a set.
    snapshot.comparison = ComparisonResult::New;
    if let Some(status) = &mut deployment.status {
        (status.hold, status.passed, status.resume_requested) = (None, None, None);
    }
    let lined_up = rollout_order(&snapshot);
    if !lined_up.rolls {
        return Vec::new();
    }
    let of = lined_up.places.len();
    let upcoming = lined_up.places.iter().enumerate().filter_map(|(index, place)| {
        let pod = snapshot.pods.iter().find(|pod| pod.facts.uid == place.uid)?;
        let Point::At { side, .. } = pod.point else { return None };
        // A pause point after the last pod has no effect: no pod is left.
        (side == PausePoint::Before || index + 1 < of).then(|| UpcomingPausePoint {
            pod: pod.name.clone(),
            side,
            node: pod.facts.node.as_deref().map(str::to_owned),
            place: index + 1,
            of,
        })
    });
    upcoming.collect()
}

/// The text that lists the pause points, one line each.
pub(crate) fn describe(points: &[UpcomingPausePoint]) -> String {
    let Some(first) = points.first() else { return "no pause points".to_owned() };
    let mut lines = vec![match points.len() {
        1 => format!("1 pause point, {} pods to replace:", first.of),
        many => format!("{many} pause points, {} pods to replace:", first.of),
    }];
    lines.extend(points.iter().map(|point| {
        let node = point.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        format!("  {} ({}){node}, place {}", point.pod, side(point.side), point.place)
    }));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{describe, upcoming};
    use crate::testing::{at_revision, observed_state, paused_before, pod};

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
        insta::assert_snapshot!(describe(&upcoming(&current, target)));
        assert_eq!(upcoming(&current, &current.deployment.spec.template), []);
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
        let mut names: Vec<String> = upcoming(&state, &ordereddeployment_api::Template::new(&third))
            .into_iter()
            .map(|point| point.pod)
            .collect();
        names.sort();
        assert_eq!(names, [old.name, other.name]);
        // A rollback to the first revision keeps its pod.
        let back: Vec<String> =
            upcoming(&state, &state.sets[0].template).into_iter().map(|point| point.pod).collect();
        assert_eq!(back, [format!("web-{}-gggggggg", "7f6d9b8c4d")]);
    }
}
