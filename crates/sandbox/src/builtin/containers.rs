//! Validation of pod specs, for pods and for pod templates.
//!
//! References to other objects, such as claims or secrets, are not checked.

use serde_json::Value;

use super::{
    fields::{list, one_of, text},
    names,
    quantity::Quantity,
};
use crate::schema::Cause;

/// Adds all errors in a pod spec; `path` is the path of the spec.
pub(super) fn check_pod_spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    let volumes = check_volumes(spec, path, causes);
    if list(spec, "containers").is_empty() {
        causes.push(Cause::required(&format!("{path}.containers"), ""));
    }
    let mut seen: Vec<&str> = Vec::new();
    // In the order of the API server. Names are unique across both lists.
    for key in ["containers", "initContainers"] {
        for (i, container) in list(spec, key).iter().enumerate() {
            check_container(container, &format!("{path}.{key}[{i}]"), &volumes, &mut seen, causes);
        }
    }
    one_of(
        &spec["restartPolicy"],
        &format!("{path}.restartPolicy"),
        &["Always", "OnFailure", "Never"],
        causes,
    );
    let dns = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(&spec["dnsPolicy"], &format!("{path}.dnsPolicy"), &dns, causes);

    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        causes.push(Cause::invalid(
            &format!("{path}.activeDeadlineSeconds"),
            &spec["activeDeadlineSeconds"],
            "must be between 1 and 2147483647, inclusive",
        ));
    }
    for (field, value) in
        [("nodeName", text(spec, "nodeName")), ("serviceAccountName", text(spec, "serviceAccountName"))]
    {
        if !value.is_empty() {
            for detail in names::subdomain(value) {
                causes.push(Cause::invalid(&format!("{path}.{field}"), &value.into(), &detail));
            }
        }
    }
    check_labels(&spec["nodeSelector"], &format!("{path}.nodeSelector"), causes);
    check_tolerations(spec, path, causes);
}

/// Validates the keys and values of a label map.
pub(super) fn check_labels(labels: &Value, field: &str, causes: &mut Vec<Cause>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        for detail in names::label_key(key) {
            causes.push(Cause::invalid(field, &key.as_str().into(), &detail));
        }
        if let Some(detail) = names::label_value(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid(field, value, &detail));
        }
    }
}

/// The common volume sources, in the order of the API server.
const SOURCES: [&str; 9] = [
    "emptyDir",
    "hostPath",
    "secret",
    "nfs",
    "persistentVolumeClaim",
    "downwardAPI",
    "configMap",
    "projected",
    "csi",
];

fn check_volumes<'a>(spec: &'a Value, path: &str, causes: &mut Vec<Cause>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for (i, volume) in list(spec, "volumes").iter().enumerate() {
        let field = format!("{path}.volumes[{i}].name");
        check_name(text(volume, "name"), &field, &mut seen, causes);
        let given = |source: &&&str| volume.get(**source).is_some_and(|v| !v.is_null());
        for source in SOURCES.iter().filter(given).skip(1) {
            let field = format!("{path}.volumes[{i}].{source}");
            causes.push(Cause::forbidden(&field, "may not specify more than 1 volume type"));
        }
    }
    seen
}

/// A unique DNS label.
fn check_name<'a>(name: &'a str, field: &str, seen: &mut Vec<&'a str>, causes: &mut Vec<Cause>) {
    if name.is_empty() {
        causes.push(Cause::required(field, ""));
        return;
    }
    for detail in names::label(name) {
        causes.push(Cause::invalid(field, &name.into(), &detail));
    }
    if seen.contains(&name) {
        causes.push(Cause::duplicate(field, &name.into()));
    } else {
        seen.push(name);
    }
}

fn check_container<'a>(
    container: &'a Value,
    path: &str,
    volumes: &[&str],
    seen: &mut Vec<&'a str>,
    causes: &mut Vec<Cause>,
) {
    check_name(text(container, "name"), &format!("{path}.name"), seen, causes);
    let image = text(container, "image");
    if image.is_empty() {
        causes.push(Cause::required(&format!("{path}.image"), ""));
    } else if image != image.trim() {
        let detail = "must not have leading or trailing whitespace";
        causes.push(Cause::invalid(&format!("{path}.image"), &image.into(), detail));
    }
    let pull = ["Always", "IfNotPresent", "Never"];
    one_of(&container["imagePullPolicy"], &format!("{path}.imagePullPolicy"), &pull, causes);
    let message = &container["terminationMessagePolicy"];
    if message.as_str().is_some_and(|policy| !matches!(policy, "File" | "FallbackToLogsOnError")) {
        let detail = "must be 'File' or 'FallbackToLogsOnError'";
        causes.push(Cause::invalid(&format!("{path}.terminationMessagePolicy"), message, detail));
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let handlers = ["exec", "httpGet", "tcpSocket", "grpc"];
        if container[probe].is_object() && handlers.iter().all(|handler| container[probe][*handler].is_null())
        {
            causes.push(Cause::required(&format!("{path}.{probe}"), "must specify a handler type"));
        }
    }
    for (i, port) in list(container, "ports").iter().enumerate() {
        check_port(port, &format!("{path}.ports[{i}]"), causes);
    }
    for (i, env) in list(container, "env").iter().enumerate() {
        check_env(env, &format!("{path}.env[{i}]"), causes);
    }
    let mut mounted: Vec<&str> = Vec::new();
    for (i, mount) in list(container, "volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{i}]");
        let (name, place) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            causes.push(Cause::required(&format!("{path}.name"), ""));
        } else if !volumes.contains(&name) {
            causes.push(Cause {
                reason: "FieldValueNotFound",
                message: format!("Not found: \"{name}\""),
                field: format!("{path}.name"),
            });
        }
        if place.is_empty() {
            causes.push(Cause::required(&format!("{path}.mountPath"), ""));
        } else if mounted.contains(&place) {
            causes.push(Cause::invalid(&format!("{path}.mountPath"), &place.into(), "must be unique"));
        }
        mounted.push(place);
    }
    check_resources(&container["resources"], &format!("{path}.resources"), causes);
}

