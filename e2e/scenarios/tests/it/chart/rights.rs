//! Compares the permissions of a service account with its requests: the chart must grant exactly the
//! permissions that the controller uses.

use std::collections::BTreeSet;
use std::time::Duration;

use scenarios::{Request, TestCluster};
use serde_json::{Value, json};
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
    fn user(self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }
}

async fn get(cluster: &TestCluster, more: &[&str]) -> Value {
    let text = cluster.kubectl.anywhere().run(&[&["get", "-ojson"], more].concat()).await.unwrap();
    serde_json::from_str(&text).unwrap()
}

fn words(list: &Value) -> impl Iterator<Item = String> {
    list.as_array().into_iter().flatten().map(|word| word.as_str().unwrap().to_owned())
}

/// The permissions in the roles of the account, without finalizers: admission checks these in requests for
/// other resources.
pub(crate) async fn granted(cluster: &TestCluster, account: Account<'_>) -> BTreeSet<Right> {
    let subject = json!({"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace});
    let bindings = get(cluster, &["clusterrolebindings,rolebindings", "--all-namespaces"]).await;
    let mut rights = BTreeSet::new();
    for binding in bindings["items"].as_array().unwrap() {
        let mut subjects = binding["subjects"].as_array().into_iter().flatten();
        if !subjects.any(|one| *one == subject) {
            continue;
        }
        let [kind, name] = ["kind", "name"].map(|key| binding["roleRef"][key].as_str().unwrap());
        let namespace = binding["metadata"]["namespace"].as_str().unwrap_or_default();
        let role = get(cluster, &[kind, name, &format!("--namespace={namespace}")]).await;
        for rule in role["rules"].as_array().unwrap() {
            assert!(!rule.to_string().contains('*') && rule.get("nonResourceURLs").is_none(), "{rule}");
            for group in words(&rule["apiGroups"]) {
                for resource in words(&rule["resources"]) {
                    rights.extend(words(&rule["verbs"]).map(|verb| (group.clone(), resource.clone(), verb)));
                }
            }
        }
    }
    rights.retain(|(_, resource, _)| !resource.ends_with("/finalizers"));
    assert!(!rights.is_empty(), "{account:?} has no role");
    rights
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

/// Waits until all permissions were used: a watch is in the log after its end. Fails if the account used
/// more, if the server rejected a request, or if a permission is unused.
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
