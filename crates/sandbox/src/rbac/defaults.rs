//! The roles and bindings of a new cluster, for the resources that this server serves.
//!
//! Source: `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go`. Roles of Kubernetes' own components are left
//! out: the components of the sandbox are members of `system:masters`.

use serde_json::{Value, json};

use super::GROUP;
use super::user::{AUTHENTICATED, MASTERS, UNAUTHENTICATED};

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// The default cluster roles. The rules of the aggregated ones are empty: the server computes them.
pub(crate) fn default_roles() -> Vec<Value> {
    let workloads = ["deployments", "deployments/scale", "replicasets", "replicasets/scale"];
    vec![
        aggregate("admin", None),
        plain(
            "cluster-admin",
            None,
            json!([
                {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
                {"nonResourceURLs": ["*"], "verbs": ["*"]},
            ]),
        ),
        aggregate("edit", Some("admin")),
        plain(
            "system:aggregate-to-admin",
            Some("admin"),
            json!([
                rule("authorization.k8s.io", &["localsubjectaccessreviews"], &["create"]),
                rule(GROUP, &["rolebindings", "roles"], ALL),
            ]),
        ),
        plain(
            "system:aggregate-to-edit",
            Some("edit"),
            json!([
                rule("", &["secrets"], READ),
                rule("", &["serviceaccounts"], &["impersonate"]),
                rule("", &["pods"], WRITE),
                rule("", &["pods/eviction"], &["create"]),
                rule("", &["configmaps", "events", "secrets", "serviceaccounts", "services"], WRITE),
                rule("apps", &workloads, WRITE),
                rule("policy", &["poddisruptionbudgets"], WRITE),
                rule("coordination.k8s.io", &["leases"], ALL),
            ]),
        ),
        plain(
            "system:aggregate-to-view",
            Some("view"),
            json!([
                rule("", &["configmaps", "pods", "serviceaccounts", "services", "services/status"], READ),
                rule(
                    "",
                    &[
                        "events",
                        "namespaces/status",
                        "pods/log",
                        "pods/status",
                        "resourcequotas",
                        "resourcequotas/status",
                    ],
                    READ,
                ),
                rule("", &["namespaces"], READ),
                rule(
                    "apps",
                    &[
                        "deployments",
                        "deployments/scale",
                        "deployments/status",
                        "replicasets",
                        "replicasets/scale",
                        "replicasets/status",
                    ],
                    READ,
                ),
                rule("policy", &["poddisruptionbudgets", "poddisruptionbudgets/status"], READ),
            ]),
        ),
        plain(
            "system:basic-user",
            None,
            json!([
                rule(
                    "authorization.k8s.io",
                    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                    &["create"],
                ),
                rule("authentication.k8s.io", &["selfsubjectreviews"], &["create"]),
            ]),
        ),
        plain(
            "system:discovery",
            None,
            json!([{
                "nonResourceURLs": [
                    "/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz",
                    "/version", "/version/",
                ],
                "verbs": ["get"],
            }]),
        ),
        plain(
            "system:public-info-viewer",
            None,
            json!([{
                "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"],
                "verbs": ["get"],
            }]),
        ),
        aggregate("view", Some("edit")),
    ]
}

/// The default bindings of cluster roles to groups.
pub(crate) fn default_bindings() -> Vec<Value> {
    let bind = |role: &str, groups: &[&str]| {
        let subjects: Vec<Value> =
            groups.iter().map(|group| json!({"kind": "Group", "apiGroup": GROUP, "name": group})).collect();
        let mut binding = object("ClusterRoleBinding", role);
        binding["roleRef"] = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": role});
        binding["subjects"] = subjects.into();
        binding
    };
    vec![
        bind("cluster-admin", &[MASTERS]),
        bind("system:basic-user", &[AUTHENTICATED]),
        bind("system:discovery", &[AUTHENTICATED]),
        bind("system:public-info-viewer", &[AUTHENTICATED, UNAUTHENTICATED]),
    ]
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// A role that is part of an aggregated one.
fn plain(name: &str, part_of: Option<&str>, rules: Value) -> Value {
    let mut role = object("ClusterRole", name);
    if let Some(whole) = part_of {
        role["metadata"]["labels"][label(whole)] = json!("true");
    }
    role["rules"] = rules;
    role
}

/// A role whose rules are those of its parts.
fn aggregate(name: &str, part_of: Option<&str>) -> Value {
    let mut role = plain(name, part_of, json!([]));
    role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {label(name): "true"}}]});
    role
}

fn label(whole: &str) -> String {
    format!("{GROUP}/aggregate-to-{whole}")
}

fn object(kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind,
        "metadata": {
            "name": name,
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        },
    })
}
