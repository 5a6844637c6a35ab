//! Real kubectl with users and roles.

use ordereddeployment_sandbox::Config;
use serde_json::json;

use crate::common::pod_value;
use crate::kubectl::{Cluster, squeezed};

async fn start() -> Cluster {
    Cluster::start_with(Config { roles: true, ..Config::default() }).await
}

#[tokio::test]
async fn kubectl_creates_and_shows_roles_and_bindings() {
    let cluster = start().await;
    // These commands send protobuf.
    cluster
        .ok(&["create", "role", "reader", "--verb=get,list", "--resource=pods", "--resource=services"])
        .await;
    cluster.ok(&["create", "rolebinding", "reads", "--role=reader", "--user=jane", "--group=dev"]).await;
    let urls = ["--verb=get", "--non-resource-url=/metrics"];
    cluster.ok(&[&["create", "clusterrole", "meter"], &urls[..]].concat()).await;
    let account = "--serviceaccount=default:robot";
    cluster.ok(&["create", "clusterrolebinding", "meters", "--clusterrole=meter", account]).await;
    let aggregation = "--aggregation-rule=rbac.authorization.k8s.io/aggregate-to-view=true";
    cluster.ok(&["create", "clusterrole", "all", aggregation]).await;

    let described = squeezed(&cluster.ok(&["describe", "role", "reader"]).await);
    assert!(described.contains("pods [] [] [get list] services [] [] [get list]"), "{described}");
    let described = squeezed(&cluster.ok(&["describe", "clusterrole", "all"]).await);
    assert!(described.contains("pods/log [] [] [get list watch]"), "{described}");
    let shown = squeezed(&cluster.ok(&["get", "rolebindings", "-o", "wide"]).await);
    assert!(shown.starts_with("NAME ROLE AGE USERS GROUPS SERVICEACCOUNTS reads Role/reader"), "{shown}");
    assert!(shown.ends_with("jane dev"), "{shown}");
    let shown = squeezed(&cluster.ok(&["get", "clusterrolebinding", "meters", "-o", "wide"]).await);
    assert!(shown.ends_with("default/robot"), "{shown}");
    let names = squeezed(&cluster.ok(&["get", "clusterroles"]).await);
    assert!(names.starts_with("NAME CREATED AT admin 20"), "{names}");
}

#[tokio::test]
async fn kubectl_acts_as_another_user() {
    let cluster = start().await;
    cluster.apply(&pod_value("a", json!({}))).await;
    let list = ["--as=jane", "get", "pods"];
    assert_eq!(
        cluster.fails(&list, "").await,
        "Error from server (Forbidden): pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" \
         in the namespace \"default\"\n"
    );
    cluster.ok(&["create", "rolebinding", "views", "--clusterrole=view", "--user=jane"]).await;
    cluster.ok(&list).await;
    let err = cluster.fails(&["--as=jane", "delete", "pod", "a"], "").await;
    assert!(err.contains("User \"jane\" cannot delete resource \"pods\""), "{err}");
    assert_eq!(cluster.ok(&["auth", "can-i", "list", "pods", "--as=jane"]).await, "yes\n");
    let can = ["auth", "can-i", "delete", "pods", "--as=jane", "--quiet"];
    cluster.fails(&can, "").await;
    let listed = squeezed(&cluster.ok(&["auth", "can-i", "--list", "--as=jane"]).await);
    assert!(listed.contains("pods/log [] [] [get list watch]"), "{listed}");
    assert!(listed.contains("[/healthz] [] [get]"), "{listed}");
    let who = squeezed(&cluster.ok(&["auth", "whoami", "--as=jane", "--as-group=dev"]).await);
    assert!(who.ends_with("Username jane Groups [dev system:authenticated]"), "{who}");
    let who = squeezed(&cluster.ok(&["auth", "whoami"]).await);
    assert!(who.ends_with("Groups [system:masters system:authenticated]"), "{who}");
}

#[tokio::test]
async fn kubectl_reconciles_roles() {
    let cluster = start().await;
    let roles = |verbs: &[&str], user: &str| {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "r", "namespace": "default"},
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "b", "namespace": "default"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]});
        json!({"apiVersion": "v1", "kind": "List", "items": [role, binding]}).to_string()
    };
    let reconcile = ["auth", "reconcile", "-f", "-"];
    cluster.ok_with(&reconcile, &roles(&["get"], "jane")).await;
    cluster.ok_with(&reconcile, &roles(&["list"], "erin")).await;
    for user in ["jane", "erin"] {
        for verb in ["get", "list"] {
            assert_eq!(cluster.ok(&["auth", "can-i", verb, "pods", "--as", user]).await, "yes\n");
        }
    }
}
