//! Who a user is: impersonation, service accounts, reviews.

use ordereddeployment_sandbox::User;
use serde_json::{Value, json};

use super::*;

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
