//! The difference between two objects, as sets of fields.
//!
//! The rules are those of structured-merge-diff (`typed/compare.go`).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::Element;
use super::set::FieldSet;
use super::shape::{Kind, Shape};

/// The fields in which two objects differ.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    pub(crate) added: FieldSet,
    pub(crate) modified: FieldSet,
    pub(crate) removed: FieldSet,
}

impl Difference {
    /// The difference without the fields that the endpoint does not write.
    pub(crate) fn without(self, ignored: &FieldSet) -> Self {
        Self {
            added: self.added.without(ignored),
            modified: self.modified.without(ignored),
            removed: self.removed.without(ignored),
        }
    }

    /// The fields that the new object sets.
    pub(crate) fn set(&self) -> FieldSet {
        self.added.union(&self.modified)
    }
}

/// Compares two objects.
pub(crate) fn compare(old: &Value, new: &Value, shape: &Shape<'_>) -> Difference {
    let mut difference = Difference::default();
    Walk { difference: &mut difference, path: Vec::new() }.visit(Some(old), Some(new), shape);
    difference
}

struct Walk<'d> {
    difference: &'d mut Difference,
    path: Vec<Element>,
}

impl Walk<'_> {
    fn visit(&mut self, old: Option<&Value>, new: Option<&Value>, shape: &Shape<'_>) {
        let Some(known) = new.or(old) else { return };
        let kind = shape.kind(known);
        if let Some(old) = old.filter(|old| new.is_some_and(|new| changed_kind(old, new, shape))) {
            match shape.kind(old) {
                Kind::Leaf => self.difference.modified.insert(&self.path),
                Kind::Map => _ = self.visit_map(map(Some(old)), None, shape),
                kind => _ = self.visit_items(items(Some(old)), &[], &kind, shape),
            }
        }
        let is_inner = match kind {
            Kind::Leaf => false,
            Kind::Map => self.visit_map(map(old), map(new), shape),
            Kind::Set | Kind::Keyed(_) => self.visit_items(items(old), items(new), &kind, shape),
        };
        match (old, new) {
            (None, _) => self.difference.added.insert(&self.path),
            (_, None) => self.difference.removed.insert(&self.path),
            (Some(old), Some(new)) if !is_inner && old != new => self.difference.modified.insert(&self.path),
            _ => {}
        }
    }

    /// Returns whether there are fields to compare. If both maps are empty, they are compared as values.
    fn visit_map(
        &mut self,
        old: Option<&Map<String, Value>>,
        new: Option<&Map<String, Value>>,
        shape: &Shape<'_>,
    ) -> bool {
        let keys = |map: Option<&Map<String, Value>>| map.is_some_and(|map| !map.is_empty());
        for (name, inner) in old.into_iter().flatten() {
            let other = new.and_then(|new| new.get(name));
            self.below(Element::field(name), Some(inner), other, &shape.known_field(name).shape);
        }
        for (name, inner) in new.into_iter().flatten() {
            if old.is_none_or(|old| !old.contains_key(name)) {
                self.below(Element::field(name), None, Some(inner), &shape.known_field(name).shape);
            }
        }
        keys(old) || keys(new)
    }

    fn visit_items(&mut self, old: &[Value], new: &[Value], kind: &Kind<'_>, shape: &Shape<'_>) -> bool {
        let mut all: BTreeMap<Element, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
        for item in old {
            if let Ok(step) = shape.element(kind, item) {
                all.entry(step).or_default().0.push(item);
            }
        }
        for item in new {
            if let Ok(step) = shape.element(kind, item) {
                all.entry(step).or_default().1.push(item);
            }
        }
        let inner = shape.items();
        for (step, (before, after)) in all {
            match (before.as_slice(), after.as_slice()) {
                ([] | [_], [] | [_]) => {
                    self.below(step, before.first().copied(), after.first().copied(), &inner);
                }
                // Items with the same keys are compared as one value.
                ([_, _, ..], [_, _, ..]) => {
                    self.path.push(step);
                    if before != after {
                        self.difference.modified.insert(&self.path);
                    }
                    self.path.pop();
                }
                ([_, _, ..], _) => {
                    if let Some(after) = after.first() {
                        self.below(step.clone(), None, Some(after), &inner);
                    }
                    self.path.push(step);
                    self.difference.removed.insert(&self.path);
                    self.path.pop();
                }
                (_, _) => {
                    if let Some(before) = before.first() {
                        self.below(step.clone(), Some(before), None, &inner);
                    }
                    self.path.push(step);
                    self.difference.added.insert(&self.path);
                    self.path.pop();
                }
            }
        }
        !old.is_empty() || !new.is_empty()
    }

    fn below(&mut self, step: Element, old: Option<&Value>, new: Option<&Value>, shape: &Shape<'_>) {
        self.path.push(step);
        self.visit(old, new, shape);
        self.path.pop();
    }
}

/// Whether the value became another kind of value, such as a map instead of a text.
fn changed_kind(old: &Value, new: &Value, shape: &Shape<'_>) -> bool {
    !old.is_null() && !new.is_null() && shape.kind(old) != shape.kind(new)
}

fn map(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object)
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
