//! Compares the permissions of a service account with its requests: the chart must grant exactly the permissions that
//! the controller uses.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::Api;
use kube::api::ListParams;
use scenarios::{Request, TestCluster};
use tokio::time::Instant;

/// How long the audit event of an ended watch may take.
const TIMEOUT: Duration = Duration::from_secs(20);

/// API group, resource with subresource, verb.
pub(crate) type Right = (String, String, String);

/// A service account: namespace and name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl Account<'_> {
    fn is_among(self, subjects: Option<&Vec<Subject>>) -> bool {
        subjects.into_iter().flatten().any(|one| {
            (one.kind.as_str(), one.name.as_str(), one.namespace.as_deref())
                == ("ServiceAccount", self.name, Some(self.namespace))
        })
    }

    fn user(self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

/// The permissions in the roles of the account, without finalizers: admission checks these in requests for other
/// resources.
pub(crate) async fn granted(cluster: &TestCluster, account: Account<'_>) -> BTreeSet<Right> {
    let everything = ListParams::default();
    let client = || cluster.client.clone();
    let mut rules = Vec::new();
    for binding in Api::<ClusterRoleBinding>::all(client()).list(&everything).await.unwrap() {
        if account.is_among(binding.subjects.as_ref()) {
            rules.extend(rules_of(cluster, &binding.role_ref, None).await);
        }
    }
    for binding in Api::<RoleBinding>::all(client()).list(&everything).await.unwrap() {
        if account.is_among(binding.subjects.as_ref()) {
            rules.extend(rules_of(cluster, &binding.role_ref, binding.metadata.namespace.as_deref()).await);
        }
    }
    assert!(!rules.is_empty(), "{account:?} has no role");
    let mut rights = BTreeSet::new();
    for rule in rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    assert!(
                        ![group, resource, verb].into_iter().any(|word| word.contains('*')),
                        "{verb} {resource}"
                    );
                    rights.insert((group.clone(), resource.clone(), verb.clone()));
                }
            }
        }
        assert!(rule.non_resource_urls.is_none(), "{rule:?}");
    }
    rights.retain(|(_, resource, _)| !resource.ends_with("/finalizers"));
    rights
}

async fn rules_of(cluster: &TestCluster, role: &RoleRef, namespace: Option<&str>) -> Vec<PolicyRule> {
    let client = cluster.client.clone();
    let rules = match (role.kind.as_str(), namespace) {
        ("Role", Some(namespace)) => {
            Api::<Role>::namespaced(client, namespace).get(&role.name).await.unwrap().rules
        }
        _ => Api::<ClusterRole>::all(client).get(&role.name).await.unwrap().rules,
    };
    rules.unwrap_or_default()
}

/// The permissions that the account has used, from the audit log. Fails if the server rejected a request.
fn used(requests: &[Request], account: Account<'_>) -> BTreeSet<Right> {
    let user = account.user();
    let own: Vec<_> = requests.iter().filter(|one| one.user.as_ref() == Some(&user)).collect();
    let refused: Vec<_> = own.iter().filter(|one| one.code == 403).collect();
    assert!(refused.is_empty(), "the role lacks what {account:?} needs: {refused:?}");
    let unsigned: Vec<_> = own.iter().filter(|one| !one.by_the_controller()).collect();
    assert!(unsigned.is_empty(), "an audit log does not tell who this was: {unsigned:?}");
    let right = |one: &&Request| {
        let resource = match &one.subresource {
            Some(part) => format!("{}/{part}", one.plural),
            None => one.plural.clone(),
        };
        (one.group.clone(), resource, one.verb.clone())
    };
    own.iter().map(right).collect()
}

/// Waits until all permissions were used: a watch is in the log after its end. Fails if the account used more, if the
/// server rejected a request, or if a permission is unused.
pub(crate) async fn all_are_used(cluster: &TestCluster, account: Account<'_>, granted: &BTreeSet<Right>) {
    let limit = Instant::now() + TIMEOUT;
    let mut used = used(&cluster.requests().await.unwrap(), account);
    while !granted.is_subset(&used) && Instant::now() < limit {
        tokio::time::sleep(Duration::from_millis(50)).await;
        used = self::used(&cluster.requests().await.unwrap(), account);
    }
    let idle: Vec<_> = granted.difference(&used).collect();
    let beyond: Vec<_> = used.difference(granted).collect();
    assert!(
        idle.is_empty() && beyond.is_empty(),
        "granted and never used: {idle:?}; used and not granted: {beyond:?}"
    );
}

/// Fails if the server rejected a request of the account.
pub(crate) async fn nothing_was_refused(cluster: &TestCluster, account: Account<'_>) {
    let used = used(&cluster.requests().await.unwrap(), account);
    assert!(!used.is_empty(), "{account:?} has asked for nothing");
}
