//! Kinds with few rules: Namespace, Node, Service, Secret, ConfigMap, Event, Lease, PodDisruptionBudget.

use base64::Engine;
use serde_json::{Value, json};

use super::{
    fields::{entry, fill, items, list, one_of, text},
    names,
    workloads::check_amount,
};
use crate::schema::Cause;

/// Names that must be DNS labels, such as names of namespaces.
pub(super) fn check_label_name(object: &Value, causes: &mut Vec<Cause>) {
    let name = text(&object["metadata"], "name");
    // A name that is not a subdomain was rejected before.
    if !name.is_empty() && names::subdomain(name).is_empty() {
        for detail in names::label(name) {
            causes.push(Cause::invalid("metadata.name", &name.into(), &detail));
        }
    }
}

pub(super) fn check_node(node: &Value, causes: &mut Vec<Cause>) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (i, taint) in list(&node["spec"], "taints").iter().enumerate() {
        // The API server reports this path, although taints are elsewhere.
        let path = format!("metadata.taints[{i}]");
        let (key, effect) = (text(taint, "key"), text(taint, "effect"));
        for detail in names::label_key(key) {
            causes.push(Cause::invalid(&format!("{path}.key"), &key.into(), &detail));
        }
        if effect.is_empty() {
            causes.push(Cause::required(&format!("{path}.effect"), ""));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        one_of(&taint["effect"], &format!("{path}.effect"), &effects, causes);
        if seen.contains(&(key, effect)) {
            causes.push(Cause {
                message: format!(
                    "{}: taints must be unique by key and effect pair",
                    Cause::duplicate("", taint).message
                ),
                ..Cause::duplicate(&path, taint)
            });
        }
        seen.push((key, effect));
    }
}

pub(super) fn prepare_service(service: &mut Value, causes: &mut Vec<Cause>) {
    let name = service["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if !name.is_empty() && !names::is_dns1035(&name) {
        causes.push(Cause::invalid("metadata.name", &name.as_str().into(), names::DNS1035));
    }
    let spec = entry(service, "spec");
    fill(spec, "type", "ClusterIP");
    fill(spec, "sessionAffinity", "None");
    for port in items(spec, "ports") {
        fill(port, "protocol", "TCP");
        let number = port["port"].clone();
        fill(port, "targetPort", number);
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(&spec["type"], "spec.type", &kinds, causes);
    if list(spec, "ports").is_empty() && spec["clusterIP"] != "None" && spec["type"] != "ExternalName" {
        causes.push(Cause::required("spec.ports", ""));
    }
    let several = list(spec, "ports").len() > 1;
    for (i, port) in list(spec, "ports").iter().enumerate() {
        let path = format!("spec.ports[{i}]");
        if several && text(port, "name").is_empty() {
            causes.push(Cause::required(&format!("{path}.name"), ""));
        }
        if !port["port"].as_i64().is_some_and(|n| (1..=65535).contains(&n)) {
            let detail = "must be between 1 and 65535, inclusive";
            causes.push(Cause::invalid(&format!("{path}.port"), &port["port"], detail));
        }
    }
}

pub(super) fn prepare_secret(secret: &mut Value, causes: &mut Vec<Cause>) {
    fill(secret, "type", "Opaque");
    // The client sends plain text; the server stores base64.
    let clear = secret.as_object_mut().and_then(|map| map.remove("stringData"));
    for (key, value) in clear.as_ref().and_then(Value::as_object).into_iter().flatten() {
        let encoded = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
        entry(secret, "data")[key] = json!(encoded);
    }
    check_keys(secret, &["data"], causes);
}

/// Keys are file names in pods that mount the object.
pub(super) fn check_keys(object: &Value, maps: &[&str], causes: &mut Vec<Cause>) {
    for map in maps {
        for key in object[*map].as_object().into_iter().flat_map(serde_json::Map::keys) {
            let is_word =
                !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
            let detail = match key.as_str() {
                "." => "must not be '.'",
                ".." => "must not be '..'",
                key if key.starts_with("..") => "must not start with '..'",
                key if key.len() > 253 => "must be no more than 253 bytes",
                _ if !is_word => {
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
                     or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                }
                _ => continue,
            };
            causes.push(Cause::invalid(&format!("{map}[{key}]"), &key.as_str().into(), detail));
        }
    }
    for key in object["data"].as_object().into_iter().flat_map(serde_json::Map::keys) {
        if object["binaryData"].get(key).is_some() {
            let detail = "duplicate of key present in binaryData";
            causes.push(Cause::invalid(&format!("data[{key}]"), &key.as_str().into(), detail));
        }
    }
}

/// The rules of both event APIs: the event is in the namespace of its object, and an event with an `eventTime` has a
/// reporter and a reason.
pub(super) fn check_event(event: &Value, causes: &mut Vec<Cause>) {
    let about = if event["regarding"].is_object() { &event["regarding"] } else { &event["involvedObject"] };
    let (own, other) = (text(&event["metadata"], "namespace"), text(about, "namespace"));
    // Events about cluster-scoped objects are in `default`.
    let fits = if other.is_empty() { own == "default" } else { own == other };
    if !fits {
        causes.push(Cause::invalid(
            "involvedObject.namespace",
            &other.into(),
            "does not match event.namespace",
        ));
    }
    if text(event, "eventTime").is_empty() {
        return;
    }
    let controller = match text(event, "reportingController") {
        "" => text(event, "reportingComponent"),
        name => name,
    };
    if controller.is_empty() {
        causes.push(Cause::required("reportingController", ""));
    } else {
        for detail in names::label_key(controller) {
            causes.push(Cause::invalid("reportingController", &controller.into(), &detail));
        }
    }
    for field in ["reportingInstance", "action", "reason"] {
        match text(event, field).len() {
            0 => causes.push(Cause::required(field, "")),
            1..=128 => {}
            _ => causes.push(Cause::invalid(field, &"".into(), "can have at most 128 characters")),
        }
    }
    if text(event, "note").len().max(text(event, "message").len()) > 1024 {
        causes.push(Cause::invalid("message", &"".into(), "can have at most 1024 characters"));
    }
}

/// The rules that only events.k8s.io has.
pub(super) fn check_new_event(event: &Value, causes: &mut Vec<Cause>) {
    check_event(event, causes);
    if text(event, "eventTime").is_empty() {
        causes.push(Cause::required("eventTime", ""));
    }
    if !matches!(text(event, "type"), "Normal" | "Warning") {
        let detail = format!("has invalid value: {}", text(event, "type"));
        causes.push(Cause::invalid("type", &"".into(), &detail));
    }
}

pub(super) fn check_lease(lease: &Value, causes: &mut Vec<Cause>) {
    let spec = &lease["spec"];
    for (key, least, detail) in [
        ("leaseDurationSeconds", 1, "must be greater than 0"),
        ("leaseTransitions", 0, "must be greater than or equal to 0"),
    ] {
        if spec[key].as_i64().is_some_and(|n| n < least) {
            causes.push(Cause::invalid(&format!("spec.{key}"), &spec[key], detail));
        }
    }
}

pub(super) fn prepare_budget(budget: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &budget["spec"];
    // Since policy/v1 an update may change the spec, including the selector.
    let unchanged = old.is_some_and(|old| old["spec"] == *spec);
    if unchanged {
        return;
    }
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        causes.push(Cause::invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"));
    }
    check_amount(&spec["minAvailable"], "spec.minAvailable", causes);
    check_amount(&spec["maxUnavailable"], "spec.maxUnavailable", causes);
}
