//! The comparison of templates with different spellings: by the form in which the API server returns each of
//! them.
//!
//! The API server fills a PodTemplate with the defaults of a template and nothing else; pods go through
//! admission as well. Each question is a dry-run create of a PodTemplate, and only the answers of one
//! comparison are compared with each other. The caller sends the requests.

use std::sync::Arc;

use kube::ResourceExt;
use ordereddeployment_api::{OrderedDeployment, Template, canonical};
use serde_json::{Value, json};

use crate::{ComparisonResult, Snapshot};

/// The comparison of one template with those of sets.
#[derive(Clone, Debug)]
pub struct Comparison {
    name: String,
    template: Template,
    /// The object's template as the API server reads it.
    own: Option<Reading>,
    /// The templates to compare with, the next one last.
    sets: Vec<(Arc<str>, Template)>,
    verdict: Option<ComparisonResult>,
}

/// The API server's answer for one template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The object as it would be stored.
    Taken(Value),
    /// The template is invalid.
    Refused,
}

/// A template as the API server reads it. Two templates with equal readings are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reading {
    template: Value,
    /// Fields that the API server does not know and drops, with their paths: a newer one may
    /// know them, so they count as a difference.
    dropped: Vec<(String, Value)>,
}

impl Comparison {
    /// Compares the object's template with those of these sets, in this order.
    #[must_use]
    pub fn of(snapshot: &Snapshot, sets: &[Arc<str>]) -> Self {
        let deployment: &OrderedDeployment = &snapshot.deployment;
        let found = |uid: &Arc<str>| snapshot.sets.iter().find(|set| set.uid == *uid);
        let sets = sets.iter().rev().filter_map(found);
        Self {
            name: deployment.name_any(),
            template: deployment.spec.template.without_hash(),
            own: None,
            sets: sets.map(|set| (Arc::clone(&set.uid), set.template.clone())).collect(),
            verdict: None,
        }
    }

    /// The object to create next, with `dryRun=All`; `None` once the result is known.
    #[must_use]
    pub fn question(&self) -> Option<Value> {
        let next = match (&self.verdict, &self.own) {
            (Some(_), _) => return None,
            (None, None) => &self.template,
            (None, Some(_)) => &self.sets.last()?.1,
        };
        Some(json!({
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"generateName": format!("{}-", self.name)},
            "template": next,
        }))
    }

    /// Processes the answer to the last question.
    pub fn answered(&mut self, answer: &Answer) {
        match (&self.own, answer) {
            // A refused template equals that of no set, since the API server accepted those.
            (None, Answer::Refused) => self.verdict = Some(ComparisonResult::New),
            (None, Answer::Taken(taken)) => self.own = Some(Reading::of(&self.template, taken)),
            (Some(own), answer) => {
                let Some((uid, template)) = self.sets.pop() else { return };
                let reading = match answer {
                    Answer::Taken(taken) => Some(Reading::of(&template, taken)),
                    Answer::Refused => None,
                };
                if reading.as_ref() == Some(own) {
                    self.verdict = Some(ComparisonResult::Equal(uid));
                }
            }
        }
    }

    /// The result, once there is no further question.
    #[must_use]
    pub fn verdict(self) -> ComparisonResult {
        self.verdict.unwrap_or(ComparisonResult::New)
    }
}

impl Reading {
    fn of(written: &Template, taken: &Value) -> Self {
        let template = canonical(taken.get("template").unwrap_or(&Value::Null));
        let dropped = dropped_fields(&canonical(&written.value()), &template, "");
        Self { template: without_empty_lists(template), dropped }
    }
}

/// All fields that are written and not read back, with their paths below this one, except empty ones.
#[must_use]
pub fn dropped_fields(written: &Value, read: &Value, path: &str) -> Vec<(String, Value)> {
    let look = |inner: &Value, read: Option<&Value>, path: String| match read {
        Some(read) => dropped_fields(inner, read, &path),
        None if says_nothing(inner) => Vec::new(),
        None => vec![(path, inner.clone())],
    };
    let in_list = |(index, inner): (usize, &Value)| {
        let is_same = |item: &&Value| item.get("name") == inner.get("name");
        // A webhook can insert items before it.
        let moved = || inner.get("name").and_then(|_| read.as_array()?.iter().find(is_same));
        look(inner, read.get(index).filter(is_same).or_else(moved), format!("{path}[{index}]"))
    };
    match written {
        Value::Object(entries) => {
            let entries = entries.iter();
            entries.flat_map(|(key, inner)| look(inner, read.get(key), format!("{path}.{key}"))).collect()
        }
        Value::Array(items) => items.iter().enumerate().flat_map(in_list).collect(),
        _ => Vec::new(),
    }
}

/// Whether the API server may omit this value of a known field.
fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(switch) => !switch,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}

fn without_empty_lists(value: Value) -> Value {
    let is_empty_list = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    match value {
        Value::Object(entries) => {
            let entries = entries.into_iter().filter(|(_, inner)| !is_empty_list(inner));
            Value::Object(entries.map(|(key, inner)| (key, without_empty_lists(inner))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_empty_lists).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Reading, Template};

    fn reading(written: &Value, taken: &Value) -> Reading {
        Reading::of(&Template::new(written), &json!({"kind": "PodTemplate", "template": taken}))
    }

    #[test]
    fn templates_with_equal_readings_are_equal_in_any_spelling() {
        let taken = json!({"metadata": {"creationTimestamp": null, "labels": {"app": "web"}},
                           "spec": {"restartPolicy": "Always", "containers": [{"name": "web",
                           "resources": {}}]}});
        let mut listed = taken.clone();
        listed["spec"]["tolerations"] = json!([]);
        let written =
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web"}]}});
        let mut spelled = written.clone();
        spelled["spec"]["restartPolicy"] = json!("Always");
        spelled["spec"]["tolerations"] = json!([]);
        spelled["spec"]["hostNetwork"] = json!(false);
        spelled["spec"]["hostname"] = json!("");
        spelled["spec"]["nodeSelector"] = json!({});
        assert_eq!(reading(&written, &taken), reading(&spelled, &listed));
        let mut other = taken.clone();
        other["spec"]["restartPolicy"] = json!("Never");
        assert_ne!(reading(&written, &taken), reading(&written, &other));
    }

    #[test]
    fn a_field_that_the_server_does_not_know_is_a_difference() {
        let taken = json!({"spec": {"containers": [{"name": "web"}]}});
        let written = |extra: Value| {
            let mut template = taken.clone();
            template["spec"]["containers"][0]["future"] = extra;
            template
        };
        let plain = reading(&taken, &taken);
        assert_ne!(plain, reading(&written(json!(1)), &taken));
        assert_ne!(reading(&written(json!(2)), &taken), reading(&written(json!(1)), &taken));
        assert_eq!(reading(&written(json!({"a": 1})), &taken), reading(&written(json!({"a": 1})), &taken));
        assert_eq!(plain, reading(&written(json!(null)), &taken));
        // A list that came back shorter.
        let longer = json!({"spec": {"containers": [{"name": "web"}, {"name": "b"}]}});
        assert_ne!(plain, reading(&longer, &taken));
    }
}
