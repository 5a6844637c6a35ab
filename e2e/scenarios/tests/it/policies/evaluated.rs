//! The expressions, evaluated by a CEL library. It knows neither variables nor the authorizer: they are
//! replaced in the text. It escapes the keys of all maps, as a server does with the names of fields only.

use json_patch::merge;
use kube::core::cel::{AdmissionRequest, GroupVersionKind, VapEvaluator, VapExpression};
use ordereddeployment_api::names::annotation::{DELETE_PRIORITY_ALIAS, OF_GROUP};
use serde_json::{Value, json};

use super::sequences::cases;
use super::{Act, Sequence, User};

/// One request, as a policy sees it.
struct Request<'a> {
    user: User,
    resource: &'a str,
    operation: &'a str,
    kind: &'a str,
    old: Value,
    new: Value,
}

/// Whether a rule of `matchConstraints` names this request.
fn matches(policy: &Value, request: &Request<'_>) -> bool {
    let holds = |list: &Value, wanted: &str| list.as_array().unwrap().iter().any(|one| one == wanted);
    policy["matchConstraints"]["resourceRules"].as_array().unwrap().iter().any(|rule| {
        let (resource, part) = request.resource.split_once('/').unwrap_or((request.resource, ""));
        let every_part = !part.is_empty() && holds(&rule["resources"], &format!("{resource}/*"));
        holds(&rule["operations"], request.operation)
            && (every_part || holds(&rule["resources"], request.resource))
    })
}

/// The expressions of a part of the policy, without variables and authorizer.
fn expressions(policy: &Value, part: &str, user: User) -> Vec<VapExpression> {
    const RESUMES: &str = "authorizer.group('ordereddeployment.io').resource('ordereddeployments')\
                           .subresource('status')\
                           .namespace(request.namespace).check('patch').allowed()";
    let plain = |text: &Value| {
        let mut text = text.as_str().unwrap().replace(" .", ".").replace("dyn(", "(");
        for variable in policy["variables"].as_array().into_iter().flatten().rev() {
            let name = format!("variables.{}", variable["name"].as_str().unwrap());
            let value = variable["expression"].as_str().unwrap().replace(" .", ".").replace("dyn(", "(");
            text = text.replace(&name, &format!("({value})"));
        }
        text = text.replace(RESUMES, &user.may_resume.to_string());
        for verb in ["patch", "update"] {
            let check = format!("authorizer.group('').resource('nodes').check('{verb}').allowed()");
            text = text.replace(&check, &user.may_cordon.to_string());
        }
        let mut keys = [&[DELETE_PRIORITY_ALIAS][..], &OF_GROUP].concat();
        // One is the start of another one.
        keys.sort_by_key(|key| std::cmp::Reverse(key.len()));
        for key in keys {
            let escaped = key.replace('.', "__dot__").replace('/', "__slash__").replace('-', "__dash__");
            text = text.replace(key, &escaped);
        }
        assert!(!text.contains("authorizer") && !text.contains("variables."), "{text}");
        text
    };
    let rules = policy[part].as_array().into_iter().flatten();
    rules
        .map(|rule| VapExpression {
            expression: plain(&rule["expression"]),
            message: rule.get("message").and_then(Value::as_str).map(str::to_owned),
            message_expression: None,
        })
        .collect()
}

/// The message with which the policy refuses the request.
fn refusal(policy: &Value, request: Request<'_>) -> Option<String> {
    if !matches(policy, &request) {
        return None;
    }
    let evaluator = VapEvaluator::builder().object(request.new).request(AdmissionRequest {
        operation: request.operation.to_owned(),
        username: request.user.name.to_owned(),
        groups: vec![request.user.group.to_owned()],
        kind: GroupVersionKind { kind: request.kind.to_owned(), ..GroupVersionKind::default() },
        ..AdmissionRequest::default()
    });
    let evaluator = if request.old.is_null() { evaluator } else { evaluator.old_object(request.old) };
    let evaluator = evaluator.build();
    let results = |part| evaluator.evaluate(&expressions(policy, part, request.user));
    if results("matchConditions").iter().any(|result| !result.passed) {
        return None;
    }
    let refused = results("validations").into_iter().find(|result| !result.passed)?;
    Some(refused.message.unwrap_or(refused.expression))
}

/// The request of this step; `state` is the object before.
fn request<'a>(user: User, act: &Act, state: &'a Value, plural: &'static str) -> Request<'a> {
    let mut new = state.clone();
    let kind = state["kind"].as_str().unwrap();
    let (resource, operation, kind) = match act {
        Act::Create(change) | Act::Patch(change) | Act::PatchStatus(change) => {
            merge(&mut new, change);
            match (act, plural) {
                (Act::Create(_), _) => (plural, "CREATE", kind),
                (Act::Patch(_), _) => (plural, "UPDATE", kind),
                (_, "pods") => ("pods/status", "UPDATE", kind),
                (_, "deployments") => ("deployments/status", "UPDATE", kind),
                _ => ("ordereddeployments/status", "UPDATE", kind),
            }
        }
        Act::Delete | Act::DeleteCollection => {
            new = Value::Null;
            (plural, "DELETE", kind)
        }
        Act::Evict => {
            new = json!({"kind": "Eviction", "metadata": {"name": "pod"}});
            ("pods/eviction", "CREATE", "Eviction")
        }
        Act::Bind(resource, annotations) => {
            new = json!({"kind": "Binding", "metadata": {"name": "pod", "annotations": annotations}});
            (*resource, "CREATE", "Binding")
        }
    };
    let old = if operation == "CREATE" { Value::Null } else { state.clone() };
    Request { user, resource, operation, kind, old, new }
}

/// Fails with the steps that the policy decides otherwise.
fn play(policy: &Value, sequence: &Sequence) -> Vec<String> {
    let mut state = sequence.object.clone();
    let plural = match state["kind"].as_str().unwrap() {
        "Pod" => "pods",
        "Deployment" => "deployments",
        _ => "ordereddeployments",
    };
    let mut wrong = Vec::new();
    for (user, act, allowed) in &sequence.steps {
        let refused = refusal(policy, request(*user, act, &state, plural));
        if refused.is_none() != *allowed {
            wrong.push(format!("{}: {} {act:?}: {refused:?}", sequence.what, user.name));
        }
        if let (None, Act::Patch(change) | Act::PatchStatus(change)) = (&refused, act) {
            merge(&mut state, change);
        }
    }
    wrong
}

#[tokio::test]
async fn no_sequence_of_requests_gets_around_the_permission_to_resume_by_helm() {
    let mut wrong = Vec::new();
    for case in cases() {
        let policy = case.objects().await.swap_remove(0)["spec"].take();
        wrong.extend(case.sequences.iter().flat_map(|sequence| play(&policy, sequence)));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_sample_policy_refuses_the_deletion_of_our_crds_only() {
    let text = std::fs::read_to_string(scenarios::top().join("docs/examples/protect-crds.yaml")).unwrap();
    let policy: Value = serde_saphyr::from_multiple::<Value>(&text).unwrap().swap_remove(0)["spec"].take();
    for (group, allowed) in [("ordereddeployment.io", false), ("example.com", true)] {
        let old = json!({"spec": {"group": group}});
        let deletion = Request {
            user: super::sequences::EDITOR,
            resource: "customresourcedefinitions",
            operation: "DELETE",
            kind: "CustomResourceDefinition",
            old,
            new: Value::Null,
        };
        assert_eq!(refusal(&policy, deletion).is_none(), allowed, "{group}");
    }
}
