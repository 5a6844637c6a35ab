//! Deployments, ReplicaSets and PodTemplates: defaults and validation. Of pod specs, it validates the names
//! and images of the containers, and the restart policy.

use serde_json::{Value, json};

use super::defaults::fill_pod_spec;
use crate::names;
use crate::object::{entry, fill, list, text};
use crate::schema::Cause;
use crate::selector::{label_selector, selects};

pub(super) fn prepare_pod_template(object: &mut Value, causes: &mut Vec<Cause>) {
    // Always written.
    entry(entry(object, "template"), "metadata");
    fill_pod_spec(entry(entry(object, "template"), "spec"));
    check_template(&object["template"], "template", causes);
}

pub(super) fn prepare_replica_set(set: &mut Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = entry(set, "spec");
    fill(spec, "replicas", 1);
    fill_pod_spec(entry(entry(spec, "template"), "spec"));
    // The only field of the status that is always written.
    fill(entry(set, "status"), "replicas", 0);
    check_common(&set["spec"], old, causes);
    check_replica_set_status(&set["status"], causes);
}

fn check_replica_set_status(status: &Value, causes: &mut Vec<Cause>) {
    let counts = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    for key in counts {
        not_negative(status, key, "status", causes);
    }
    let number = |key: &str| status[key].as_i64().unwrap_or_default();
    let mut at_most = |key: &str, limit: &str| {
        if number(key) > number(limit) {
            let detail = format!("cannot be greater than status.{limit}");
            causes.push(Cause::invalid(&format!("status.{key}"), &status[key], &detail));
        }
    };
    counts[1..].iter().for_each(|key| at_most(key, "replicas"));
    at_most("availableReplicas", "readyReplicas");
}

pub(super) fn prepare_deployment(deployment: &mut Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = entry(deployment, "spec");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    fill(spec, "progressDeadlineSeconds", 600);
    let strategy = entry(spec, "strategy");
    fill(strategy, "type", "RollingUpdate");
    if strategy["type"] == "RollingUpdate" {
        let rolling = entry(strategy, "rollingUpdate");
        fill(rolling, "maxSurge", "25%");
        fill(rolling, "maxUnavailable", "25%");
    }
    fill_pod_spec(entry(entry(spec, "template"), "spec"));
    check_common(spec, old, causes);
}

fn check_common(spec: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    not_negative(spec, "replicas", "spec", causes);
    not_negative(spec, "minReadySeconds", "spec", causes);
    let (selector, template) = (&spec["selector"], &spec["template"]);
    let labels = label_selector(selector);
    let matches = labels.as_ref().is_some_and(|labels| selects(labels, template));
    if selector.is_null() {
        causes.push(Cause::required("spec.selector", ""));
    } else if labels.is_some_and(|labels| labels.selects_all()) {
        causes.push(Cause::invalid("spec.selector", selector, "empty selector is invalid for deployment"));
    }
    if selector.is_null() || !matches {
        let (field, labels) = ("spec.template.metadata.labels", &template["metadata"]["labels"]);
        causes.push(Cause::invalid(field, labels, "`selector` does not match template `labels`"));
    }
    check_template(template, "spec.template", causes);
    let policy = &template["spec"]["restartPolicy"];
    if *policy != json!("Always") {
        causes.push(Cause::not_supported("spec.template.spec.restartPolicy", policy, &["Always"]));
    }
    if old.is_some_and(|old| old["spec"]["selector"] != *selector) {
        causes.push(Cause::invalid("spec.selector", selector, "field is immutable"));
    }
}

fn not_negative(parent: &Value, key: &str, path: &str, causes: &mut Vec<Cause>) {
    if parent[key].as_i64().is_some_and(|number| number < 0) {
        let detail = "must be greater than or equal to 0";
        causes.push(Cause::invalid(&format!("{path}.{key}"), &parent[key], detail));
    }
}

/// Adds the errors in a pod template.
fn check_template(template: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (key, value) in template["metadata"]["labels"].as_object().into_iter().flatten() {
        let wrong = names::label_key(key).map(|detail| (key.as_str(), detail));
        let value = value.as_str().unwrap_or_default();
        let wrong = wrong.or_else(|| Some((value, names::label_value(value)?)));
        causes.extend(
            wrong.map(|(word, detail)| Cause::invalid(&format!("{path}.labels"), &word.into(), &detail)),
        );
    }
    check_pod_spec(&template["spec"], &format!("{path}.spec"), causes);
}

/// Adds the errors in a pod spec; `path` is the path of the spec.
pub(super) fn check_pod_spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    if list(spec, "containers").is_empty() {
        causes.push(Cause::required(&format!("{path}.containers"), ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    // In the order of the API server. Names are unique across both lists.
    for key in ["containers", "initContainers"] {
        for (i, container) in list(spec, key).iter().enumerate() {
            let path = format!("{path}.{key}[{i}]");
            let (name, field) = (text(container, "name"), format!("{path}.name"));
            if name.is_empty() {
                causes.push(Cause::required(&field, ""));
            } else if let Some(detail) = names::label(name) {
                causes.push(Cause::invalid(&field, &name.into(), &detail));
            } else if seen.contains(&name) {
                causes.push(Cause::duplicate(&field, &name.into()));
            }
            seen.push(name);
            if text(container, "image").is_empty() {
                causes.push(Cause::required(&format!("{path}.image"), ""));
            }
        }
    }
    let (policy, supported) = (&spec["restartPolicy"], ["Always", "OnFailure", "Never"]);
    if !supported.contains(&policy.as_str().unwrap_or_default()) {
        causes.push(Cause::not_supported(&format!("{path}.restartPolicy"), policy, &supported));
    }
}
