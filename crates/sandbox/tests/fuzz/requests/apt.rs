//! Requests that reach an object: method, content type and name are valid, and the body has an error.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{COLLECTIONS, Sent, accept, merge, operations, query, sound};
use crate::json::{Change, change};

/// What a request does, and to which object.
#[derive(Clone, Copy, Debug)]
enum Verb {
    Create,
    Replace,
    ReplaceSub,
    Merge,
    MergeSub,
    Strategic,
    Operations,
    OperationsSub,
    Apply,
    ApplySub,
    Delete,
    DeleteAll,
    Read,
    List,
    Evict,
    Bind,
}

const VERBS: [Verb; 16] = [
    Verb::Create,
    Verb::Replace,
    Verb::ReplaceSub,
    Verb::Merge,
    Verb::MergeSub,
    Verb::Strategic,
    Verb::Operations,
    Verb::OperationsSub,
    Verb::Apply,
    Verb::ApplySub,
    Verb::Delete,
    Verb::DeleteAll,
    Verb::Read,
    Verb::List,
    Verb::Evict,
    Verb::Bind,
];

/// All parts of a request.
#[derive(Clone, Debug)]
struct Parts {
    collection: (&'static str, &'static str, bool),
    name: &'static str,
    sub: &'static str,
    changes: Vec<Change>,
    merge: Value,
    operations: Value,
    query: String,
    accept: String,
}

pub(super) fn request() -> impl Strategy<Value = Sent> {
    let parts = (
        prop::sample::select(COLLECTIONS.to_vec()),
        prop_oneof![4 => Just("a"), 1 => Just("b"), 1 => Just("c")],
        prop::sample::select(vec!["status", "scale"]),
        prop_oneof![1 => Just(Vec::new()), 4 => proptest::collection::vec(change(), 1..4)],
        merge(),
        operations(),
        prop_oneof![3 => Just(String::new()), 1 => query()],
        prop_oneof![3 => Just("application/json".to_owned()), 1 => accept()],
    )
        .prop_map(|(collection, name, sub, changes, merge, operations, query, accept)| Parts {
            collection,
            name,
            sub,
            changes,
            merge,
            operations,
            query,
            accept,
        });
    // Reads are more frequent: there is one read verb for every two write verbs.
    let verb = prop_oneof![4 => prop::sample::select(VERBS.to_vec()), 1 => Just(Verb::List)];
    (verb, parts).prop_map(|(verb, parts)| parts.send(verb))
}

impl Parts {
    fn send(self, verb: Verb) -> Sent {
        let (base, plural, namespaced) = match verb {
            Verb::Evict | Verb::Bind => COLLECTIONS[0],
            _ => self.collection,
        };
        let name = match plural {
            "customresourcedefinitions" => "gadgets.test.example",
            "nodes" if self.name == "b" => "n1",
            "namespaces" if self.name == "b" => "default",
            _ => self.name,
        };
        let collection = if namespaced {
            format!("{base}/namespaces/default/{plural}")
        } else {
            format!("{base}/{plural}")
        };
        let one = format!("{collection}/{name}");
        let (json, merge, strategic, patch, apply) = (
            "application/json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
            "application/json-patch+json",
            "application/apply-patch+yaml",
        );
        let (method, place, kind, content) = match verb {
            Verb::Create => ("POST", collection, json, self.changed(sound(plural, name))),
            Verb::Replace => ("PUT", one, json, self.changed(sound(plural, name))),
            Verb::Apply => ("PATCH", one, apply, self.changed(sound(plural, name))),
            Verb::ReplaceSub | Verb::ApplySub => {
                let scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "spec": {"replicas": 3},
                                   "metadata": {"name": name, "namespace": "default"}});
                let object = if self.sub == "scale" { scale } else { sound(plural, name) };
                let (method, kind) =
                    if matches!(verb, Verb::ApplySub) { ("PATCH", apply) } else { ("PUT", json) };
                (method, format!("{one}/{}", self.sub), kind, self.changed(object))
            }
            Verb::Merge => ("PATCH", one, merge, self.merge),
            Verb::MergeSub => ("PATCH", format!("{one}/{}", self.sub), merge, self.merge),
            Verb::Strategic => ("PATCH", one, strategic, self.merge),
            Verb::Operations => ("PATCH", one, patch, self.operations),
            Verb::OperationsSub => ("PATCH", format!("{one}/{}", self.sub), patch, self.operations),
            Verb::Delete => ("DELETE", one, json, self.changed(json!({"propagationPolicy": "Foreground"}))),
            Verb::DeleteAll => ("DELETE", collection, json, self.changed(json!({"gracePeriodSeconds": 2}))),
            Verb::Read => ("GET", one, json, Value::Null),
            Verb::List => ("GET", collection, json, Value::Null),
            Verb::Evict => {
                let eviction =
                    json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
                ("POST", format!("{one}/eviction"), json, self.changed(eviction))
            }
            Verb::Bind => {
                let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                                     "target": {"kind": "Node", "name": "n2"}});
                ("POST", format!("{one}/binding"), json, self.changed(binding))
            }
        };
        Sent {
            method: method.to_owned(),
            path: place,
            query: self.query,
            headers: vec![("accept".into(), self.accept), ("content-type".into(), kind.into())],
            body: if content.is_null() { Vec::new() } else { content.to_string().into_bytes() },
        }
    }

    fn changed(&self, mut object: Value) -> Value {
        for change in &self.changes {
            change.apply(&mut object);
        }
        object
    }
}
