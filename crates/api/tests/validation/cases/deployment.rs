//! What only an `OrderedDeployment`'s spec has.

use serde_json::{Value, json};

use super::parts::{
    TOO_LONG, TOO_MANY, UNSUPPORTED, after_updated, int32, required_in_the_spec, selector,
    selector_of_the_spec, size, template,
};
use super::{Case, Constraint, DEPLOYMENT, each, keyword, limit, required, text};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = selector_of_the_spec(DEPLOYMENT);
    cases.extend(template(DEPLOYMENT));
    cases.extend(required_in_the_spec(DEPLOYMENT));
    let sizes = ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"];
    cases.extend(sizes.into_iter().flat_map(|field| size(DEPLOYMENT, field)));
    cases.extend(choices());
    cases.extend(rules_of_the_spec());
    cases.extend(strategy());
    cases.extend(pause_points());
    cases.extend(rules_of_pause_points());
    cases.extend(node_rules());
    cases
}

/// A case of a rule, with the values that `with` makes changes of.
fn rule(
    at: &str,
    message: &'static str,
    with: &dyn Fn(Value) -> Value,
    breaks: Value,
    passes: Value,
) -> Case {
    let (breaks, passes) = (each(with, breaks), each(with, passes));
    Case { kind: DEPLOYMENT, at: at.to_owned(), constraint: Constraint::Rule(message), breaks, passes }
}

/// Fields that take one of a few words.
fn choices() -> Vec<Case> {
    let fields = [
        ("podDeletion", "Delete Evict"),
        ("podReplacementPolicy", "TerminationStarted TerminationComplete"),
        ("deletionOrder.unavailablePods", "WhenBlocked InOrder"),
        ("strategy.type", "RollingUpdate Recreate"),
        ("progressDeadlineAction", "Continue Abort"),
    ];
    let choice = |(field, words): (&str, &str)| {
        let at = format!("spec.{field}");
        let with = |word: &str| at.rsplit('.').fold(json!(word), |inner, name| json!({name: inner}));
        keyword(DEPLOYMENT, &at, UNSUPPORTED, with("Perhaps"), words.split(' ').map(with).collect())
    };
    fields.map(choice).into()
}

fn rules_of_the_spec() -> Vec<Case> {
    const MISMATCH: &str = "selector does not match the labels of template.metadata";
    let spec = |spec: Value| json!({"spec": spec});
    let template = |template: Value| spec(json!({"template": template}));
    let expression = |requirement: Value| spec(json!({"selector": {"matchExpressions": [requirement]}}));
    vec![
        rule(
            "spec",
            MISMATCH,
            &template,
            json!([
                {"metadata": {"labels": {"app": "other"}}},
                {"metadata": {"labels": {"app": null, "tier": "front"}}},
                {"metadata": {"labels": null}},
                {"metadata": null},
            ]),
            json!([{"metadata": {"labels": {"tier": "front"}}}]),
        ),
        rule(
            "spec",
            MISMATCH,
            &expression,
            json!([
                {"key": "app", "operator": "DoesNotExist"},
                {"key": "app", "operator": "In", "values": ["api"]},
                {"key": "app", "operator": "NotIn", "values": ["web"]},
                {"key": "tier", "operator": "Exists"},
                {"key": "tier", "operator": "In", "values": ["front"]},
            ]),
            json!([{"key": "tier", "operator": "NotIn", "values": ["front"]}]),
        ),
        rule(
            "spec",
            "template.spec.restartPolicy must be Always",
            &|policy| template(json!({"spec": {"restartPolicy": policy}})),
            json!(["Never", "OnFailure", ""]),
            json!(["Always"]),
        ),
        rule(
            "spec",
            "template.spec.activeDeadlineSeconds must not be set: its pods would stop by themselves",
            &|spec| template(json!({"spec": spec})),
            json!([{"activeDeadlineSeconds": 5}]),
            json!([{"terminationGracePeriodSeconds": 5}]),
        ),
        rule(
            "spec",
            "progressDeadlineSeconds must be greater than minReadySeconds",
            &spec,
            json!([
                {"minReadySeconds": 600},
                {"progressDeadlineSeconds": 0},
                {"progressDeadlineSeconds": 5, "minReadySeconds": 6},
            ]),
            json!([{"progressDeadlineSeconds": 6, "minReadySeconds": 5}]),
        ),
    ]
}

