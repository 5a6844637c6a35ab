//! Before the first write: notes about tools and autoscalers that refer to the old kind, which the user must
//! change, and the permissions, so that an adoption does not stop halfway. Read-only.

use anyhow::{Result, bail};
use futures::future::join_all;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview};
use kube::api::{ListParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};

use super::objects::{Objects, annotation_of, controller, scales};
use super::steps::target;
use crate::commands::convert::To;

/// Autoscalers that are not part of Kubernetes: group, version, kind, plural, and the field for the target.
const SCALERS: [(&str, &str, &str, &str, &str); 2] = [
    ("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers", "targetRef"),
    ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects", "scaleTargetRef"),
];

/// API group, resource or `resource/subresource`, verb.
type Permission = (&'static str, &'static str, &'static str);

const OURS: &str = "ordereddeployment.io";
const FORWARD: &[Permission] = &[
    (OURS, "ordereddeployments", "create"),
    (OURS, "ordereddeployments", "update"),
    (OURS, "ordereddeployments", "patch"),
    (OURS, "orderedreplicasets", "create"),
    (OURS, "orderedreplicasets", "delete"),
    ("apps", "deployments", "delete"),
    ("apps", "replicasets", "delete"),
];
const BACK: &[Permission] = &[
    ("apps", "replicasets", "create"),
    ("apps", "replicasets", "patch"),
    // Needed to set blockOwnerDeletion in owner references to a ReplicaSet.
    ("apps", "replicasets/finalizers", "update"),
    ("apps", "deployments", "create"),
    ("apps", "deployments", "patch"),
    ("", "pods", "patch"),
    (OURS, "ordereddeployments", "patch"),
    (OURS, "ordereddeployments", "delete"),
    (OURS, "orderedreplicasets", "delete"),
];
const AUTOSCALER: Permission = ("autoscaling", "horizontalpodautoscalers", "patch");

/// The notes for the user.
pub(crate) async fn notes(client: &Client, namespace: &str, to: To, objects: &Objects) -> Vec<String> {
    let object = match to {
        To::Ordereddeployment => &objects.deployment,
        To::Deployment => &objects.ordered,
    };
    let Some(object) = object else { return Vec::new() };
    let mut notes = managers(object, to, namespace);
    notes.extend(autoscalers(objects, to));
    for (group, version, kind, plural, field) in SCALERS {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        // Most clusters do not have these CRDs.
        let found = api.list(&ListParams::default()).await.map(|found| found.items).unwrap_or_default();
        let points = |one: &&DynamicObject| scales(one, field, to.from(), &objects.name);
        for scaler in found.iter().filter(points) {
            let (scaler, patch) = (scaler.name_any(), target(to, field, &objects.name));
            notes.push(format!(
                "{kind} {scaler} targets the {}; after the adoption, change it and its manifest: \
                 `kubectl patch {plural} {scaler} --namespace {namespace} --type=merge -p '{patch}'`",
                to.from().is().1
            ));
        }
    }
    notes
}

/// Tools that would create the object of the old kind again.
fn managers(object: &DynamicObject, to: To, namespace: &str) -> Vec<String> {
    let (from, to) = (to.from().is().1, to.is().1);
    let label = |key: &str| object.labels().get(key).map(String::as_str);
    let mut notes = Vec::new();
    let release = annotation_of(object, "meta.helm.sh/release-name");
    if release.is_some() || label("app.kubernetes.io/managed-by") == Some("Helm") {
        let release = release.unwrap_or("RELEASE");
        notes.push(format!(
            "it is part of the Helm release {release}: `helm upgrade` and `helm rollback` create the {from} \
             again, beside the {to}, until the chart has the {to} (`helm get manifest {release} --namespace \
             {namespace} | kubectl ordered convert -f -`)"
        ));
    }
    let tracked = annotation_of(object, "argocd.argoproj.io/tracking-id").and_then(|id| id.split(':').next());
    if let Some(app) = tracked.or_else(|| label("argocd.argoproj.io/instance")) {
        notes.push(format!(
            "it is part of the Argo CD application {app}, which creates the {from} again and can prune the \
             {to} until Git has the {to}: stop it first with `argocd app set {app} --sync-policy none`"
        ));
    }
    for (key, kind) in
        [("kustomize.toolkit.fluxcd.io", "kustomization"), ("helm.toolkit.fluxcd.io", "helmrelease")]
    {
        if let Some(name) = label(&format!("{key}/name")) {
            let namespace = label(&format!("{key}/namespace")).unwrap_or(namespace);
            notes.push(format!(
                "it is part of the Flux {kind} {name}, which creates the {from} again until Git has the \
                 {to}: stop it first with `flux suspend {kind} {name} --namespace {namespace}`"
            ));
        }
    }
    notes
}

fn autoscalers(objects: &Objects, to: To) -> Vec<String> {
    let (old, from, name) = (to.from(), to.from().is().1, &objects.name);
    let patch = target(to, "scaleTargetRef", name);
    let (version, to) = to.is();
    let mut notes = Vec::new();
    if let Some(why) = &objects.no_autoscalers {
        notes.push(format!(
            "autoscalers cannot be read ({why}): if one targets the {from}, change it after the \
             adoption: `kubectl patch hpa NAME --type=merge -p '{patch}'`"
        ));
    }
    for one in objects.autoscalers_of(old) {
        notes.push(format!(
            "this command changes the target of HorizontalPodAutoscaler {} to the {to}; change its manifest \
             too: `scaleTargetRef: {{apiVersion: {version}, kind: {to}, name: {name}}}`",
            one.name_any()
        ));
    }
    for one in objects.autoscalers.iter().filter(|one| scales(one, "scaleTargetRef", old, name)) {
        if let Some(owner) = controller(one).filter(|owner| owner.kind != "ScaledObject") {
            notes.push(format!(
                "HorizontalPodAutoscaler {} targets the {from} and is controlled by {} {}: change that to \
                 the {to} after the adoption",
                one.name_any(),
                owner.kind,
                owner.name
            ));
        }
    }
    notes
}

/// An error that lists all missing permissions.
pub(crate) async fn check_permissions(
    client: &Client,
    namespace: &str,
    to: To,
    objects: &Objects,
) -> Result<()> {
    let permissions = match to {
        To::Ordereddeployment => FORWARD,
        To::Deployment => BACK,
    };
    let autoscaler = objects.autoscalers_of(to.from()).next().map(|_| AUTOSCALER);
    let reviews = permissions.iter().copied().chain(autoscaler).map(async |permission| {
        let (_, resource, verb) = permission;
        let is_denied = is_denied(client, namespace, permission).await;
        is_denied.then(|| format!("{verb} {resource}"))
    });
    let missing: Vec<String> = join_all(reviews).await.into_iter().flatten().collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "missing permissions in namespace {namespace}: {}\nhint: ask for the chart's role \
         `ordered-deployment-adopter` in addition to `edit`",
        missing.join(", ")
    )
}

