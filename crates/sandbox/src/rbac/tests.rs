//! The rules of authorization as tables, and the texts that users read.
#![allow(clippy::needless_pass_by_value, reason = "reads better where the value is written in place")]

use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::request::{Query, attributes};

/// Roles and bindings in a list.
struct Stored(Vec<Value>);

impl Stored {
    fn find(&self, kind: &str, namespace: &str) -> Vec<&Value> {
        let of_kind = self.0.iter().filter(|object| object["kind"] == kind);
        of_kind.filter(|object| crate::object::namespace(object) == namespace).collect()
    }
}

impl Roles for Stored {
    fn role(&self, namespace: &str, name: &str) -> Option<&Value> {
        self.find("Role", namespace).into_iter().find(|role| crate::object::name(role) == name)
    }

    fn cluster_role(&self, name: &str) -> Option<&Value> {
        self.find("ClusterRole", "").into_iter().find(|role| crate::object::name(role) == name)
    }

    fn bindings(&self, namespace: &str) -> Vec<&Value> {
        self.find("RoleBinding", namespace)
    }

    fn cluster_bindings(&self) -> Vec<&Value> {
        self.find("ClusterRoleBinding", "")
    }
}

fn jane() -> User {
    User { name: "jane".into(), groups: vec!["dev".into(), "system:authenticated".into()], ..User::default() }
}

fn request(method: &str, target: &str) -> Attributes {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    attributes(&method.parse::<Method>().unwrap(), path, &Query::parse(query))
}

fn role(kind: &str, namespace: &str, name: &str, rules: Value) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "rules": rules})
}

fn binding(namespace: &str, role: (&str, &str), subject: Value) -> Value {
    let kind = if namespace.is_empty() { "ClusterRoleBinding" } else { "RoleBinding" };
    json!({"kind": kind, "metadata": {"name": "b", "namespace": namespace},
        "roleRef": {"kind": role.0, "name": role.1}, "subjects": [subject]})
}

fn allowed(stored: &Stored, user: &User, asked: &Attributes) -> bool {
    matches!(authorize(stored, user, asked), Decision::Allowed(_))
}

#[test]
fn a_rule_allows_what_it_lists() {
    let any = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
    let pods = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]});
    let logs = json!({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]});
    let scales = json!({"apiGroups": ["*"], "resources": ["*/scale"], "verbs": ["get"]});
    let one = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["*"], "resourceNames": ["p"]});
    let urls = json!({"nonResourceURLs": ["/healthz", "/openapi/*"], "verbs": ["get"]});
    let all_urls = json!({"nonResourceURLs": ["*"], "verbs": ["*"]});
    let (pod, log) = ("/api/v1/namespaces/a/pods/p", "/api/v1/namespaces/a/pods/p/log");
    let scale = "/apis/apps/v1/namespaces/a/deployments/d/scale";
    let table = [
        (&any, "DELETE", pod, true),
        (&any, "GET", log, true),
        (&any, "GET", "/version", false),
        (&pods, "GET", pod, true),
        (&pods, "GET", "/api/v1/pods", true),
        (&pods, "DELETE", pod, false),
        (&pods, "GET", log, false),
        (&pods, "GET", "/apis/metrics.k8s.io/v1/pods", false),
        (&logs, "GET", log, true),
        (&logs, "GET", pod, false),
        (&scales, "GET", scale, true),
        (&scales, "GET", "/apis/apps/v1/namespaces/a/deployments/d", false),
        (&scales, "GET", "/apis/apps/v1/namespaces/a/deployments/d/status", false),
        (&one, "DELETE", pod, true),
        (&one, "DELETE", "/api/v1/namespaces/a/pods/q", false),
        (&one, "GET", "/api/v1/namespaces/a/pods", false),
        (&one, "GET", "/api/v1/namespaces/a/pods?fieldSelector=metadata.name=p", true),
        (&one, "POST", "/api/v1/namespaces/a/pods", false),
        (&urls, "GET", "/healthz", true),
        (&urls, "GET", "/healthz/etcd", false),
        (&urls, "GET", "/openapi/v2", true),
        (&urls, "GET", "/openapi", false),
        (&urls, "POST", "/healthz", false),
        (&all_urls, "POST", "/anything", true),
        (&all_urls, "GET", pod, false),
    ];
    for (rule, method, target, wanted) in table {
        assert_eq!(Rule::of(rule).allows(&request(method, target)), wanted, "{rule} {method} {target}");
    }
}

