//! What several places of both kinds are made of: selectors, templates and sizes.

use serde_json::{Value, json};

use super::{Case, Constraint, DEPLOYMENT, REPLICA_SET, each, keyword, labels, limit, required, text};

pub(super) const TOO_LONG: (&str, &str) = ("maxLength", "Too long");
pub(super) const TOO_MANY: (&str, &str) = ("maxItems", "Too many");
pub(super) const TOO_MANY_PROPERTIES: (&str, &str) = ("maxProperties", "Too many");
pub(super) const UNSUPPORTED: (&str, &str) = ("enum", "Unsupported value");
const TOO_SMALL: (&str, &str) = ("minimum", "should be greater than or equal to");
const TOO_LARGE: (&str, &str) = ("maximum", "should be less than or equal to 2147483647");

/// The constraints of the other kind: a part of those of a deployment.
pub(super) fn of_replica_sets() -> Vec<Case> {
    let mut cases = selector_of_the_spec(REPLICA_SET);
    cases.extend(template(REPLICA_SET));
    cases.extend(["replicas", "minReadySeconds"].into_iter().flat_map(|field| size(REPLICA_SET, field)));
    cases.extend(required_in_the_spec(REPLICA_SET));
    cases
}

pub(super) fn required_in_the_spec(kind: &'static str) -> Vec<Case> {
    vec![
        required(kind, "", "spec", json!({"spec": null})),
        required(kind, "spec", "selector", json!({"spec": {"selector": null}})),
        required(kind, "spec", "template", json!({"spec": {"template": null}})),
    ]
}

/// A field of the spec that counts from 0.
pub(super) fn size(kind: &'static str, field: &'static str) -> Vec<Case> {
    // The deadline must be greater than minReadySeconds, which is 0 where it is not given, and the deadline
    // 600.
    let (least, most) = match field {
        "progressDeadlineSeconds" => (1, i32::MAX),
        "minReadySeconds" => (0, 599),
        _ => (0, i32::MAX),
    };
    let with = |value: i64| json!({"spec": {field: value}});
    let at = format!("spec.{field}");
    vec![
        keyword(kind, &at, TOO_SMALL, with(-1), vec![with(least)]),
        keyword(kind, &at, TOO_LARGE, with(1 << 31), vec![with(most.into())]),
    ]
}

/// A field that takes any `int32`.
pub(super) fn int32(kind: &'static str, at: &str, with: &dyn Fn(i64) -> Value) -> Vec<Case> {
    let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX));
    vec![
        // Servers refuse some negative counts of their own accord.
        keyword(kind, at, TOO_SMALL, with(least - 1), vec![with(0)]),
        keyword(kind, at, TOO_LARGE, with(most + 1), vec![with(most)]),
    ]
}

/// How many updated pods there are at a pause point: at least one, or from 1% on.
pub(super) fn after_updated(at: &str, wrap: &dyn Fn(Value) -> Value) -> Vec<Case> {
    let at = format!("{at}.afterUpdated");
    let too_few = ("minimum", "should be greater than or equal to 1");
    vec![
        Case {
            kind: DEPLOYMENT,
            at: at.clone(),
            constraint: Constraint::Keyword("pattern", "should match '^0*([1-9][0-9]?|100)%$'"),
            breaks: each(wrap, json!(["0%", "", "%", "5", "000%", "101%", "1000%", "-5%", "1.5%"])),
            passes: each(wrap, json!(["1%", "10%", "99%", "100%", "007%"])),
        },
        keyword(DEPLOYMENT, &at, too_few, wrap(json!(0)), vec![wrap(json!(1))]),
        keyword(DEPLOYMENT, &at, TOO_LARGE, wrap(json!(1_i64 << 31)), vec![wrap(json!(i32::MAX))]),
    ]
}

