//! PodDisruptionBudgets, decoded only as far as needed: which pods they select.

use std::collections::BTreeMap;

use ordereddeployment_api::LabelSelector;
use serde::Deserialize;
use serde_json::Value;

/// A PodDisruptionBudget.
#[derive(Debug, Deserialize)]
pub struct Budget {
    metadata: Value,
    #[serde(default)]
    spec: BudgetSpec,
    #[serde(default)]
    status: Value,
}

#[derive(Debug, Default, Deserialize)]
struct BudgetSpec {
    selector: Option<LabelSelector>,
}

impl Budget {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.metadata["name"].as_str().unwrap_or_default()
    }

    /// Whether the budget counts an eviction of this pod that was not carried out. The disruption controller
    /// takes it back after two minutes (`DeletionTimeout` in `pkg/controller/disruption/disruption.go`).
    #[must_use]
    pub fn counts(&self, pod: &str) -> bool {
        !self.status["disruptedPods"][pod].is_null()
    }

    /// Whether the budget selects pods with these labels. An empty selector selects all pods in
    /// `policy/v1` and none in `policy/v1beta1`.
    #[must_use]
    pub fn selects(&self, labels: &BTreeMap<String, String>, beta: bool) -> bool {
        let selector = self.spec.selector.as_ref().filter(|selector| !(beta && selector.is_empty()));
        selector.is_some_and(|selector| selector.matches(labels))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{BTreeMap, Budget};

    #[test]
    fn a_budget_selects_by_labels_and_an_empty_selector_all_or_none_by_version() {
        let labels = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let table = [
            (json!({"selector": {"matchLabels": {"app": "web"}}}), [true, true]),
            (json!({"selector": {"matchLabels": {"app": "db"}}}), [false, false]),
            (json!({"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}), [true, true]),
            (json!({"selector": {}}), [true, false]),
            (json!({}), [false, false]),
        ];
        for (spec, expected) in table {
            let budget: Budget =
                serde_json::from_value(json!({"metadata": {"name": "b"}, "spec": spec})).unwrap();
            assert_eq!([false, true].map(|beta| budget.selects(&labels, beta)), expected, "{spec}");
        }
    }
}
