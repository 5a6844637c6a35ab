//! Users with roles: what each of them may do, and the texts of refusals.

mod commands;
mod granting;
mod users;

use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use kube::core::Status;
use ordereddeployment_sandbox::{Sandbox, User};
use serde_json::{Value, json};

use crate::common::{pod_value, refusal, sandbox, sandbox_with};

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
    let (method, kind) = match method {
        "PATCH" => (method, "application/merge-patch+json"),
        _ => (method, "application/json"),
    };
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
    let mut dependent = role("owned", json!([]));
    dependent["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
    let roles = format!("{RBAC}/namespaces/default/roles");
    send(&admin, "POST", &roles, dependent).await.unwrap();
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
