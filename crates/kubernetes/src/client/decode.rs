//! Decodes objects so that an undecodable one does not hide the others.
//!
//! A list is one document: if decoding fails for one object, the watch shows no objects at all. So each
//! object is first read as plain JSON, then repaired where the API server accepts values that cannot be
//! decoded, and only then decoded. An object that still cannot be decoded is logged and treated as missing;
//! the controller does not guess its content and does not act on it.

use std::borrow::Cow;
use std::fmt::Debug;

use bytes::Bytes;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use kube_runtime::watcher::Event;
use ordereddeployment_api::parse_time;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde_json::{Value, json};

use crate::client::error::RequestError;

/// The deepest nesting of an object. JSON is decoded to a depth of 128. A template can exceed that.
const DEPTH: usize = 100;
/// The depth at which an answer is cut: deeper than any object of [`DEPTH`] in a list, and
/// less deep than the limit of the decoder.
const STREAM_DEPTH: usize = 120;

/// An object, decoded completely or in part.
#[derive(Clone, Debug)]
pub enum Decoded<K> {
    /// The complete object.
    Whole(K),
    /// Only its metadata, and why the rest cannot be decoded.
    Undecodable(K, String),
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for Decoded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        let metadata_only = metadata_only(&value);
        sanitize(&mut value);
        let too_deep = !is_within(&value, DEPTH);
        let why = if too_deep {
            format!("it is nested deeper than {DEPTH} levels")
        } else {
            match serde_json::from_value(value) {
                Ok(object) => return Ok(Self::Whole(object)),
                Err(error) => error.to_string(),
            }
        };
        serde_json::from_value(metadata_only)
            .map(|metadata_only| Self::Undecodable(metadata_only, why))
            .map_err(D::Error::custom)
    }
}

impl<K> Decoded<K> {
    /// The same object as another type.
    pub fn map<T>(self, into: impl FnOnce(K) -> T) -> Decoded<T> {
        match self {
            Self::Whole(object) => Decoded::Whole(into(object)),
            Self::Undecodable(object, why) => Decoded::Undecodable(into(object), why),
        }
    }

    /// The object.
    ///
    /// # Errors
    /// It cannot be decoded.
    pub fn whole(self) -> Result<K, RequestError> {
        match self {
            Self::Whole(object) => Ok(object),
            Self::Undecodable(_, why) => Err(kube::Error::SerdeError(serde_json::Error::custom(why)).into()),
        }
    }
}

impl<K: Resource> Resource for Decoded<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        let (Self::Whole(object) | Self::Undecodable(object, _)) = self;
        object.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        let (Self::Whole(object) | Self::Undecodable(object, _)) = self;
        object.meta_mut()
    }
}

/// The minimal object from which any kind can be decoded, with the metadata that watches need. The owner
/// references show which object it prevents from being reconciled, and the labels whose list it is in.
fn metadata_only(value: &Value) -> Value {
    let keys = ["name", "namespace", "uid", "resourceVersion", "ownerReferences", "labels"];
    let kept = keys.into_iter().filter_map(|key| {
        let field = value.get("metadata")?.get(key)?;
        serde_json::from_value::<ObjectMeta>(json!({key: field}))
            .ok()
            .map(|_| (key.to_owned(), field.clone()))
    });
    json!({"metadata": kept.collect::<serde_json::Map<_, _>>(), "spec": {"selector": {}, "template": {}}})
}

/// kubectl stores the whole object as it was applied, with its template, in this annotation.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Removes large fields that the controller does not read, and repairs values that API servers accept
/// unchecked: times outside of the supported range. Writes patch single fields: the rest stays on the server.
fn sanitize(value: &mut Value) {
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.remove("managedFields");
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    for key in ["creationTimestamp", "deletionTimestamp"] {
        let Some(text) = metadata.get(key).and_then(Value::as_str) else { continue };
        let time = parse_time(text).unwrap_or(jiff::Timestamp::MAX);
        metadata.insert(key.to_owned(), time.to_string().into());
    }
}

fn is_within(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(items) => depth > 0 && items.iter().all(|item| is_within(item, depth - 1)),
        Value::Object(fields) => depth > 0 && fields.values().all(|field| is_within(field, depth - 1)),
        _ => true,
    }
}

fn log_undecodable<K: Resource>(metadata_only: &K, why: &str) {
    let (namespace, name) = (metadata_only.namespace().unwrap_or_default(), metadata_only.name_any());
    tracing::warn!(why, "cannot read {namespace}/{name}, and nothing is done for it");
}

/// The event of an owned object. An object that was known and cannot be decoded any more stays as it was
/// known: if it counted as gone, all objects that it owns would count as gone too.
pub fn decoded_or_known<K: Resource + Debug>(event: Event<Decoded<K>>) -> Option<Event<K>> {
    match event {
        Event::Apply(Decoded::Undecodable(metadata_only, why)) => {
            log_undecodable(&metadata_only, &why);
            None
        }
        other => decoded(other),
    }
}

/// The event of an OrderedDeployment. One that cannot be decoded counts as gone.
pub fn decoded<K: Resource + Debug>(event: Event<Decoded<K>>) -> Option<Event<K>> {
    match event {
        Event::Init => Some(Event::Init),
        Event::InitDone => Some(Event::InitDone),
        Event::InitApply(Decoded::Whole(object)) => Some(Event::InitApply(object)),
        Event::Apply(Decoded::Whole(object)) => Some(Event::Apply(object)),
        Event::Delete(Decoded::Whole(object) | Decoded::Undecodable(object, _)) => {
            Some(Event::Delete(object))
        }
        Event::InitApply(Decoded::Undecodable(metadata_only, why)) => {
            log_undecodable(&metadata_only, &why);
            None
        }
        Event::Apply(Decoded::Undecodable(metadata_only, why)) => {
            log_undecodable(&metadata_only, &why);
            Some(Event::Delete(metadata_only))
        }
    }
}

/// Cuts values that are nested too deeply out of a stream of JSON documents and puts `null` in their place.
#[derive(Debug, Default)]
pub struct DepthLimit {
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl DepthLimit {
    /// The next chunk of the stream, without values that are too deep.
    pub fn piece(&mut self, piece: Bytes) -> Bytes {
        let mut kept: Option<Vec<u8>> = (self.depth > STREAM_DEPTH).then(Vec::new);
        for (at, byte) in piece.iter().enumerate() {
            let was_kept = self.depth <= STREAM_DEPTH;
            let begins = self.step(*byte);
            if was_kept && begins && self.depth > STREAM_DEPTH {
                kept.get_or_insert_with(|| piece[..at].to_vec()).extend_from_slice(b"null");
            } else if was_kept && let Some(kept) = &mut kept {
                kept.push(*byte);
            }
        }
        kept.map_or(piece, Bytes::from)
    }

    /// Whether the byte begins an array or an object.
    fn step(&mut self, byte: u8) -> bool {
        if self.in_string {
            self.in_string = self.escaped || byte != b'"';
            self.escaped = !self.escaped && byte == b'\\';
            return false;
        }
        match byte {
            b'"' => self.in_string = true,
            b'[' | b'{' => {
                self.depth += 1;
                return true;
            }
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        false
    }
}

#[cfg(test)]
#[path = "decode/tests.rs"]
mod tests;
