//! What only an `OrderedDeployment`'s spec has.

use serde_json::{Value, json};

use super::parts::{
    TOO_LONG, TOO_MANY, UNSUPPORTED, after_updated, int32, required_in_the_spec, selector,
    selector_of_the_spec, size, template,
};
use super::{Case, Constraint, DEPLOYMENT, keyword, required, text};

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

fn rule(at: &str, message: &'static str, breaks: Vec<Value>, passes: Vec<Value>) -> Case {
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
    let expression = |requirement: Value| json!({"spec": {"selector": {"matchExpressions": [requirement]}}});
    let template = |template: Value| json!({"spec": {"template": template}});
    vec![
        rule(
            "spec",
            MISMATCH,
            vec![
                template(json!({"metadata": {"labels": {"app": "other"}}})),
                template(json!({"metadata": {"labels": {"app": null, "tier": "front"}}})),
                template(json!({"metadata": {"labels": null}})),
                template(json!({"metadata": null})),
            ],
            vec![template(json!({"metadata": {"labels": {"tier": "front"}}}))],
        ),
        rule(
            "spec",
            MISMATCH,
            vec![
                expression(json!({"key": "app", "operator": "DoesNotExist"})),
                expression(json!({"key": "app", "operator": "In", "values": ["api"]})),
                expression(json!({"key": "app", "operator": "NotIn", "values": ["web"]})),
                expression(json!({"key": "tier", "operator": "Exists"})),
                expression(json!({"key": "tier", "operator": "In", "values": ["front"]})),
            ],
            vec![expression(json!({"key": "tier", "operator": "NotIn", "values": ["front"]}))],
        ),
        rule(
            "spec",
            "template.spec.restartPolicy must be Always",
            ["Never", "OnFailure", ""].map(|it| template(json!({"spec": {"restartPolicy": it}}))).to_vec(),
            vec![template(json!({"spec": {"restartPolicy": "Always"}}))],
        ),
        rule(
            "spec",
            "template.spec.activeDeadlineSeconds must not be set: its pods would stop by themselves",
            vec![template(json!({"spec": {"activeDeadlineSeconds": 5}}))],
            vec![template(json!({"spec": {"terminationGracePeriodSeconds": 5}}))],
        ),
        rule(
            "spec",
            "progressDeadlineSeconds must be greater than minReadySeconds",
            vec![
                json!({"spec": {"minReadySeconds": 600}}),
                json!({"spec": {"progressDeadlineSeconds": 0}}),
                json!({"spec": {"progressDeadlineSeconds": 5, "minReadySeconds": 6}}),
            ],
            vec![json!({"spec": {"progressDeadlineSeconds": 6, "minReadySeconds": 5}})],
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
            vec![
                json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": {}}}}),
                json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}}),
            ],
            vec![json!({"spec": {"strategy": {"rollingUpdate": {}}}})],
        ),
        rule(
            "spec.strategy.rollingUpdate",
            "maxSurge must be an integer from 0 to 2147483647 or a percentage such as 25%",
            vec![bounds(json!({"maxSurge": -1}))],
            vec![bounds(json!({"maxSurge": i32::MAX})), bounds(json!({"maxSurge": "1000%"}))],
        ),
        rule(
            "spec.strategy.rollingUpdate",
            "maxUnavailable must be an integer from 0 to 2147483647 or a percentage from 0% to 100%",
            vec![bounds(json!({"maxUnavailable": -1})), bounds(json!({"maxUnavailable": "101%"}))],
            vec![
                bounds(json!({"maxUnavailable": i32::MAX})),
                bounds(json!({"maxUnavailable": "100%"})),
                bounds(json!({"maxUnavailable": "007%"})),
            ],
        ),
        rule(
            "spec.strategy.rollingUpdate",
            "maxSurge and maxUnavailable must not both be 0: no pod could ever be replaced",
            vec![
                bounds(json!({"maxSurge": 0, "maxUnavailable": 0})),
                bounds(json!({"maxSurge": 0, "maxUnavailable": "0%"})),
                bounds(json!({"maxSurge": "00%", "maxUnavailable": 0})),
            ],
            vec![
                bounds(json!({"maxSurge": 0, "maxUnavailable": 1})),
                bounds(json!({"maxSurge": "1%", "maxUnavailable": "0%"})),
            ],
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
    let named = |name: String| points(&json!([{"name": name, "beforePriority": 1}]));
    let grouped = |label: String| point(json!({"betweenNodeGroups": label}));
    let lasting = |duration: &str| point(json!({"beforePriority": 1, "duration": duration}));
    let nodes = |selector: Value| point(json!({"beforeNodes": selector}));
    let labelled = |labels: Value| nodes(json!({"matchLabels": labels}));
    let broken = |field: &str, says: &'static str, breaks: Vec<Value>, passes: Vec<Value>| Case {
        kind: DEPLOYMENT,
        at: format!("{item}.{field}"),
        constraint: Constraint::Keyword("pattern", says),
        breaks,
        passes,
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
        keyword(DEPLOYMENT, &format!("{item}.name"), TOO_LONG, named(text(64)), vec![named(text(63))]),
        broken(
            "name",
            "should match '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$'",
            ["", "-a", "a-", "A", "a.b", "a_b", "a b", "*", "a@1", "a\n"]
                .map(|it| named(it.to_owned()))
                .to_vec(),
            ["a", "0", "a-b", "a--b"].map(|it| named(it.to_owned())).to_vec(),
        ),
        keyword(
            DEPLOYMENT,
            &format!("{item}.betweenNodeGroups"),
            TOO_LONG,
            grouped(text(318)),
            vec![grouped(text(317))],
        ),
        broken(
            "betweenNodeGroups",
            "should match '^([-a-zA-Z0-9.]+/)?[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$'",
            ["", "-a", "a-", "/a", "a/", "a/b/c", "a b", "a=b", "a_b/c"]
                .map(|it| grouped(it.to_owned()))
                .to_vec(),
            ["topology.kubernetes.io/zone", "a", "a_b.c-d"].map(|it| grouped(it.to_owned())).to_vec(),
        ),
        keyword(
            DEPLOYMENT,
            &format!("{item}.duration"),
            TOO_LONG,
            lasting(&"1h".repeat(11)),
            vec![lasting(&"1h".repeat(10))],
        ),
        broken(
            "duration",
            "should match '^([0-9]{1,6}([.][0-9]*)?(ns|us|ms|s|m|h))+$'",
            [
                "", "0", "10", "m", "-5m", "+5m", "5d", " 5m", ".5h", "1e3s", "1..5h", "5\u{b5}s",
                "1000000s", "9999999h", "1h-30m",
            ]
            .map(lasting)
            .to_vec(),
            ["1h", "90m", "1.5h", "1.h", "1h30m15s", "999999s", "000001s", "5ms", "5us", "5ns"]
                .map(lasting)
                .to_vec(),
        ),
    ]);
    cases
}

