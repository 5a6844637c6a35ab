//! Declared pause points in words. Pure functions.

use ordereddeployment_api::{DeclaredPausePoint, Hold, OrderedDeploymentSpec};

/// `3 of 12 updated`, `priority 10 or lower`. `group` is the value of the node label.
pub(crate) fn waits_for(point: &DeclaredPausePoint, group: Option<&str>, replicas: i32) -> String {
    if point.after_updated.is_some() {
        return updated(point.limit(replicas, 1), replicas);
    }
    if let Some(priority) = point.before_priority {
        return format!("priority {priority} or lower");
    }
    if let Some(nodes) = &point.before_nodes {
        return format!("nodes with {}", nodes.to_selector_string());
    }
    let label = point.between_node_groups.as_deref().unwrap_or_default();
    match group {
        Some(group) => format!("nodes with {label}={group}"),
        None => format!("nodes without {label}"),
    }
}

fn updated(number: Option<i64>, replicas: i32) -> String {
    format!("{} of {replicas} updated", number.unwrap_or(0))
}

/// What that of a hold waits for. A hold keeps the number of updated pods with which it began.
pub(crate) fn of_hold(hold: &Hold, spec: &OrderedDeploymentSpec) -> Option<String> {
    let declared = hold.declared.as_ref()?;
    let point = spec.strategy.points().find(|point| point.name == declared.name);
    if let Some(limit) = hold.limit.filter(|_| point.is_none_or(|point| point.after_updated.is_some())) {
        return Some(updated(Some(limit.into()), hold.replicas));
    }
    let point = point?;
    Some(waits_for(point, declared.group.as_deref(), spec.replicas))
}

/// The declared pause point with that label, which is its name, or `<name>.<group>` with `betweenNodeGroups`.
pub(crate) fn find<'s, 'l>(
    spec: &'s OrderedDeploymentSpec,
    label: &'l str,
) -> Option<(&'s DeclaredPausePoint, Option<&'l str>)> {
    let (name, group) = split(label);
    let mut points = spec.strategy.points();
    let found = points.find(|point| point.name == name)?;
    (group.is_none() || found.between_node_groups.is_some()).then_some((found, group))
}

pub(crate) fn label_waits_for(spec: &OrderedDeploymentSpec, label: &str) -> Option<String> {
    find(spec, label).map(|(point, group)| waits_for(point, group, spec.replicas))
}

/// The name and the group of a label. A name has no dot.
pub(crate) fn split(label: &str) -> (&str, Option<&str>) {
    label.split_once('.').map_or((label, None), |(name, group)| (name, Some(group)))
}

#[cfg(test)]
mod tests {
    use ordereddeployment_api::{DeclaredPausePoint, OrderedDeploymentSpec};
    use serde_json::{Value, json};

    use super::{find, of_hold, waits_for};
    use crate::testing::{at_declared, declaring, observed_state, pod};

    fn point(mut fields: Value) -> DeclaredPausePoint {
        fields["name"] = "one".into();
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn each_kind_says_what_it_waits_for() {
        let zone = "topology.kubernetes.io/zone";
        let nodes = json!({"beforeNodes": {"matchLabels": {"pool": "spot"}}});
        for (fields, group, expected) in [
            (json!({"afterUpdated": "30%"}), None, "4 of 12 updated"),
            // An old pod must be left.
            (json!({"afterUpdated": "100%"}), None, "11 of 12 updated"),
            (json!({"beforePriority": 10}), None, "priority 10 or lower"),
            (nodes, None, "nodes with pool=spot"),
            (json!({"betweenNodeGroups": zone}), Some("b"), "nodes with topology.kubernetes.io/zone=b"),
            (json!({"betweenNodeGroups": zone}), None, "nodes without topology.kubernetes.io/zone"),
        ] {
            assert_eq!(waits_for(&point(fields), group, 12), expected);
        }
    }

    fn spec(points: &Value) -> OrderedDeploymentSpec {
        declaring(observed_state(4, "web:2", &json!({}), &[]), points).deployment.spec.clone()
    }

    #[test]
    fn a_label_names_a_point_and_its_group() {
        let spec = spec(&json!([
            {"name": "canary", "afterUpdated": 1}, {"name": "zones", "betweenNodeGroups": "zone"}
        ]));
        let found = |label| find(&spec, label).map(|(point, group)| (point.name.as_str(), group));
        assert_eq!(found("canary"), Some(("canary", None)));
        assert_eq!(found("zones.us.east_1"), Some(("zones", Some("us.east_1"))));
        assert_eq!(found("zones"), Some(("zones", None)));
        assert_eq!((found("canary.b"), found("web-1")), (None, None));
    }

    #[test]
    fn a_hold_keeps_the_number_with_which_it_began() {
        let state = at_declared("canary", &[pod("web:1", "cccccccc", "n2")]);
        let hold = state["hold"].clone();
        let mut hold: ordereddeployment_api::Hold = serde_json::from_value(hold).unwrap();
        let changed = spec(&json!([{"name": "canary", "afterUpdated": 3}]));
        assert_eq!(of_hold(&hold, &changed).as_deref(), Some("1 of 4 updated"));
        hold.limit = None;
        assert_eq!(of_hold(&hold, &changed).as_deref(), Some("3 of 4 updated"));
        hold.declared = None;
        assert_eq!(of_hold(&hold, &changed), None);
    }
}