#[test]
fn a_binding_applies_to_its_subjects_in_its_scope() {
    let view = role(
        "ClusterRole",
        "",
        "view",
        json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]),
    );
    let account = User::service_account("a", "robot");
    let (user, group) = (json!({"kind": "User", "name": "jane"}), json!({"kind": "Group", "name": "dev"}));
    let robot = json!({"kind": "ServiceAccount", "name": "robot", "namespace": "a"});
    let unqualified = json!({"kind": "ServiceAccount", "name": "robot"});
    let accounts = json!({"kind": "Group", "name": "system:serviceaccounts:a"});
    let (in_a, in_b, everywhere) = ("/api/v1/namespaces/a/pods", "/api/v1/namespaces/b/pods", "/api/v1/pods");
    let table = [
        ("", &user, jane(), [true, true, true]),
        ("a", &user, jane(), [true, false, false]),
        ("a", &group, jane(), [true, false, false]),
        ("a", &robot, jane(), [false, false, false]),
        ("b", &robot, account.clone(), [false, true, false]),
        ("b", &unqualified, account.clone(), [false, false, false]),
        ("a", &unqualified, account.clone(), [true, false, false]),
        ("", &unqualified, account.clone(), [false, false, false]),
        ("", &accounts, account.clone(), [true, true, true]),
        ("", &json!({"kind": "User", "name": "system:serviceaccount:a:robot"}), account, [true, true, true]),
    ];
    for (namespace, subject, who, wanted) in table {
        let stored = Stored(vec![view.clone(), binding(namespace, ("ClusterRole", "view"), subject.clone())]);
        let found = [in_a, in_b, everywhere].map(|path| allowed(&stored, &who, &request("GET", path)));
        assert_eq!(found, wanted, "{subject} in {namespace:?}");
    }
}

#[test]
fn a_role_of_another_namespace_is_not_found() {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
    let user = json!({"kind": "User", "name": "jane"});
    let stored =
        Stored(vec![role("Role", "b", "reader", rules), binding("a", ("Role", "reader"), user.clone())]);
    let decision = authorize(&stored, &jane(), &request("GET", "/api/v1/namespaces/a/pods"));
    let reason = "RBAC: role.rbac.authorization.k8s.io \"reader\" not found";
    assert_eq!(decision, Decision::Denied(reason.into()));
    let stored = Stored(vec![
        binding("a", ("Role", "reader"), user.clone()),
        binding("a", ("Role", "reader"), user.clone()),
        binding("", ("ClusterRole", "x"), user),
    ]);
    let decision = authorize(&stored, &jane(), &request("GET", "/api/v1/namespaces/a/pods"));
    let reason = "RBAC: [clusterrole.rbac.authorization.k8s.io \"x\" not found, role.rbac.authorization.k8s.io \
                  \"reader\" not found]";
    assert_eq!(decision, Decision::Denied(reason.into()));
}

#[test]
fn the_reason_names_the_binding_the_role_and_the_subject() {
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]);
    let reason = |namespace: &str, kind: &str, subject: Value, user: &User| {
        let place = if kind == "Role" { namespace } else { "" };
        let stored =
            Stored(vec![role(kind, place, "r", rules.clone()), binding(namespace, (kind, "r"), subject)]);
        match authorize(&stored, user, &request("GET", "/api/v1/namespaces/a/pods")) {
            Decision::Allowed(reason) => reason,
            Decision::Denied(reason) => panic!("denied: {reason}"),
        }
    };
    assert_eq!(
        reason("a", "Role", json!({"kind": "User", "name": "jane"}), &jane()),
        "RBAC: allowed by RoleBinding \"b/a\" of Role \"r\" to User \"jane\""
    );
    assert_eq!(
        reason("", "ClusterRole", json!({"kind": "Group", "name": "dev"}), &jane()),
        "RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \"r\" to Group \"dev\""
    );
    let robot = json!({"kind": "ServiceAccount", "name": "robot"});
    assert_eq!(
        reason("a", "ClusterRole", robot, &User::service_account("a", "robot")),
        "RBAC: allowed by RoleBinding \"b/a\" of ClusterRole \"r\" to ServiceAccount \"robot/a\""
    );
}

