//! Which PodDisruptionBudgets keep a pod from being evicted: said by the server where it says so, looked up where not.
//!
//! Nothing is decided here, and budgets are read only after a refusal.

use std::collections::BTreeMap;

use ordereddeployment_api::LabelSelector;
use ordereddeployment_planner::Hindrance;
use serde::Deserialize;

use crate::calls::Calls;
use crate::error::Refusal;

/// A PodDisruptionBudget, as far as it is read here.
#[derive(Debug, Deserialize)]
pub(crate) struct Budget {
    metadata: BudgetMetadata,
    #[serde(default)]
    spec: BudgetSpec,
}

#[derive(Debug, Default, Deserialize)]
struct BudgetMetadata {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Default, Deserialize)]
struct BudgetSpec {
    selector: Option<LabelSelector>,
}

impl Budget {
    /// Whether it speaks of pods with these labels. An empty selector selects all of them in `policy/v1`, and none before.
    fn selects(&self, labels: &BTreeMap<String, String>, beta: bool) -> bool {
        let selector = self.spec.selector.as_ref().filter(|selector| !(beta && selector.is_empty()));
        selector.is_some_and(|selector| selector.matches(labels))
    }
}

/// What a refused eviction is told as: what it hinders, and a sentence with the names of the budgets.
pub(crate) async fn explain(
    calls: &Calls,
    namespace: &str,
    pod: &str,
    labels: &BTreeMap<String, String>,
    refusal: Refusal,
) -> (Hindrance, String) {
    let waiting = format!("Waiting to evict pod {pod}");
    match refusal {
        Refusal::Named(words) => (Hindrance::Evict, format!("{waiting}: {words}")),
        Refusal::Unnamed(words) => {
            let names = names(calls, namespace, labels).await;
            (Hindrance::Evict, format!("{waiting}: {words} ({names})"))
        }
        Refusal::Several => {
            let names = names(calls, namespace, labels).await;
            let why = "and the API server evicts no pod that has several: only one may select it";
            (
                Hindrance::EvictAmbiguous,
                format!("{waiting}: it is selected by several budgets ({names}), {why}"),
            )
        }
    }
}

/// The budgets that select pods with these labels, for people.
async fn names(calls: &Calls, namespace: &str, labels: &BTreeMap<String, String>) -> String {
    match calls.budgets(namespace).await {
        Ok((budgets, beta)) => {
            let selecting = budgets.into_iter().filter(|budget| budget.selects(labels, beta));
            let mut names: Vec<_> = selecting.map(|budget| budget.metadata.name).collect();
            names.sort();
            match names.as_slice() {
                [] => "no PodDisruptionBudget selects it any more".to_owned(),
                [name] => format!("PodDisruptionBudget {name}"),
                names => format!("PodDisruptionBudgets {}", names.join(", ")),
            }
        }
        // The refusal stands; who may not list budgets is told that much.
        Err(error) => format!("which ones is not known: {error}"),
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