fn strategy() -> Vec<Case> {
    let bounds = |bounds: Value| json!({"spec": {"strategy": {"rollingUpdate": bounds}}});
    let pattern = |field: &str| {
        keyword(
            DEPLOYMENT,
            &format!("spec.strategy.rollingUpdate.{field}"),
            ("pattern", "should match '^[0-9]+%$'"),
            bounds(json!({field: "5"})),
            vec![bounds(json!({field: "5%"})), bounds(json!({field: 5}))],
        )
    };
    // A rule refuses what is below 0; the schema's bounds only keep what the types cannot hold.
    let large = |field: &'static str| {
        let mut cases = int32(DEPLOYMENT, &format!("spec.strategy.rollingUpdate.{field}"), &|value| {
            bounds(json!({field: value}))
        });
        cases[0].passes.clear();
        cases
    };
    let mut cases = large("maxSurge");
    cases.extend(large("maxUnavailable"));
    cases.extend([
        pattern("maxSurge"),
        pattern("maxUnavailable"),
        rule(
            "spec.strategy",
            "rollingUpdate must not be given when the strategy's type is Recreate",
            &|strategy| json!({"spec": {"strategy": strategy}}),
            json!([
                {"type": "Recreate", "rollingUpdate": {}},
                {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}},
            ]),
            json!([{"rollingUpdate": {}}]),
        ),
        rule(
            "spec.strategy.rollingUpdate",
            "maxSurge must be an integer from 0 to 2147483647 or a percentage such as 25%",
            &|surge| bounds(json!({"maxSurge": surge})),
            json!([-1]),
            json!([i32::MAX, "1000%"]),
        ),
        rule(
            "spec.strategy.rollingUpdate",
            "maxUnavailable must be an integer from 0 to 2147483647 or a percentage from 0% to 100%",
            &|unavailable| bounds(json!({"maxUnavailable": unavailable})),
            json!([-1, "101%"]),
            json!([i32::MAX, "100%", "007%"]),
        ),
        rule(
            "spec.strategy.rollingUpdate",
            "maxSurge and maxUnavailable must not both be 0: no pod could ever be replaced",
            &|both| bounds(json!({"maxSurge": both[0], "maxUnavailable": both[1]})),
            json!([[0, 0], [0, "0%"], ["00%", 0]]),
            json!([[0, 1], ["1%", "0%"]]),
        ),
    ]);
    cases
}

const POINTS: &str = "spec.strategy.pausePoints";

fn points(points: &Value) -> Value {
    json!({"spec": {"strategy": {"pausePoints": points}}})
}

/// One pause point with these fields.
fn point(mut fields: Value) -> Value {
    fields["name"] = json!("canary");
    points(&json!([fields]))
}

