//! Deployments, ReplicaSets and PodTemplates: defaults and validation.

use serde_json::{Value, json};

use super::{
    container_defaults::fill_pod_spec,
    containers::{check_labels, check_pod_spec},
    fields::{entry, fill, list, not_negative, text},
    names,
};
use crate::schema::Cause;

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
    const COUNTS: [&str; 4] = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    for key in COUNTS.into_iter().chain(["observedGeneration"]) {
        not_negative(status, key, "status", causes);
    }
    let number = |key: &str| status[key].as_i64().unwrap_or_default();
    let mut at_most = |key: &str, limit: &str, name: &str| {
        if number(key) > number(limit) {
            let detail = format!("cannot be greater than {name}");
            causes.push(Cause::invalid(&format!("status.{key}"), &number(key).into(), &detail));
        }
    };
    for key in &COUNTS[1..] {
        at_most(key, "replicas", "status.replicas");
    }
    at_most("availableReplicas", "readyReplicas", "readyReplicas");
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
    let spec = &deployment["spec"];
    check_common(spec, old, causes);
    not_negative(spec, "revisionHistoryLimit", "spec", causes);
    not_negative(spec, "progressDeadlineSeconds", "spec", causes);
    let minimum = spec["minReadySeconds"].as_i64().unwrap_or(0);
    if spec["progressDeadlineSeconds"].as_i64().is_some_and(|deadline| deadline <= minimum) {
        let detail = "must be greater than minReadySeconds";
        causes.push(Cause::invalid("spec.progressDeadlineSeconds", &spec["progressDeadlineSeconds"], detail));
    }
    check_strategy(&spec["strategy"], causes);
}

fn check_common(spec: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    not_negative(spec, "replicas", "spec", causes);
    not_negative(spec, "minReadySeconds", "spec", causes);
    let selector = &spec["selector"];
    let template = &spec["template"];
    let empty = selector["matchLabels"].as_object().is_none_or(serde_json::Map::is_empty)
        && list(selector, "matchExpressions").is_empty();
    let mismatch = || {
        let labels = &template["metadata"]["labels"];
        Cause::invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    };
    if selector.is_null() {
        // A missing selector matches nothing.
        causes.extend([Cause::required("spec.selector", ""), mismatch()]);
    } else if empty {
        let detail = "empty selector is invalid for deployment";
        causes.push(Cause::invalid("spec.selector", selector, detail));
    } else {
        check_labels(&selector["matchLabels"], "spec.selector.matchLabels", causes);
        for (i, expression) in list(selector, "matchExpressions").iter().enumerate() {
            check_expression(expression, &format!("spec.selector.matchExpressions[{i}]"), causes);
        }
        if !selects(selector, &template["metadata"]["labels"]) {
            causes.push(mismatch());
        }
    }
    check_template(template, "spec.template", causes);
    let policy = &template["spec"]["restartPolicy"];
    if policy.as_str().is_some_and(|policy| policy != "Always") {
        causes.push(Cause::not_supported("spec.template.spec.restartPolicy", policy, &["Always"]));
    }
    if !template["spec"]["activeDeadlineSeconds"].is_null() {
        let detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
        causes.push(Cause::forbidden("spec.template.spec.activeDeadlineSeconds", detail));
    }
    if let Some(old) = old
        && old["spec"]["selector"] != *selector
    {
        causes.push(Cause::invalid("spec.selector", selector, "field is immutable"));
    }
}

fn check_template(template: &Value, path: &str, causes: &mut Vec<Cause>) {
    check_labels(&template["metadata"]["labels"], &format!("{path}.labels"), causes);
    for (key, _) in template["metadata"]["annotations"].as_object().into_iter().flatten() {
        for detail in names::label_key(&key.to_lowercase()) {
            causes.push(Cause::invalid(&format!("{path}.annotations"), &key.as_str().into(), &detail));
        }
    }
    check_pod_spec(&template["spec"], &format!("{path}.spec"), causes);
}

fn check_expression(expression: &Value, path: &str, causes: &mut Vec<Cause>) {
    for detail in names::label_key(text(expression, "key")) {
        causes.push(Cause::invalid(&format!("{path}.key"), &expression["key"], &detail));
    }
    let values = list(expression, "values").len();
    match text(expression, "operator") {
        "In" | "NotIn" if values == 0 => causes.push(Cause::required(
            &format!("{path}.values"),
            "must be specified when `operator` is 'In' or 'NotIn'",
        )),
        "Exists" | "DoesNotExist" if values > 0 => causes.push(Cause::forbidden(
            &format!("{path}.values"),
            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        )),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => causes.push(Cause::invalid(
            &format!("{path}.operator"),
            &expression["operator"],
            "not a valid selector operator",
        )),
    }
}

/// Whether a selector matches the labels.
fn selects(selector: &Value, labels: &Value) -> bool {
    let mut equal = selector["matchLabels"].as_object().into_iter().flatten();
    equal.all(|(key, value)| labels.get(key) == Some(value))
        && list(selector, "matchExpressions").iter().all(|expression| {
            let found = labels.get(text(expression, "key"));
            let among = found.is_some_and(|value| list(expression, "values").contains(value));
            match text(expression, "operator") {
                "In" => among,
                "NotIn" => !among,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => true,
            }
        })
}

fn check_strategy(strategy: &Value, causes: &mut Vec<Cause>) {
    let rolling = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "Recreate" if !rolling.is_null() => causes.push(Cause::forbidden(
            "spec.strategy.rollingUpdate",
            "may not be specified when strategy `type` is 'Recreate'",
        )),
        "Recreate" => {}
        "RollingUpdate" => {
            for key in ["maxUnavailable", "maxSurge"] {
                check_amount(&rolling[key], &format!("spec.strategy.rollingUpdate.{key}"), causes);
            }
            let unavailable = &rolling["maxUnavailable"];
            let percent = unavailable.as_str().and_then(|text| text.strip_suffix('%')?.parse::<u64>().ok());
            if percent.is_some_and(|percent| percent > 100) {
                let field = "spec.strategy.rollingUpdate.maxUnavailable";
                causes.push(Cause::invalid(field, unavailable, "must not be greater than 100%"));
            }
            let is_zero = |value: &Value| *value == json!(0) || *value == json!("0%");
            if is_zero(&rolling["maxUnavailable"]) && is_zero(&rolling["maxSurge"]) {
                causes.push(Cause::invalid(
                    "spec.strategy.rollingUpdate.maxUnavailable",
                    &rolling["maxUnavailable"],
                    "may not be 0 when `maxSurge` is 0",
                ));
            }
        }
        _ => causes.push(Cause::not_supported("spec.strategy", strategy, &["Recreate", "RollingUpdate"])),
    }
}

/// A number or a percentage.
pub(super) fn check_amount(value: &Value, field: &str, causes: &mut Vec<Cause>) {
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  \
                              or '93%', regex used for validation is '[0-9]+%')";
                causes.push(Cause::invalid(field, value, detail));
            }
        }
        Value::Number(number) if number.as_i64().is_some_and(|n| n < 0) => {
            causes.push(Cause::invalid(field, value, "must be greater than or equal to 0"));
        }
        _ => {}
    }
}
