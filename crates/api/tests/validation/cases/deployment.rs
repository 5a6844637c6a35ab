//! What only an `OrderedDeployment`'s spec has.

use serde_json::{Value, json};

use super::parts::{
    UNSUPPORTED, int32, required_in_the_spec, selector, selector_of_the_spec, size, template,
};
use super::{Case, Constraint, DEPLOYMENT, keyword};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = selector_of_the_spec(DEPLOYMENT);
    cases.extend(template(DEPLOYMENT));
    cases.extend(required_in_the_spec(DEPLOYMENT));
    let sizes = ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"];
    cases.extend(sizes.into_iter().flat_map(|field| size(DEPLOYMENT, field)));
    cases.extend(choices());
    cases.extend(rules_of_the_spec());
    cases.extend(strategy());
    cases.extend(node_rules());
    cases
}

fn rule(at: &str, message: &'static str, breaks: Vec<Value>, passes: Vec<Value>) -> Case {
    Case { kind: DEPLOYMENT, at: at.to_owned(), constraint: Constraint::Rule(message), breaks, passes }
}

/// Fields that take one of a few words.
fn choices() -> Vec<Case> {
    let choice = |at: &str, wrap: fn(&str) -> Value, words: &[&str]| {
        keyword(DEPLOYMENT, at, UNSUPPORTED, wrap("Perhaps"), words.iter().map(|word| wrap(word)).collect())
    };
    vec![
        choice("spec.podDeletion", |word| json!({"spec": {"podDeletion": word}}), &["Delete", "Evict"]),
        choice(
            "spec.podReplacementPolicy",
            |word| json!({"spec": {"podReplacementPolicy": word}}),
            &["TerminationStarted", "TerminationComplete"],
        ),
        choice(
            "spec.deletionOrder.unavailablePods",
            |word| json!({"spec": {"deletionOrder": {"unavailablePods": word}}}),
            &["WhenBlocked", "InOrder"],
        ),
        choice(
            "spec.strategy.type",
            |word| json!({"spec": {"strategy": {"type": word}}}),
            &["RollingUpdate", "Recreate"],
        ),
    ]
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