fn pause_points() -> Vec<Case> {
    let item = format!("{POINTS}[]");
    let many = |count: usize| {
        let all = (0..count).map(|number| json!({"name": format!("point-{number}"), "beforePriority": 1}));
        points(&all.collect())
    };
    let named = |name: Value| points(&json!([{"name": name, "beforePriority": 1}]));
    let grouped = |label: Value| point(json!({"betweenNodeGroups": label}));
    let nodes = |selector: Value| point(json!({"beforeNodes": selector}));
    let labelled = |labels: Value| nodes(json!({"matchLabels": labels}));
    let matches = |field: &str, says, with: &dyn Fn(Value) -> Value, breaks, passes| Case {
        kind: DEPLOYMENT,
        at: format!("{item}.{field}"),
        constraint: Constraint::Keyword("pattern", says),
        breaks: each(with, breaks),
        passes: each(with, passes),
    };
    let short = |field: &str, most, with: &dyn Fn(usize) -> Value| {
        limit(DEPLOYMENT, &format!("{item}.{field}"), TOO_LONG, most, with)
    };
    let mut cases = selector(DEPLOYMENT, &format!("{item}.beforeNodes"), &nodes, &labelled);
    cases.extend(after_updated(&item, &|value| point(json!({"afterUpdated": value}))));
    cases.extend(int32(DEPLOYMENT, &format!("{item}.beforePriority"), &|value| {
        point(json!({"beforePriority": value}))
    }));
    let twice = json!([{"name": "canary", "afterUpdated": 1}, {"name": "canary", "beforePriority": 1}]);
    cases.extend([
        keyword(DEPLOYMENT, POINTS, TOO_MANY, many(33), vec![many(32), many(0)]),
        keyword(
            DEPLOYMENT,
            POINTS,
            ("x-kubernetes-list-type", "Duplicate value"),
            points(&twice),
            vec![many(2)],
        ),
        required(DEPLOYMENT, &item, "name", points(&json!([{"beforePriority": 1}]))),
        short("name", 63, &|length| named(json!(text(length)))),
        matches(
            "name",
            "should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
            &named,
            json!(["", "-a", "a-", "A", "a.b", "a_b", "a b", "*", "a@1", "a\n"]),
            json!(["a", "0", "a-b", "a--b"]),
        ),
        short("betweenNodeGroups", 317, &|length| grouped(json!(text(length)))),
        matches(
            "betweenNodeGroups",
            "should match '^([-a-zA-Z0-9.]+/)?[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$'",
            &grouped,
            json!(["", "-a", "a-", "/a", "a/", "a/b/c", "a b", "a=b", "a_b/c"]),
            json!(["topology.kubernetes.io/zone", "a", "a_b.c-d"]),
        ),
        short("duration", 20, &|length| lasting(json!(format!("1.{}h", "0".repeat(length - 3))))),
        matches(
            "duration",
            "should match '^([0-9]{1,6}([.][0-9]*)?(ns|us|ms|s|m|h))+$'",
            &lasting,
            json!([
                "", "0", "10", "m", "-5m", "+5m", "5d", " 5m", ".5h", "1e3s", "1..5h", "5\u{b5}s",
                "1000000s", "9999999h", "1h-30m"
            ]),
            json!(["1h", "90m", "1.5h", "1.h", "1h30m15s", "999999s", "000001s", "5ms", "5us", "5ns"]),
        ),
    ]);
    cases
}

/// A pause point that lasts so long.
#[allow(clippy::needless_pass_by_value, reason = "a case makes its object of a value")]
fn lasting(duration: Value) -> Value {
    point(json!({"beforePriority": 1, "duration": duration}))
}

fn rules_of_pause_points() -> Vec<Case> {
    let item = format!("{POINTS}[]");
    let zone = |name: &str| json!({"name": name, "betweenNodeGroups": "zone"});
    let last = json!({"name": "pool", "beforePriority": 1});
    let first = |count: Value| json!({"name": "canary", "afterUpdated": count});
    vec![
        rule(
            "spec.strategy",
            "afterUpdated must not be given when the strategy's type is Recreate: it creates updated pods \
             last",
            &|strategy| json!({"spec": {"strategy": strategy}}),
            json!([
                {"type": "Recreate", "pausePoints": [first(json!(1))]},
                {"type": "Recreate", "pausePoints": [first(json!("10%"))]},
            ]),
            json!([{"type": "Recreate", "pausePoints": [last]}, {"pausePoints": [first(json!(1))]}]),
        ),
        rule(
            "spec.strategy",
            "at most one pause point may have betweenNodeGroups",
            &|all| points(&all),
            json!([[zone("a"), zone("b")], [zone("a"), last, zone("b")]]),
            json!([[zone("a"), last]]),
        ),
        rule(
            &item,
            "a pause point has exactly one of afterUpdated, beforePriority, beforeNodes and \
             betweenNodeGroups",
            &point,
            json!([
                {},
                {"duration": "5m"},
                {"afterUpdated": 1, "beforePriority": 1},
                {"afterUpdated": "5%", "betweenNodeGroups": "zone"},
                {"beforePriority": 1, "beforeNodes": {"matchLabels": {"pool": "spot"}}},
                {"beforeNodes": {"matchLabels": {"pool": "spot"}}, "betweenNodeGroups": "zone"},
            ]),
            json!([
                {"afterUpdated": 1},
                {"beforePriority": 0},
                {"beforeNodes": {"matchLabels": {"pool": "spot"}}},
                {"betweenNodeGroups": "zone"},
            ]),
        ),
        rule(
            &item,
            "beforeNodes must not be empty: it would select every node",
            &|nodes| point(json!({"beforeNodes": nodes})),
            json!([{}, {"matchLabels": {}, "matchExpressions": []}]),
            json!([{"matchExpressions": [{"key": "spot", "operator": "Exists"}]}]),
        ),
        rule(
            &item,
            "duration must be longer than 0s and at most 876000h",
            &lasting,
            json!(["0s", "0h0m", "0.9ns", "876001h", "876000h1ns", "999999h", "999999h999999h99999h"]),
            json!(["1ns", "876000h", "875999.99h", "1h", "90m"]),
        ),
    ]
}

