//! Pods: defaults, validation, and the fields that an update may change.

use serde_json::{Map, Value, json};

use super::{
    container_defaults::fill_pod_spec,
    containers::{amount, check_pod_spec},
    fields::{entry, fill, items, list, text},
};
use crate::schema::Cause;

pub(super) fn prepare(pod: &mut Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = entry(pod, "spec");
    fill(spec, "enableServiceLinks", true);
    // Admission plugins of the API server add these fields to pods, not to templates.
    if text(spec, "serviceAccountName").is_empty() && text(spec, "serviceAccount").is_empty() {
        spec["serviceAccountName"] = json!("default");
    }
    fill(spec, "priority", 0);
    fill(spec, "preemptionPolicy", "PreemptLowerPriority");
    fill_pod_spec(spec);
    for key in ["containers", "initContainers"] {
        items(spec, key).for_each(request_the_limits);
    }
    if old.is_none() {
        tolerate_short_outages(entry(pod, "spec"));
    }
    check_pod_spec(&pod["spec"], "spec", causes);
    match old {
        None => {
            let class = quality(&pod["spec"]);
            entry(pod, "status")["qosClass"] = json!(class);
        }
        Some(old) => check_update(&pod["spec"], &old["spec"], causes),
    }
}

/// The default tolerations: a pod stays on an unreachable node for five minutes.
fn tolerate_short_outages(spec: &mut Value) {
    let mut tolerations = list(spec, "tolerations").to_vec();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covers = |t: &Value| match text(t, "key") {
            "" => text(t, "operator") == "Exists",
            known => known == key,
        };
        let fits = |t: &Value| covers(t) && matches!(text(t, "effect"), "" | "NoExecute");
        if !tolerations.iter().any(fits) {
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
    spec["tolerations"] = json!(tolerations);
}

/// A limit without a request is also the request.
fn request_the_limits(container: &mut Value) {
    let limits = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
    if limits.is_empty() {
        return;
    }
    let requests = entry(entry(container, "resources"), "requests");
    for (name, limit) in limits {
        fill(requests, &name, limit);
    }
}

fn quality(spec: &Value) -> &'static str {
    let all = || list(spec, "containers").iter().chain(list(spec, "initContainers"));
    let of = |container: &Value, kind: &str, name: &str| {
        amount(&container["resources"][kind][name]).filter(|a| !a.is_zero())
    };
    let none = |c: &Value| {
        ["cpu", "memory"].iter().all(|name| of(c, "limits", name).or(of(c, "requests", name)).is_none())
    };
    let full = |c: &Value| {
        ["cpu", "memory"]
            .iter()
            .all(|name| of(c, "limits", name).is_some_and(|limit| of(c, "requests", name) == Some(limit)))
    };
    if all().all(none) {
        "BestEffort"
    } else if all().all(full) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

const UPDATES: &str = "pod updates may not change fields other than \
                       `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                       `spec.tolerations` (only additions to existing tolerations),\
                       `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

fn check_update(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    for key in ["containers", "initContainers"] {
        if list(new, key).len() != list(old, key).len() {
            causes.push(Cause::forbidden(
                &format!("spec.{key}"),
                "pod updates may not add or remove containers",
            ));
            return;
        }
    }
    check_deadline(new, old, causes);
    check_tolerations(new, old, causes);
    let (mut new_rest, mut old_rest) = (changeable_removed(new), changeable_removed(old));
    // Set the defaults in the old object too: it may be stored without them.
    fill_pod_spec(&mut old_rest);
    if gates_only_removed(new, old) {
        for spec in [&mut new_rest, &mut old_rest] {
            if let Some(map) = spec.as_object_mut() {
                map.remove("schedulingGates");
            }
        }
    }
    let nothing = Map::new();
    let (new_map, old_map) =
        (new_rest.as_object().unwrap_or(&nothing), old_rest.as_object().unwrap_or(&nothing));
    let mut changed: Vec<&String> =
        new_map.keys().chain(old_map.keys()).filter(|key| new_map.get(*key) != old_map.get(*key)).collect();
    changed.sort();
    changed.dedup();
    if !changed.is_empty() {
        let diff: Vec<String> = changed
            .into_iter()
            .map(|key| {
                let shown = |map: &Map<String, Value>| map.get(key).unwrap_or(&Value::Null).to_string();
                format!("- {key}: {}\n+ {key}: {}", shown(old_map), shown(new_map))
            })
            .collect();
        causes.push(Cause::forbidden("spec", &format!("{UPDATES}\n{}", diff.join("\n"))));
    }
}

fn changeable_removed(spec: &Value) -> Value {
    let mut rest = spec.clone();
    for key in ["containers", "initContainers"] {
        for container in items(&mut rest, key) {
            if let Some(map) = container.as_object_mut() {
                map.remove("image");
            }
        }
    }
    if let Some(map) = rest.as_object_mut() {
        map.remove("activeDeadlineSeconds");
        map.remove("tolerations");
        let was_negative = spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|n| n < 0);
        if was_negative {
            map.insert("terminationGracePeriodSeconds".to_owned(), json!(1));
        }
    }
    rest
}

/// An update may set or lower the deadline.
fn check_deadline(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let field = "spec.activeDeadlineSeconds";
    match (old["activeDeadlineSeconds"].as_i64(), new["activeDeadlineSeconds"].as_i64()) {
        (Some(before), Some(after)) if after > before => causes.push(Cause::invalid(
            field,
            &after.into(),
            &format!("must be less than or equal to previous value {before}"),
        )),
        (Some(before), None) => causes.push(Cause::invalid(
            field,
            &Value::Null,
            &format!("must not update from a positive integer ({before}) to nil value"),
        )),
        _ => {}
    }
}

fn check_tolerations(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let kept = |toleration: &Value| {
        list(new, "tolerations").iter().any(|n| {
            // An update may change the `tolerationSeconds` of an existing toleration.
            ["key", "operator", "value", "effect"].iter().all(|key| text(n, key) == text(toleration, key))
        })
    };
    if !list(old, "tolerations").iter().all(kept) {
        causes.push(Cause::forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        ));
    }
}

fn gates_only_removed(new: &Value, old: &Value) -> bool {
    list(new, "schedulingGates").iter().all(|gate| list(old, "schedulingGates").contains(gate))
}
