//! The node that a new pod would get: the least loaded one that accepts it, then the first by name.
//!
//! One model of a scheduler, for the sandbox, which binds pods by it, and for previews. It handles labels,
//! taints, cordons and the pod capacity of nodes; it ignores resources, affinities and spread constraints,
//! does not preempt, and knows no server.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{self as core, Toleration};
use serde::Deserialize;

/// A pod's requirements on its node: these fields of its spec.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Wants {
    /// Labels that the node must have.
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Taints that it may have.
    pub tolerations: Option<Vec<Toleration>>,
}

impl Wants {
    fn tolerates(&self, key: &str, value: &str, effect: &str) -> bool {
        self.tolerations.iter().flatten().any(|toleration| tolerated(toleration, key, value, effect))
    }
}

/// The fields of a node that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    labels: BTreeMap<String, String>,
    cordoned: bool,
    /// Key, value and effect.
    taints: Vec<(String, String, String)>,
    room: usize,
}

impl Node {
    /// A node as the API server shows it.
    #[must_use]
    pub fn of(node: &core::Node) -> Self {
        let spec = node.spec.as_ref();
        let taints = spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let status = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
        Self {
            labels: node.metadata.labels.clone().unwrap_or_default(),
            cordoned: spec.and_then(|spec| spec.unschedulable) == Some(true),
            taints: taints
                .map(|taint| {
                    (taint.key.clone(), taint.value.clone().unwrap_or_default(), taint.effect.clone())
                })
                .collect(),
            room: status.and_then(|room| room.get("pods")?.0.parse().ok()).unwrap_or_default(),
        }
    }

    /// Why this node does not accept another pod when it has `load` pods.
    fn refusal(&self, wants: &Wants, load: usize) -> Option<Refusal> {
        let selector = wants.node_selector.iter().flatten();
        if selector.into_iter().any(|(key, value)| self.labels.get(key) != Some(value)) {
            return Some(Refusal::Selector);
        }
        if self.cordoned && !wants.tolerates("node.kubernetes.io/unschedulable", "", "NoSchedule") {
            return Some(Refusal::Unschedulable);
        }
        let kept_off = |(key, value, effect): &(String, String, String)| {
            matches!(effect.as_str(), "NoSchedule" | "NoExecute") && !wants.tolerates(key, value, effect)
        };
        if self.taints.iter().any(kept_off) {
            return Some(Refusal::Taint);
        }
        (load >= self.room).then_some(Refusal::Full)
    }
}

/// Why a node does not accept a pod, in the order in which that is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Refusal {
    Selector,
    Unschedulable,
    Taint,
    /// The node has reached its pod capacity.
    Full,
}

/// No node accepts the pod. Its text is like a scheduler's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    nodes: usize,
    /// The number of refusing nodes by reason.
    refused: BTreeMap<Refusal, usize>,
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0/{} nodes are available: ", self.nodes)?;
        if self.refused.is_empty() {
            f.write_str("no nodes available to schedule pods")?;
        }
        for (place, (why, count)) in self.refused.iter().enumerate() {
            f.write_str(if place == 0 { "" } else { ", " })?;
            match why {
                Refusal::Selector => write!(f, "{count} node(s) didn't match Pod's node affinity/selector"),
                Refusal::Unschedulable => write!(f, "{count} node(s) were unschedulable"),
                Refusal::Taint => write!(f, "{count} node(s) had untolerated taint"),
                Refusal::Full => write!(f, "{count} Too many pods"),
            }?;
        }
        f.write_str(".")
    }
}

/// The node for a pod. `load`: the number of pods on each node.
pub fn place<'a>(
    wants: &Wants,
    nodes: &'a BTreeMap<String, Node>,
    load: &BTreeMap<String, usize>,
) -> Result<&'a str, Unplaced> {
    let mut refused = BTreeMap::new();
    let mut best: Option<(usize, &str)> = None;
    for (name, node) in nodes {
        let count = load.get(name).copied().unwrap_or_default();
        match node.refusal(wants, count) {
            Some(why) => *refused.entry(why).or_default() += 1,
            None if best.is_none_or(|(least, _)| count < least) => best = Some((count, name)),
            None => {}
        }
    }
    best.map(|(_, name)| name).ok_or(Unplaced { nodes: nodes.len(), refused })
}