fn check_port(port: &Value, path: &str, causes: &mut Vec<Cause>) {
    let mut check = |key: &str, required: bool| match port[key].as_i64() {
        None | Some(0) if required => causes.push(Cause::required(&format!("{path}.{key}"), "")),
        Some(number) if (required || number != 0) && !(1..=65535).contains(&number) => causes.push(
            Cause::invalid(&format!("{path}.{key}"), &port[key], "must be between 1 and 65535, inclusive"),
        ),
        _ => {}
    };
    check("containerPort", true);
    check("hostPort", false);
    let name = text(port, "name");
    for detail in if name.is_empty() { Vec::new() } else { names::port(name) } {
        causes.push(Cause::invalid(&format!("{path}.name"), &name.into(), detail));
    }
    one_of(&port["protocol"], &format!("{path}.protocol"), &["SCTP", "TCP", "UDP"], causes);
}

fn check_env(env: &Value, path: &str, causes: &mut Vec<Cause>) {
    let name = text(env, "name");
    let printable = name.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=');
    if name.is_empty() {
        causes.push(Cause::required(&format!("{path}.name"), ""));
    } else if !printable {
        let detail = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        causes.push(Cause::invalid(&format!("{path}.name"), &name.into(), detail));
    }
    if !text(env, "value").is_empty() && env["valueFrom"].is_object() {
        let detail = "may not be specified when `value` is not empty";
        causes.push(Cause::invalid(&format!("{path}.valueFrom"), &"".into(), detail));
    }
}

fn check_resources(resources: &Value, path: &str, causes: &mut Vec<Cause>) {
    let amounts = |key: &str| resources[key].as_object().into_iter().flatten();
    for key in ["limits", "requests"] {
        for (name, amount) in amounts(key) {
            let negative = amount.as_str().and_then(Quantity::parse).is_some_and(Quantity::is_negative);
            if negative || amount.as_f64().is_some_and(|n| n < 0.0) {
                let detail = "must be greater than or equal to 0";
                causes.push(Cause::invalid(&format!("{path}.{key}[{name}]"), amount, detail));
            }
        }
    }
    for key in ["limits", "requests"] {
        for (name, _) in amounts(key) {
            let standard = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
            if !standard && !name.starts_with("hugepages-") && !name.contains('/') {
                for detail in [
                    "must be a standard resource type or fully qualified",
                    "must be a standard resource for containers",
                ] {
                    causes.push(Cause::invalid(
                        &format!("{path}.{key}[{name}]"),
                        &name.as_str().into(),
                        detail,
                    ));
                }
            }
        }
    }
    for (name, request) in amounts("requests") {
        let limit = &resources["limits"][name];
        let (Some(wanted), Some(most)) = (amount(request), amount(limit)) else { continue };
        if wanted > most {
            let shown = limit.as_str().map_or_else(|| limit.to_string(), str::to_owned);
            let detail = format!("must be less than or equal to {name} limit of {shown}");
            causes.push(Cause::invalid(&format!("{path}.requests"), request, &detail));
        }
    }
}

/// A quantity, as a string or as a number.
pub(super) fn amount(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        _ => None,
    }
}

fn check_tolerations(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (i, toleration) in list(spec, "tolerations").iter().enumerate() {
        let path = format!("{path}.tolerations[{i}]");
        let operator = text(toleration, "operator");
        if operator == "Exists" && !text(toleration, "value").is_empty() {
            let detail = "value must be empty when `operator` is 'Exists'";
            causes.push(Cause::invalid(&format!("{path}.operator"), &toleration["value"], detail));
        }
        if text(toleration, "key").is_empty() && operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            causes.push(Cause::invalid(&format!("{path}.operator"), &operator.into(), detail));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !text(toleration, "effect").is_empty() {
            one_of(&toleration["effect"], &format!("{path}.effect"), &effects, causes);
        }
        if !matches!(operator, "" | "Equal" | "Exists") {
            causes.push(Cause::not_supported(
                &format!("{path}.operator"),
                &toleration["operator"],
                &["Equal", "Exists"],
            ));
        }
    }
}
