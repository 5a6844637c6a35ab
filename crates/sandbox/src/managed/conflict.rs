//! Conflicts: fields that an applier changes and another manager owns.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::element::{Element, shown};
use super::managers::Manager;

/// One field in conflict, and its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(crate) manager: Manager,
    pub(crate) path: Vec<Element>,
}

/// The message of the response (`internal/conflict.go` of apimachinery's field manager).
pub(crate) fn message(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", one.manager, shown(&one.path));
    }
    let mut by_manager: BTreeMap<&Manager, Vec<String>> = BTreeMap::new();
    for conflict in conflicts {
        by_manager.entry(&conflict.manager).or_default().push(format!("- {}", shown(&conflict.path)));
    }
    let mut lines = Vec::new();
    for (manager, paths) in by_manager {
        lines.push(format!("conflicts with {manager}:"));
        lines.extend(paths);
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// The causes of the response.
pub(crate) fn causes(conflicts: &[Conflict]) -> Value {
    let cause = |conflict: &Conflict| {
        json!({
            "reason": "FieldManagerConflict", "message": format!("conflict with {}", conflict.manager),
            "field": shown(&conflict.path),
        })
    };
    conflicts.iter().map(cause).collect()
}
