//! No constraint of the CRDs is without a case, each case is of a constraint, and each rule is broken by one
//! of its cases when it is the only rule there is. What a real server says to the cases is asked by `cargo
//! xtask crd-check`.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::collections::BTreeSet;

use serde_json::Value;

use crate::cases::{self, Case, DEPLOYMENT, REPLICA_SET, minimal};
use crate::evaluation::{broken_rules, schema_of, set_defaults};

/// Keywords that only describe. `type` is not among what a case is asked for: it is checked before everything
/// else, by any server. `format: int64` cannot be broken by what is an integer to a server; whatever breaks
/// `format: int32` breaks the bounds that stand beside it.
const NO_CONSTRAINTS: [&str; 14] = [
    "additionalProperties",
    "default",
    "description",
    "format: int32",
    "format: int64",
    "items",
    "properties",
    "title",
    "type",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-preserve-unknown-fields",
    // Taken apart below.
    "required",
    "x-kubernetes-validations",
];

/// A constraint of a schema: its id, and for a rule, where it stands.
struct Found {
    id: String,
    rule: Option<(String, usize)>,
}

/// Collects the constraints of `schema`, which stands at `pointer` and describes the field at `at`.
fn collect(kind: &str, at: &str, schema: &Value, pointer: &str, into: &mut Vec<Found>) {
    let mut found = |what: String, rule| into.push(Found { id: format!("{kind} {at} {what}"), rule });
    for (keyword, value) in schema.as_object().unwrap() {
        let named = match keyword.as_str() {
            "format" if value != "date-time" => format!("format: {}", value.as_str().unwrap()),
            "format" => format!("format {}", value.as_str().unwrap()),
            other => other.to_owned(),
        };
        if !NO_CONSTRAINTS.contains(&named.as_str()) {
            found(named, None);
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        found(format!("required: {}", name.as_str().unwrap()), None);
    }
    for (index, rule) in schema["x-kubernetes-validations"].as_array().into_iter().flatten().enumerate() {
        let rules = format!("{pointer}/x-kubernetes-validations");
        found(format!("rule: {}", rule["message"].as_str().unwrap()), Some((rules, index)));
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let at = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
        collect(kind, &at, field, &format!("{pointer}/properties/{name}"), into);
    }
    for (part, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[part].is_object() {
            collect(kind, &format!("{at}{mark}"), &schema[part], &format!("{pointer}/{part}"), into);
        }
    }
}

fn constraints(kind: &str) -> Vec<Found> {
    let mut found = Vec::new();
    collect(kind, "", &schema_of(kind), "", &mut found);
    found
}

#[test]
fn every_constraint_has_a_case_and_every_case_a_constraint() {
    let found = constraints(DEPLOYMENT).into_iter().chain(constraints(REPLICA_SET)).map(|found| found.id);
    let found: BTreeSet<String> = found.collect();
    let cases: BTreeSet<String> = cases::all().iter().map(Case::id).collect();
    let missing: Vec<_> = found.difference(&cases).collect();
    let stale: Vec<_> = cases.difference(&found).collect();
    assert!(missing.is_empty() && stale.is_empty(), "without a case: {missing:#?}\nof nothing: {stale:#?}");
    for case in cases::all() {
        assert!(!case.breaks.is_empty(), "{} has nothing that breaks it", case.id());
    }
}

/// The schema with one of its rules, or none of them.
fn with_only(schema: &Value, rule: Option<&(String, usize)>) -> Value {
    fn strip(schema: &mut Value) {
        if let Value::Object(keywords) = schema {
            keywords.remove("x-kubernetes-validations");
            keywords.values_mut().for_each(strip);
        }
    }
    let mut stripped = schema.clone();
    strip(&mut stripped);
    if let Some((pointer, index)) = rule {
        let (parent, keyword) = pointer.rsplit_once('/').unwrap();
        let kept = schema.pointer(pointer).unwrap()[*index].clone();
        stripped.pointer_mut(parent).unwrap()[keyword] = Value::Array(vec![kept]);
    }
    stripped
}

/// What the rules in `rules` say to a change of an object with the defaults of `schema`.
fn broken_by(case: &Case, patch: &Value, schema: &Value, rules: &Value) -> Vec<String> {
    let (mut old, mut new) = (minimal(case.kind), case.object(patch));
    set_defaults(&mut old, schema);
    set_defaults(&mut new, schema);
    broken_rules(rules, &new, case.is_transition().then_some(&old))
}

#[test]
fn every_int32_is_bounded_for_servers_that_do_not_know_the_format() {
    fn visit(schema: &Value) {
        if schema["format"] == "int32" || schema["x-kubernetes-int-or-string"] == true {
            assert_eq!(schema["maximum"], f64::from(i32::MAX), "{schema}");
            assert!(schema["minimum"].as_f64() >= Some(f64::from(i32::MIN)), "{schema}");
        }
        schema.as_object().into_iter().flat_map(|keywords| keywords.values()).for_each(visit);
    }
    [DEPLOYMENT, REPLICA_SET].map(schema_of).iter().for_each(visit);
}

#[test]
fn every_rule_is_broken_alone_by_each_change_of_one_of_its_cases() {
    let cases = cases::all();
    for kind in [DEPLOYMENT, REPLICA_SET] {
        let schema = schema_of(kind);
        for Found { id, rule } in constraints(kind).into_iter().filter(|found| found.rule.is_some()) {
            let only = with_only(&schema, rule.as_ref());
            let hit = |case: &&Case| {
                case.id() == id
                    && case.breaks.iter().all(|patch| broken_by(case, patch, &schema, &only).len() == 1)
            };
            assert!(
                cases.iter().any(|case| hit(&case)),
                "no case of its own breaks this rule: {id} at {rule:?}"
            );
        }
    }
}

#[test]
fn a_case_breaks_no_other_rule_than_its_own_and_its_passing_changes_break_none() {
    let schemas = [DEPLOYMENT, REPLICA_SET].map(|kind| (kind, schema_of(kind)));
    for case in cases::all() {
        let schema = &schemas.iter().find(|(kind, _)| *kind == case.kind).unwrap().1;
        if case.is_cel() {
            for patch in &case.breaks {
                assert_eq!(broken_by(&case, patch, schema, schema), [case.says()], "{}: {patch}", case.id());
            }
        }
        for patch in &case.passes {
            assert_eq!(
                broken_by(&case, patch, schema, schema),
                Vec::<String>::new(),
                "{}: {patch}",
                case.id()
            );
        }
    }
}
