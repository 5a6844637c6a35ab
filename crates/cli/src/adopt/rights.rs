//! What whoever adopts must be allowed to do, asked before anything is touched: a refusal halfway would leave it halfway.
//!
//! It only asks. A server that does not answer is not believed to refuse.

use anyhow::{Result, bail};
use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use super::seen::Seen;
use super::way::Way;

/// API group, resource, verb.
type Right = (&'static str, &'static str, &'static str);

const OURS: &str = "ordereddeployment.io";
const FORWARD: &[Right] = &[
    (OURS, "ordereddeployments", "create"),
    (OURS, "ordereddeployments", "update"),
    (OURS, "ordereddeployments", "patch"),
    (OURS, "orderedreplicasets", "create"),
    (OURS, "orderedreplicasets", "delete"),
    ("apps", "deployments", "delete"),
    ("apps", "replicasets", "delete"),
];
const BACK: &[Right] = &[
    ("apps", "replicasets", "create"),
    ("apps", "replicasets", "patch"),
    // Without it a server may refuse that pods are given to a ReplicaSet.
    ("apps", "replicasets/finalizers", "update"),
    ("apps", "deployments", "create"),
    ("apps", "deployments", "patch"),
    ("", "pods", "patch"),
    (OURS, "ordereddeployments", "patch"),
    (OURS, "ordereddeployments", "delete"),
    (OURS, "orderedreplicasets", "delete"),
];
const AUTOSCALER: Right = ("autoscaling", "horizontalpodautoscalers", "patch");

/// Fails with everything that is missing.
pub(crate) async fn check(client: &Client, namespace: &str, way: Way, seen: &Seen) -> Result<()> {
    let (rights, from) = match way {
        Way::Forward => (FORWARD, "Deployment"),
        Way::Back => (BACK, "OrderedDeployment"),
    };
    let autoscaler = seen.autoscalers_of(from).next().map(|_| AUTOSCALER);
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let asked = rights.iter().copied().chain(autoscaler).map(async |right| {
        let answer = reviews.create(&PostParams::default(), &review(namespace, right)).await;
        let refused = answer.is_ok_and(|answer| answer.status.is_some_and(|status| !status.allowed));
        refused.then(|| format!("{} {}", right.2, right.1))
    });
    let missing: Vec<String> = join_all(asked).await.into_iter().flatten().collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "in the namespace {namespace} you may not {}\nhint: ask for the chart's role `ordered-deployment-adopter` besides `edit`",
        missing.join(", ")
    )
}

fn review(namespace: &str, (group, resource, verb): Right) -> SelfSubjectAccessReview {
    let (plural, part) = resource.split_once('/').map_or((resource, None), |(one, two)| (one, Some(two)));
    let attributes = ResourceAttributes {
        namespace: Some(namespace.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(plural.to_owned()),
        subresource: part.map(str::to_owned),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SelfSubjectAccessReviewSpec::default()
    };
    SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() }
}
