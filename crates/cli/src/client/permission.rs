//! What the user may do, as the API server says. Read-only: a SelfSubjectAccessReview is not stored.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

/// API group, resource or `resource/subresource`, verb.
pub(crate) type Permission = (&'static str, &'static str, &'static str);

/// Whether the API server denies it, for the object of that name or for all. Without an answer it does not:
/// it decides when the write is sent.
pub(crate) async fn is_denied(
    client: &Client,
    (namespace, name): (&str, Option<&str>),
    (group, resource, verb): Permission,
) -> bool {
    let (plural, part) = resource.split_once('/').map_or((resource, None), |(one, two)| (one, Some(two)));
    let attributes = ResourceAttributes {
        namespace: Some(namespace.to_owned()),
        name: name.map(str::to_owned),
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
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await;
    answer.is_ok_and(|answer| answer.status.is_some_and(|status| !status.allowed))
}
