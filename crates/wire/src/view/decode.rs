//! Reads the fields of a pod or of a node. What is large and not read is skipped. A field with an unexpected
//! type counts as absent: one object that cannot be decoded would hide all others of its list.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use ordereddeployment_api::parse_time;
use ordereddeployment_planner::Failed;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::{NodeView, PodView};

/// A pod without its containers and volumes.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Object<Metadata>,
    spec: Object<PodSpec>,
    status: Value,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    node_name: Value,
    init_containers: Value,
}

/// Metadata without the fields that managers own.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: Value,
    namespace: Value,
    uid: Value,
    resource_version: Value,
    labels: Value,
    annotations: Value,
    creation_timestamp: Value,
    deletion_timestamp: Value,
    owner_references: Value,
    managed_fields: List<Object<Written>>,
}

/// Who wrote last, and when.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    manager: Value,
    subresource: Value,
    time: Value,
}

/// A `T` of a JSON list or of a JSON object; of any other JSON, the default, and nothing is built.
#[derive(Default)]
struct Shaped<T, const IS_LIST: bool>(T);

type Object<T> = Shaped<T, false>;
type List<T> = Shaped<Vec<T>, true>;

impl<'de, T: Default + Deserialize<'de>, const IS_LIST: bool> Deserialize<'de> for Shaped<T, IS_LIST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader::<T, IS_LIST>(PhantomData)).map(Self)
    }
}

struct Reader<T, const IS_LIST: bool>(PhantomData<T>);

impl<'de, T: Default + Deserialize<'de>, const IS_LIST: bool> Visitor<'de> for Reader<T, IS_LIST> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_str<E>(self, _: &str) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<T, A::Error> {
        if IS_LIST {
            return T::deserialize(SeqAccessDeserializer::new(list));
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(T::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        if !IS_LIST {
            return T::deserialize(MapAccessDeserializer::new(map));
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(T::default())
    }
}

impl<'de> Deserialize<'de> for PodView {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Shaped(Pod { metadata: Shaped(metadata), spec: Shaped(spec), status }) =
            Object::<Pod>::deserialize(deserializer)?;
        let conditions = || items(&status["conditions"]);
        let ready = conditions().find(|one| one["type"] == "Ready").filter(|one| one["status"] == "True");
        let unscheduled = conditions().find(|one| one["type"] == "PodScheduled" && one["status"] == "False");
        let sidecars: BTreeSet<_> = items(&spec.init_containers)
            .filter(|container| container["restartPolicy"] == "Always")
            .filter_map(|container| container["name"].as_str())
            .collect();
        let is_sidecar =
            |status: &&Value| status["name"].as_str().is_some_and(|name| sidecars.contains(name));
        let view = Self {
            metadata: pod_metadata(&metadata),
            node: spec.node_name.as_str().filter(|name| !name.is_empty()).map(Arc::from),
            phase: text(&status["phase"]),
            ready: ready.is_some(),
            ready_since: ready.and_then(|ready| time(&ready["lastTransitionTime"])),
            restarts: most_restarts(items(&status["containerStatuses"])),
            sidecar_restarts: most_restarts(items(&status["initContainerStatuses"]).filter(is_sidecar)),
            failed: None,
            unscheduled: unscheduled.map(|one| word(&one["message"])),
        };
        let failed = if view.has_ended() { failed(&metadata, &status).map(Box::new) } else { None };
        Ok(Self { failed, ..view })
    }
}

/// The failure of a pod that has ended. One that has succeeded should run, too: restart rules of its
/// containers can end it (KEP 5307). A kubelet that evicts a pod may write no condition, and one that refuses
/// it no container status; the API server's own time is the most reliable one, as nodes' clocks differ.
fn failed(metadata: &Metadata, status: &Value) -> Option<Failed> {
    let created = time(&metadata.creation_timestamp)?;
    let written = metadata.managed_fields.0.iter().filter(|Shaped(entry)| entry.is_status());
    let written = written.filter_map(|Shaped(entry)| time(&entry.time)).max();
    let changed = items(&status["conditions"]).filter_map(|one| time(&one["lastTransitionTime"]));
    let changed = changed.chain(time(&status["startTime"])).max();
    let at = written.or(changed).unwrap_or(created).max(created);
    let reason = match status["phase"].as_str() {
        Some("Succeeded") => "its containers have ended".into(),
        _ => word(&status["reason"]),
    };
    Some(Failed { at, seen: at, reason, message: word(&status["message"]) })
}

impl Written {
    /// Whether it wrote the status. API servers before 1.22 name no subresource.
    fn is_status(&self) -> bool {
        match self.subresource.as_str() {
            Some(subresource) => subresource == "status",
            None => self.manager == "kubelet",
        }
    }
}

impl<'de> Deserialize<'de> for NodeView {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let node = Value::deserialize(deserializer)?;
        let (metadata, spec) = (&node["metadata"], &node["spec"]);
        Ok(Self {
            metadata: ObjectMeta {
                name: text(&metadata["name"]),
                uid: text(&metadata["uid"]),
                resource_version: text(&metadata["resourceVersion"]),
                labels: texts(&metadata["labels"]),
                ..ObjectMeta::default()
            },
            unschedulable: spec["unschedulable"] == true,
            taint_keys: items(&spec["taints"]).filter_map(|taint| text(&taint["key"])).collect(),
        })
    }
}

fn pod_metadata(metadata: &Metadata) -> ObjectMeta {
    let owners = metadata.owner_references.as_array();
    // The deletionTimestamp says that the object is being deleted, whatever its value.
    let deleted = metadata.deletion_timestamp.as_str();
    ObjectMeta {
        name: text(&metadata.name),
        namespace: text(&metadata.namespace),
        uid: text(&metadata.uid),
        resource_version: text(&metadata.resource_version),
        labels: texts(&metadata.labels),
        annotations: texts(&metadata.annotations),
        creation_timestamp: time(&metadata.creation_timestamp).map(Time),
        deletion_timestamp: deleted.map(|text| Time(parse_time(text).unwrap_or(Timestamp::MAX))),
        owner_references: owners.map(|owners| owners.iter().map(owner).collect()),
        ..ObjectMeta::default()
    }
}

fn owner(owner: &Value) -> OwnerReference {
    OwnerReference {
        api_version: text(&owner["apiVersion"]).unwrap_or_default(),
        kind: text(&owner["kind"]).unwrap_or_default(),
        name: text(&owner["name"]).unwrap_or_default(),
        uid: text(&owner["uid"]).unwrap_or_default(),
        controller: owner["controller"].as_bool(),
        block_owner_deletion: owner["blockOwnerDeletion"].as_bool(),
    }
}

fn most_restarts<'v>(statuses: impl Iterator<Item = &'v Value>) -> i32 {
    let counts = statuses.filter_map(|status| status["restartCount"].as_i64());
    counts.max().map_or(0, |most| i32::try_from(most.max(0)).unwrap_or(i32::MAX))
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn texts(value: &Value) -> Option<BTreeMap<String, String>> {
    let entries = value.as_object()?.iter();
    Some(entries.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect())
}

fn word(value: &Value) -> Arc<str> {
    value.as_str().unwrap_or_default().into()
}

fn time(value: &Value) -> Option<Timestamp> {
    parse_time(value.as_str()?)
}
