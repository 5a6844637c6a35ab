//! The statuses, which the controllers write, and people who resume.

use serde_json::{Value, json};

use super::parts::{TOO_LONG, TOO_MANY, TOO_MANY_PROPERTIES, UNSUPPORTED, int32};
use super::{Case, Constraint, DEPLOYMENT, REPLICA_SET, keyword, labels, text};

/// The limits of the CRDs: a case at each of them is accepted, and one beyond it is refused.
mod limits {
    pub const NAME: usize = 253;
    pub const ID: usize = 512;
    pub const REASON: usize = 1024;
    pub const TYPE: usize = 316;
    pub const MESSAGE: usize = 32_768;
    pub const TIME: usize = 64;
    pub const SELECTOR: usize = 400_000;
    pub const CONDITIONS: usize = 16;
    pub const PASSED: usize = 1024;
    pub const POINTS: usize = 1024;
    pub const SIZES: usize = 1024;
}

const NO_TIME: (&str, &str) = ("format date-time", "must be of type date-time");
const NOW: &str = "2025-01-01T00:00:00Z";

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
    cases.extend(conditions());
    let parts = [
        rollout(),
        rollout_from(),
        rollout_points(),
        rollout_node_groups(),
        rollout_scaling(),
        rollout_pause(),
        rollout_suspended(),
        hold(),
        hold_declared(),
        blocked(),
        passed(),
        passed_points(),
        aborted(),
        history(),
        pause(),
    ];
    cases.extend(parts.iter().flat_map(Part::cases));
    cases.push(list("history", 32, |_| history().whole));
    cases.push(list("passed", limits::PASSED, |_| passed().whole));
    cases.push(list("passedPoints", limits::PASSED, |_| passed_points().whole));
    cases.push(keyword(
        DEPLOYMENT,
        "status.rollout.points",
        TOO_MANY,
        rollout_with("points", vec![rollout_points().whole; limits::POINTS + 1].into()),
        vec![rollout_with("points", vec![rollout_points().whole; limits::POINTS].into())],
    ));
    cases.push(list("conditions", limits::CONDITIONS, |at| {
        let mut condition = condition().whole;
        condition["type"] = json!(format!("Type{at}"));
        condition
    }));
    for kind in [DEPLOYMENT, REPLICA_SET] {
        let selector = |length: usize| json!({"status": {"selector": text(length)}});
        let most = limits::SELECTOR;
        cases.push(keyword(kind, "status.selector", TOO_LONG, selector(most + 1), vec![selector(most)]));
    }
    let resume = |request: String| json!({"status": {"resumeRequested": request}});
    cases.push(keyword(
        DEPLOYMENT,
        "status.resumeRequested",
        ("maxLength", "Too long"),
        resume(text(513)),
        vec![resume(text(512)), resume("*@4".to_owned())],
    ));
    cases
}

fn counts(kind: &'static str, fields: &[&str]) -> Vec<Case> {
    let case =
        |field: &&str| int32(kind, &format!("status.{field}"), &|value| json!({"status": {*field: value}}));
    fields.iter().flat_map(case).collect()
}

/// An object in the status: all its fields, and what may stand in none of them.
struct Part {
    at: &'static str,
    whole: Value,
    required: &'static [&'static str],
    wrap: fn(Value) -> Value,
    /// Fields that take an `int32`.
    numbers: &'static [&'static str],
    /// Fields with another keyword, what the server says, and a value that breaks it.
    broken: Vec<(&'static str, (&'static str, &'static str), Value)>,
    /// Texts, times and sizes with their limits.
    limits: &'static [(&'static str, usize)],
}

impl Part {
    fn cases(&self) -> Vec<Case> {
        let required = self.required.iter().map(|name| {
            let mut part = self.whole.clone();
            if let Some(fields) = part.as_object_mut() {
                fields.remove(*name);
            }
            Case {
                kind: DEPLOYMENT,
                at: self.at.to_owned(),
                constraint: Constraint::Required(name),
                breaks: vec![(self.wrap)(part)],
                passes: vec![],
            }
        });
        let numbers = self.numbers.iter().flat_map(|field| {
            int32(DEPLOYMENT, &format!("{}.{field}", self.at), &|value| {
                let mut part = self.whole.clone();
                match field.strip_suffix("{}") {
                    Some(name) => part[name] = json!({"app": value}),
                    None => part[*field] = json!(value),
                }
                (self.wrap)(part)
            })
        });
        let broken = self.broken.iter().map(|(field, says, value)| {
            let mut part = self.whole.clone();
            part[*field] = value.clone();
            let passes = vec![(self.wrap)(self.whole.clone())];
            keyword(DEPLOYMENT, &format!("{}.{field}", self.at), *says, (self.wrap)(part), passes)
        });
        let limited = self.limits.iter().map(|(field, most)| {
            let with = |length: usize| {
                let mut part = self.whole.clone();
                part[*field] = match &part[*field] {
                    Value::String(now) if now == NOW => {
                        json!(format!("{}.{}Z", &NOW[..19], "0".repeat(length - 21)))
                    }
                    Value::Object(_) => labels(length)
                        .as_object()
                        .into_iter()
                        .flatten()
                        .map(|(key, _)| (key.clone(), json!(1)))
                        .collect(),
                    _ => json!(text(length)),
                };
                (self.wrap)(part)
            };
            let says = if self.whole[*field].is_object() { TOO_MANY_PROPERTIES } else { TOO_LONG };
            keyword(DEPLOYMENT, &format!("{}.{field}", self.at), says, with(most + 1), vec![with(*most)])
        });
        required.chain(numbers).chain(broken).chain(limited).collect()
    }
}