#[test]
fn masters_may_do_everything_without_roles() {
    let nothing = Stored(Vec::new());
    let admin = User::all_powerful("admin");
    for target in ["/version", "/api/v1/pods", "/apis/x/v1/namespaces/a/y/z/w"] {
        assert_eq!(authorize(&nothing, &admin, &request("DELETE", target)), Decision::Allowed(String::new()));
        assert_eq!(authorize(&nothing, &jane(), &request("DELETE", target)), Decision::Denied(String::new()));
    }
}

#[test]
fn a_refusal_has_the_text_and_the_details_of_the_api_server() {
    let table = [
        (
            "GET",
            "/api/v1/namespaces/default/pods",
            "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \
             \"default\"",
            json!({"kind": "pods"}),
        ),
        (
            "GET",
            "/apis/apps/v1/namespaces/a/deployments/d/scale",
            "deployments.apps \"d\" is forbidden: User \"jane\" cannot get resource \"deployments/scale\" in API group \
             \"apps\" in the namespace \"a\"",
            json!({"name": "d", "group": "apps", "kind": "deployments"}),
        ),
        (
            "GET",
            "/api/v1/nodes?watch=1",
            "nodes is forbidden: User \"jane\" cannot watch resource \"nodes\" in API group \"\" at the cluster scope",
            json!({"kind": "nodes"}),
        ),
        (
            "GET",
            "/api/v1/namespaces/a",
            "namespaces \"a\" is forbidden: User \"jane\" cannot get resource \"namespaces\" in API group \"\" in the \
             namespace \"a\"",
            json!({"name": "a", "kind": "namespaces"}),
        ),
        ("POST", "/version", "forbidden: User \"jane\" cannot post path \"/version\"", json!({})),
    ];
    for (method, target, message, details) in table {
        let status = request(method, target).refused("jane", "").to_value();
        assert_eq!(status["message"], message);
        assert_eq!((&status["code"], &status["reason"]), (&json!(403), &json!("Forbidden")));
        assert_eq!(status["details"], details, "{target}");
    }
    let status = request("GET", "/version").refused("<a&b>", "RBAC: <x>").to_value();
    assert_eq!(
        status["message"],
        "forbidden: User \"&lt;a&amp;b&gt;\" cannot get path \"/version\": RBAC: <x>"
    );
}

fn missing(own: Value, wanted: Value) -> Option<String> {
    let stored = Stored(vec![
        role("ClusterRole", "", "own", own),
        binding("a", ("ClusterRole", "own"), json!({"kind": "User", "name": "jane"})),
    ]);
    missing_rules(&stored, &jane(), "a", &rules_of(&json!({"rules": wanted})))
}

#[test]
fn a_user_can_grant_only_covered_rules() {
    let rule = |groups: &[&str], resources: &[&str], names: &[&str], verbs: &[&str]| json!([{"apiGroups": groups, "resources": resources, "resourceNames": names, "verbs": verbs}]);
    let pods = |verbs: &[&str]| rule(&[""], &["pods"], &[], verbs);
    let url = |url: &str| json!([{"nonResourceURLs": [url], "verbs": ["get"]}]);
    let table = [
        (pods(&["get", "list"]), pods(&["get"]), true),
        (pods(&["get"]), pods(&["get", "list"]), false),
        (pods(&["*"]), pods(&["get", "list"]), true),
        (pods(&["get"]), pods(&["*"]), false),
        (rule(&["*"], &["*"], &[], &["*"]), rule(&["a", "b"], &["c", "d/e"], &["f"], &["g"]), true),
        (pods(&["get"]), rule(&[""], &["pods"], &["p"], &["get"]), true),
        (rule(&[""], &["pods"], &["p"], &["get"]), pods(&["get"]), false),
        (rule(&[""], &["pods"], &["p", "q"], &["get"]), rule(&[""], &["pods"], &["q"], &["get"]), true),
        (rule(&[""], &["*/scale"], &[], &["get"]), rule(&[""], &["x/scale"], &[], &["get"]), true),
        (rule(&[""], &["*/scale"], &[], &["get"]), rule(&[""], &["x"], &[], &["get"]), false),
        (url("/a/*"), url("/a/b"), true),
        (url("/a/*"), url("/a/b/*"), true),
        (url("/a/b"), url("/a/*"), false),
        (url("*"), url("/a"), true),
        (rule(&["*"], &["*"], &[], &["*"]), url("/a"), false),
    ];
    for (own, wanted, covered) in table {
        assert_eq!(missing(own.clone(), wanted.clone()).is_none(), covered, "{own} {wanted}");
    }
}

