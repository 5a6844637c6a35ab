//! Which PodDisruptionBudgets refuse an eviction: named by the API server, or looked up if it does not name them.
//!
//! Nothing is decided here, and budgets are read only after a refusal.

use std::collections::BTreeMap;

use ordereddeployment_planner::FailureKind;

use crate::client::budgets::Budget;
use crate::client::error::Refusal;
use crate::client::requests::Requests;

/// The failure kind of a refused eviction, and a sentence with the names of the budgets.
pub(super) async fn explain(
    requests: &Requests,
    namespace: &str,
    pod: &str,
    labels: &BTreeMap<String, String>,
    refusal: Refusal,
) -> (FailureKind, String) {
    let waiting = format!("Waiting to evict pod {pod}");
    match refusal {
        Refusal::Named(words) => (FailureKind::Evict, format!("{waiting}: {words}")),
        Refusal::Unnamed(words) => {
            let names = names(requests, namespace, labels).await;
            (FailureKind::Evict, format!("{waiting}: {words} ({names})"))
        }
        Refusal::Several => {
            let names = names(requests, namespace, labels).await;
            let why = "and the API server evicts no pod that has several: only one may select it";
            (
                FailureKind::EvictAmbiguous,
                format!("{waiting}: it is selected by several budgets ({names}), {why}"),
            )
        }
    }
}

/// The budgets that select pods with these labels, as text for messages.
async fn names(requests: &Requests, namespace: &str, labels: &BTreeMap<String, String>) -> String {
    match requests.budgets(namespace).await {
        Ok((budgets, beta)) => {
            let selecting = budgets.iter().filter(|budget| budget.selects(labels, beta));
            let mut names: Vec<_> = selecting.map(Budget::name).collect();
            names.sort_unstable();
            match names.as_slice() {
                [] => "no PodDisruptionBudget selects it any more".to_owned(),
                [name] => format!("PodDisruptionBudget {name}"),
                names => format!("PodDisruptionBudgets {}", names.join(", ")),
            }
        }
        // The refusal is valid; without permission to list budgets the message says so.
        Err(error) => format!("which ones is not known: {error}"),
    }
}