/// A list with so many entries at most.
fn list(field: &str, most: usize, entry: impl Fn(usize) -> Value) -> Case {
    let entries = |count: usize| json!({"status": {field: (0..count).map(&entry).collect::<Vec<_>>()}});
    keyword(
        DEPLOYMENT,
        &format!("status.{field}"),
        TOO_MANY,
        entries(most + 1),
        vec![entries(most), entries(0)],
    )
}

fn condition() -> Part {
    Part {
        at: "status.conditions[]",
        whole: json!({
            "type": "Available", "status": "True", "reason": "Enough", "message": "Enough pods are available.",
            "lastTransitionTime": NOW, "lastUpdateTime": NOW,
        }),
        required: &["type", "status", "reason", "message", "lastTransitionTime", "lastUpdateTime"],
        wrap: |condition| json!({"status": {"conditions": [condition]}}),
        numbers: &[],
        broken: vec![
            ("status", UNSUPPORTED, json!("true")),
            ("lastTransitionTime", NO_TIME, json!("yesterday")),
            ("lastUpdateTime", NO_TIME, json!("yesterday")),
        ],
        limits: &[
            ("type", limits::TYPE),
            ("reason", limits::REASON),
            ("message", limits::MESSAGE),
            ("lastTransitionTime", limits::TIME),
            ("lastUpdateTime", limits::TIME),
        ],
    }
}

fn conditions() -> Vec<Case> {
    let part = condition();
    let twice = json!({"status": {"conditions": [part.whole, part.whole]}});
    let mut other = part.whole.clone();
    other["type"] = json!("Progressing");
    let both = json!({"status": {"conditions": [part.whole, other]}});
    let keyed = keyword(
        DEPLOYMENT,
        "status.conditions",
        ("x-kubernetes-list-type", "Duplicate value"),
        twice,
        vec![both],
    );
    part.cases().into_iter().chain([keyed]).collect()
}

fn rollout() -> Part {
    Part {
        at: "status.rollout",
        whole: json!({
            "revision": 4, "templateHash": "bcdfghjklm", "replicas": 10, "scaledFrom": {"bcdfghjklm": 10},
            "completed": true,
        }),
        required: &["revision", "templateHash"],
        wrap: |rollout| json!({"status": {"rollout": rollout}}),
        numbers: &["replicas", "scaledFrom{}"],
        broken: vec![],
        limits: &[("templateHash", limits::NAME), ("scaledFrom", limits::SIZES)],
    }
}

/// A rollout with one more field.
fn rollout_with(field: &str, value: Value) -> Value {
    let mut rollout = rollout().whole;
    rollout[field] = value;
    json!({"status": {"rollout": rollout}})
}

fn rollout_from() -> Part {
    Part {
        at: "status.rollout.from",
        whole: json!({"revision": 3, "templateHash": "nopqrstvwx", "replicas": 10, "maxUnavailable": 1}),
        required: &["revision", "templateHash"],
        wrap: |from| rollout_with("from", from),
        numbers: &["replicas", "maxUnavailable"],
        broken: vec![],
        limits: &[("templateHash", limits::NAME)],
    }
}

fn rollout_points() -> Part {
    Part {
        at: "status.rollout.points[]",
        whole: json!({"id": "web-x@4", "limit": 3, "replicas": 10, "side": "Before", "seconds": 600}),
        required: &["id"],
        wrap: |point| rollout_with("points", json!([point])),
        numbers: &["limit", "replicas"],
        broken: vec![("side", UNSUPPORTED, json!("before"))],
        limits: &[("id", limits::ID)],
    }
}

fn rollout_node_groups() -> Part {
    Part {
        at: "status.rollout.nodeGroups",
        whole: json!({"label": "zone", "open": true, "group": "zone-a", "pods": 3}),
        required: &["label"],
        wrap: |groups| rollout_with("nodeGroups", groups),
        numbers: &["pods"],
        broken: vec![],
        limits: &[("label", limits::NAME), ("group", limits::NAME)],
    }
}

fn rollout_scaling() -> Part {
    Part {
        at: "status.rollout.scaling",
        whole: json!({"reached": 10, "replicas": 8, "updated": 2, "old": 6}),
        required: &["reached"],
        wrap: |scaling| rollout_with("scaling", scaling),
        numbers: &["reached", "replicas", "updated", "old"],
        broken: vec![],
        limits: &[],
    }
}

