//! Users with roles: what each of them may do, and the texts of refusals.

use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use kube::core::Status;
use ordereddeployment_sandbox::{Sandbox, User};
use serde_json::{Value, json};

use crate::common::{define_gadgets, pod_value, refusal, sandbox, sandbox_with};

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const PODS: &str = "/api/v1/namespaces/default/pods";
const GADGETS: &str = "/apis/test.example/v1/namespaces/default/gadgets";

async fn with_roles() -> Sandbox {
    sandbox_with(|config| config.roles = true).await
}

fn user(sandbox: &Sandbox, name: &str) -> Client {
    let groups = vec!["system:authenticated".to_owned()];
    sandbox.connect_as("test", User { name: name.to_owned(), groups, ..User::default() }).unwrap()
}

async fn send(client: &Client, method: &str, path: &str, body: Value) -> Result<Value, kube::Error> {
    send_with(client, method, path, body, &[]).await
}

async fn send_with(
    client: &Client,
    method: &str,
    path: &str,
    body: Value,
    headers: &[(&str, &str)],
) -> Result<Value, kube::Error> {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let mut request = Request::builder().method(method.parse::<Method>().unwrap()).uri(path);
    for (name, value) in [&[("content-type", kind)], headers].concat() {
        request = request.header(name, value);
    }
    let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    client.request(request.body(body).unwrap()).await
}

/// The message of a refused request.
async fn refused(client: &Client, method: &str, path: &str, body: Value) -> String {
    refusal(send(client, method, path, body).await).message
}

async fn status(client: &Client, method: &str, path: &str, body: Value) -> Box<Status> {
    refusal(send(client, method, path, body).await)
}

