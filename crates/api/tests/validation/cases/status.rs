//! The statuses, which the controllers write, and people who resume.

use serde_json::{Map, Value, json};

use super::parts::{TOO_LONG, TOO_MANY, TOO_MANY_PROPERTIES, UNSUPPORTED, int32};
use super::{Case, DEPLOYMENT, REPLICA_SET, keyword, labels, limit, required, text};

/// The limits of the CRDs that stand at several fields: a case at each of them is accepted, and one beyond it
/// is refused.
const TIME: usize = 64;
const SIZES: usize = 1024;
const POINTS: usize = 1024;
const SELECTOR: usize = 400_000;

const NO_TIME: (&str, &str) = ("format date-time", "must be of type date-time");
const NOW: &str = "2025-01-01T00:00:00Z";

/// The objects in the status of a deployment: each with its fields, of which those with a `!` are required. A
/// field is a text of so many characters at most, one of a few words such as this one, a number, a map of
/// sizes, a time or a truth.
const PARTS: [(&str, &str); 13] = [
    (
        "conditions[]",
        "type!:316 status!=True reason!:1024 message!:32768 lastTransitionTime!:time lastUpdateTime!:time",
    ),
    ("rollout", "revision!:int64 templateHash!:253 replicas:int32 scaledFrom:sizes completed:bool"),
    ("rollout.from", "revision!:int64 templateHash!:253 replicas:int32 maxUnavailable:int32"),
    ("rollout.points[]", "id!:512 limit:int32 replicas:int32 side=Before seconds:int64"),
    ("rollout.nodeGroups", "label!:253 open:bool group:253 pods:int32"),
    ("rollout.scaling", "reached!:int32 replicas:int32 updated:int32 old:int32"),
    ("rollout.pause", "limit!:int32 replicas!:int32"),
    (
        "hold",
        "id!:512 pod!:253 podUID!:253 node:253 point!=Before revision!:int64 since!:time until:time \
         elapsed:int64 limit:int32 replicas:int32 sizes:sizes",
    ),
    ("hold.declared", "name!:253 group:253"),
    ("blocked", "id!:512 since!:time"),
    ("passed[]", "id:512 by=Resume podUID:253 resumedAt!:time"),
    ("aborted", "revision!:int64 to!:int64 templateHash!:253 at!:time reason!:1024"),
    ("history[]", "action!=Held id:512 revision!:int64 at!:time reason!:1024"),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = counts(
        DEPLOYMENT,
        &[
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
    );
    cases.extend(counts(
        REPLICA_SET,
        &["replicas", "readyReplicas", "availableReplicas", "terminatingReplicas"],
    ));
    cases.extend(PARTS.iter().flat_map(|(at, fields)| part(at, fields)));
    for (field, most) in [("history[]", 32), ("passed[]", 1024), ("rollout.points[]", POINTS)] {
        cases.push(list(field, most, |_, _| {}));
    }
    let name = |condition: &mut Value, at: usize| condition["type"] = json!(format!("Type{at}"));
    cases.push(list("conditions[]", 16, name));
    let condition = whole("conditions[]");
    let mut other = condition.clone();
    other["type"] = json!("Progressing");
    let both = |one: &Value, other: &Value| json!({"status": {"conditions": [one, other]}});
    cases.push(keyword(
        DEPLOYMENT,
        "status.conditions",
        ("x-kubernetes-list-type", "Duplicate value"),
        both(&condition, &condition),
        vec![both(&condition, &other)],
    ));
    for kind in [DEPLOYMENT, REPLICA_SET] {
        let selector = |length| json!({"status": {"selector": text(length)}});
        cases.push(limit(kind, "status.selector", TOO_LONG, SELECTOR, &selector));
    }
    let resume = |length| json!({"status": {"resumeRequested": text(length)}});
    let mut requested = limit(DEPLOYMENT, "status.resumeRequested", TOO_LONG, 512, &resume);
    requested.passes.push(json!({"status": {"resumeRequested": "*@4"}}));
    cases.push(requested);
    cases
}

fn counts(kind: &'static str, fields: &[&str]) -> Vec<Case> {
    let case =
        |field: &&str| int32(kind, &format!("status.{field}"), &|value| json!({"status": {*field: value}}));
    fields.iter().flat_map(case).collect()
}

/// A field: its name, whether it is required, and its type.
type Field = (&'static str, bool, &'static str);

/// The fields of a part. The type of one of a few words begins with `=`.
fn fields(text: &'static str) -> impl Iterator<Item = Field> {
    text.split_whitespace().map(|field| {
        let end = field.find([':', '=']).unwrap_or(field.len());
        let (name, type_) = field.split_at(end);
        (name.trim_end_matches('!'), name.ends_with('!'), type_.trim_start_matches(':'))
    })
}

/// A valid part with all its fields.
fn whole(at: &str) -> Value {
    let text = PARTS.iter().find(|(name, _)| *name == at).map_or("", |(_, fields)| fields);
    let all = fields(text).map(|(name, _, type_)| {
        let value = match type_ {
            "int32" | "int64" => json!(4),
            "bool" => json!(true),
            "sizes" => json!({"bcdfghjklm": 10}),
            "time" => json!(NOW),
            word => json!(word.strip_prefix('=').unwrap_or("x")),
        };
        (name.to_owned(), value)
    });
    Value::Object(all.collect::<Map<_, _>>())
}

/// A status with this part, in valid ones.
fn wrap(at: &str, part: Value) -> Value {
    let name = |at: &str| at.trim_end_matches("[]").to_owned();
    let value = if at.ends_with("[]") && !part.is_array() { json!([part]) } else { part };
    match at.split_once('.') {
        Some((outer, inner)) => {
            let mut outside = whole(outer);
            outside[name(inner)] = value;
            json!({"status": {outer: outside}})
        }
        None => json!({"status": {name(at): value}}),
    }
}

/// The cases of a part.
fn part(at: &'static str, all: &'static str) -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, is_required, type_) in fields(all) {
        if is_required {
            let mut part = whole(at);
            part.as_object_mut().into_iter().for_each(|fields| _ = fields.remove(name));
            cases.push(required(DEPLOYMENT, &format!("status.{at}"), name, wrap(at, part)));
        }
        let with = |value: Value| {
            let mut part = whole(at);
            part[name] = value;
            wrap(at, part)
        };
        let field = format!("status.{at}.{name}");
        let broken = |says, value| keyword(DEPLOYMENT, &field, says, with(value), vec![wrap(at, whole(at))]);
        let limited = |says, most: usize, value: &dyn Fn(usize) -> Value| {
            limit(DEPLOYMENT, &field, says, most, &|count| with(value(count)))
        };
        match type_ {
            "int64" | "bool" => {}
            "int32" => cases.extend(int32(DEPLOYMENT, &field, &|value| with(json!(value)))),
            "sizes" => {
                let sizes = |count: usize| {
                    let names = labels(count).as_object().map(|all| all.keys().cloned().collect::<Vec<_>>());
                    names.into_iter().flatten().map(|name| (name, json!(1))).collect()
                };
                let size = |value| with(json!({"app": value}));
                cases.extend(int32(DEPLOYMENT, &format!("{field}{{}}"), &size));
                cases.push(limited(TOO_MANY_PROPERTIES, SIZES, &sizes));
            }
            "time" => {
                let time = |length: usize| json!(format!("{}.{}Z", &NOW[..19], "0".repeat(length - 21)));
                cases.push(broken(NO_TIME, json!("yesterday")));
                cases.push(limited(TOO_LONG, TIME, &time));
            }
            word if word.starts_with('=') => cases.push(broken(UNSUPPORTED, json!("Perhaps"))),
            most => {
                let most = most.parse().unwrap_or_default();
                cases.push(limited(TOO_LONG, most, &|length| json!(text(length))));
            }
        }
    }
    cases
}

/// A list of parts, with so many at most.
fn list(at: &'static str, most: usize, change: impl Fn(&mut Value, usize)) -> Case {
    let entries = |count: usize| {
        let all = (0..count).map(|place| {
            let mut part = whole(at);
            change(&mut part, place);
            part
        });
        wrap(at, all.collect())
    };
    let field = format!("status.{}", at.trim_end_matches("[]"));
    keyword(DEPLOYMENT, &field, TOO_MANY, entries(most + 1), vec![entries(most), entries(0)])
}
