//! Columns of the built-in kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    age,
    fields::{at, count, found, list, or_none},
    head::{Head, head, integer, text, wide},
    pods,
    workloads::{containers, labels, node_address, node_roles, node_status, ports, selector},
};

pub(super) fn heads(kind: &str) -> Vec<Head> {
    let age = || text("Age");
    let templated = |mut first: Vec<Head>| {
        first.extend([age(), wide("Containers"), wide("Images"), wide("Selector")]);
        first
    };
    let name = text("Name");
    match kind {
        "Pod" => pods::heads(),
        "Node" => vec![
            name,
            text("Status"),
            text("Roles"),
            age(),
            text("Version"),
            wide("Internal-IP"),
            wide("External-IP"),
            wide("OS-Image"),
            wide("Kernel-Version"),
            wide("Container-Runtime"),
        ],
        "Namespace" => vec![name, text("Status"), age()],
        "Event" => vec![
            text("Last Seen"),
            text("Type"),
            text("Reason"),
            text("Object"),
            wide("Subobject"),
            wide("Source"),
            text("Message"),
            wide("First Seen"),
            wide("Count"),
            wide("Name"),
        ],
        "Deployment" => templated(vec![name, text("Ready"), text("Up-to-date"), text("Available")]),
        "ReplicaSet" => templated(vec![name, integer("Desired"), integer("Current"), integer("Ready")]),
        "PodTemplate" => vec![name, text("Containers"), text("Images"), text("Pod Labels")],
        "Lease" => vec![name, text("Holder"), age()],
        "PodDisruptionBudget" => {
            vec![name, text("Min Available"), text("Max Unavailable"), integer("Allowed Disruptions"), age()]
        }
        "ResourceQuota" => vec![name, text("Request"), text("Limit"), age()],
        "Service" => vec![
            name,
            text("Type"),
            text("Cluster-IP"),
            text("External-IP"),
            text("Port(s)"),
            age(),
            wide("Selector"),
        ],
        "ConfigMap" => vec![name, text("Data"), age()],
        "Secret" => vec![name, text("Type"), text("Data"), age()],
        "ServiceAccount" => vec![name, text("Secrets"), age()],
        _ => vec![name, head("Created At", "date", 0)],
    }
}

/// The hard limits of a quota, with the used amounts.
fn quota(object: &Value) -> Vec<(String, String)> {
    let of = |which: &str, what: &str| {
        let amount = object["status"][which][what].as_str();
        amount.unwrap_or("0").to_owned()
    };
    let hard = object["status"]["hard"].as_object().into_iter().flatten();
    hard.map(|(what, _)| (what.clone(), format!("{}/{}", of("used", what), of("hard", what)))).collect()
}

