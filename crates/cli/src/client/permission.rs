//! What the user may do, as the API server says. Read-only: a SelfSubjectAccessReview is not stored.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

/// Whether the API server denies it. Without an answer it does not: it decides when the write is sent.
pub(crate) async fn is_denied(client: &Client, attributes: ResourceAttributes) -> bool {
    let spec = SelfSubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        ..SelfSubjectAccessReviewSpec::default()
    };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await;
    answer.is_ok_and(|answer| answer.status.is_some_and(|status| !status.allowed))
}
