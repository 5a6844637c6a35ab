//! The set of the fields of an object: what the applier of a configuration owns.
//!
//! The rules are those of structured-merge-diff (`typed/tofieldset.go`).

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::element::Element;
use super::set::FieldSet;
use super::shape::{Kind, Shape};

/// The fields of an object.
pub(crate) fn fields(object: &Value, shape: &Shape<'_>) -> FieldSet {
    let mut set = FieldSet::default();
    visit(object, shape, &mut Vec::new(), &mut set);
    set
}

fn visit(value: &Value, shape: &Shape<'_>, path: &mut Vec<Element>, set: &mut FieldSet) {
    let kind = shape.kind(value);
    match (&kind, value) {
        (Kind::Leaf, _) => set.insert(path),
        (Kind::Map, Value::Object(map)) => {
            for (name, inner) in map {
                let field = shape.known_field(name);
                path.push(Element::field(name));
                visit(inner, &field.shape, path, set);
                let is_empty = inner.is_null() || inner.as_object().is_some_and(Map::is_empty);
                if is_empty || !field.declared {
                    set.insert(path);
                }
                path.pop();
            }
        }
        (Kind::Set | Kind::Keyed(_), Value::Array(items)) => visit_items(items, &kind, shape, path, set),
        _ => {}
    }
}

/// Items with the same keys count as one field without content.
fn visit_items(
    items: &[Value],
    kind: &Kind<'_>,
    shape: &Shape<'_>,
    path: &mut Vec<Element>,
    set: &mut FieldSet,
) {
    let steps: Vec<Option<Element>> = items.iter().map(|item| shape.element(kind, item).ok()).collect();
    let mut seen = BTreeSet::new();
    let repeated: BTreeSet<&Element> = steps.iter().flatten().filter(|step| !seen.insert(*step)).collect();
    for (item, step) in items.iter().zip(&steps) {
        let Some(step) = step else { continue };
        path.push(step.clone());
        if !repeated.contains(step) {
            visit(item, &shape.items(), path, set);
        }
        set.insert(path);
        path.pop();
    }
}
