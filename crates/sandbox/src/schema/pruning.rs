//! Drops the fields that a structural schema does not contain.
//!
//! `apiVersion`, `kind` and `metadata` of the object or of an embedded resource always remain.

use serde_json::Value;

use super::node::{Node, child};

const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Prunes a complete object and returns the dropped paths.
pub(super) fn prune_root(object: &mut Value, root: &Node) -> Vec<String> {
    let mut gone = Vec::new();
    prune(object, Some(root), true, "", &mut gone);
    gone
}

fn prune(value: &mut Value, node: Option<&Node>, is_root: bool, path: &str, gone: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let Some(node) = node else {
                gone.extend(map.keys().map(|key| child(path, key)));
                map.clear();
                return;
            };
            let is_resource = is_root || node.embedded;
            map.retain(|key, inner| {
                let path = child(path, key);
                if is_resource && META.contains(&key.as_str()) {
                    return true;
                }
                if let Some(known) = node.of_key(key) {
                    prune(inner, Some(known), false, &path, gone);
                } else if node.preserve {
                    // The value remains with its content.
                } else if node.additional.is_some() {
                    prune(inner, None, false, &path, gone);
                } else {
                    gone.push(path);
                    return false;
                }
                true
            });
        }
        Value::Array(list) => {
            let items = node.and_then(|n| n.items.as_deref());
            if items.is_none() && node.is_some_and(|n| n.preserve) {
                return;
            }
            for (i, inner) in list.iter_mut().enumerate() {
                prune(inner, items, false, &format!("{path}[{i}]"), gone);
            }
        }
        _ => {}
    }
}
