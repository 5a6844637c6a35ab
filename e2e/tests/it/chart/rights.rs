//! What a service account may do, and what it has done: the same set, or the chart is wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use e2e::{Request, World};
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

/// How long a watch that has ended may take into the audit log.
const PATIENCE: Duration = Duration::from_secs(20);

/// API group, resource with its subresource, verb.
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

/// What roles bound to the account itself allow, finalizers left out: admission asks for those, in the name of a request
/// for something else.
pub(crate) async fn granted(world: &World, account: Account<'_>) -> BTreeSet<Right> {
    let everything = ListParams::default();
    let client = || world.client.clone();
    let mut rules = Vec::new();
    for binding in Api::<ClusterRoleBinding>::all(client()).list(&everything).await.unwrap() {
        if account.is_among(binding.subjects.as_ref()) {
            rules.extend(rules_of(world, &binding.role_ref, None).await);
        }
    }
    for binding in Api::<RoleBinding>::all(client()).list(&everything).await.unwrap() {
        if account.is_among(binding.subjects.as_ref()) {
            rules.extend(rules_of(world, &binding.role_ref, binding.metadata.namespace.as_deref()).await);
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

async fn rules_of(world: &World, role: &RoleRef, namespace: Option<&str>) -> Vec<PolicyRule> {
    let client = world.client.clone();
    let rules = match (role.kind.as_str(), namespace) {
        ("Role", Some(namespace)) => {
            Api::<Role>::namespaced(client, namespace).get(&role.name).await.unwrap().rules
        }
        _ => Api::<ClusterRole>::all(client).get(&role.name).await.unwrap().rules,
    };
    rules.unwrap_or_default()
}

/// What the account has asked for, by the audit log. Fails where it was refused something.
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

/// Waits until everything granted was used: a watch comes into the log when it ends. Fails where more was used, anything
/// was refused, or something is granted for nothing.
pub(crate) async fn all_are_used(world: &World, account: Account<'_>, granted: &BTreeSet<Right>) {
    let limit = Instant::now() + PATIENCE;
    let mut used = used(&world.requests().await.unwrap(), account);
    while !granted.is_subset(&used) && Instant::now() < limit {
        tokio::time::sleep(Duration::from_millis(50)).await;
        used = self::used(&world.requests().await.unwrap(), account);
    }
    let idle: Vec<_> = granted.difference(&used).collect();
    let beyond: Vec<_> = used.difference(granted).collect();
    assert!(
        idle.is_empty() && beyond.is_empty(),
        "granted and never used: {idle:?}; used and not granted: {beyond:?}"
    );
}

/// Fails where the account was refused something.
pub(crate) async fn nothing_was_refused(world: &World, account: Account<'_>) {
    let used = used(&world.requests().await.unwrap(), account);
    assert!(!used.is_empty(), "{account:?} has asked for nothing");
}