fn node_rules() -> Vec<Case> {
    const AT: &str = "spec.deletionOrder.nodePriorities";
    let rules = |rules: Value| json!({"spec": {"deletionOrder": {"nodePriorities": rules}}});
    let one = |node_rule: Value| rules(json!([node_rule]));
    let item = format!("{AT}[]");
    let cordoned = json!({"unschedulable": true, "priority": 1});
    let taints =
        |count: usize| one(json!({"taintKeys": vec!["example.com/some-taint"; count], "priority": 1}));
    let number = |field: &'static str| {
        let least = one(json!({"unschedulable": true, field: i32::MIN}));
        let mut cases = int32(DEPLOYMENT, &format!("{item}.{field}"), &|value| {
            one(json!({"unschedulable": true, field: value}))
        });
        cases[0].passes.push(least);
        cases
    };
    let selecting = |selector: Value| one(json!({"nodeSelector": selector, "priority": 1}));
    let labelled = |labels: Value| selecting(json!({"matchLabels": labels}));
    let mut cases = selector(DEPLOYMENT, &format!("{item}.nodeSelector"), &selecting, &labelled);
    cases.extend(["priority", "deletionCost"].into_iter().flat_map(number));
    let mut many = limit(DEPLOYMENT, AT, TOO_MANY, 64, &|count| rules(json!(vec![cordoned.clone(); count])));
    many.passes.push(rules(json!([])));
    cases.extend([
        many,
        limit(DEPLOYMENT, &format!("{item}.taintKeys"), TOO_MANY, 64, &taints),
        rule(
            &item,
            "a node rule gives either priority or deletionCost",
            &one,
            json!([{"unschedulable": true}, {"unschedulable": true, "priority": 1, "deletionCost": 1}]),
            json!([{"unschedulable": true, "deletionCost": 1}]),
        ),
        rule(
            &item,
            "a node rule needs at least one of nodeSelector, unschedulable, taintKeys and unassigned",
            &one,
            json!([
                {"priority": 1},
                {"priority": 1, "nodeSelector": {}, "taintKeys": []},
                {"priority": 1, "nodeSelector": {"matchLabels": {}, "matchExpressions": []}},
            ]),
            json!([
                {"priority": 1, "unschedulable": false},
                {"priority": 1, "unassigned": false},
                {"priority": 1, "taintKeys": ["spot"]},
                {"priority": 1, "nodeSelector": {"matchLabels": {"pool": "spot"}}},
            ]),
        ),
        rule(
            &item,
            "unassigned: true goes alone: a pod without a node has nothing for the other fields to match",
            &one,
            json!([
                {"unassigned": true, "unschedulable": false, "priority": 1},
                {"unassigned": true, "taintKeys": ["spot"], "priority": 1},
                {"unassigned": true, "nodeSelector": {}, "priority": 1},
            ]),
            json!([
                {"unassigned": true, "priority": 1},
                {"unassigned": false, "unschedulable": true, "priority": 1},
            ]),
        ),
    ]);
    cases
}