#[test]
fn the_missing_rules_are_listed_once_for_each_resource() {
    let own = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let wanted = json!([
        {"apiGroups": ["", "apps"], "resources": ["secrets", "pods"], "verbs": ["list", "get"]},
        {"apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"], "verbs": ["delete"]},
        {"nonResourceURLs": ["/x"], "verbs": ["get"]},
    ]);
    assert_eq!(
        missing(own, wanted).unwrap(),
        "user \"jane\" (groups=[\"dev\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
         held:\n\
         {APIGroups:[\"\"], Resources:[\"pods\"], ResourceNames:[\"p\"], Verbs:[\"delete\"]}\n\
         {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\"]}\n\
         {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"list\" \"get\"]}\n\
         {APIGroups:[\"apps\"], Resources:[\"pods\"], Verbs:[\"list\" \"get\"]}\n\
         {APIGroups:[\"apps\"], Resources:[\"secrets\"], Verbs:[\"list\" \"get\"]}\n\
         {NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}"
    );
    let stored = Stored(vec![binding("", ("ClusterRole", "gone"), json!({"kind": "User", "name": "jane"}))]);
    let wanted = rules_of(&json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}));
    let message = missing_rules(&stored, &jane(), "a", &wanted).unwrap();
    assert!(
        message.ends_with(
            "Verbs:[\"get\"]}; resolution errors: [clusterroles.rbac.authorization.k8s.io \"gone\" not found]"
        ),
        "{message}"
    );
}

#[test]
fn only_a_user_who_may_do_everything_has_full_authority() {
    for (rules, wanted) in [
        (json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]), false),
        (
            json!([
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["*"]},
            ]),
            true,
        ),
    ] {
        let stored = Stored(vec![
            role("ClusterRole", "", "own", rules),
            binding("", ("ClusterRole", "own"), json!({"kind": "User", "name": "jane"})),
        ]);
        assert_eq!(is_full_authority(&stored, &jane(), ""), wanted);
    }
}

#[test]
fn an_aggregated_role_has_the_rules_of_the_roles_that_match() {
    let rule = |verb: &str| json!({"apiGroups": [""], "resources": ["pods"], "verbs": [verb]});
    let part = |name: &str, labels: Value, verbs: &[&str]| {
        let rules: Vec<Value> = verbs.iter().map(|verb| rule(verb)).collect();
        json!({"metadata": {"name": name, "labels": labels}, "rules": rules})
    };
    let a = part("a", json!({"to": "x"}), &["get", "list"]);
    let b = part("b", json!({"to": "x"}), &["list", "watch"]);
    let c = part("c", json!({"to": "y", "more": ""}), &["patch"]);
    let whole = |selectors: Value| {
        json!({"metadata": {"name": "whole", "labels": {"to": "x"}}, "rules": [rule("delete")],
            "aggregationRule": {"clusterRoleSelectors": selectors}})
    };
    let one = whole(json!([{"matchLabels": {"to": "x"}}]));
    let verbs = |role: &Value| {
        let rules = aggregated(role, &[&a, &b, &c, role]).unwrap();
        rules.iter().map(|rule| rule["verbs"][0].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(verbs(&one), ["get", "list", "watch"]);
    let expression = json!({"matchExpressions": [{"key": "more", "operator": "Exists"}]});
    assert_eq!(
        verbs(&whole(json!([expression, {"matchLabels": {"to": "x"}}]))),
        ["patch", "get", "list", "watch"]
    );
    assert_eq!(verbs(&whole(json!([{"matchLabels": {"to": "z"}}]))), Vec::<String>::new());
    assert!(aggregated(&a, &[&a, &b]).is_none());
}
