//! For every constraint of the CRDs, changes of a minimal object that break it and nothing else, and changes
//! close by that break nothing. Two read it: the tests beside it, which prove that no constraint is without a
//! case, and `cargo xtask crd-check`, which asks real servers. It knows nothing of how either evaluates a
//! constraint.

#![allow(dead_code, reason = "neither of the two that read it needs all of it")]

mod deployment;
mod parts;
mod status;

use serde_json::{Map, Value, json};

pub(crate) const DEPLOYMENT: &str = "OrderedDeployment";
pub(crate) const REPLICA_SET: &str = "OrderedReplicaSet";

/// One constraint of a CRD's schema, and what breaks it.
pub(crate) struct Case {
    pub(crate) kind: &'static str,
    /// The field that has the constraint, as a path in the schema: `spec.selector.matchExpressions[].key`.
    pub(crate) at: String,
    pub(crate) constraint: Constraint,
    /// Merge patches of the minimal object. Each breaks the constraint and no other.
    pub(crate) breaks: Vec<Value>,
    /// Merge patches of the minimal object that break nothing.
    pub(crate) passes: Vec<Value>,
}

/// What a schema can ask of a field.
pub(crate) enum Constraint {
    /// A CEL rule; its message.
    Rule(&'static str),
    /// A CEL rule that compares with the object as it was; its message.
    Transition(&'static str),
    /// A field that must be there.
    Required(&'static str),
    /// A keyword of the schema, such as `maxLength`, and what the current server says of a value that breaks
    /// it.
    Keyword(&'static str, &'static str),
}

impl Case {
    /// What names the constraint: the same text as the tests make of the CRDs.
    pub(crate) fn id(&self) -> String {
        let Self { kind, at, .. } = self;
        match self.constraint {
            Constraint::Rule(message) | Constraint::Transition(message) => {
                format!("{kind} {at} rule: {message}")
            }
            Constraint::Required(name) => format!("{kind} {at} required: {name}"),
            Constraint::Keyword(keyword, _) => format!("{kind} {at} {keyword}"),
        }
    }

    /// The field that an answer must name.
    pub(crate) fn field(&self) -> String {
        let at = self.at.replace("[]", "[0]").replace("{}", ".app");
        match self.constraint {
            Constraint::Required(name) if at.is_empty() => name.to_owned(),
            Constraint::Required(name) => format!("{at}.{name}"),
            _ => at,
        }
    }

    /// What an answer must say.
    pub(crate) fn says(&self) -> &'static str {
        match self.constraint {
            Constraint::Rule(message) | Constraint::Transition(message) => message,
            Constraint::Required(_) => "Required value",
            Constraint::Keyword(_, says) => says,
        }
    }

    /// Whether it is CEL, which servers before 1.25 do not evaluate.
    pub(crate) fn is_cel(&self) -> bool {
        matches!(self.constraint, Constraint::Rule(_) | Constraint::Transition(_))
    }

    /// Whether a server as old as 1.20 lets it pass.
    pub(crate) fn is_new(&self) -> bool {
        self.is_cel() || matches!(self.constraint, Constraint::Keyword("x-kubernetes-list-type", _))
    }

    /// Whether it takes an update to break it.
    pub(crate) fn is_transition(&self) -> bool {
        matches!(self.constraint, Constraint::Transition(_))
    }

    /// Whether the field is written through the status subresource.
    pub(crate) fn is_of_the_status(&self) -> bool {
        self.at.starts_with("status")
    }

    /// The minimal object with a change.
    pub(crate) fn object(&self, patch: &Value) -> Value {
        let mut object = minimal(self.kind);
        merge(&mut object, patch);
        object
    }
}

/// All cases.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = deployment::cases();
    cases.extend(parts::of_replica_sets());
    cases.extend(status::cases());
    cases
}

/// The smallest valid object of a kind.
pub(crate) fn minimal(kind: &str) -> Value {
    json!({
        "apiVersion": "ordereddeployment.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    })
}

/// A JSON merge patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, change) in changes {
        if change.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

/// A case of a keyword, with one change that breaks it.
fn keyword(
    kind: &'static str,
    at: &str,
    (keyword, says): (&'static str, &'static str),
    breaks: Value,
    passes: Vec<Value>,
) -> Case {
    Case {
        kind,
        at: at.to_owned(),
        constraint: Constraint::Keyword(keyword, says),
        breaks: vec![breaks],
        passes,
    }
}

/// A case of a keyword that limits how much there may be.
fn limit(
    kind: &'static str,
    at: &str,
    says: (&'static str, &'static str),
    most: usize,
    with: &dyn Fn(usize) -> Value,
) -> Case {
    keyword(kind, at, says, with(most + 1), vec![with(most)])
}

/// The changes that `with` makes of each value of a list.
fn each(with: &dyn Fn(Value) -> Value, values: Value) -> Vec<Value> {
    let Value::Array(values) = values else { return vec![] };
    values.into_iter().map(with).collect()
}

/// A case of a field that must be there, with a change that takes it away.
fn required(kind: &'static str, at: &str, name: &'static str, breaks: Value) -> Case {
    let constraint = Constraint::Required(name);
    Case { kind, at: at.to_owned(), constraint, breaks: vec![breaks], passes: vec![] }
}

/// A text of `length` characters.
fn text(length: usize) -> String {
    "x".repeat(length)
}

/// `count` labels, `app: web` among them.
fn labels(count: usize) -> Value {
    let others = (1..count).map(|number| (format!("label-{number}"), json!("x")));
    Value::Object(others.chain([("app".to_owned(), json!("web"))]).collect())
}
