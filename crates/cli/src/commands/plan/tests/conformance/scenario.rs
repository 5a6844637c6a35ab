//! A random cluster and a random change.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use ordereddeployment_api::names::annotation;
use ordereddeployment_planner::whole_seconds;
use ordereddeployment_sandbox::{NodeSpec, Taint};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};

/// The parameters of a random cluster.
pub(super) struct Scenario {
    pub(super) rng: StdRng,
    pub(super) seed: u64,
    pub(super) ready: u64,
    pub(super) gone: u64,
    pub(super) resumed: u64,
    pub(super) nodes: Vec<NodeSpec>,
}

/// Returns true with a probability of one in `n`.
pub(super) fn one_in(rng: &mut StdRng, n: u32) -> bool {
    rng.random_ratio(1, n)
}

impl Scenario {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let (ready, gone, resumed) =
            (rng.random_range(1..4), rng.random_range(1..5), rng.random_range(1..30));
        let tight = one_in(&mut rng, 8);
        let nodes = (1..=rng.random_range(1..6))
            .map(|number| {
                let pool = ["inference", "hybrid", "spot"].choose(&mut rng).unwrap();
                let mut node = NodeSpec::in_pool(&format!("n{number}"), pool);
                node.unschedulable = number > 1 && one_in(&mut rng, 6);
                if number > 1 && one_in(&mut rng, 6) {
                    let effect = if one_in(&mut rng, 2) { "NoSchedule" } else { "PreferNoSchedule" };
                    node.taints.push(Taint {
                        key: "maintenance".into(),
                        value: String::new(),
                        effect: effect.into(),
                    });
                }
                if tight {
                    node.pods_capacity = rng.random_range(2..5);
                }
                node
            })
            .collect();
        Self { rng, seed, ready, gone, resumed, nodes }
    }

    pub(super) fn bounds(&mut self) -> Value {
        let amount = |rng: &mut StdRng| {
            if one_in(rng, 2) {
                json!(rng.random_range(0..4))
            } else {
                json!(format!("{}%", rng.random_range(0..60)))
            }
        };
        let (surge, unavailable) = (amount(&mut self.rng), amount(&mut self.rng));
        let zero = |value: &Value| *value == json!(0) || *value == json!("0%");
        if zero(&surge) && zero(&unavailable) {
            json!({"maxSurge": 1, "maxUnavailable": 0})
        } else {
            json!({"maxSurge": surge, "maxUnavailable": unavailable})
        }
    }

    pub(super) fn order(&mut self) -> Value {
        let rules: Vec<Value> = (0..self.rng.random_range(0..3))
            .map(|_| {
                let mut rule = match self.rng.random_range(0..5) {
                    0 => json!({"unschedulable": one_in(&mut self.rng, 2)}),
                    1 => json!({"taintKeys": ["maintenance"]}),
                    2 => json!({"unassigned": true}),
                    _ => {
                        let pool = ["inference", "hybrid", "spot"].choose(&mut self.rng).unwrap();
                        json!({"nodeSelector": {"matchLabels": {"node.usage": pool}}})
                    }
                };
                let grant = if one_in(&mut self.rng, 2) { "priority" } else { "deletionCost" };
                rule[grant] = json!(self.rng.random_range(-2..4));
                rule
            })
            .collect();
        let unavailable = if one_in(&mut self.rng, 5) { "InOrder" } else { "WhenBlocked" };
        json!({"nodePriorities": rules, "unavailablePods": unavailable})
    }

    /// Declared pause points of all kinds; usually none, so that pods' own points are compared too.
    pub(super) fn pause_points(&mut self, recreates: bool) -> Value {
        let mut points = Vec::new();
        if !one_in(&mut self.rng, 3) {
            return json!(points);
        }
        for number in 0..self.rng.random_range(1..4) {
            let kind = self.rng.random_range(0..if recreates { 2 } else { 4 });
            let pool = *["inference", "hybrid", "spot"].choose(&mut self.rng).unwrap();
            let mut point = match kind {
                0 => json!({"beforePriority": self.rng.random_range(-2..4)}),
                1 => json!({"beforeNodes": {"matchLabels": {"node.usage": pool}}}),
                2 => json!({"afterUpdated": number + 1}),
                _ => json!({"afterUpdated": format!("{}%", 25 * (number + 1))}),
            };
            point["name"] = json!(format!("point-{number}"));
            points.push(point);
        }
        if one_in(&mut self.rng, 3) {
            points.push(json!({"name": "each-pool", "betweenNodeGroups": "node.usage"}));
        }
        for point in &mut points {
            if one_in(&mut self.rng, 3) {
                point["duration"] = json!(format!("{}s", self.rng.random_range(1..40)));
            }
        }
        json!(points)
    }

    pub(super) fn spec(&mut self) -> Value {
        let recreates = one_in(&mut self.rng, 7);
        let mut strategy = if recreates {
            json!({"type": "Recreate"})
        } else {
            json!({"type": "RollingUpdate", "rollingUpdate": self.bounds()})
        };
        strategy["pausePoints"] = self.pause_points(recreates);
        let complete = one_in(&mut self.rng, 4);
        let evict = one_in(&mut self.rng, 6);
        json!({
            "replicas": self.rng.random_range(1..=12),
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": strategy,
            "minReadySeconds": if one_in(&mut self.rng, 3) { self.rng.random_range(1..4) } else { 0 },
            "podReplacementPolicy": if complete { "TerminationComplete" } else { "TerminationStarted" },
            "podDeletion": if evict { "Evict" } else { "Delete" },
            "deletionOrder": self.order(),
            "template": template("web:1"),
        })
    }

    /// Random changes of one pod: annotations, and the status that its kubelet reports.
    pub(super) fn pod_changes(&mut self, now: Timestamp) -> (Value, Value) {
        let mut annotations = BTreeMap::new();
        if one_in(&mut self.rng, 2) {
            annotations.insert(annotation::DELETE_PRIORITY, self.rng.random_range(-2..4).to_string());
        }
        if one_in(&mut self.rng, 4) {
            annotations.insert(annotation::POD_DELETION_COST, self.rng.random_range(-2..3).to_string());
        }
        if one_in(&mut self.rng, 7) {
            let side = *["before", "after", "true", "sideways"].choose(&mut self.rng).unwrap();
            annotations.insert(annotation::PAUSE_POINT, side.to_owned());
            if one_in(&mut self.rng, 3) {
                annotations.insert(annotation::PAUSE_DURATION, format!("{}s", self.rng.random_range(1..40)));
            }
        }
        let ready = !one_in(&mut self.rng, 7);
        let age = 2f64.powf(self.rng.random_range(0.0..17.0));
        let since = whole_seconds(now - SignedDuration::from_secs_f64(age));
        let restarts = if one_in(&mut self.rng, 3) { self.rng.random_range(0..3) } else { 0 };
        let status = json!({
            "conditions": [{
                "type": "Ready", "status": if ready { "True" } else { "False" },
                "lastTransitionTime": since.to_string(),
            }],
            "containerStatuses": [{
                "name": "main", "image": "web", "imageID": "", "ready": ready, "restartCount": restarts,
            }],
        });
        (json!({"metadata": {"annotations": annotations}}), status)
    }

    /// The change to plan. `revision` is that of the previous template.
    pub(super) fn change(&mut self, replicas: i32, revision: u32, rolls: bool) -> Value {
        let image = json!({"template": template(&format!("web:{}", revision + 1))});
        let smaller = |rng: &mut StdRng| rng.random_range(0..=replicas);
        let mut spec = match self.rng.random_range(0..10) {
            0..5 => image,
            5 => json!({"replicas": smaller(&mut self.rng)}),
            6 => json!({"replicas": smaller(&mut self.rng), "deletionOrder": self.order()}),
            7 => {
                let mut both = image;
                both["replicas"] = json!(smaller(&mut self.rng));
                both
            }
            8 if rolls => json!({}),
            8 => json!({"template": template("web:1")}),
            _ => json!({"template": template("web:9"), "deletionOrder": self.order()}),
        };
        if one_in(&mut self.rng, 8) {
            spec["minReadySeconds"] = json!(self.rng.random_range(0..3));
        }
        spec
    }
}

pub(super) fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}
