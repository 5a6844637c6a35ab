//! Merges a configuration into an object: its values win, and everything else of the object stays.
//!
//! The rules are those of structured-merge-diff (`typed/merge.go`). Nothing is removed here.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::Element;
use super::shape::{Kind, Shape};

/// The object with the values of the configuration.
pub(crate) fn merge(object: &Value, config: &Value, shape: &Shape<'_>) -> Value {
    let kind = shape.kind(config);
    match &kind {
        Kind::Leaf => config.clone(),
        Kind::Map => {
            let (old, new) = (object.as_object(), config.as_object());
            if is_empty(old) && is_empty(new) { config.clone() } else { merge_maps(old, new, shape) }
        }
        Kind::Set | Kind::Keyed(_) => {
            let none = Vec::new();
            let old = object.as_array().unwrap_or(&none);
            let new = config.as_array().unwrap_or(&none);
            if old.is_empty() && new.is_empty() {
                config.clone()
            } else {
                merge_lists(old, new, &kind, shape)
            }
        }
    }
}

fn is_empty(map: Option<&Map<String, Value>>) -> bool {
    map.is_none_or(Map::is_empty)
}

fn merge_maps(
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
    shape: &Shape<'_>,
) -> Value {
    let mut merged = old.cloned().unwrap_or_default();
    for (name, value) in new.into_iter().flatten() {
        let inner = match merged.get(name) {
            Some(known) => merge(known, value, &shape.known_field(name).shape),
            None => value.clone(),
        };
        merged.insert(name.clone(), inner);
    }
    Value::Object(merged)
}

/// The items of the configuration have its order. An item that only the object has stays before or behind the same
/// items, as far as that order allows it.
fn merge_lists(old: &[Value], new: &[Value], kind: &Kind<'_>, shape: &Shape<'_>) -> Value {
    let step = |item: &Value| shape.element(kind, item).ok();
    // An item that the object has twice is replaced.
    let mut known: BTreeMap<Element, Option<&Value>> = BTreeMap::new();
    for item in old {
        if let Some(step) = step(item) {
            known.entry(step).and_modify(|known| *known = None).or_insert(Some(item));
        }
    }
    let wanted: Vec<(Option<Element>, &Value)> = new.iter().map(|item| (step(item), item)).collect();
    let before = |step: &Option<Element>| step.as_ref().and_then(|step| known.get(step).copied());
    let inner = shape.items();
    let both = |(step, item): &(Option<Element>, &Value)| {
        before(step).flatten().map_or_else(|| (*item).clone(), |before| merge(before, item, &inner))
    };
    let mut merged = Vec::new();
    let mut rest = wanted.as_slice();
    for item in old {
        let here = step(item);
        if here.is_none() || wanted.iter().all(|(step, _)| *step != here) {
            merged.push(item.clone());
            continue;
        }
        let next = rest.iter().position(|(step, _)| before(step).is_some());
        let end = match next {
            Some(place) if rest.get(place).is_some_and(|(step, _)| *step == here) => place + 1,
            // The configuration has this item later.
            Some(_) => 0,
            // The object has this item again; structured-merge-diff continues with the next one.
            None => rest.len().min(1),
        };
        let (now, later) = rest.split_at(end);
        merged.extend(now.iter().map(both));
        rest = later;
    }
    merged.extend(rest.iter().map(both));
    Value::Array(merged)
}
