//! The permissions of the user roles of the chart, on all resources of our API.

use std::collections::BTreeSet;

use futures::future::join_all;
use ordereddeployment_api::names::GROUP;
use scenarios::TestCluster;
use serde_json::json;

use super::documented;

const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
const READ: &[&str] = &["get", "list", "watch"];
const RESOURCES: [&str; 8] = [
    "ordereddeployments",
    "ordereddeployments/status",
    "ordereddeployments/scale",
    "ordereddeployments/finalizers",
    "orderedreplicasets",
    "orderedreplicasets/status",
    "orderedreplicasets/scale",
    "orderedreplicasets/finalizers",
];

/// Resources with the allowed verbs.
type Rights = &'static [(&'static str, &'static [&'static str])];

const VIEWER: Rights = &[
    ("ordereddeployments", READ),
    ("ordereddeployments/status", READ),
    ("ordereddeployments/scale", READ),
    ("orderedreplicasets", READ),
    ("orderedreplicasets/status", READ),
    ("orderedreplicasets/scale", READ),
];
/// Reads everything, as a part of `edit`; never writes a status or a set.
const EDITOR: Rights = &[
    ("ordereddeployments", &VERBS),
    ("ordereddeployments/status", READ),
    ("ordereddeployments/scale", &["get", "list", "watch", "update", "patch"]),
    ("orderedreplicasets", READ),
    ("orderedreplicasets/status", READ),
    ("orderedreplicasets/scale", READ),
];
/// The same role, bound alone.
const EDITOR_ALONE: Rights = &[
    ("ordereddeployments", &VERBS),
    ("ordereddeployments/scale", &["get", "update", "patch"]),
    ("orderedreplicasets", READ),
];
/// Only the permissions for an adoption that `edit` lacks.
const ADOPTER: Rights = &[("orderedreplicasets", &["create", "delete"])];
const RESUMER: Rights = &[("ordereddeployments", READ), ("ordereddeployments/status", &["get", "patch"])];

/// Users, the ClusterRole of each in the namespace of the scenario, and its expected permissions.
const USERS: [(&str, &str, Rights); 8] = [
    ("vera", "view", VIEWER),
    ("eddi", "edit", EDITOR),
    ("adam", "admin", EDITOR),
    ("viola", "ordered-deployment-viewer", VIEWER),
    ("emil", "ordered-deployment-editor", EDITOR_ALONE),
    ("rita", "ordered-deployment-resumer", RESUMER),
    ("ada", "ordered-deployment-adopter", ADOPTER),
    ("guest", "", &[]),
];

/// Binds the roles and checks every permission of every user.
pub(crate) async fn have_the_rights_of_their_roles(cluster: &TestCluster) {
    for (user, role, _) in USERS.into_iter().filter(|(_, role, _)| !role.is_empty()) {
        let binding = ["create", "rolebinding", user, "--clusterrole", role, "--user", user];
        cluster.kubectl.run(&binding).await.unwrap();
    }
    for (user, role, rights) in USERS {
        let expected: BTreeSet<(&str, &str)> =
            rights.iter().flat_map(|(resource, verbs)| verbs.iter().map(|verb| (*resource, *verb))).collect();
        // The roles are aggregated and reach the authorizer with a delay.
        for (resource, verb) in &expected {
            cluster.until_may(user, (verb, GROUP, resource), true).await.unwrap();
        }
        let every = RESOURCES.iter().flat_map(|resource| VERBS.iter().map(move |verb| (*resource, *verb)));
        let allowed = join_all(every.map(async |(resource, verb)| {
            let is_allowed = cluster.may(user, verb, GROUP, resource).await.unwrap();
            is_allowed.then_some((resource, verb))
        }));
        let allowed: BTreeSet<_> = allowed.await.into_iter().flatten().collect();
        assert_eq!(allowed, expected, "{user}, by {role}");
    }
}

/// While `web` is held, an editor cannot resume it, and a user with the resume role can do nothing else. The
/// scenario ends with a resume.
pub(crate) async fn resume_only_with_permission(cluster: &TestCluster) {
    let hold = hold_of(cluster).await;
    let request = json!({"status": {"resumeRequested": hold}}).to_string();
    let resume = async |user: &str, more: &[&str]| {
        let asked =
            ["--as", user, "patch", "od", "web", "--subresource=status", "--type=merge", "-p", &request];
        cluster.kubectl.run(&[&asked, more].concat()).await
    };
    for user in ["vera", "eddi", "adam", "emil", "guest"] {
        let refused = resume(user, &[]).await.unwrap_err().to_string();
        assert!(refused.contains("Forbidden") || refused.contains("forbidden"), "{user}: {refused}");
    }
    let scale =
        async |user: &str| cluster.kubectl.run(&["--as", user, "scale", "od", "web", "--replicas=10"]).await;
    for user in ["vera", "rita", "guest"] {
        let refused = scale(user).await.unwrap_err().to_string();
        assert!(refused.contains("Forbidden") || refused.contains("forbidden"), "{user}: {refused}");
    }
    for user in ["eddi", "adam", "emil"] {
        scale(user).await.unwrap();
    }
    // The status does not give access to the spec.
    let both = json!({"spec": {"replicas": 1}, "status": {"resumeRequested": hold}}).to_string();
    let sly = ["--as=rita", "patch", "od", "web", "--subresource=status", "--type=merge", "-p", &both];
    let tried = [&sly[..], &["--dry-run=server", "-ojsonpath={.spec.replicas}"]].concat();
    assert_eq!(cluster.kubectl.run(&tried).await.unwrap(), "10");
    resume("rita", &["--dry-run=server"]).await.unwrap();
    by_the_command_line(cluster).await;
}

/// `kubectl ordered resume` with a service account that has only the permissions of the documented command.
async fn by_the_command_line(cluster: &TestCluster) {
    let (namespace, account) = (cluster.namespace.as_str(), "releases");
    cluster.kubectl.run(&["create", "serviceaccount", account]).await.unwrap();
    let group = format!("system:serviceaccounts:{namespace}");
    let own = |word: String| match word.as_str() {
        "shop" => namespace.to_owned(),
        "release-managers" => group.clone(),
        _ => word,
    };
    let bind: Vec<String> = documented("kubectl create rolebinding resumers").into_iter().map(own).collect();
    assert!(bind.contains(&group) && bind.iter().any(|word| word == namespace), "{bind:?}");
    cluster.kubectl.run(&bind.iter().map(String::as_str).collect::<Vec<_>>()).await.unwrap();
    let user = format!("system:serviceaccount:{namespace}:{account}");
    cluster.until_may(&user, ("patch", GROUP, "ordereddeployments/status"), true).await.unwrap();
    let plugin = cluster.plugin_of_account(account).await.unwrap();
    plugin.ok(&["resume", "web", &hold_of(cluster).await]).await.unwrap();
}

async fn hold_of(cluster: &TestCluster) -> String {
    cluster.held("web").await.unwrap().status.unwrap().hold.unwrap().id
}
