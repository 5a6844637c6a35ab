//! The spec of a Rollout of Argo Rollouts (`argoproj.io`) as that of an OrderedDeployment. Pure functions.

use ordereddeployment_api::parse_pause_duration;
use serde_json::{Map, Value, json};

const GROUP: &str = "argoproj.io/";
/// Fields of the spec that an OrderedDeployment has too, with the same meaning.
const KEPT: [&str; 7] = [
    "replicas",
    "selector",
    "template",
    "minReadySeconds",
    "revisionHistoryLimit",
    "paused",
    "progressDeadlineSeconds",
];

pub(super) fn is_rollout(object: &Value) -> bool {
    object["kind"] == "Rollout"
        && object["apiVersion"].as_str().is_some_and(|version| version.starts_with(GROUP))
}

/// Why the Rollout cannot be converted at all.
pub(super) fn refusal(object: &Value) -> Option<&'static str> {
    let is_other = object["spec"]["workloadRef"].is_object();
    is_other.then_some("its template is that of another object (workloadRef); convert that one")
}

/// The spec of the OrderedDeployment. Notes say what is not converted.
pub(super) fn spec(rollout: &Value, name: &str, notes: &mut Vec<String>) -> Value {
    let Some(given) = rollout.as_object() else { return rollout.clone() };
    let mut notes = Notes { name, notes };
    let mut spec: Map<String, Value> = Map::new();
    let mut dropped = Vec::new();
    for (field, value) in given.iter().filter(|(_, value)| !value.is_null()) {
        match field.as_str() {
            kept if KEPT.contains(&kept) => _ = spec.insert(field.clone(), value.clone()),
            "strategy" => _ = spec.insert(field.clone(), strategy(value, &mut notes)),
            "progressDeadlineAbort" if *value == json!(true) => {
                spec.insert("progressDeadlineAction".to_owned(), "Abort".into());
            }
            "progressDeadlineAbort" => {}
            other => dropped.push(other),
        }
    }
    notes.removed(&dropped);
    Value::Object(spec)
}

fn strategy(given: &Value, notes: &mut Notes<'_>) -> Value {
    let mut strategy = json!({"type": "RollingUpdate"});
    if given["blueGreen"].is_object() {
        notes.add("blueGreen is not converted: the pods are replaced by a rolling update");
    }
    let Some(canary) = given["canary"].as_object() else { return strategy };
    let mut dropped = Vec::new();
    for (field, value) in canary.iter().filter(|(_, value)| !value.is_null()) {
        match field.as_str() {
            "maxSurge" | "maxUnavailable" => strategy["rollingUpdate"][field] = value.clone(),
            "steps" => {}
            other => dropped.push(other),
        }
    }
    notes.removed(&dropped);
    let points = points(canary.get("steps").and_then(Value::as_array).map_or(&[], Vec::as_slice), notes);
    if !points.is_empty() {
        strategy["pausePoints"] = points.into();
    }
    strategy
}

/// A pause after a weight is a pause point.
fn points(steps: &[Value], notes: &mut Notes<'_>) -> Vec<Value> {
    let mut points: Vec<Value> = Vec::new();
    // The weight so far, whether a pause follows it, and the weight of the last pause point.
    let (mut weight, mut is_used, mut last) = (0, true, 0);
    for (step, number) in steps.iter().zip(1..) {
        if let Some(next) = step["setWeight"].as_i64() {
            if !is_used {
                notes.without_pause(weight);
            }
            // Every rollout begins at 0 and ends at 100.
            (weight, is_used) = (next, next <= 0 || next >= 100);
        } else if let Some(pause) = step.get("pause") {
            is_used = true;
            let why = match weight {
                ..=0 => Some("no pod is updated before it".to_owned()),
                100.. => Some("no old pod would be left".to_owned()),
                _ if weight < last => Some(format!("its weight {weight} is less than {last} before")),
                _ => None,
            };
            if let Some(why) = why {
                notes.add(&format!("step {number} (pause) is not converted: {why}"));
                continue;
            }
            last = weight;
            let mut point = json!({"name": free_name(weight, &points), "afterUpdated": format!("{weight}%")});
            match duration(&pause["duration"]) {
                Ok(Some(duration)) => point["duration"] = duration.into(),
                Ok(None) => {}
                Err(shown) => notes.add(&format!(
                    "step {number} (pause) pauses until it is resumed: {shown} is not a duration"
                )),
            }
            points.push(point);
        } else {
            let kind = step.as_object().and_then(|step| step.keys().next()).map_or("unknown", String::as_str);
            notes.add(&format!("step {number} ({kind}) is not converted"));
        }
    }
    if !is_used {
        notes.without_pause(weight);
    }
    points
}

/// `weight-25`, or `weight-25-2` for the second pause at the same weight.
fn free_name(weight: i64, points: &[Value]) -> String {
    let same = points.iter().filter(|point| point["afterUpdated"] == format!("{weight}%")).count();
    match same {
        0 => format!("weight-{weight}"),
        others => format!("weight-{weight}-{}", others + 1),
    }
}

/// The duration of a pause: seconds, or text such as `10m`; absent: until it is resumed.
fn duration(given: &Value) -> Result<Option<String>, String> {
    let text = match given {
        Value::Null => return Ok(None),
        Value::Number(seconds) => format!("{seconds}s"),
        Value::String(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{text}s")
        }
        Value::String(text) => text.clone(),
        other => return Err(other.to_string()),
    };
    if parse_pause_duration(&text).is_some() { Ok(Some(text)) } else { Err(given.to_string()) }
}

struct Notes<'n> {
    name: &'n str,
    notes: &'n mut Vec<String>,
}

impl Notes<'_> {
    fn add(&mut self, text: &str) {
        self.notes.push(format!("{}: {text}", self.name));
    }

    fn without_pause(&mut self, weight: i64) {
        self.add(&format!("setWeight {weight} has no pause after it: removed"));
    }

    fn removed(&mut self, fields: &[&str]) {
        if !fields.is_empty() {
            let fields = fields.join(", ");
            self.add(&format!("removed {fields}, which an OrderedDeployment does not have"));
        }
    }
}