/// Whether that toleration tolerates that taint.
#[must_use]
pub fn tolerated(toleration: &Toleration, key: &str, value: &str, effect: &str) -> bool {
    if toleration.effect.as_deref().is_some_and(|wanted| !wanted.is_empty() && wanted != effect) {
        return false;
    }
    let wanted = toleration.key.as_deref().unwrap_or_default();
    if toleration.operator.as_deref() == Some("Exists") {
        return wanted.is_empty() || wanted == key;
    }
    wanted == key && toleration.value.as_deref().unwrap_or_default() == value
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed assumption fails the test")]
mod tests {
    use serde_json::{Value, json};

    use super::{BTreeMap, Node, Wants, place};

    fn nodes(specs: &[(&str, Value)]) -> BTreeMap<String, Node> {
        let node = |spec: &Value| {
            let mut object = json!({
                "metadata": {"labels": {"pool": "a"}}, "status": {"allocatable": {"pods": "2"}}, "spec": spec,
            });
            if let Some(pool) = spec.get("pool") {
                object["metadata"]["labels"]["pool"] = pool.clone();
            }
            Node::of(&serde_json::from_value(object).unwrap())
        };
        specs.iter().map(|(name, spec)| ((*name).to_owned(), node(spec))).collect()
    }

    fn wants(spec: Value) -> Wants {
        serde_json::from_value(spec).unwrap()
    }

    fn load(entries: &[(&str, usize)]) -> BTreeMap<String, usize> {
        entries.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn the_least_loaded_node_is_chosen_then_the_first_by_name() {
        let nodes = nodes(&[("n1", json!({})), ("n2", json!({})), ("n3", json!({}))]);
        let any = Wants::default();
        assert_eq!(place(&any, &nodes, &load(&[])), Ok("n1"));
        assert_eq!(place(&any, &nodes, &load(&[("n1", 1), ("n2", 1)])), Ok("n3"));
        assert_eq!(place(&any, &nodes, &load(&[("n1", 1), ("n2", 1), ("n3", 1)])), Ok("n1"));
    }

    #[test]
    fn a_node_that_refuses_the_pod_is_counted_with_its_reason() {
        let taint = json!({"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]});
        let nodes = nodes(&[
            ("n1", json!({"pool": "b"})),
            ("n2", json!({"unschedulable": true})),
            ("n3", taint),
            ("n4", json!({})),
        ]);
        let pod = wants(json!({"nodeSelector": {"pool": "a"}}));
        let full = load(&[("n4", 2)]);
        let refused = place(&pod, &nodes, &full).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "0/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) were \
             unschedulable, 1 node(s) had untolerated taint, 1 Too many pods."
        );
        let tolerant =
            |toleration: Value| wants(json!({"nodeSelector": {"pool": "a"}, "tolerations": [toleration]}));
        assert_eq!(place(&tolerant(json!({"key": "gpu", "value": "yes"})), &nodes, &full), Ok("n3"));
        assert_eq!(place(&tolerant(json!({"key": "gpu", "operator": "Exists"})), &nodes, &full), Ok("n3"));
        assert_eq!(place(&tolerant(json!({"operator": "Exists"})), &nodes, &full), Ok("n2"));
        assert!(place(&tolerant(json!({"key": "gpu", "value": "no"})), &nodes, &full).is_err());
        let other = json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"});
        assert!(place(&tolerant(other), &nodes, &full).is_err());
        assert_eq!(
            place(&pod, &BTreeMap::new(), &full).unwrap_err().to_string(),
            "0/0 nodes are available: no nodes available to schedule pods."
        );
    }
}
