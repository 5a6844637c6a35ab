//! A random cluster and a random change.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::names::annotation;
use ordereddeployment_planner::whole_seconds;
use ordereddeployment_sandbox::{NodeSpec, Taint};
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

const POOLS: [&str; 3] = ["inference", "hybrid", "spot"];

/// Returns true with a probability of one in `n`.
pub(super) fn one_in(rng: &mut StdRng, n: u32) -> bool {
    rng.random_ratio(1, n)
}

fn one_of<T: Clone>(rng: &mut StdRng, all: &[T]) -> T {
    all.choose(rng).unwrap().clone()
}

pub(super) fn nodes(rng: &mut StdRng) -> Vec<NodeSpec> {
    let (count, tight) = (rng.random_range(1..6), one_in(rng, 8));
    let node = |number| {
        let mut node = NodeSpec::in_pool(&format!("n{number}"), one_of(rng, &POOLS));
        node.unschedulable = number > 1 && one_in(rng, 6);
        if number > 1 && one_in(rng, 6) {
            let effect = one_of(rng, &["NoSchedule", "PreferNoSchedule"]).into();
            node.taints.push(Taint { key: "maintenance".into(), value: String::new(), effect });
        }
        if tight {
            node.pods_capacity = rng.random_range(2..5);
        }
        node
    };
    (1..=count).map(node).collect()
}

fn bounds(rng: &mut StdRng) -> Value {
    let amounts = [json!(0), json!(1), json!(3), json!("0%"), json!("20%"), json!("55%")];
    let (surge, unavailable) = (one_of(rng, &amounts), one_of(rng, &amounts));
    let zero = [json!(0), json!("0%")];
    if zero.contains(&surge) && zero.contains(&unavailable) {
        return json!({"maxSurge": 1, "maxUnavailable": 0});
    }
    json!({"maxSurge": surge, "maxUnavailable": unavailable})
}

fn in_pool(pool: &str) -> Value {
    json!({"matchLabels": {"node.usage": pool}})
}

fn order(rng: &mut StdRng) -> Value {
    let mut rules = vec![
        json!({"unschedulable": true}),
        json!({"unschedulable": false}),
        json!({"taintKeys": ["maintenance"]}),
        json!({"unassigned": true}),
    ];
    rules.extend(POOLS.map(|pool| json!({"nodeSelector": in_pool(pool)})));
    let count = rng.random_range(0..3);
    let rule = |_| {
        let mut rule = one_of(rng, &rules);
        rule[one_of(rng, &["priority", "deletionCost"])] = json!(rng.random_range(-2..4));
        rule
    };
    let rules: Vec<Value> = (0..count).map(rule).collect();
    let unavailable = if one_in(rng, 5) { "InOrder" } else { "WhenBlocked" };
    json!({"nodePriorities": rules, "unavailablePods": unavailable})
}

/// Declared pause points of all kinds; usually none, so that pods' own points are compared too.
fn pause_points(rng: &mut StdRng, recreates: bool) -> Value {
    let kinds = [
        json!({"beforePriority": rng.random_range(-2..4)}),
        json!({"beforeNodes": in_pool(one_of(rng, &POOLS))}),
        json!({"betweenNodeGroups": "node.usage"}),
        json!({"afterUpdated": rng.random_range(1..3)}),
        json!({"afterUpdated": "50%"}),
    ];
    if !one_in(rng, 3) {
        return json!([]);
    }
    let mut points: Vec<Value> = kinds[..if recreates { 3 } else { 5 }].to_vec();
    points.retain(|_| one_in(rng, 2));
    for (number, point) in points.iter_mut().enumerate() {
        point["name"] = json!(format!("point-{number}"));
        if one_in(rng, 3) {
            point["duration"] = json!(format!("{}s", rng.random_range(1..40)));
        }
    }
    json!(points)
}

pub(super) fn spec(rng: &mut StdRng) -> Value {
    let recreates = one_in(rng, 7);
    let mut strategy = if recreates {
        json!({"type": "Recreate"})
    } else {
        json!({"type": "RollingUpdate", "rollingUpdate": bounds(rng)})
    };
    strategy["pausePoints"] = pause_points(rng, recreates);
    json!({
        "replicas": rng.random_range(1..=12),
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": strategy,
        "minReadySeconds": one_of(rng, &[0, 0, 0, 0, 1, 3]),
        "podReplacementPolicy": if one_in(rng, 4) { "TerminationComplete" } else { "TerminationStarted" },
        "podDeletion": if one_in(rng, 6) { "Evict" } else { "Delete" },
        "deletionOrder": order(rng),
        "template": template("web:1"),
    })
}

/// The annotations of one pod, and the status that its kubelet reports.
pub(super) fn pod_change(rng: &mut StdRng, now: Timestamp) -> (Value, Value) {
    let mut annotations = BTreeMap::new();
    if one_in(rng, 2) {
        annotations.insert(annotation::DELETE_PRIORITY, rng.random_range(-2..4).to_string());
    }
    if one_in(rng, 4) {
        annotations.insert(annotation::POD_DELETION_COST, rng.random_range(-2..3).to_string());
    }
    if one_in(rng, 7) {
        let side = one_of(rng, &["before", "after", "true", "sideways"]);
        annotations.insert(annotation::PAUSE_POINT, side.to_owned());
        if one_in(rng, 3) {
            annotations.insert(annotation::PAUSE_DURATION, format!("{}s", rng.random_range(1..40)));
        }
    }
    let ready = !one_in(rng, 7);
    let age = 2f64.powf(rng.random_range(0.0..17.0));
    let since = whole_seconds(now - SignedDuration::from_secs_f64(age));
    let status = json!({
        "conditions": [{
            "type": "Ready", "status": if ready { "True" } else { "False" },
            "lastTransitionTime": since.to_string(),
        }],
        "containerStatuses": [{
            "name": "main", "image": "web", "imageID": "", "ready": ready,
            "restartCount": one_of(rng, &[0, 0, 0, 0, 1, 2]),
        }],
    });
    (json!(annotations), status)
}

/// The change to plan. `revision` is that of the previous template.
pub(super) fn change(rng: &mut StdRng, replicas: i32, revision: u32, is_held: bool) -> Value {
    let image = template(&format!("web:{}", revision + 1));
    let fewer = rng.random_range(0..=replicas);
    let mut spec = match rng.random_range(0..10) {
        0..5 => json!({"template": image}),
        5 => json!({"replicas": fewer}),
        6 => json!({"replicas": fewer, "deletionOrder": order(rng)}),
        7 => json!({"replicas": fewer, "template": image}),
        8 if is_held => json!({}),
        8 => json!({"template": template("web:1")}),
        _ => json!({"template": template("web:9"), "deletionOrder": order(rng)}),
    };
    if one_in(rng, 8) {
        spec["minReadySeconds"] = json!(rng.random_range(0..3));
    }
    spec
}

pub(super) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}
