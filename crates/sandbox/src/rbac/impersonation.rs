//! Impersonation: a user who acts as another one, by headers.
//!
//! Source: `apiserver/pkg/endpoints/filters/impersonation/impersonation.go`.

use std::collections::BTreeMap;

use super::attributes::Attributes;
use super::user::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED, User, account_groups, split_account};
use crate::status::Failure;

const AUTHENTICATION: &str = "authentication.k8s.io";

/// The impersonation headers of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Impersonation {
    pub(crate) user: String,
    pub(crate) uid: String,
    pub(crate) groups: Vec<String>,
    pub(crate) extra: BTreeMap<String, Vec<String>>,
}

/// A permission that the real user needs, in the order of the checks.
struct Part {
    kind: &'static str,
    api_version: &'static str,
    namespace: String,
    name: String,
    key: String,
}

impl Impersonation {
    /// The permissions that the real user needs. Empty if the request does not impersonate anybody.
    pub(crate) fn needs(&self) -> Result<Vec<Attributes>, Failure> {
        let parts = self.parts();
        if self.user.is_empty() && !parts.is_empty() {
            let texts: Vec<String> = parts.iter().map(Part::shown).collect();
            return Err(Failure::bad_request(format!(
                "requested [{}] without impersonating a user",
                texts.join(" ")
            )));
        }
        Ok(parts.into_iter().map(Part::attributes).collect())
    }

    /// The user that the request acts as.
    pub(crate) fn target(&self) -> User {
        let mut groups = self.groups.clone();
        if let (true, Some((namespace, _))) = (groups.is_empty(), split_account(&self.user)) {
            groups = account_groups(namespace);
        }
        let has = |group: &str| groups.iter().any(|one| one == group);
        let added = match self.user.as_str() {
            ANONYMOUS => (!has(UNAUTHENTICATED)).then_some(UNAUTHENTICATED),
            _ => (!has(AUTHENTICATED) && !has(UNAUTHENTICATED)).then_some(AUTHENTICATED),
        };
        groups.extend(added.map(str::to_owned));
        User { name: self.user.clone(), uid: self.uid.clone(), groups, extra: self.extra.clone() }
    }

    fn parts(&self) -> Vec<Part> {
        let part = |kind, api_version, name: &str| Part {
            kind,
            api_version,
            namespace: String::new(),
            name: name.to_owned(),
            key: String::new(),
        };
        let mut parts = Vec::new();
        if let Some((namespace, name)) = split_account(&self.user) {
            parts.push(Part { namespace: namespace.to_owned(), ..part("ServiceAccount", "", name) });
        } else if !self.user.is_empty() {
            parts.push(part("User", "", &self.user));
        }
        parts.extend(self.groups.iter().map(|group| part("Group", "", group)));
        for (key, values) in &self.extra {
            let extra = |value: &String| Part { key: key.clone(), ..part("UserExtra", VERSION, value) };
            parts.extend(values.iter().map(extra));
        }
        if !self.uid.is_empty() {
            parts.push(part("UID", VERSION, &self.uid));
        }
        parts
    }
}

const VERSION: &str = "authentication.k8s.io/v1";

impl Part {
    /// The part as Go prints an object reference.
    fn shown(&self) -> String {
        format!("{{{} {} {}  {}  {}}}", self.kind, self.namespace, self.name, self.api_version, self.key)
    }

    fn attributes(self) -> Attributes {
        let (group, resource) = match self.kind {
            "ServiceAccount" => ("", "serviceaccounts"),
            "User" => ("", "users"),
            "Group" => ("", "groups"),
            "UserExtra" => (AUTHENTICATION, "userextras"),
            _ => (AUTHENTICATION, "uids"),
        };
        Attributes {
            verb: "impersonate".to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: self.key,
            namespace: self.namespace,
            name: self.name,
            path: None,
        }
    }
}
