//! Random configurations of several managers.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::extract::fields;
use super::super::managers::Operation;
use super::super::shape::Shape;
use super::Kept;

fn text() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "c"])
}

fn set() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::btree_set(text(), 1..3).prop_map(|set| set.into_iter().rev().collect())
}

fn parts() -> impl Strategy<Value = Vec<Value>> {
    let part = (text(), prop::option::of(text()));
    prop::collection::vec(part, 1..3).prop_map(|all| {
        let mut parts: Vec<Value> = Vec::new();
        for (name, note) in all {
            if parts.iter().all(|part| part["name"] != name) {
                parts.push(note.map_or(json!({"name": name}), |note| json!({"name": name, "note": note})));
            }
        }
        parts
    })
}

fn free() -> impl Strategy<Value = Value> {
    prop_oneof![
        text().prop_map(Value::from),
        set().prop_map(Value::from),
        prop::collection::btree_map(text(), text(), 1..3).prop_map(|map| json!(map)),
    ]
}

/// A spec in which each field may be absent.
fn spec() -> impl Strategy<Value = Value> {
    let words = prop::collection::btree_map(text(), text(), 1..3).prop_map(|map| json!(map));
    let fields = (
        prop::option::of(text().prop_map(Value::from)),
        prop::option::of(set().prop_map(Value::from)),
        prop::option::of(set().prop_map(Value::from)),
        prop::option::of(parts().prop_map(Value::from)),
        prop::option::of(words),
        prop::option::of(prop::collection::btree_map(text(), free(), 1..3).prop_map(|map| json!(map))),
    );
    fields.prop_map(|(colour, tags, plain, parts, words, free)| {
        let named = ["colour", "tags", "plain", "parts", "words", "free"];
        let values = [colour, tags, plain, parts, words, free];
        let set = named.into_iter().zip(values).filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Value::Object(set.collect())
    })
}

fn write() -> impl Strategy<Value = (bool, &'static str, Value, bool)> {
    (any::<bool>(), prop::sample::select(vec!["m", "n"]), spec(), any::<bool>())
}

/// An object after some writes of the managers `m` and `n`.
fn object() -> impl Strategy<Value = Vec<(bool, &'static str, Value, bool)>> {
    prop::collection::vec(write(), 0..5)
}

fn after(writes: Vec<(bool, &'static str, Value, bool)>) -> Kept {
    let mut kept = Kept::new();
    for (is_apply, manager, spec, force) in writes {
        if is_apply {
            let _ = kept.apply(manager, spec, force);
        } else {
            kept.update(manager, spec);
        }
    }
    kept
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_configuration_applied_twice_changes_nothing(writes in object(), spec in spec(), force: bool) {
        let mut kept = after(writes);
        prop_assume!(kept.apply("x", spec.clone(), force).is_ok());
        let (object, managers) = (kept.object.clone(), kept.managers.clone());
        kept.apply("x", spec, false).unwrap();
        prop_assert_eq!(kept.object, object);
        prop_assert_eq!(kept.managers, managers);
    }

    #[test]
    fn an_applied_configuration_is_in_the_object(writes in object(), spec in spec()) {
        let mut kept = after(writes);
        // An empty map counts as a value.
        prop_assume!(spec != json!({}));
        kept.apply("x", spec.clone(), true).unwrap();
        let config = Kept::config(spec);
        let shape = Shape::of(&kept.info);
        let missing = fields(&config, &shape).difference(&fields(&kept.object, &shape));
        prop_assert!(missing.is_empty(), "{missing:?} of {config} is not in {}", kept.object);
    }

    #[test]
    fn without_force_no_field_of_another_manager_changes(writes in object(), spec in spec()) {
        let mut kept = after(writes);
        let before = kept.object.clone();
        let others = kept.managers.clone();
        prop_assume!(kept.apply("x", spec, false).is_ok());
        let shape = Shape::of(&kept.info);
        let difference = super::super::compare::compare(&before, &kept.object, &shape);
        let touched = difference.set().union(&difference.removed);
        for (manager, entry) in others.0 {
            let changed = entry.fields.intersection(&touched);
            prop_assert!(changed.is_empty(), "{changed:?} of {manager} changed");
        }
    }

    #[test]
    fn a_field_that_nobody_owns_any_more_is_gone(first in spec(), second in spec(), writes in object()) {
        let mut kept = after(writes);
        prop_assume!(kept.apply("x", first, false).is_ok());
        let owned = |kept: &Kept| {
            let id = super::Manager::new("x", Operation::Apply, "example.com/v1", "");
            kept.managers.0.get(&id).map(|entry| entry.fields.clone()).unwrap_or_default()
        };
        let had = owned(&kept);
        prop_assume!(kept.apply("x", second, false).is_ok());
        let all = kept.managers.0.values().fold(super::FieldSet::default(), |all, entry| all.union(&entry.fields));
        let shape = Shape::of(&kept.info);
        let left = had.difference(&all).intersection(&fields(&kept.object, &shape));
        // The path of a list item or of a map stays, if something below it is owned.
        for path in left.paths() {
            let below = all.paths().into_iter().any(|other| other.len() > path.len() && other.starts_with(&path));
            prop_assert!(below, "{} is still there: {}", super::super::element::shown(&path), kept.object);
        }
    }

    #[test]
    fn nobody_owns_a_field_that_does_not_exist(writes in object()) {
        let kept = after(writes);
        let shape = Shape::of(&kept.info);
        let every = fields(&kept.object, &shape).with_parents(&mut |_| true);
        for (manager, entry) in &kept.managers.0 {
            let gone = entry.fields.difference(&every);
            prop_assert!(gone.is_empty(), "{manager} owns {gone:?} of {}", kept.object);
        }
    }
}
