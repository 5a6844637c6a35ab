//! Sets of paths, and their encoding `FieldsV1`.
//!
//! A set is a tree of steps, so sets of large objects stay small. It knows no values and no types.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::element::Element;

/// A set of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet(BTreeMap<Element, Node>);

/// One step of a set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Whether the path that ends here is in the set.
    pub(crate) owned: bool,
    /// The paths that continue here.
    pub(crate) below: FieldSet,
}

impl FieldSet {
    /// The set of paths of field names, such as `["metadata", "name"]`.
    pub(crate) fn of(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Element> = path.iter().map(|name| Element::field(name)).collect();
            set.insert(&path);
        }
        set
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, element: &Element) -> Option<&Node> {
        self.0.get(element)
    }

    pub(crate) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => self.0.entry(last.clone()).or_default().owned = true,
            [first, rest @ ..] => self.0.entry(first.clone()).or_default().below.insert(rest),
        }
    }

    pub(crate) fn contains(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.0.get(last).is_some_and(|node| node.owned),
            [first, rest @ ..] => self.0.get(first).is_some_and(|node| node.below.contains(rest)),
        }
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine || theirs)
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine && theirs)
    }

    /// The paths that are not in `other`. The path of a map does not stand for the paths of its fields.
    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine && !theirs)
    }

    /// The paths that are not in `other` and that continue no path in `other`.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let kept = self.0.iter().filter_map(|(element, node)| match other.0.get(element) {
            Some(theirs) if theirs.owned => None,
            Some(theirs) => {
                let below = node.below.without(&theirs.below);
                Node { owned: node.owned, below }.if_any().map(|node| (element.clone(), node))
            }
            None => Some((element.clone(), node.clone())),
        });
        Self(kept.collect())
    }

    /// This set with the paths of all fields through which its paths lead, if the types declare these fields.
    pub(crate) fn with_parents(&self, is_declared: &mut dyn FnMut(&[Element]) -> bool) -> Self {
        self.with_parents_at(&mut Vec::new(), is_declared)
    }

    fn with_parents_at(
        &self,
        path: &mut Vec<Element>,
        is_declared: &mut dyn FnMut(&[Element]) -> bool,
    ) -> Self {
        let mut all = BTreeMap::new();
        for (element, node) in &self.0 {
            path.push(element.clone());
            let owned = node.owned || !node.below.is_empty() && is_declared(path);
            let below = node.below.with_parents_at(path, is_declared);
            path.pop();
            all.insert(element.clone(), Node { owned, below });
        }
        Self(all)
    }

    /// All paths, those of one level before those below it.
    pub(crate) fn paths(&self) -> Vec<Vec<Element>> {
        let mut paths: Vec<Vec<Element>> =
            self.0.iter().filter(|(_, node)| node.owned).map(|(element, _)| vec![element.clone()]).collect();
        for (element, node) in &self.0 {
            for mut rest in node.below.paths() {
                rest.insert(0, element.clone());
                paths.push(rest);
            }
        }
        paths
    }

    fn combine(&self, other: &Self, keep: fn(bool, bool) -> bool) -> Self {
        let nothing = Node::default();
        let mut all = BTreeMap::new();
        for element in self.0.keys().chain(other.0.keys()) {
            if all.contains_key(element) {
                continue;
            }
            let (mine, theirs) =
                (self.0.get(element).unwrap_or(&nothing), other.0.get(element).unwrap_or(&nothing));
            let node = Node {
                owned: keep(mine.owned, theirs.owned),
                below: mine.below.combine(&theirs.below, keep),
            };
            if let Some(node) = node.if_any() {
                all.insert(element.clone(), node);
            }
        }
        Self(all)
    }

    /// Decodes `FieldsV1`; `None` if it is no such document. Steps of an unknown form are left out.
    pub(crate) fn decode(fields: &Value) -> Option<Self> {
        let mut set = Self::default();
        for (key, below) in fields.as_object()? {
            let inner = below.as_object()?;
            if key == "." {
                // Only the caller knows the path to which it belongs.
                continue;
            }
            let Some(element) = Element::parse(key) else { continue };
            let owned = inner.is_empty() || inner.contains_key(".");
            if let Some(node) = (Node { owned, below: Self::decode(below)? }).if_any() {
                set.0.insert(element, node);
            }
        }
        Some(set)
    }

    /// The set as `FieldsV1`.
    pub(crate) fn encode(&self) -> Value {
        Value::Object(self.encode_map())
    }

    fn encode_map(&self) -> Map<String, Value> {
        let encoded = self.0.iter().map(|(element, node)| {
            let mut below = node.below.encode_map();
            if node.owned && !below.is_empty() {
                below.insert(".".to_owned(), json!({}));
            }
            (element.encode(), Value::Object(below))
        });
        encoded.collect()
    }
}

impl Node {
    fn if_any(self) -> Option<Self> {
        (self.owned || !self.below.is_empty()).then_some(self)
    }
}