/// Whether the API server denies it. Without an answer it does not: it decides when the write is sent.
async fn is_denied(client: &Client, namespace: &str, (group, resource, verb): Permission) -> bool {
    let (plural, part) = resource.split_once('/').map_or((resource, None), |(one, two)| (one, Some(two)));
    let resource_attributes = ResourceAttributes {
        namespace: Some(namespace.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(plural.to_owned()),
        subresource: part.map(str::to_owned),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    };
    let mut review = SelfSubjectAccessReview::default();
    review.spec.resource_attributes = Some(resource_attributes);
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await;
    answer.is_ok_and(|answer| answer.status.is_some_and(|status| !status.allowed))
}

#[cfg(test)]
mod tests {
    use kube::core::DynamicObject;
    use serde_json::{Value, json};

    use super::{Objects, To, autoscalers, managers, scales};

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn tools_that_would_create_the_object_again_are_noted_with_a_command() {
        let notes_for = |metadata: Value| {
            managers(&object(json!({"metadata": metadata})), To::Ordereddeployment, "shop").join("\n")
        };
        for (metadata, words) in [
            (
                json!({"annotations": {"meta.helm.sh/release-name": "r1"}}),
                "helm get manifest r1 --namespace shop",
            ),
            (json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}}), "the Helm release RELEASE"),
            (
                json!({"annotations": {"argocd.argoproj.io/tracking-id": "store:apps/Deployment:shop/web"}}),
                "argocd app set store --sync-policy none",
            ),
            (json!({"labels": {"argocd.argoproj.io/instance": "store"}}), "argocd app set store"),
            (
                json!({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps",
                                  "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}}),
                "flux suspend kustomization apps --namespace flux-system",
            ),
            (
                json!({"labels": {"helm.toolkit.fluxcd.io/name": "web"}}),
                "flux suspend helmrelease web --namespace shop",
            ),
        ] {
            let notes = notes_for(metadata);
            assert!(notes.contains(words) && notes.lines().count() == 1, "{notes}");
        }
        assert_eq!(notes_for(json!({"labels": {"app.kubernetes.io/managed-by": "me"}})), "");
    }

    #[test]
    fn an_autoscaler_with_a_controller_is_noted_and_not_changed() {
        let target = json!({"kind": "Deployment", "name": "web"});
        let autoscaler = |name: &str, owner: Option<&str>| {
            let owner = owner.map(|kind| {
                json!([{"apiVersion": "x/v1", "kind": kind, "name": "o", "uid": "u",
                "controller": true}])
            });
            object(json!({"metadata": {"name": name, "ownerReferences": owner},
                    "spec": {"scaleTargetRef": target}}))
        };
        let objects = Objects {
            name: "web".to_owned(),
            autoscalers: vec![
                autoscaler("own", None),
                autoscaler("keda-hpa", Some("ScaledObject")),
                autoscaler("other", Some("Scaler")),
            ],
            ..Objects::default()
        };
        let notes = autoscalers(&objects, To::Ordereddeployment);
        assert!(
            matches!(&*notes, [one, two] if one.contains("HorizontalPodAutoscaler own to the \
                 OrderedDeployment")
            && two.contains("other targets the Deployment and is controlled by Scaler o")),
            "{notes:?}"
        );
        assert_eq!(objects.autoscalers_of(To::Deployment).count(), 1);
        assert_eq!(autoscalers(&objects, To::Deployment), Vec::<String>::new());
    }

    #[test]
    fn the_default_kind_of_keda_is_deployment() {
        let scaler = object(json!({"metadata": {}, "spec": {"scaleTargetRef": {"name": "web"}}}));
        assert!(scales(&scaler, "scaleTargetRef", To::Deployment, "web"));
        assert!(!scales(&scaler, "scaleTargetRef", To::Ordereddeployment, "web"));
        assert!(!scales(&scaler, "scaleTargetRef", To::Deployment, "other"));
    }
}
