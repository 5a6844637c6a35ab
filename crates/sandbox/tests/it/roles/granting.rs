//! Roles and bindings: validation, aggregation, and which of them a user may write.

use serde_json::{Value, json};

use super::*;
use crate::common::define_gadgets;

#[tokio::test(start_paused = true)]
async fn invalid_roles_and_bindings_have_the_messages_of_the_api_server() {
    let sandbox = with_roles().await;
    let admin = sandbox.client().unwrap();
    let place = |plural: &str| match plural {
        "roles" | "rolebindings" => format!("{RBAC}/namespaces/default/{plural}"),
        _ => format!("{RBAC}/{plural}"),
    };
    let subject = |kind: &str, more: Value| {
        let mut subject = json!({"kind": kind, "name": "x"});
        subject.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [subject]})
    };
    let urls = json!([{"nonResourceURLs": ["/x"], "verbs": ["get"]}]);
    let group = "rbac.authorization.k8s.io";
    let table = [
        (
            "roles",
            role("a", json!([rule("", "pods", &[])])),
            "rules[0].verbs: Required value: verbs must contain at least one value",
        ),
        (
            "roles",
            role("a", json!([{"verbs": ["get"], "resources": ["pods"]}])),
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
        ),
        (
            "roles",
            role("a", json!([{"verbs": ["get"], "apiGroups": [""]}])),
            "rules[0].resources: Required value: resource rules must supply at least one resource",
        ),
        (
            "roles",
            role("a", urls.clone()),
            "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
        ),
        (
            "clusterroles",
            role("a", json!([{"nonResourceURLs": ["/x"], "verbs": ["get"], "resources": ["pods"]}])),
            "rules[0].nonResourceURLs: Invalid value: [\"/x\"]: rules cannot apply to both regular resources and non-resource URLs",
        ),
        (
            "clusterroles",
            json!({"metadata": {"name": "a"}, "aggregationRule": {}}),
            "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
        ),
        (
            "clusterroles",
            role("a/b", json!([])),
            "metadata.name: Invalid value: \"a/b\": may not contain '/'",
        ),
        (
            "rolebindings",
            binding("b", ("Group", "view"), "x"),
            "roleRef.kind: Unsupported value: \"Group\": supported values: \"Role\", \"ClusterRole\"",
        ),
        (
            "clusterrolebindings",
            binding("b", ("Role", "view"), "x"),
            "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
        ),
        ("rolebindings", binding("b", ("Role", ""), "x"), "roleRef.name: Required value"),
        (
            "clusterrolebindings",
            subject("ServiceAccount", json!({})),
            "subjects[0].namespace: Required value",
        ),
        (
            "rolebindings",
            subject("ServiceAccount", json!({"apiGroup": group})),
            "subjects[0].apiGroup: Unsupported value: \"rbac.authorization.k8s.io\": supported values: \"\"",
        ),
        (
            "rolebindings",
            subject("User", json!({"apiGroup": "x"})),
            "subjects[0].apiGroup: Unsupported value: \"x\": supported values: \"rbac.authorization.k8s.io\"",
        ),
        (
            "rolebindings",
            subject("Robot", json!({})),
            "subjects[0].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
        ),
    ];
    for (plural, body, wanted) in table {
        let message = refused(&admin, "POST", &place(plural), body).await;
        assert!(message.ends_with(&format!("is invalid: {wanted}")), "{message}");
    }
    send(&admin, "POST", &place("clusterroles"), role("Team:Reader_1", urls)).await.unwrap();
    let stored =
        send(&admin, "POST", &place("rolebindings"), binding("b", ("ClusterRole", "view"), "x")).await;
    let stored = stored.unwrap();
    assert_eq!(stored["roleRef"]["apiGroup"], group);
    assert_eq!(stored["subjects"][0]["apiGroup"], group);
    let path = format!("{}/b", place("rolebindings"));
    let message = refused(&admin, "PATCH", &path, json!({"roleRef": {"name": "edit"}})).await;
    assert!(message.ends_with("\"name\":\"edit\"}: cannot change roleRef"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_user_cannot_grant_more_than_the_user_has() {
    let sandbox = with_roles().await;
    let (admin, bob) = (sandbox.client().unwrap(), user(&sandbox, "bob"));
    bind(&admin, "admin", "bob").await;
    let (roles, bindings) =
        (format!("{RBAC}/namespaces/default/roles"), format!("{RBAC}/namespaces/default/rolebindings"));
    let pods = json!([rule("", "pods", &["get"])]);
    let nodes = json!([rule("", "nodes", &["get", "list"])]);
    let held = "user \"bob\" (groups=[\"system:authenticated\"]) is attempting to grant RBAC permissions not currently \
                held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\" \"list\"]}";
    send(&bob, "POST", &roles, role("a", pods.clone())).await.unwrap();
    let group = "rbac.authorization.k8s.io";
    assert_eq!(
        refused(&bob, "POST", &roles, role("b", nodes.clone())).await,
        format!("roles.{group} \"b\" is forbidden: {held}")
    );
    let one = format!("{roles}/a");
    for method in ["PUT", "PATCH"] {
        assert_eq!(
            refused(&bob, method, &one, role("a", nodes.clone())).await,
            format!("roles.{group} \"a\" is forbidden: {held}")
        );
    }
    // The same role in the hands of an administrator, then a change by the user.
    send(&admin, "PUT", &one, role("a", nodes.clone())).await.unwrap();
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert!(refused(&bob, "PATCH", &one, label.clone()).await.contains("not currently held"));
    let finalizers = json!({"metadata": {"finalizers": ["example.com/x"]}});
    send(&bob, "PATCH", &one, finalizers).await.unwrap();

    send(&bob, "POST", &bindings, binding("a", ("ClusterRole", "edit"), "carl")).await.unwrap();
    assert_eq!(
        refused(&bob, "POST", &bindings, binding("b", ("Role", "a"), "carl")).await,
        format!("rolebindings.{group} \"b\" is forbidden: {held}")
    );
    let missing = status(&bob, "POST", &bindings, binding("b", ("ClusterRole", "x"), "carl")).await;
    assert_eq!(
        (missing.code, missing.message.as_str()),
        (404, "clusterroles.rbac.authorization.k8s.io \"x\" not found")
    );

    // The verbs `escalate` and `bind` lift the restriction.
    let more = json!([rule(group, "roles", &["escalate", "bind"])]);
    send(&admin, "POST", &roles, role("more", more)).await.unwrap();
    send(&admin, "POST", &bindings, binding("more", ("Role", "more"), "bob")).await.unwrap();
    send(&bob, "PATCH", &one, label).await.unwrap();
    send(&bob, "POST", &bindings, binding("b", ("Role", "a"), "carl")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_a_cluster_administrator_can_write_an_aggregation_rule() {
    let sandbox = with_roles().await;
    let (admin, bob) = (sandbox.client().unwrap(), user(&sandbox, "bob"));
    let path = format!("{RBAC}/clusterroles");
    let all = role("all", json!([rule("*", "*", &["*"])]));
    send(&admin, "POST", &path, all).await.unwrap();
    let bindings = format!("{RBAC}/clusterrolebindings");
    send(&admin, "POST", &bindings, binding("bob", ("ClusterRole", "all"), "bob")).await.unwrap();
    let aggregate = |name: &str| {
        json!({"metadata": {"name": name},
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}})
    };
    // A user with the verb `escalate` is not checked; `*` includes that verb.
    send(&bob, "POST", &path, aggregate("a")).await.unwrap();
    let rules = json!([rule("*", "*", &["create", "get", "patch"])]);
    send(&admin, "PUT", &format!("{path}/all"), role("all", rules)).await.unwrap();
    let wanted = |name: &str| {
        format!(
            "clusterroles.rbac.authorization.k8s.io \"{name}\" is forbidden: must have cluster-admin privileges to use \
             an aggregationRule"
        )
    };
    assert_eq!(refused(&bob, "POST", &path, aggregate("b")).await, wanted("b"));
    let label = json!({"metadata": {"labels": {"a": "c"}}});
    assert_eq!(refused(&bob, "PATCH", &format!("{path}/a"), label).await, wanted("a"));
}

#[tokio::test(start_paused = true)]
async fn the_default_roles_contain_the_rules_of_roles_with_their_labels() {
    let sandbox = with_roles().await;
    let admin = sandbox.client().unwrap();
    define_gadgets(&admin).await;
    let (jane, bob) = (user(&sandbox, "jane"), user(&sandbox, "bob"));
    bind(&admin, "view", "jane").await;
    bind(&admin, "admin", "bob").await;
    let gadget = json!({"apiVersion": "test.example/v1", "kind": "Gadget", "metadata": {"name": "g"}});
    let message = refused(&jane, "GET", GADGETS, Value::Null).await;
    assert!(message.contains("cannot list resource \"gadgets\" in API group \"test.example\""), "{message}");

    let path = format!("{RBAC}/clusterroles");
    let label = |whole: &str| format!("rbac.authorization.k8s.io/aggregate-to-{whole}");
    let part = |whole: &str, verbs: &[&str]| {
        let mut role = role(&format!("gadgets-{whole}"), json!([rule("test.example", "gadgets", verbs)]));
        role["metadata"]["labels"] = json!({label(whole): "true"});
        role
    };
    send(&admin, "POST", &format!("{path}?dryRun=All"), part("view", &["list"])).await.unwrap();
    status(&jane, "GET", GADGETS, Value::Null).await;
    send(&admin, "POST", &path, part("view", &["list"])).await.unwrap();
    send(&jane, "GET", GADGETS, Value::Null).await.unwrap();
    send(&bob, "GET", GADGETS, Value::Null).await.unwrap();
    status(&bob, "POST", GADGETS, gadget.clone()).await;
    send(&admin, "POST", &path, part("edit", &["create"])).await.unwrap();
    send(&bob, "POST", GADGETS, gadget.clone()).await.unwrap();
    status(&jane, "POST", GADGETS, gadget).await;

    let before = rules(&admin, "edit").await;
    send(&admin, "PATCH", &format!("{path}/edit"), json!({"rules": []})).await.unwrap();
    assert_eq!(rules(&admin, "edit").await, before);
    send(&admin, "DELETE", &format!("{path}/gadgets-view"), Value::Null).await.unwrap();
    status(&jane, "GET", GADGETS, Value::Null).await;
    status(&bob, "GET", GADGETS, Value::Null).await;
}

#[tokio::test(start_paused = true)]
async fn an_update_that_creates_an_object_needs_both_verbs() {
    let sandbox = with_roles().await;
    let (admin, jane) = (sandbox.client().unwrap(), user(&sandbox, "jane"));
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}});
    let allow = |verbs: &[&str]| json!([rule("coordination.k8s.io", "leases", verbs)]);
    send(&admin, "POST", &roles, role("leases", allow(&["update"]))).await.unwrap();
    send(&admin, "POST", &bindings, binding("leases", ("Role", "leases"), "jane")).await.unwrap();
    assert_eq!(
        refused(&jane, "PUT", leases, lease.clone()).await,
        "leases.coordination.k8s.io \"l\" is forbidden: User \"jane\" cannot create resource \"leases\" in API group \
         \"coordination.k8s.io\" in the namespace \"default\""
    );
    send(&admin, "PUT", &format!("{roles}/leases"), role("leases", allow(&["create", "update"])))
        .await
        .unwrap();
    send(&jane, "PUT", leases, lease).await.unwrap();
    send(&admin, "PUT", &format!("{roles}/new"), role("new", json!([]))).await.unwrap();
}
