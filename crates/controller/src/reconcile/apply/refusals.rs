//! Which PodDisruptionBudgets refuse an eviction, and why: named by the API server, or looked up.
//!
//! Nothing is decided here, and budgets are read only after a refusal.

use std::collections::BTreeMap;

use ordereddeployment_planner::FailureKind;

use crate::objects::Objects;
use ordereddeployment_kubernetes::{Budget, Refusal};

/// The failure kind of a refused eviction, and a sentence with the names of the budgets.
pub(super) async fn explain(
    requests: &Objects,
    namespace: &str,
    pod: &str,
    labels: &BTreeMap<String, String>,
    refusal: Refusal,
) -> (FailureKind, String) {
    let waiting = format!("Waiting to evict pod {pod}");
    let (names, counted) = match requests.budgets(namespace).await {
        Ok((mut budgets, beta)) => {
            budgets.retain(|budget| budget.selects(labels, beta));
            let counts = budgets.iter().any(|budget| budget.counts(pod));
            (names(&budgets), if counts { COUNTED } else { "" })
        }
        // The refusal is valid; without permission to list budgets the message says so.
        Err(error) => (format!("which ones is not known: {error}"), ""),
    };
    match refusal {
        Refusal::Named(words) => (FailureKind::Evict, format!("{waiting}: {words}{counted}")),
        Refusal::Unnamed(words) => (FailureKind::Evict, format!("{waiting}: {words} ({names}){counted}")),
        Refusal::Several => {
            let why = "and the API server evicts no pod that has several: only one may select it";
            (
                FailureKind::EvictAmbiguous,
                format!("{waiting}: it is selected by several budgets ({names}), {why}"),
            )
        }
    }
}

/// Why a budget refuses an eviction after one that failed. The API server counts it before it compares the
/// version of the pod.
const COUNTED: &str =
    ". The budget counts an eviction of this pod that was not carried out, for two minutes at most";

/// The budgets as text for messages.
fn names(budgets: &[Budget]) -> String {
    let mut names: Vec<_> = budgets.iter().map(Budget::name).collect();
    names.sort_unstable();
    match names.as_slice() {
        [] => "no PodDisruptionBudget selects it any more".to_owned(),
        [name] => format!("PodDisruptionBudget {name}"),
        names => format!("PodDisruptionBudgets {}", names.join(", ")),
    }
}
