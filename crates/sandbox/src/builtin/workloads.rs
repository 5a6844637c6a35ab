//! Deployments, ReplicaSets and PodTemplates: defaults and validation.

use serde_json::{Value, json};

use super::defaults::fill_pod_spec;
use super::fields::{entry, fill};
use super::templates::check_template;
use crate::schema::Cause;
use crate::selector::{Labels, selector_text};

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
    let text = selector_text(selector);
    let matches = Labels::parse(&text).is_ok_and(|labels| labels.matches(template));
    if selector.is_null() {
        causes.push(Cause::required("spec.selector", ""));
    } else if text.is_empty() {
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
