//! Which manager owns which fields: `metadata.managedFields`, for every write of every endpoint.
//!
//! `managed` decides; this module reads the options of the request and knows which endpoint writes which fields.
//! Deletions, bindings and the writes of the server itself change no managers, as in the API server.

use serde_json::{Map, Value, json};

use super::{Ask, State};
use crate::clock::seconds;
use crate::managed::{self, Change, FieldSet, Managers, Shape};
use crate::object;
use crate::render;
use crate::resource::{Origin, ResourceInfo};
use crate::schema::Cause;
use crate::status::Failure;

/// The field of `metadata`.
pub(super) const FIELD: &str = "managedFields";

/// The maximum length of the name of a manager (`validation.FieldManagerMaxLength`).
const NAME_LIMIT: usize = 128;

impl Ask<'_> {
    /// Whether the request applies a configuration. Without managed fields, its content type is unknown.
    pub(super) fn is_apply(&self) -> bool {
        let media = self.call.content_type.split(';').next().unwrap_or_default().trim();
        self.tracked && self.call.method == http::Method::PATCH && media == "application/apply-patch+yaml"
    }

    /// Rejects invalid options of a write.
    pub(super) fn check_options(&self) -> Result<(), Failure> {
        let method = self.call.method.as_str();
        let kind = match method {
            "POST" => "CreateOptions",
            "PUT" => "UpdateOptions",
            "PATCH" => "PatchOptions",
            _ => return Ok(()),
        };
        if !self.tracked {
            return Ok(());
        }
        let name = self.query.get("fieldManager").unwrap_or_default();
        let mut causes = Vec::new();
        if method == "PATCH" {
            if self.is_apply() && name.is_empty() {
                causes.push(Cause::required("fieldManager", "is required for apply patch"));
            } else if !self.is_apply() && self.query.get("force").is_some() {
                causes.push(Cause::forbidden("force", "may not be specified for non-apply patch"));
            }
        }
        if name.len() > NAME_LIMIT {
            causes.push(Cause {
                reason: "FieldValueTooLong",
                message: format!("Too long: may not be more than {NAME_LIMIT} bytes"),
                field: "fieldManager".into(),
            });
        }
        for (position, character) in name.char_indices().filter(|(_, character)| character.is_control()) {
            let why = format!("invalid character U+{:04X} (at position {position})", u32::from(character));
            causes.push(Cause::invalid("fieldManager", &name.into(), &why));
        }
        if causes.is_empty() { Ok(()) } else { Err(Failure::invalid_options(kind, &causes)) }
    }
}

/// The name of the manager: from the query, or the first part of the user agent.
pub(super) fn manager(ask: &Ask<'_>) -> String {
    if let Some(name) = ask.query.get("fieldManager") {
        return name.to_owned();
    }
    let mut name = String::new();
    let first = ask.call.user_agent.split('/').next().unwrap_or_default();
    for character in first.chars().filter(|character| !character.is_control()) {
        if name.len() + character.len_utf8() > NAME_LIMIT {
            break;
        }
        name.push(character);
    }
    name
}

/// Removes the managed fields from an object.
pub(super) fn take(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove(FIELD)
}

/// The managers of a stored object.
pub(super) fn stored(object: &Value) -> Managers {
    let entries = object.get("metadata").and_then(|meta| meta.get(FIELD));
    entries.and_then(Managers::decode).unwrap_or_default()
}

/// Whether two objects differ at most in the times of their managers: such a write makes no new version.
pub(super) fn is_same(new: &Value, old: &Value) -> bool {
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return new == old };
    same_except(new, old, "metadata", |new, old| {
        let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else { return new == old };
        same_except(new, old, FIELD, |new, old| {
            let (Some(new), Some(old)) = (new.as_array(), old.as_array()) else { return new == old };
            new.len() == old.len()
                && new.iter().zip(old).all(|(new, old)| match (new.as_object(), old.as_object()) {
                    (Some(new), Some(old)) => same_except(new, old, "time", |_, _| true),
                    _ => new == old,
                })
        })
    })
}

/// Whether two maps have the same fields, where `compare` decides about one of them.
fn same_except(
    new: &Map<String, Value>,
    old: &Map<String, Value>,
    field: &str,
    compare: impl Fn(&Value, &Value) -> bool,
) -> bool {
    new.len() == old.len()
        && new.iter().all(|(key, value)| match old.get(key) {
            Some(before) if key == field => compare(value, before),
            before => before == Some(value),
        })
}