fn role(name: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

fn rule(group: &str, resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
}

fn binding(name: &str, role: (&str, &str), user: &str) -> Value {
    json!({"metadata": {"name": name}, "roleRef": {"kind": role.0, "name": role.1},
        "subjects": [{"kind": "User", "name": user}]})
}

/// Binds a cluster role to a user in `default`.
async fn bind(admin: &Client, role: &str, user: &str) {
    let path = format!("{RBAC}/namespaces/default/rolebindings");
    let body = binding(&format!("{user}-{role}"), ("ClusterRole", role), user);
    send(admin, "POST", &path, body).await.unwrap();
}

async fn rules(client: &Client, cluster_role: &str) -> Vec<Value> {
    let path = format!("{RBAC}/clusterroles/{cluster_role}");
    let role = send(client, "GET", &path, Value::Null).await.unwrap();
    role["rules"].as_array().cloned().unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn without_roles_every_user_may_do_everything() {
    let sandbox = sandbox().await;
    let jane = user(&sandbox, "jane");
    send(&jane, "POST", PODS, pod_value("a", json!({}))).await.unwrap();
    let headers = [("impersonate-user", "bob")];
    send_with(&jane, "DELETE", &format!("{PODS}/a"), Value::Null, &headers).await.unwrap();
    assert_eq!(status(&jane, "GET", &format!("{RBAC}/clusterroles"), Value::Null).await.code, 404);
    let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let answer = send(&jane, "POST", review, json!({"spec": {}})).await.unwrap();
    assert_eq!(answer["status"]["allowed"], true);
}

#[tokio::test(start_paused = true)]
async fn a_user_may_do_what_the_bound_role_allows() {
    let sandbox = with_roles().await;
    let (admin, jane) = (sandbox.client().unwrap(), user(&sandbox, "jane"));
    send(&admin, "POST", PODS, pod_value("a", json!({}))).await.unwrap();
    let refused_list = status(&jane, "GET", PODS, Value::Null).await;
    assert_eq!((refused_list.code, refused_list.reason.as_str()), (403, "Forbidden"));
    assert_eq!(
        refused_list.message,
        "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"default\""
    );
    bind(&admin, "view", "jane").await;
    for path in [PODS, &format!("{PODS}/a"), &format!("{PODS}/a/status")] {
        send(&jane, "GET", path, Value::Null).await.unwrap();
    }
    let one = format!("{PODS}/a");
    let table = [
        ("POST", PODS, pod_value("b", json!({})), "pods", "create resource \"pods\""),
        ("PUT", &one, pod_value("a", json!({})), "pods \"a\"", "update resource \"pods\""),
        ("PATCH", &one, json!({}), "pods \"a\"", "patch resource \"pods\""),
        ("DELETE", &one, Value::Null, "pods \"a\"", "delete resource \"pods\""),
        ("DELETE", PODS, Value::Null, "pods", "deletecollection resource \"pods\""),
        (
            "POST",
            "/api/v1/namespaces/default/pods/a/eviction",
            json!({"metadata": {"name": "a"}}),
            "pods \"a\"",
            "create resource \"pods/eviction\"",
        ),
        (
            "GET",
            "/api/v1/namespaces/default/secrets?watch=true",
            Value::Null,
            "secrets",
            "watch resource \"secrets\"",
        ),
    ];
    for (method, path, body, what, doing) in table {
        let wanted = format!(
            "{what} is forbidden: User \"jane\" cannot {doing} in API group \"\" in the namespace \"default\""
        );
        assert_eq!(refused(&jane, method, path, body).await, wanted);
    }
    assert_eq!(
        refused(&jane, "GET", "/api/v1/pods", Value::Null).await,
        "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" at the cluster scope"
    );
    assert_eq!(
        refused(&jane, "GET", "/metrics", Value::Null).await,
        "forbidden: User \"jane\" cannot get path \"/metrics\""
    );
    bind(&admin, "edit", "jane").await;
    send(&jane, "DELETE", &one, Value::Null).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_known_user_can_discover_the_api_and_ask_about_itself() {
    let sandbox = with_roles().await;
    let jane = user(&sandbox, "jane");
    for path in ["/version", "/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v2", "/openapi/v3"] {
        send(&jane, "GET", path, Value::Null).await.unwrap();
    }
    let groups = send(&jane, "GET", "/apis", Value::Null).await.unwrap();
    for group in ["rbac.authorization.k8s.io", "authorization.k8s.io", "authentication.k8s.io"] {
        assert!(groups["groups"].as_array().unwrap().iter().any(|one| one["name"] == group), "{group}");
    }
    let stranger = sandbox.connect_as("test", User::default()).unwrap();
    assert_eq!(
        refused(&stranger, "GET", "/apis", Value::Null).await,
        "forbidden: User \"\" cannot get path \"/apis\""
    );
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
async fn a_user_with_the_permission_acts_as_another_user() {
    let sandbox = with_roles().await;
    let (admin, jane) = (sandbox.client().unwrap(), user(&sandbox, "jane"));
    bind(&admin, "view", "bob").await;
    let as_bob = [("impersonate-user", "bob")];
    send_with(&admin, "GET", PODS, Value::Null, &as_bob).await.unwrap();
    let message = refusal(send_with(&admin, "DELETE", PODS, Value::Null, &as_bob).await).message;
    assert!(message.contains("User \"bob\" cannot deletecollection"), "{message}");
    let as_masters = [("impersonate-user", "bob"), ("impersonate-group", "system:masters")];
    send_with(&admin, "DELETE", PODS, Value::Null, &as_masters).await.unwrap();

    let wanted = "users \"bob\" is forbidden: User \"jane\" cannot impersonate resource \"users\" in API group \"\" at \
                  the cluster scope";
    assert_eq!(refusal(send_with(&jane, "GET", PODS, Value::Null, &as_bob).await).message, wanted);
    let mut only_bob = rule("", "users", &["impersonate"]);
    only_bob["resourceNames"] = json!(["bob"]);
    let (roles, bindings) = (format!("{RBAC}/clusterroles"), format!("{RBAC}/clusterrolebindings"));
    send(&admin, "POST", &roles, role("bob", json!([only_bob]))).await.unwrap();
    send(&admin, "POST", &bindings, binding("jane", ("ClusterRole", "bob"), "jane")).await.unwrap();
    send_with(&jane, "GET", PODS, Value::Null, &as_bob).await.unwrap();
    for headers in [vec![("impersonate-user", "carl")], as_masters.to_vec()] {
        let message = refusal(send_with(&jane, "GET", PODS, Value::Null, &headers).await).message;
        assert!(message.contains("User \"jane\" cannot impersonate resource"), "{message}");
    }
    let alone = refusal(send_with(&admin, "GET", PODS, Value::Null, &[("impersonate-group", "x")]).await);
    assert_eq!(
        (alone.code, alone.message.as_str()),
        (400, "requested [{Group  x    }] without impersonating a user")
    );
}

#[tokio::test(start_paused = true)]
async fn reviews_answer_who_the_user_is_and_what_the_user_may_do() {
    let sandbox = with_roles().await;
    let (admin, jane) = (sandbox.client().unwrap(), user(&sandbox, "jane"));
    bind(&admin, "view", "jane").await;
    let authorization = "/apis/authorization.k8s.io/v1";
    let own = format!("{authorization}/selfsubjectaccessreviews");
    let asked = |verb: &str| json!({"namespace": "default", "verb": verb, "resource": "pods"});
    let reason =
        "RBAC: allowed by RoleBinding \"jane-view/default\" of ClusterRole \"view\" to User \"jane\"";
    for (verb, wanted) in
        [("list", json!({"allowed": true, "reason": reason})), ("delete", json!({"allowed": false}))]
    {
        let spec = json!({"spec": {"resourceAttributes": asked(verb)}});
        assert_eq!(send(&jane, "POST", &own, spec).await.unwrap()["status"], wanted);
        let of_jane = json!({"spec": {"user": "jane", "resourceAttributes": asked(verb)}});
        let path = format!("{authorization}/subjectaccessreviews");
        assert_eq!(send(&admin, "POST", &path, of_jane.clone()).await.unwrap()["status"], wanted);
        status(&jane, "POST", &path, of_jane.clone()).await;
        let path = format!("{authorization}/namespaces/default/localsubjectaccessreviews");
        assert_eq!(send(&admin, "POST", &path, of_jane).await.unwrap()["status"], wanted);
    }
    let path = json!({"spec": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}});
    assert_eq!(send(&jane, "POST", &own, path).await.unwrap()["status"]["allowed"], true);
    assert_eq!(
        send(&admin, "POST", &own, json!({"spec": {"resourceAttributes": asked("x")}})).await.unwrap()["status"],
        json!({"allowed": true})
    );
    assert_eq!(
        refused(&jane, "POST", &own, json!({"spec": {}})).await,
        ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of \
         nonResourceAttributes or resourceAttributes must be specified"
    );
    assert_eq!(status(&admin, "GET", &own, Value::Null).await.code, 405);

    let rules = format!("{authorization}/selfsubjectrulesreviews");
    let listed = send(&jane, "POST", &rules, json!({"spec": {"namespace": "default"}})).await.unwrap();
    let resources = listed["status"]["resourceRules"].as_array().unwrap();
    assert!(resources.contains(&rule("", "namespaces", &["get", "list", "watch"])), "{listed}");
    assert_eq!(listed["status"]["incomplete"], false);
    let elsewhere = send(&jane, "POST", &rules, json!({"spec": {"namespace": "kube-system"}})).await.unwrap();
    assert!(elsewhere["status"]["resourceRules"].as_array().unwrap().len() < resources.len());
    let who =
        send(&jane, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", json!({})).await.unwrap();
    assert_eq!(who["status"]["userInfo"], json!({"username": "jane", "groups": ["system:authenticated"]}));
}

#[tokio::test(start_paused = true)]
async fn a_service_account_has_the_roles_of_its_groups() {
    let sandbox = with_roles().await;
    let admin = sandbox.client().unwrap();
    let robot = sandbox.connect_as("test", User::service_account("default", "robot")).unwrap();
    let other = sandbox.connect_as("test", User::service_account("other", "robot")).unwrap();
    let mut all = binding("robots", ("ClusterRole", "view"), "x");
    all["subjects"] = json!([{"kind": "Group", "name": "system:serviceaccounts:default"}]);
    send(&admin, "POST", &format!("{RBAC}/namespaces/default/rolebindings"), all).await.unwrap();
    send(&robot, "GET", PODS, Value::Null).await.unwrap();
    let message = refused(&other, "GET", PODS, Value::Null).await;
    assert!(message.contains("User \"system:serviceaccount:other:robot\" cannot list"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn an_update_that_creates_an_object_needs_both_verbs() {
    let sandbox = with_roles().await;
    let (admin, jane) = (sandbox.client().unwrap(), user(&sandbox, "jane"));
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l";
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}});
    let rules = |verbs: &[&str]| json!([rule("coordination.k8s.io", "leases", verbs)]);
    send(&admin, "POST", &roles, role("leases", rules(&["update"]))).await.unwrap();
    send(&admin, "POST", &bindings, binding("leases", ("Role", "leases"), "jane")).await.unwrap();
    assert_eq!(
        refused(&jane, "PUT", leases, lease.clone()).await,
        "leases.coordination.k8s.io \"l\" is forbidden: User \"jane\" cannot create resource \"leases\" in API group \
         \"coordination.k8s.io\" in the namespace \"default\""
    );
    send(&admin, "PUT", &format!("{roles}/leases"), role("leases", rules(&["create", "update"])))
        .await
        .unwrap();
    send(&jane, "PUT", leases, lease).await.unwrap();
    send(&admin, "PUT", &format!("{roles}/new"), role("new", json!([]))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn nodes_scheduler_and_garbage_collector_work_with_roles() {
    let sandbox = with_roles().await;
    let admin = sandbox.client().unwrap();
    let owner = json!({"metadata": {"name": "owner"}});
    let maps = "/api/v1/namespaces/default/configmaps";
    let owner = send(&admin, "POST", maps, owner).await.unwrap();
    let mut pod = pod_value("a", json!({}));
    let uid = &owner["metadata"]["uid"];
    pod["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
    send(&admin, "POST", PODS, pod).await.unwrap();
    let mut owned = role("owned", json!([]));
    owned["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
    let roles = format!("{RBAC}/namespaces/default/roles");
    send(&admin, "POST", &roles, owned).await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let pod = send(&admin, "GET", &format!("{PODS}/a"), Value::Null).await.unwrap();
    assert_eq!(pod["status"]["phase"], "Running");
    send(&admin, "DELETE", &format!("{maps}/owner"), Value::Null).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    for path in [format!("{PODS}/a"), format!("{roles}/owned")] {
        assert_eq!(status(&admin, "GET", &path, Value::Null).await.code, 404, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn bindings_end_with_their_namespace() {
    let sandbox = with_roles().await;
    let (admin, jane) = (sandbox.client().unwrap(), user(&sandbox, "jane"));
    let namespaces = "/api/v1/namespaces";
    let team = json!({"metadata": {"name": "team"}});
    send(&admin, "POST", namespaces, team.clone()).await.unwrap();
    let bindings = format!("{RBAC}/namespaces/team/rolebindings");
    send(&admin, "POST", &bindings, binding("b", ("ClusterRole", "view"), "jane")).await.unwrap();
    // A role in a namespace allows a read of the namespace itself.
    send(&jane, "GET", &format!("{namespaces}/team"), Value::Null).await.unwrap();
    send(&admin, "DELETE", &format!("{namespaces}/team"), Value::Null).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    send(&admin, "POST", namespaces, team).await.unwrap();
    status(&jane, "GET", &format!("{namespaces}/team"), Value::Null).await;
}
