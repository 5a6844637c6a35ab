//! The kinds with few rules: namespaces, nodes, services, secrets, config maps, events, leases, budgets.

use base64::Engine;
use serde_json::{Value, json};

use super::{entry, fill, items, list, names, one_of, text, workloads::check_amount};
use crate::schema::Cause;

/// Names that are also host names, such as those of namespaces.
pub(super) fn check_label_name(object: &Value, causes: &mut Vec<Cause>) {
    let name = text(&object["metadata"], "name");
    // A name that is no subdomain either has been refused already.
    if !name.is_empty() && names::subdomain(name).is_empty() {
        for detail in names::label(name) {
            causes.push(Cause::invalid("metadata.name", &name.into(), &detail));
        }
    }
}

pub(super) fn check_node(node: &Value, causes: &mut Vec<Cause>) {
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (i, taint) in list(&node["spec"], "taints").iter().enumerate() {
        let path = format!("spec.taints[{i}]");
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
    // Written in clear, stored encoded.
    let clear = secret.as_object_mut().and_then(|map| map.remove("stringData"));
    for (key, value) in clear.as_ref().and_then(Value::as_object).into_iter().flatten() {
        let encoded = base64::engine::general_purpose::STANDARD.encode(value.as_str().unwrap_or_default());
        entry(secret, "data")[key] = json!(encoded);
    }
    check_keys(secret, &["data"], causes);
}

pub(super) fn check_keys(object: &Value, maps: &[&str], causes: &mut Vec<Cause>) {
    for map in maps {
        for key in object[*map].as_object().into_iter().flat_map(serde_json::Map::keys) {
            let word = key.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b));
            if !word || key.is_empty() || key == "." || key.starts_with("..") || key.len() > 253 {
                causes.push(Cause::invalid(
                    &format!("{map}[{key}]"),
                    &key.as_str().into(),
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
                     or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
                ));
            }
        }
    }
}

/// The namespace of what a core event is about; nothing about one without namespace stands outside of `default`.
pub(super) fn check_event(event: &Value, causes: &mut Vec<Cause>) {
    let about = &event["involvedObject"];
    let (own, other) = (text(&event["metadata"], "namespace"), text(about, "namespace"));
    let fits = if other.is_empty() { own == "default" } else { own == other };
    if !fits {
        causes.push(Cause::invalid(
            "involvedObject.namespace",
            &other.into(),
            "does not match event.namespace",
        ));
    }
}

/// The newer event API demands more of those who write.
pub(super) fn check_new_event(event: &Value, causes: &mut Vec<Cause>) {
    let about = &event["regarding"];
    let (own, other) = (text(&event["metadata"], "namespace"), text(about, "namespace"));
    let fits = if other.is_empty() { own == "default" } else { own == other };
    if !fits {
        causes.push(Cause::invalid(
            "involvedObject.namespace",
            &other.into(),
            "does not match event.namespace",
        ));
    }
    if text(event, "eventTime").is_empty() {
        causes.push(Cause::required("eventTime", ""));
    }
    for (field, limit) in
        [("reportingController", usize::MAX), ("reportingInstance", 128), ("action", 128), ("reason", 128)]
    {
        let value = text(event, field);
        if value.is_empty() {
            causes.push(Cause::required(field, ""));
        } else if value.len() > limit {
            let detail = format!("can have at most {limit} characters");
            causes.push(Cause::invalid(field, &"".into(), &detail));
        }
    }
    let controller = text(event, "reportingController");
    if !controller.is_empty() {
        for detail in names::label_key(controller) {
            causes.push(Cause::invalid("reportingController", &controller.into(), &detail));
        }
    }
    if !matches!(text(event, "type"), "Normal" | "Warning") {
        let detail = format!("has invalid value: {}", text(event, "type"));
        causes.push(Cause::invalid("type", &"".into(), &detail));
    }
    if text(event, "note").len() > 1024 {
        causes.push(Cause::invalid("note", &"".into(), "can have at most 1024 bytes"));
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
    if spec["holderIdentity"] == "" {
        causes.push(Cause::invalid("spec.holderIdentity", &"".into(), "must not be empty"));
    }
}

pub(super) fn prepare_budget(budget: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &budget["spec"];
    // Its spec can change since policy/v1, the selector included.
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
