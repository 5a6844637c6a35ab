//! Roles and bindings: defaults and validation.
//!
//! Whether the user may grant the rules is not checked here. Source: `pkg/apis/rbac/validation/validation.go`.

use serde_json::Value;

use super::fields::{entry, fill, items, list, text};
use super::names;
use super::workloads::check_selector;
use crate::resource::ROLES_GROUP as GROUP;
use crate::schema::Cause;

/// Sets the defaults of a kind of the group and validates the object.
pub(super) fn prepare(kind: &str, object: &mut Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    match kind {
        "Role" | "ClusterRole" => check_role(object, kind == "Role", causes),
        "RoleBinding" | "ClusterRoleBinding" => {
            fill_binding(object);
            check_binding(object, kind == "RoleBinding", causes);
            if old.is_some_and(|old| old["roleRef"] != object["roleRef"]) {
                causes.push(Cause::invalid("roleRef", &object["roleRef"], "cannot change roleRef"));
            }
        }
        _ => {}
    }
}

fn check_role(role: &Value, namespaced: bool, causes: &mut Vec<Cause>) {
    for (i, rule) in list(role, "rules").iter().enumerate() {
        check_rule(rule, namespaced, &format!("rules[{i}]"), causes);
    }
    if role["aggregationRule"].is_object() {
        let path = "aggregationRule.clusterRoleSelectors";
        let selectors = list(&role["aggregationRule"], "clusterRoleSelectors");
        if selectors.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            causes.push(Cause::required(path, detail));
        }
        for (i, selector) in selectors.iter().enumerate() {
            check_selector(selector, &format!("{path}[{i}]"), causes);
        }
    }
}

fn check_rule(rule: &Value, namespaced: bool, path: &str, causes: &mut Vec<Cause>) {
    let count = |key: &str| list(rule, key).len();
    if count("verbs") == 0 {
        causes.push(Cause::required(&format!("{path}.verbs"), "verbs must contain at least one value"));
    }
    if count("nonResourceURLs") > 0 {
        let field = format!("{path}.nonResourceURLs");
        let urls = &rule["nonResourceURLs"];
        if namespaced {
            causes.push(Cause::invalid(&field, urls, "namespaced rules cannot apply to non-resource URLs"));
        }
        if count("apiGroups") + count("resources") + count("resourceNames") > 0 {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            causes.push(Cause::invalid(&field, urls, detail));
        }
        return;
    }
    if count("apiGroups") == 0 {
        let detail = "resource rules must supply at least one api group";
        causes.push(Cause::required(&format!("{path}.apiGroups"), detail));
    }
    if count("resources") == 0 {
        let detail = "resource rules must supply at least one resource";
        causes.push(Cause::required(&format!("{path}.resources"), detail));
    }
    if count("resourceNames") > 0 && count("resources") > 1 {
        let detail = "resource names cannot apply to multiple resources";
        causes.push(Cause::required(&format!("{path}.resourceNames"), detail));
    }
}

/// The groups that a client may omit.
fn fill_binding(binding: &mut Value) {
    let role = entry(binding, "roleRef");
    if text(role, "apiGroup").is_empty() {
        role["apiGroup"] = GROUP.into();
    }
    for subject in items(binding, "subjects") {
        if text(subject, "apiGroup").is_empty() {
            // The group of service accounts is the empty one, which is not written.
            if let Some(map) = subject.as_object_mut() {
                map.remove("apiGroup");
            }
            if matches!(text(subject, "kind"), "User" | "Group") {
                fill(subject, "apiGroup", GROUP);
            }
        }
    }
}

fn check_binding(binding: &Value, namespaced: bool, causes: &mut Vec<Cause>) {
    let role = &binding["roleRef"];
    if text(role, "apiGroup") != GROUP {
        causes.push(Cause::not_supported("roleRef.apiGroup", &text(role, "apiGroup").into(), &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "kind")) {
        causes.push(Cause::not_supported("roleRef.kind", &text(role, "kind").into(), kinds));
    }
    let name = text(role, "name");
    if name.is_empty() {
        causes.push(Cause::required("roleRef.name", ""));
    } else if let Some(detail) = names::path_segment(name) {
        causes.push(Cause::invalid("roleRef.name", &name.into(), detail));
    }
    for (i, subject) in list(binding, "subjects").iter().enumerate() {
        check_subject(subject, namespaced, &format!("subjects[{i}]"), causes);
    }
}

fn check_subject(subject: &Value, namespaced: bool, path: &str, causes: &mut Vec<Cause>) {
    let (kind, name, group) = (text(subject, "kind"), text(subject, "name"), text(subject, "apiGroup"));
    let name_at = format!("{path}.name");
    let wants_group = |wanted: &str, causes: &mut Vec<Cause>| {
        if group != wanted {
            causes.push(Cause::not_supported(&format!("{path}.apiGroup"), &group.into(), &[wanted]));
        }
    };
    if name.is_empty() {
        causes.push(Cause::required(&name_at, ""));
    }
    match kind {
        "ServiceAccount" => {
            for detail in names::subdomain(name).iter().filter(|_| !name.is_empty()) {
                causes.push(Cause::invalid(&name_at, &name.into(), detail));
            }
            wants_group("", causes);
            if !namespaced && text(subject, "namespace").is_empty() {
                causes.push(Cause::required(&format!("{path}.namespace"), ""));
            }
        }
        "User" | "Group" => {
            if name.is_empty() {
                let detail = format!("{} name cannot be empty", kind.to_lowercase());
                causes.push(Cause::invalid(&name_at, &name.into(), &detail));
            }
            wants_group(GROUP, causes);
        }
        _ => {
            let kinds = ["ServiceAccount", "User", "Group"];
            causes.push(Cause::not_supported(&format!("{path}.kind"), &kind.into(), &kinds));
        }
    }
}
