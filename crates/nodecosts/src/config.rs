//! The configuration, one YAML document in a ConfigMap: which Deployments, and which cost on which node. It
//! is applied completely or not at all.

use std::collections::BTreeMap;

use ordereddeployment_api::{DeletionOrder, LabelSelector, NodePriority, validate_node_rule};
use serde::Deserialize;

/// The key of the ConfigMap with the document.
pub(crate) const KEY: &str = "nodecosts.yaml";

/// The entries in their order: the first entry that selects a Deployment applies to it.
#[derive(Clone, Debug, Default)]
pub struct Config {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    namespace: Option<String>,
    selector: Option<LabelSelector>,
    order: DeletionOrder,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    deployments: Vec<EntryDocument>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EntryDocument {
    namespace: Option<String>,
    selector: Option<LabelSelector>,
    node_costs: Vec<RuleDocument>,
}

/// A rule of `deletionOrder.nodePriorities`, with the cost only: a Deployment has no delete priority.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RuleDocument {
    node_selector: Option<LabelSelector>,
    unschedulable: Option<bool>,
    taint_keys: Option<Vec<String>>,
    unassigned: Option<bool>,
    deletion_cost: i32,
}

impl Config {
    /// Parses the data of a ConfigMap.
    ///
    /// # Errors
    /// One line with the problem and its place.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let text = data.get(KEY).ok_or_else(|| format!("it has no key {KEY}"))?;
        let document: Document = serde_saphyr::from_str(text).map_err(|error| {
            // The parser adds an excerpt of the place below its message.
            format!("{KEY}: {}", error.to_string().lines().next().unwrap_or_default())
        })?;
        let entries = document.deployments.into_iter().enumerate().map(|(index, entry)| {
            let order = DeletionOrder {
                node_priorities: Some(entry.node_costs.into_iter().map(NodePriority::from).collect()),
                ..DeletionOrder::default()
            };
            for (place, rule) in order.node_priorities.iter().flatten().enumerate() {
                let field = format!("{KEY}: deployments[{index}].nodeCosts[{place}]");
                if let Some(violation) = validate_node_rule(&field, rule).first() {
                    return Err(violation.to_string());
                }
            }
            Ok(Entry { namespace: entry.namespace, selector: entry.selector, order })
        });
        Ok(Self { entries: entries.collect::<Result<_, _>>()? })
    }

    /// The rules for the pods of that Deployment; `None`: no entry selects it.
    pub(crate) fn rules(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
    ) -> Option<&[NodePriority]> {
        Some(self.order(namespace, labels)?.node_priorities.as_deref().unwrap_or_default())
    }

    /// The same rules, as an OrderedDeployment declares them.
    #[must_use]
    pub fn order(&self, namespace: &str, labels: &BTreeMap<String, String>) -> Option<&DeletionOrder> {
        let selects = |entry: &&Entry| {
            entry.namespace.as_ref().is_none_or(|wanted| wanted == namespace)
                && entry.selector.as_ref().is_none_or(|selector| selector.matches(labels))
        };
        self.entries.iter().find(selects).map(|entry| &entry.order)
    }
}

impl From<RuleDocument> for NodePriority {
    fn from(rule: RuleDocument) -> Self {
        Self {
            node_selector: rule.node_selector,
            unschedulable: rule.unschedulable,
            taint_keys: rule.taint_keys,
            unassigned: rule.unassigned,
            priority: None,
            deletion_cost: Some(rule.deletion_cost),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Config, KEY};

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(&BTreeMap::from([(KEY.to_owned(), text.to_owned())]))
    }

    fn labels(tier: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("tier".to_owned(), tier.to_owned())])
    }

    #[test]
    fn the_first_entry_that_selects_a_deployment_applies_to_it() {
        let config = parse(
            "deployments:\n- namespace: shop\n  selector: {matchLabels: {tier: web}}\n  nodeCosts: []\n- \
             selector: {matchLabels: {tier: web}}\n  nodeCosts: [{unschedulable: true, deletionCost: -5}]\n",
        )
        .unwrap();
        assert_eq!(config.rules("shop", &labels("web")).map(<[_]>::len), Some(0));
        assert_eq!(config.rules("other", &labels("web")).map(<[_]>::len), Some(1));
        assert_eq!(config.rules("shop", &labels("db")).map(<[_]>::len), None);
    }

    #[test]
    fn the_documented_config_map_is_valid() {
        let page = include_str!("../../../docs/nodecosts.md");
        let blocks = page.split("```yaml\n").filter_map(|rest| rest.split("```").next());
        let map = blocks.into_iter().find(|block| block.contains("kind: ConfigMap")).unwrap();
        let map: k8s_openapi::api::core::v1::ConfigMap = serde_saphyr::from_str(map).unwrap();
        let config = Config::parse(&map.data.unwrap()).unwrap();
        assert_eq!(config.rules("shop", &labels("inference")).map(<[_]>::len), Some(2));
        assert_eq!(config.rules("any", &labels("batch")).map(<[_]>::len), Some(1));
    }

    #[test]
    fn an_error_is_one_line_with_its_place() {
        let table = [
            ("deployments: [{nodeCosts: [{deletionCost: -1}]}]", "deployments[0].nodeCosts[0]"),
            ("deployments: [{nodeCosts: [{unschedulable: true}]}]", "deletionCost"),
            ("deployments: [{nodeCosts: [{unschedulable: true, priority: 3}]}]", "priority"),
            (
                "deployments: [{nodeCosts: [{unschedulable: true, deletionCost: 3000000000}]}]",
                "nodecosts.yaml",
            ),
            ("deployment: []", "deployment"),
            ("]", "nodecosts.yaml"),
            ("", "nodecosts.yaml"),
        ];
        for (text, part) in table {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part) && !error.contains('\n'), "{text}: {error}");
        }
        assert!(Config::parse(&BTreeMap::new()).unwrap_err().contains(KEY));
    }
}
