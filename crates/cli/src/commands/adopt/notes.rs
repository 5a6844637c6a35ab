//! Notes about tools and autoscalers that the user must change: they refer to the old kind.
//!
//! Read-only.

use kube::api::ListParams;
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

/// The notes for the user before the first write.
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
