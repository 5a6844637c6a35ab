//! Pods: defaults, validation, and the fields that an update may change.

use serde_json::{Value, json};

use super::defaults::fill_pod_spec;
use super::fields::{entry, fill, items, list, text};
use super::templates::check_pod_spec;
use crate::object;
use crate::schema::Cause;

pub(super) fn prepare(pod: &mut Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = entry(pod, "spec");
    fill(spec, "enableServiceLinks", true);
    // Admission plugins of the API server add these fields to pods, not to templates.
    if old.is_none() && text(spec, "serviceAccountName").is_empty() && text(spec, "serviceAccount").is_empty()
    {
        spec["serviceAccountName"] = json!("default");
    }
    fill(spec, "priority", 0);
    fill(spec, "preemptionPolicy", "PreemptLowerPriority");
    fill_pod_spec(spec);
    for key in ["containers", "initContainers"] {
        items(spec, key).for_each(request_the_limits);
    }
    tolerate_short_outages(spec);
    check_pod_spec(spec, "spec", causes);
    match old {
        None => {
            let class = quality(spec);
            entry(pod, "status")["qosClass"] = json!(class);
        }
        Some(old) => {
            check_update(spec, &old["spec"], causes);
            entry(pod, "status");
        }
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
    let all = || list(spec, "containers").iter().map(|container| &container["resources"]);
    if all().all(|resources| resources["requests"].is_null()) {
        "BestEffort"
    } else if all().all(|resources| {
        let amounts = &resources["limits"];
        amounts["cpu"].is_string() && amounts["memory"].is_string() && *amounts == resources["requests"]
    }) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

const UPDATES: &str = "pod updates may not change fields other than \
                       `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

fn check_update(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    for key in ["containers", "initContainers"] {
        if list(new, key).len() != list(old, key).len() {
            let detail = "pod updates may not add or remove containers";
            causes.push(Cause::forbidden(&format!("spec.{key}"), detail));
            return;
        }
    }
    // An update may set or lower the deadline.
    let deadline = |spec: &Value| spec["activeDeadlineSeconds"].as_i64();
    if let Some(before) = deadline(old).filter(|before| deadline(new).is_none_or(|after| after > *before)) {
        let detail = format!("must be less than or equal to previous value {before}");
        causes.push(Cause::invalid("spec.activeDeadlineSeconds", &new["activeDeadlineSeconds"], &detail));
    }
    let (mut new_rest, mut old_rest) = (changeable_removed(new), changeable_removed(old));
    // Set the defaults in the old object too: it may be stored without them.
    fill_pod_spec(&mut old_rest);
    let is_gate = |gate: &Value| list(old, "schedulingGates").contains(gate);
    if list(new, "schedulingGates").iter().all(is_gate) {
        for spec in [&mut new_rest, &mut old_rest] {
            object::set(spec, "schedulingGates", None);
        }
    }
    let is_kept = |toleration: &Value| {
        list(new, "tolerations").iter().any(|new| {
            // An update may change the `tolerationSeconds` of an existing toleration.
            ["key", "operator", "value", "effect"].iter().all(|key| new[key] == toleration[key])
        })
    };
    if !list(old, "tolerations").iter().all(is_kept) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        causes.push(Cause::forbidden("spec.tolerations", detail));
    }
    if new_rest != old_rest {
        causes.push(Cause::forbidden("spec", UPDATES));
    }
}

/// The spec without the fields that an update may change.
fn changeable_removed(spec: &Value) -> Value {
    let mut rest = spec.clone();
    for key in ["containers", "initContainers"] {
        items(&mut rest, key).for_each(|container| object::set(container, "image", None));
    }
    object::set(&mut rest, "activeDeadlineSeconds", None);
    object::set(&mut rest, "tolerations", None);
    rest
}