pub(super) fn cells(kind: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = json!(at(object, "metadata.name"));
    let age = || json!(age::since(at(object, "metadata.creationTimestamp"), now));
    let field = |path: &str| json!(at(object, path));
    let amount = |path: &str| json!(count(object, path));
    let template = || {
        let selector = selector(&object["spec"]["selector"]);
        [
            json!(containers(object, "spec.template", "name")),
            json!(containers(object, "spec.template", "image")),
            json!(selector),
        ]
    };
    match kind {
        "Pod" => pods::cells(object, now),
        "Node" => node(object, &age()),
        "Namespace" => vec![name, field("status.phase"), age()],
        "Event" => event(object, now),
        "Deployment" => {
            let ready =
                format!("{}/{}", count(object, "status.readyReplicas"), count(object, "spec.replicas"));
            let mut cells = vec![name, json!(ready)];
            cells.extend(["status.updatedReplicas", "status.availableReplicas"].map(amount));
            cells.push(age());
            cells.extend(template());
            cells
        }
        "ReplicaSet" => {
            let mut cells = vec![name];
            cells.extend(["spec.replicas", "status.replicas", "status.readyReplicas"].map(amount));
            cells.push(age());
            cells.extend(template());
            cells
        }
        "PodTemplate" => {
            let of = |field: &str| json!(containers(object, "template", field));
            vec![name, of("name"), of("image"), json!(labels(&object["template"]["metadata"]["labels"]))]
        }
        "Lease" => vec![name, field("spec.holderIdentity"), age()],
        "PodDisruptionBudget" => {
            let limit = |path: &str| match found(object, path) {
                Some(Value::String(text)) => json!(text),
                Some(Value::Number(number)) => json!(number.to_string()),
                _ => json!("N/A"),
            };
            let allowed = amount("status.disruptionsAllowed");
            vec![name, limit("spec.minAvailable"), limit("spec.maxUnavailable"), allowed, age()]
        }
        "ResourceQuota" => {
            let (limits, requests): (Vec<_>, Vec<_>) =
                quota(object).into_iter().partition(|(what, _)| what.starts_with("limits."));
            let text = |amounts: Vec<(String, String)>| {
                let amounts = amounts.into_iter().map(|(what, amount)| format!("{what}: {amount}"));
                json!(amounts.collect::<Vec<_>>().join(", "))
            };
            vec![name, text(requests), text(limits), age()]
        }
        "Service" => vec![
            name,
            field("spec.type"),
            json!(or_none(at(object, "spec.clusterIP"))),
            json!(external_ip(object)),
            json!(or_none(&ports(object))),
            age(),
            json!(selector(&json!({"matchLabels": object["spec"]["selector"]}))),
        ],
        "ConfigMap" => {
            vec![name, json!((size(object, "data") + size(object, "binaryData")).to_string()), age()]
        }
        "Secret" => vec![name, field("type"), json!(size(object, "data")), age()],
        "ServiceAccount" => vec![name, json!(list(object, "secrets").len().to_string()), age()],
        _ => vec![name, field("metadata.creationTimestamp")],
    }
}

fn size(object: &Value, key: &str) -> usize {
    object[key].as_object().map_or(0, serde_json::Map::len)
}

fn external_ip(service: &Value) -> &str {
    match at(service, "spec.type") {
        "LoadBalancer" => "<pending>",
        "ExternalName" => at(service, "spec.externalName"),
        _ => "<none>",
    }
}

fn node(node: &Value, age: &Value) -> Vec<Value> {
    let about = |field: &str| {
        let value = at(node, &format!("status.nodeInfo.{field}"));
        json!(if value.is_empty() { "<unknown>" } else { value })
    };
    vec![
        json!(at(node, "metadata.name")),
        json!(node_status(node)),
        json!(or_none(&node_roles(node))),
        age.clone(),
        json!(at(node, "status.nodeInfo.kubeletVersion")),
        json!(or_none(node_address(node, "InternalIP"))),
        json!(or_none(node_address(node, "ExternalIP"))),
        about("osImage"),
        about("kernelVersion"),
        about("containerRuntimeVersion"),
    ]
}

/// Events of both APIs; events.k8s.io has other field names.
fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let first =
        |paths: &[&str]| paths.iter().map(|p| at(event, p)).find(|v| !v.is_empty()).unwrap_or_default();
    let about = if event["regarding"].is_object() { &event["regarding"] } else { &event["involvedObject"] };
    let started = first(&["firstTimestamp", "deprecatedFirstTimestamp", "eventTime"]);
    let last = first(&[
        "series.lastObservedTime",
        "lastTimestamp",
        "deprecatedLastTimestamp",
        "eventTime",
        "firstTimestamp",
    ]);
    let times = [count(event, "series.count"), count(event, "count"), count(event, "deprecatedCount")];
    let component = first(&["source.component", "deprecatedSource.component", "reportingComponent"]);
    let component = if component.is_empty() { at(event, "reportingController") } else { component };
    let host = first(&["source.host", "deprecatedSource.host"]);
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    vec![
        json!(age::since(last, now)),
        json!(at(event, "type")),
        json!(at(event, "reason")),
        json!(format!("{}/{}", at(about, "kind").to_lowercase(), at(about, "name"))),
        json!(at(about, "fieldPath")),
        json!(source),
        json!(first(&["message", "note"]).trim()),
        json!(age::since(started, now)),
        json!(times.into_iter().find(|&n| n > 0).unwrap_or(1).to_string()),
        json!(at(event, "metadata.name")),
    ]
}