/// The fields that the endpoint does not write: `GetResetFields` of the strategies in `pkg/registry`.
pub(super) fn ignored(info: &ResourceInfo, sub: Option<&str>) -> FieldSet {
    match sub {
        Some("status") if info.origin == Origin::Crd => FieldSet::of(&[&["metadata"], &["spec"]]),
        Some("status") => match info.kind.as_str() {
            "Deployment" => FieldSet::of(&[&["spec"], &["metadata", "labels"]]),
            "Pod" => FieldSet::of(&[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ]),
            "CustomResourceDefinition" => FieldSet::of(&[&["metadata"], &["spec"]]),
            _ => FieldSet::of(&[&["spec"]]),
        },
        _ if info.status => FieldSet::of(&[&["status"]]),
        _ => FieldSet::default(),
    }
}

/// The object of a kind without any fields. Go writes structs that are no pointers even if they are empty, so they are
/// never new in an object of a built-in kind.
pub(super) fn empty(info: &ResourceInfo) -> Value {
    if info.origin == Origin::Crd {
        return json!({});
    }
    let template = json!({"metadata": {}, "spec": {"containers": null}});
    let mut empty = match info.kind.as_str() {
        "Pod" => json!({"spec": {"containers": null}}),
        "PodTemplate" => json!({"template": template}),
        "Deployment" => json!({"spec": {"selector": null, "strategy": {}, "template": template}}),
        "ReplicaSet" => json!({"spec": {"selector": null, "template": template}}),
        "Service" => json!({"spec": {}, "status": {"loadBalancer": {}}}),
        "CustomResourceDefinition" => json!({"spec": {"names": {}}}),
        "Node" | "Namespace" | "PodDisruptionBudget" | "ResourceQuota" | "Lease" => json!({"spec": {}}),
        "Event" => json!({"involvedObject": {}, "source": {}, "regarding": {}}),
        _ => json!({}),
    };
    empty["metadata"] = json!({});
    if info.status && empty.get("status").is_none() {
        empty["status"] = json!({});
    }
    empty
}

impl State {
    /// Sets the managed fields of an object that is about to be stored. `given` is what the request sent, or what the
    /// applied configuration led to.
    pub(super) fn own(&self, ask: &Ask<'_>, object: &mut Value, given: Option<Value>, old: Option<&Value>) {
        if !ask.tracked {
            return;
        }
        take(object);
        let encoded = if ask.is_apply() {
            given.unwrap_or_default()
        } else {
            self.updated(ask, object, given.as_ref(), old)
        };
        object::set_meta(object, FIELD, encoded);
    }

    fn updated(&self, ask: &Ask<'_>, object: &Value, given: Option<&Value>, old: Option<&Value>) -> Value {
        let given = given.filter(|_| ask.sub().is_none());
        let is_reset = given.is_some_and(|given| *given == json!([]) || *given == json!([{}]));
        let managers = match given.and_then(Managers::decode).filter(|given| !given.0.is_empty()) {
            _ if is_reset => Managers::default(),
            Some(managers) => managers,
            // A client that does not know the field must not delete it.
            None => old.map(stored).unwrap_or_default(),
        };
        if managers.0.is_empty() && old.is_some() {
            // The managers of such an object are tracked from the first apply on.
            return Value::Null;
        }
        let before = match old {
            Some(old) => {
                let mut old = render::versioned(&ask.info, old);
                take(&mut old);
                old
            }
            None => empty(&ask.info),
        };
        let change = Change {
            manager: &manager(ask),
            version: &ask.info.api_version(),
            subresource: ask.sub().unwrap_or_default(),
            shape: &Shape::of(&ask.info),
            ignored: &ignored(&ask.info, ask.sub()),
            now: &seconds(self.now()),
        };
        managed::update(&before, object, self.served(managers), &change).encode()
    }

    /// Without the managers that wrote in a version that is no longer served.
    pub(super) fn served(&self, mut managers: Managers) -> Managers {
        managers.0.retain(|_, entry| self.registry.iter().any(|info| info.api_version() == entry.version));
        managers
    }
}