fn rollout_pause() -> Part {
    Part {
        at: "status.rollout.pause",
        whole: json!({"limit": 3, "replicas": 10}),
        required: &["limit", "replicas"],
        wrap: |pause| rollout_with("pause", pause),
        numbers: &["limit", "replicas"],
        broken: vec![],
        limits: &[],
    }
}

fn rollout_suspended() -> Part {
    Part { at: "status.rollout.suspended", wrap: |suspended| rollout_with("suspended", suspended), ..pause() }
}

/// A hold at a declared pause point.
fn held(declared: Value) -> Value {
    let mut hold = hold().whole;
    hold["declared"] = declared;
    json!({"status": {"hold": hold}})
}

fn hold_declared() -> Part {
    Part {
        at: "status.hold.declared",
        whole: json!({"name": "canary", "group": "zone-a"}),
        required: &["name"],
        wrap: held,
        numbers: &[],
        broken: vec![],
        limits: &[("name", limits::NAME), ("group", limits::NAME)],
    }
}

fn hold() -> Part {
    Part {
        at: "status.hold",
        whole: json!({
            "id": "web-x@4", "pod": "web-x", "podUID": "1", "node": "n3", "point": "Before", "revision": 4,
            "since": NOW, "until": NOW, "deleted": false, "limit": 3, "left": 60, "replicas": 10,
            "sizes": {"bcdfghjklm": 10},
        }),
        required: &["id", "pod", "podUID", "point", "revision", "since"],
        wrap: |hold| json!({"status": {"hold": hold}}),
        numbers: &["limit", "replicas", "sizes{}"],
        broken: vec![
            ("point", UNSUPPORTED, json!("before")),
            ("since", NO_TIME, json!("yesterday")),
            ("until", NO_TIME, json!("tomorrow")),
        ],
        limits: &[
            ("id", limits::ID),
            ("pod", limits::NAME),
            ("podUID", limits::NAME),
            ("node", limits::NAME),
            ("since", limits::TIME),
            ("until", limits::TIME),
            ("sizes", limits::SIZES),
        ],
    }
}

fn blocked() -> Part {
    Part {
        at: "status.blocked",
        whole: json!({"id": "web-x@4", "since": NOW}),
        required: &["id", "since"],
        wrap: |blocked| json!({"status": {"blocked": blocked}}),
        numbers: &[],
        broken: vec![("since", NO_TIME, json!("yesterday"))],
        limits: &[("id", limits::ID), ("since", limits::TIME)],
    }
}

fn passed() -> Part {
    Part {
        at: "status.passed[]",
        whole: json!({"id": "web-x@4", "by": "Resume", "podUID": "1", "resumedAt": NOW}),
        required: &["resumedAt"],
        wrap: |passed| json!({"status": {"passed": [passed]}}),
        numbers: &[],
        broken: vec![("resumedAt", NO_TIME, json!("yesterday")), ("by", UNSUPPORTED, json!("resume"))],
        limits: &[("id", limits::ID), ("podUID", limits::NAME), ("resumedAt", limits::TIME)],
    }
}

fn passed_points() -> Part {
    Part {
        at: "status.passedPoints[]",
        whole: json!({"name": "zones", "group": "zone-a", "resumedAt": NOW}),
        required: &["name", "resumedAt"],
        wrap: |passed| json!({"status": {"passedPoints": [passed]}}),
        numbers: &[],
        broken: vec![("resumedAt", NO_TIME, json!("yesterday"))],
        limits: &[("name", limits::NAME), ("group", limits::NAME), ("resumedAt", limits::TIME)],
    }
}

fn aborted() -> Part {
    Part {
        at: "status.aborted",
        whole: json!({"revision": 4, "to": 3, "templateHash": "nopqrstvwx", "at": NOW, "reason": "by request"}),
        required: &["revision", "to", "templateHash", "at", "reason"],
        wrap: |aborted| json!({"status": {"aborted": aborted}}),
        numbers: &[],
        broken: vec![("at", NO_TIME, json!("yesterday"))],
        limits: &[("templateHash", limits::NAME), ("at", limits::TIME), ("reason", limits::REASON)],
    }
}

fn history() -> Part {
    Part {
        at: "status.history[]",
        whole: json!({"action": "Held", "id": "canary@4", "revision": 4, "at": NOW, "reason": "until it is resumed"}),
        required: &["action", "revision", "at", "reason"],
        wrap: |entry| json!({"status": {"history": [entry]}}),
        numbers: &[],
        broken: vec![("action", UNSUPPORTED, json!("Paused")), ("at", NO_TIME, json!("yesterday"))],
        limits: &[("id", limits::ID), ("at", limits::TIME), ("reason", limits::REASON)],
    }
}

fn pause() -> Part {
    Part {
        at: "status.pause",
        whole: json!({"replicas": 10, "sizes": {"bcdfghjklm": 10}}),
        required: &["replicas", "sizes"],
        wrap: |pause| json!({"status": {"pause": pause}}),
        numbers: &["replicas", "sizes{}"],
        broken: vec![],
        limits: &[("sizes", limits::SIZES)],
    }
}