fn rules_of_pause_points() -> Vec<Case> {
    let item = format!("{POINTS}[]");
    let recreate = |point: Value| json!({"spec": {"strategy": {"type": "Recreate", "pausePoints": [point]}}});
    let lasting = |duration: &str| point(json!({"beforePriority": 1, "duration": duration}));
    let zone = |name: &str| json!({"name": name, "betweenNodeGroups": "zone"});
    let last = json!({"name": "pool", "beforePriority": 1});
    vec![
        rule(
            "spec.strategy",
            "afterUpdated must not be given when the strategy's type is Recreate: it creates updated pods \
             last",
            vec![
                recreate(json!({"name": "canary", "afterUpdated": 1})),
                recreate(json!({"name": "canary", "afterUpdated": "10%"})),
            ],
            vec![recreate(last.clone()), point(json!({"afterUpdated": 1}))],
        ),
        rule(
            "spec.strategy",
            "at most one pause point may have betweenNodeGroups",
            vec![points(&json!([zone("a"), zone("b")])), points(&json!([zone("a"), last, zone("b")]))],
            vec![points(&json!([zone("a"), last]))],
        ),
        rule(
            &item,
            "a pause point has exactly one of afterUpdated, beforePriority, beforeNodes and \
             betweenNodeGroups",
            vec![
                point(json!({})),
                point(json!({"duration": "5m"})),
                point(json!({"afterUpdated": 1, "beforePriority": 1})),
                point(json!({"afterUpdated": "5%", "betweenNodeGroups": "zone"})),
                point(json!({"beforePriority": 1, "beforeNodes": {"matchLabels": {"pool": "spot"}}})),
                point(json!({"beforeNodes": {"matchLabels": {"pool": "spot"}}, "betweenNodeGroups": "zone"})),
            ],
            vec![
                point(json!({"afterUpdated": 1})),
                point(json!({"beforePriority": 0})),
                point(json!({"beforeNodes": {"matchLabels": {"pool": "spot"}}})),
                point(json!({"betweenNodeGroups": "zone"})),
            ],
        ),
        rule(
            &item,
            "beforeNodes must not be empty: it would select every node",
            vec![
                point(json!({"beforeNodes": {}})),
                point(json!({"beforeNodes": {"matchLabels": {}, "matchExpressions": []}})),
            ],
            vec![point(
                json!({"beforeNodes": {"matchExpressions": [{"key": "spot", "operator": "Exists"}]}}),
            )],
        ),
        rule(
            &item,
            "duration must be longer than 0s and at most 876000h",
            ["0s", "0h0m", "0.9ns", "876001h", "876000h1ns", "999999h", "999999h999999h99999h"]
                .map(lasting)
                .to_vec(),
            ["1ns", "876000h", "875999.99h", "1h", "90m"].map(lasting).to_vec(),
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
    cases.extend([
        keyword(
            DEPLOYMENT,
            AT,
            ("maxItems", "Too many"),
            rules(json!(vec![cordoned.clone(); 65])),
            vec![rules(json!(vec![cordoned; 64])), rules(json!([]))],
        ),
        keyword(
            DEPLOYMENT,
            &format!("{item}.taintKeys"),
            ("maxItems", "Too many"),
            taints(65),
            vec![taints(64)],
        ),
        rule(
            &item,
            "a node rule gives either priority or deletionCost",
            vec![
                one(json!({"unschedulable": true})),
                one(json!({"unschedulable": true, "priority": 1, "deletionCost": 1})),
            ],
            vec![one(json!({"unschedulable": true, "deletionCost": 1}))],
        ),
        rule(
            &item,
            "a node rule needs at least one of nodeSelector, unschedulable, taintKeys and unassigned",
            vec![
                one(json!({"priority": 1})),
                one(json!({"priority": 1, "nodeSelector": {}, "taintKeys": []})),
                one(json!({"priority": 1, "nodeSelector": {"matchLabels": {}, "matchExpressions": []}})),
            ],
            vec![
                one(json!({"priority": 1, "unschedulable": false})),
                one(json!({"priority": 1, "unassigned": false})),
                one(json!({"priority": 1, "taintKeys": ["spot"]})),
                one(json!({"priority": 1, "nodeSelector": {"matchLabels": {"pool": "spot"}}})),
            ],
        ),
        rule(
            &item,
            "unassigned: true goes alone: a pod without a node has nothing for the other fields to match",
            vec![
                one(json!({"unassigned": true, "unschedulable": false, "priority": 1})),
                one(json!({"unassigned": true, "taintKeys": ["spot"], "priority": 1})),
                one(json!({"unassigned": true, "nodeSelector": {}, "priority": 1})),
            ],
            vec![
                one(json!({"unassigned": true, "priority": 1})),
                one(json!({"unassigned": false, "unschedulable": true, "priority": 1})),
            ],
        ),
    ]);
    cases
}
