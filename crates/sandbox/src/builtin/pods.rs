//! Pods: defaults, validation, and the fields that an update may change.

use serde_json::{Value, json};

use super::defaults::fill_pod_spec;
use super::workloads::check_pod_spec;
use crate::object::{self, entry, fill, items, list, text};
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
    tolerate_short_outages(spec);
    check_pod_spec(spec, "spec", causes);
    if let Some(old) = old {
        check_update(spec, &old["spec"], causes);
    }
    entry(pod, "status");
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

const UPDATES: &str = "the sandbox changes only images in the spec of a pod: `spec.containers[*].image` and \
                       `spec.initContainers[*].image`";

fn check_update(new: &Value, old: &Value, causes: &mut Vec<Cause>) {
    let lists = ["containers", "initContainers"];
    for key in lists {
        if list(new, key).len() != list(old, key).len() {
            let detail = "pod updates may not add or remove containers";
            causes.push(Cause::forbidden(&format!("spec.{key}"), detail));
            return;
        }
    }
    let rest = |spec: &Value| {
        let mut rest = spec.clone();
        // The old object may be stored without defaults.
        fill_pod_spec(&mut rest);
        for key in lists {
            items(&mut rest, key).for_each(|container| object::set(container, "image", None));
        }
        rest
    };
    if rest(new) != rest(old) {
        causes.push(Cause::forbidden("spec", UPDATES));
    }
}
