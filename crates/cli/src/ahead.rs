//! The pause points that a new rollout will meet: told before it starts. The line-up is the planner's; nothing is written.

use std::sync::Arc;

use ordereddeployment_api::{PausePoint, Template};
use ordereddeployment_planner::{ComparisonResult, Point, rollout_order};

use crate::observe::Seen;
use crate::state::side;

/// A pause point on the way to another template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) pod: String,
    pub(crate) side: PausePoint,
    pub(crate) node: Option<String>,
    /// Its pod's place among those that the rollout replaces: 1 goes first.
    pub(crate) place: usize,
    /// How many pods it replaces.
    pub(crate) of: usize,
}

/// The pause points on the way to that template, in the order in which they are met. A new rollout has passed none.
pub(crate) fn points(seen: &Seen, template: &Template) -> Vec<Ahead> {
    let mut snapshot = seen.observed();
    let deployment = Arc::make_mut(&mut snapshot.deployment);
    deployment.spec.template = template.clone();
    // It is one that the caller has changed, or that of a set as it stands there.
    snapshot.comparison = ComparisonResult::New;
    if let Some(status) = &mut deployment.status {
        (status.hold, status.passed, status.resume_requested) = (None, None, None);
    }
    let lined_up = rollout_order(&snapshot);
    if !lined_up.rolls {
        return Vec::new();
    }
    let of = lined_up.places.len();
    let ahead = lined_up.places.iter().enumerate().filter_map(|(index, place)| {
        let pod = snapshot.pods.iter().find(|pod| pod.facts.uid == place.uid)?;
        let Point::At { side, .. } = pod.point else { return None };
        // Behind the last pod there is nothing to hold.
        (side == PausePoint::Before || index + 1 < of).then(|| Ahead {
            pod: pod.name.clone(),
            side,
            node: pod.facts.node.as_deref().map(str::to_owned),
            place: index + 1,
            of,
        })
    });
    ahead.collect()
}

/// The points in words, a line each.
pub(crate) fn told(points: &[Ahead]) -> String {
    let Some(first) = points.first() else { return "no pause point lies ahead".to_owned() };
    let mut lines = vec![match points.len() {
        1 => format!("one pause point lies ahead, of {} pods to replace:", first.of),
        many => format!("{many} pause points lie ahead, of {} pods to replace:", first.of),
    }];
    lines.extend(points.iter().map(|point| {
        let node = point.node.as_ref().map(|node| format!(" on {node}")).unwrap_or_default();
        format!("  {} {}{node}, place {}", side(point.side), point.pod, point.place)
    }));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::{points, told};
    use crate::testing::{at_revision, held_before, pod, seen};

    #[test]
    fn points_are_told_in_the_order_in_which_the_rollout_meets_them() {
        let pods = [
            pod("web:1", "bbbbbbbb", "n1").pause("after"),
            pod("web:1", "cccccccc", "n2").priority(3).pause("before"),
            pod("web:1", "dddddddd", "n3"),
            pod("web:1", "ffffffff", "n2").priority(-1).pause("after"),
        ];
        let seen_now = seen(4, "web:1", &at_revision(1), &pods);
        let target = &seen(4, "web:2", &at_revision(1), &pods).deployment.spec.template;
        insta::assert_snapshot!(told(&points(&seen_now, target)));
        assert_eq!(points(&seen_now, &seen_now.deployment.spec.template), []);
    }

    #[test]
    fn a_new_rollout_meets_points_again_that_this_one_has_passed() {
        let old = pod("web:1", "cccccccc", "n2").pause("before");
        let mut status = held_before(&old);
        status["hold"].take();
        status["passed"] = serde_json::json!([{"podUID": old.name, "resumedAt": "2030-01-01T11:59:00Z"}]);
        let other = pod("web:2", "gggggggg", "n1").pause("before");
        let seen = seen(2, "web:2", &status, &[old.clone(), other.clone()]);
        let third = serde_json::json!({"spec": {"containers": [{"name": "web", "image": "web:3"}]}});
        let mut ahead: Vec<String> = points(&seen, &ordereddeployment_api::Template::new(&third))
            .into_iter()
            .map(|point| point.pod)
            .collect();
        ahead.sort();
        assert_eq!(ahead, [old.name, other.name]);
        // Back to the first one, its own pod stays.
        let back: Vec<String> =
            points(&seen, &seen.sets[0].template).into_iter().map(|point| point.pod).collect();
        assert_eq!(back, [format!("web-{}-gggggggg", "7f6d9b8c4d")]);
    }
}
