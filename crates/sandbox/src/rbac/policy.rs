//! The roles that are bound to a user, and the decision about a request.
//!
//! Source: `pkg/registry/rbac/validation/rule.go` and `plugin/pkg/auth/authorizer/rbac/rbac.go`.

use serde_json::Value;

use super::GROUP;
use super::attributes::Attributes;
use super::rule::{Rule, rules_of};
use super::user::{User, account_name};

/// The stored roles and bindings.
pub(crate) trait Roles {
    fn role(&self, namespace: &str, name: &str) -> Option<&Value>;
    fn cluster_role(&self, name: &str) -> Option<&Value>;
    fn bindings(&self, namespace: &str) -> Vec<&Value>;
    fn cluster_bindings(&self) -> Vec<&Value>;
}

/// The decision about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// With the binding that allows it. Empty for members of `system:masters`.
    Allowed(String),
    /// No rule allows it. The text names roles that are bound and do not exist.
    Denied(String),
}

/// A role that a binding refers to and that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoRole {
    /// `role` or `clusterrole`, and the name.
    Missing(&'static str, String),
    /// The kind is neither of the two.
    UnknownKind(String),
}

impl NoRole {
    /// The text of the authorizer: its cache names resources in the singular.
    pub(crate) fn cached(&self) -> String {
        match self {
            Self::Missing(kind, name) => format!("{kind}.{GROUP} {name:?} not found"),
            Self::UnknownKind(kind) => format!("unsupported role reference kind: {kind:?}"),
        }
    }

    /// The text of the registry, which reads the stored roles.
    pub(crate) fn stored(&self) -> String {
        match self {
            Self::Missing(kind, name) => format!("{kind}s.{GROUP} {name:?} not found"),
            Self::UnknownKind(_) => self.cached(),
        }
    }
}

/// Decides about a request.
pub(crate) fn authorize(stored: &impl Roles, user: &User, request: &Attributes) -> Decision {
    if user.is_all_powerful() {
        return Decision::Allowed(String::new());
    }
    let mut missing = Vec::new();
    for grant in grants(stored, user, &request.namespace) {
        match grant.rules {
            Ok(rules) if rules.iter().any(|rule| rule.allows(request)) => {
                return Decision::Allowed(format!("RBAC: allowed by {}", grant.source));
            }
            Ok(_) => {}
            Err(error) => missing.push(error.cached()),
        }
    }
    Decision::Denied(if missing.is_empty() { String::new() } else { format!("RBAC: {}", joined(&missing)) })
}

/// All rules that apply to a user in a namespace, and the bound roles that do not exist.
pub(crate) fn rules_for(stored: &impl Roles, user: &User, namespace: &str) -> (Vec<Rule>, Vec<NoRole>) {
    let (mut rules, mut missing) = (Vec::new(), Vec::new());
    for grant in grants(stored, user, namespace) {
        match grant.rules {
            Ok(own) => rules.extend(own),
            Err(error) => missing.push(error),
        }
    }
    (rules, missing)
}

/// The rules of the role that a binding refers to.
pub(crate) fn role_rules(
    stored: &impl Roles,
    reference: &Value,
    namespace: &str,
) -> Result<Vec<Rule>, NoRole> {
    let text = |key: &str| reference[key].as_str().unwrap_or_default();
    let name = text("name");
    let (kind, found) = match text("kind") {
        "Role" => ("role", stored.role(namespace, name)),
        "ClusterRole" => ("clusterrole", stored.cluster_role(name)),
        other => return Err(NoRole::UnknownKind(other.to_owned())),
    };
    found.map(rules_of).ok_or_else(|| NoRole::Missing(kind, name.to_owned()))
}

/// Errors as Go joins them: each text once, several in brackets.
pub(crate) fn joined(errors: &[String]) -> String {
    let mut once: Vec<&str> = Vec::new();
    for error in errors {
        if !once.contains(&error.as_str()) {
            once.push(error);
        }
    }
    if let [one] = once.as_slice() { (*one).to_owned() } else { format!("[{}]", once.join(", ")) }
}

/// One binding that applies to a user.
struct Grant {
    source: String,
    rules: Result<Vec<Rule>, NoRole>,
}

/// The bindings that apply: first those of the cluster, then those of the namespace.
fn grants(stored: &impl Roles, user: &User, namespace: &str) -> Vec<Grant> {
    let mut places = vec![("", stored.cluster_bindings())];
    if !namespace.is_empty() {
        places.push((namespace, stored.bindings(namespace)));
    }
    let mut grants = Vec::new();
    for (namespace, bindings) in places {
        for binding in bindings {
            let subjects = binding["subjects"].as_array().into_iter().flatten();
            let Some(subject) = subjects.into_iter().find(|subject| applies(subject, user, namespace)) else {
                continue;
            };
            grants.push(Grant {
                source: describe(binding, subject, namespace),
                rules: role_rules(stored, &binding["roleRef"], namespace),
            });
        }
    }
    grants
}

fn applies(subject: &Value, user: &User, namespace: &str) -> bool {
    let name = subject["name"].as_str().unwrap_or_default();
    match subject["kind"].as_str().unwrap_or_default() {
        "User" => user.name == name,
        "Group" => user.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let own = subject["namespace"].as_str().unwrap_or_default();
            let namespace = if own.is_empty() { namespace } else { own };
            !namespace.is_empty() && user.name == account_name(namespace, name)
        }
        _ => false,
    }
}

/// The binding in a reason: `RoleBinding "viewers/default" of ClusterRole "view" to User "jane"`.
fn describe(binding: &Value, subject: &Value, namespace: &str) -> String {
    let name = binding["metadata"]["name"].as_str().unwrap_or_default();
    let (kind, name) = if namespace.is_empty() {
        ("ClusterRoleBinding", name.to_owned())
    } else {
        ("RoleBinding", format!("{name}/{namespace}"))
    };
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let role = &binding["roleRef"];
    let mut to = text(subject, "name");
    if text(subject, "kind") == "ServiceAccount" {
        let own = text(subject, "namespace");
        to = format!("{to}/{}", if own.is_empty() { namespace } else { &own });
    }
    format!(
        "{kind} {name:?} of {} {:?} to {} {to:?}",
        text(role, "kind"),
        text(role, "name"),
        text(subject, "kind")
    )
}