/// The selector of a spec, which must match the template.
pub(super) fn selector_of_the_spec(kind: &'static str) -> Vec<Case> {
    let alone = |selector: Value| json!({"spec": {"selector": selector}});
    let labelled = |labels: Value| {
        json!({"spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}}}})
    };
    let mut cases = selector(kind, "spec.selector", &alone, &labelled);
    cases.push(Case {
        kind,
        at: "spec.selector".to_owned(),
        constraint: Constraint::Rule(
            "selector must not be empty: it would select every pod of the namespace",
        ),
        breaks: vec![
            json!({"spec": {"selector": {"matchLabels": null}}}),
            json!({"spec": {"selector": {"matchLabels": {"app": null}, "matchExpressions": []}}}),
        ],
        passes: vec![json!({"spec": {"selector": {
            "matchLabels": null, "matchExpressions": [{"key": "app", "operator": "Exists"}],
        }}})],
    });
    let other = json!({"matchLabels": {"app": "other"}});
    cases.push(Case {
        kind,
        at: "spec.selector".to_owned(),
        constraint: Constraint::Transition("selector is immutable: create a new object to select other pods"),
        breaks: vec![
            json!({"spec": {"selector": other, "template": {"metadata": {"labels": {"app": "other"}}}}}),
            json!({"spec": {"selector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]}}}),
        ],
        passes: vec![
            json!({"spec": {"replicas": 2}}),
            json!({"spec": {"template": {"metadata": {"labels": {"tier": "front"}}}}}),
        ],
    });
    cases
}

/// A label selector at any place. `wrap` puts one there; `labelled` puts one of these labels there that meets
/// the rules.
pub(super) fn selector(
    kind: &'static str,
    at: &str,
    wrap: &dyn Fn(Value) -> Value,
    labelled: &dyn Fn(Value) -> Value,
) -> Vec<Case> {
    let expressions = format!("{at}.matchExpressions");
    let item = format!("{expressions}[]");
    let one = |requirement: Value| wrap(json!({"matchExpressions": [requirement]}));
    let values = |values: Value| one(json!({"key": "app", "operator": "NotIn", "values": values}));
    let exists = json!({"key": "app", "operator": "Exists"});
    let many = |count: usize| wrap(json!({"matchExpressions": vec![exists.clone(); count]}));
    let key = |length: usize| one(json!({"key": text(length), "operator": "DoesNotExist"}));
    let operator = |name: &str| {
        one(match name {
            "In" => json!({"key": "app", "operator": name, "values": ["web"]}),
            "NotIn" => json!({"key": "app", "operator": name, "values": ["api"]}),
            "DoesNotExist" => json!({"key": "none", "operator": name}),
            _ => json!({"key": "app", "operator": name}),
        })
    };
    vec![
        limit(kind, &format!("{at}.matchLabels"), TOO_MANY_PROPERTIES, 64, &|count| labelled(labels(count))),
        keyword(
            kind,
            &format!("{at}.matchLabels{{}}"),
            TOO_LONG,
            wrap(json!({"matchLabels": {"app": text(64)}})),
            vec![labelled(json!({"app": text(63)}))],
        ),
        limit(kind, &expressions, TOO_MANY, 64, &many),
        limit(kind, &format!("{item}.key"), TOO_LONG, 317, &key),
        keyword(
            kind,
            &format!("{item}.operator"),
            UNSUPPORTED,
            operator("Gt"),
            ["In", "NotIn", "Exists", "DoesNotExist"].map(operator).to_vec(),
        ),
        limit(kind, &format!("{item}.values"), TOO_MANY, 64, &|count| values(json!(vec!["x"; count]))),
        limit(kind, &format!("{item}.values[]"), TOO_LONG, 63, &|length| values(json!([text(length)]))),
        required(kind, &item, "key", one(json!({"operator": "Exists"}))),
        required(kind, &item, "operator", one(json!({"key": "app"}))),
        Case {
            kind,
            at: item,
            constraint: Constraint::Rule("values must be given for In and NotIn, and only for them"),
            breaks: vec![
                one(json!({"key": "app", "operator": "NotIn"})),
                one(json!({"key": "app", "operator": "NotIn", "values": []})),
                one(json!({"key": "app", "operator": "Exists", "values": ["web"]})),
            ],
            passes: vec![one(json!({"key": "app", "operator": "Exists", "values": []}))],
        },
    ]
}

/// What is declared of a pod template.
pub(super) fn template(kind: &'static str) -> Vec<Case> {
    let at = "spec.template";
    let with = |template: Value| json!({"spec": {"template": template}});
    let labelled = |labels: Value| with(json!({"metadata": {"labels": labels}}));
    let policy = |policy: &str| with(json!({"spec": {"restartPolicy": policy}}));
    vec![
        required(kind, at, "spec", with(json!({"spec": null}))),
        required(kind, &format!("{at}.spec"), "containers", with(json!({"spec": {"containers": null}}))),
        keyword(
            kind,
            &format!("{at}.spec.containers"),
            ("minItems", "should have at least 1 items"),
            with(json!({"spec": {"containers": []}})),
            // Unknown to the schema, and carried through.
            vec![with(json!({"spec": {"containers": [{"name": "web", "someday": {"known": true}}]}}))],
        ),
        keyword(
            kind,
            &format!("{at}.spec.restartPolicy"),
            TOO_LONG,
            policy(&text(33)),
            vec![policy("Always")],
        ),
        limit(kind, &format!("{at}.metadata.labels"), TOO_MANY_PROPERTIES, 256, &|count| {
            labelled(labels(count))
        }),
        keyword(
            kind,
            &format!("{at}.metadata.labels{{}}"),
            TOO_LONG,
            labelled(json!({"app": text(64)})),
            vec![labelled(json!({"other": text(63)}))],
        ),
    ]
}
