//! Privilege escalation: a user can grant only what the user may do.
//!
//! Source: `ConfirmNoEscalation` in `pkg/registry/rbac/validation/rule.go`, and `policy_compact.go`.

use std::collections::BTreeSet;

use super::policy::{NoRole, Roles, joined, rules_for};
use super::rule::{Rule, quoted};
use super::user::User;

/// The message about the rules that the user does not have in this namespace; `None` if the user has all of them.
pub(crate) fn missing_rules(
    stored: &impl Roles,
    user: &User,
    namespace: &str,
    wanted: &[Rule],
) -> Option<String> {
    let (own, errors) = rules_for(stored, user, namespace);
    let missing: Vec<Rule> = uncovered(&own, wanted);
    if missing.is_empty() {
        return None;
    }
    let texts: BTreeSet<String> = compacted(missing).iter().map(Rule::short).collect();
    let mut message = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        quoted(&user.groups),
        texts.into_iter().collect::<Vec<_>>().join("\n")
    );
    if !errors.is_empty() {
        let errors: Vec<String> = errors.iter().map(NoRole::stored).collect();
        message = format!("{message}; resolution errors: [{}]", joined(&errors));
    }
    Some(message)
}

/// Whether the user may do everything in the cluster. Only such a user can write an aggregation rule.
pub(crate) fn is_full_authority(stored: &impl Roles, user: &User, namespace: &str) -> bool {
    let all = || vec!["*".to_owned()];
    let resources = Rule { groups: all(), resources: all(), verbs: all(), ..Rule::default() };
    let urls = Rule { urls: all(), verbs: all(), ..Rule::default() };
    missing_rules(stored, user, namespace, &[resources, urls]).is_none()
}

/// The parts of the wanted rules that none of the own rules covers.
fn uncovered(own: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    let parts = wanted.iter().flat_map(Rule::parts);
    parts.filter(|part| !own.iter().any(|rule| rule.covers(part))).collect()
}

/// Merges the parts that differ only in their verb. Parts with names or URLs stay alone.
fn compacted(parts: Vec<Rule>) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for part in parts {
        let is_simple = |rule: &Rule| rule.names.is_empty() && rule.urls.is_empty();
        let same = rules.iter_mut().find(|rule| {
            is_simple(rule)
                && is_simple(&part)
                && rule.groups == part.groups
                && rule.resources == part.resources
        });
        match same {
            Some(rule) => rule.verbs.extend(part.verbs),
            None => rules.push(part),
        }
    }
    rules
}
