//! The user of a request.

use std::collections::BTreeMap;

use crate::builtin::names;

/// The group whose members may do everything, before any role is consulted.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of all users who are known to the server.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of requests without credentials.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The user of requests without credentials.
pub(crate) const ANONYMOUS: &str = "system:anonymous";

const ACCOUNT: &str = "system:serviceaccount:";

/// Who makes a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// The name, such as `jane` or `system:serviceaccount:shop:deployer`.
    pub name: String,
    /// The UID; usually empty.
    pub uid: String,
    /// The groups. Roles can be bound to them.
    pub groups: Vec<String>,
    /// Further facts about the user. No rule depends on them.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user who may do everything: a member of `system:masters`.
    #[must_use]
    pub fn all_powerful(name: &str) -> Self {
        let groups = vec![MASTERS.to_owned(), AUTHENTICATED.to_owned()];
        Self { name: name.to_owned(), groups, ..Self::default() }
    }

    /// A service account, with its groups.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let mut groups = account_groups(namespace);
        groups.push(AUTHENTICATED.to_owned());
        Self { name: account_name(namespace, name), groups, ..Self::default() }
    }

    pub(crate) fn is_all_powerful(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

/// The user name of a service account.
pub(crate) fn account_name(namespace: &str, name: &str) -> String {
    format!("{ACCOUNT}{namespace}:{name}")
}

/// The groups of all service accounts of a namespace.
pub(crate) fn account_groups(namespace: &str) -> Vec<String> {
    vec!["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// Namespace and name in the user name of a service account.
pub(crate) fn split_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(ACCOUNT)?.split_once(':')?;
    let is_valid = names::label(namespace).is_empty() && names::subdomain(name).is_empty();
    is_valid.then_some((namespace, name))
}
