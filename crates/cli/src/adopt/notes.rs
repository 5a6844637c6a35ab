//! What an adoption cannot do by itself: who else holds on to the object's kind, and what to tell them.
//!
//! It reads, and never changes anything.

use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::names::{GROUP, VERSION};
use serde_json::json;

use super::seen::{Seen, annotation_of, controller};
use super::way::Way;

/// Scalers beside Kubernetes' own: group, version, kind, plural, and the field that names whom they scale.
const SCALERS: [(&str, &str, &str, &str, &str); 2] = [
    ("autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers", "targetRef"),
    ("keda.sh", "v1alpha1", "ScaledObject", "scaledobjects", "scaleTargetRef"),
];

/// From what to what.
struct Kinds {
    from: &'static str,
    to: &'static str,
    /// The apiVersion of the latter.
    version: String,
}

impl Kinds {
    fn of(way: Way) -> Self {
        let ours = format!("{GROUP}/{VERSION}");
        match way {
            Way::Forward => Self { from: "Deployment", to: "OrderedDeployment", version: ours },
            Way::Back => Self { from: "OrderedDeployment", to: "Deployment", version: "apps/v1".to_owned() },
        }
    }

    /// The merge patch that points a scaler at the new kind.
    fn patch(&self, field: &str, name: &str) -> String {
        json!({"spec": {field: {"apiVersion": self.version, "kind": self.to, "name": name}}}).to_string()
    }
}

/// What the user should know before.
pub(crate) async fn notes(client: &Client, namespace: &str, way: Way, seen: &Seen) -> Vec<String> {
    let kinds = Kinds::of(way);
    let object = match way {
        Way::Forward => &seen.deployment,
        Way::Back => &seen.ordered,
    };
    let Some(object) = object else { return Vec::new() };
    let mut notes = managers(object, &kinds, namespace);
    notes.extend(autoscalers(seen, &kinds));
    for (group, version, kind, plural, field) in SCALERS {
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural);
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        // Most clusters have none of them, and most people need not.
        let found = api.list(&ListParams::default()).await.map(|found| found.items).unwrap_or_default();
        let points = |one: &&DynamicObject| scales(one, field, kinds.from, &seen.name);
        for scaler in found.iter().filter(points) {
            let (scaler, patch) = (scaler.name_any(), kinds.patch(field, &seen.name));
            notes.push(format!(
                "{kind} {scaler} scales the {}; once this is done, and in its manifest: \
                 `kubectl patch {plural} {scaler} --namespace {namespace} --type=merge -p '{patch}'`",
                kinds.from
            ));
        }
    }
    notes
}

/// Whether the scaler's field names the object.
fn scales(scaler: &DynamicObject, field: &str, kind: &str, name: &str) -> bool {
    let of = |key: &str| scaler.data.pointer(&format!("/spec/{field}/{key}"));
    // KEDA means a Deployment where it names no kind.
    of("name") == Some(&name.into()) && of("kind").map_or(kind == "Deployment", |of| of == kind)
}

/// Who would make the object of the old kind again.
fn managers(object: &DynamicObject, kinds: &Kinds, namespace: &str) -> Vec<String> {
    let (from, to) = (kinds.from, kinds.to);
    let label = |key: &str| object.labels().get(key).map(String::as_str);
    let mut notes = Vec::new();
    let release = annotation_of(object, "meta.helm.sh/release-name");
    if release.is_some() || label("app.kubernetes.io/managed-by") == Some("Helm") {
        let release = release.unwrap_or("RELEASE");
        notes.push(format!(
            "it is part of Helm's release {release}: `helm upgrade` and `helm rollback` make the {from} again, beside the {to}, \
             until the chart has the {to} (`helm get manifest {release} --namespace {namespace} | kubectl ordered convert -f -`)"
        ));
    }
    let tracked = annotation_of(object, "argocd.argoproj.io/tracking-id").and_then(|id| id.split(':').next());
    if let Some(app) = tracked.or_else(|| label("argocd.argoproj.io/instance")) {
        notes.push(format!(
            "it is part of Argo CD's application {app}, which makes the {from} again and may prune the {to} until Git has the \
             {to}: stop it before with `argocd app set {app} --sync-policy none`"
        ));
    }
    for (key, kind) in
        [("kustomize.toolkit.fluxcd.io", "kustomization"), ("helm.toolkit.fluxcd.io", "helmrelease")]
    {
        if let Some(name) = label(&format!("{key}/name")) {
            let namespace = label(&format!("{key}/namespace")).unwrap_or(namespace);
            notes.push(format!(
                "it is part of Flux's {kind} {name}, which makes the {from} again until Git has the {to}: stop it before \
                 with `flux suspend {kind} {name} --namespace {namespace}`"
            ));
        }
    }
    notes
}

/// What becomes of the autoscalers.
fn autoscalers(seen: &Seen, kinds: &Kinds) -> Vec<String> {
    let (to, version, name) = (kinds.to, &kinds.version, &seen.name);
    let mut notes = Vec::new();
    if let Some(why) = &seen.no_autoscalers {
        notes.push(format!(
            "autoscalers cannot be read ({why}): where one scales the {}, change it once this is done: \
             `kubectl patch hpa NAME --type=merge -p '{}'`",
            kinds.from,
            kinds.patch("scaleTargetRef", name)
        ));
    }
    for one in seen.autoscalers_of(kinds.from) {
        notes.push(format!(
            "HorizontalPodAutoscaler {} is pointed at the {to} by this; change its manifest likewise: \
             `scaleTargetRef: {{apiVersion: {version}, kind: {to}, name: {name}}}`",
            one.name_any()
        ));
    }
    for one in seen.autoscalers.iter().filter(|one| scales(one, "scaleTargetRef", kinds.from, name)) {
        if let Some(owner) = controller(one).filter(|owner| owner.kind != "ScaledObject") {
            notes.push(format!(
                "HorizontalPodAutoscaler {} scales the {} and belongs to {} {}: have that scale the {to} once this is done",
                one.name_any(),
                kinds.from,
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

    use super::{Kinds, Seen, Way, autoscalers, managers, scales};

    fn object(value: Value) -> DynamicObject {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn whoever_would_make_the_object_again_is_named_with_what_to_do() {
        let forward = Kinds::of(Way::Forward);
        let told =
            |metadata: Value| managers(&object(json!({"metadata": metadata})), &forward, "shop").join("\n");
        for (metadata, words) in [
            (
                json!({"annotations": {"meta.helm.sh/release-name": "r1"}}),
                "helm get manifest r1 --namespace shop",
            ),
            (json!({"labels": {"app.kubernetes.io/managed-by": "Helm"}}), "Helm's release RELEASE"),
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
            let told = told(metadata);
            assert!(told.contains(words) && told.lines().count() == 1, "{told}");
        }
        assert_eq!(told(json!({"labels": {"app.kubernetes.io/managed-by": "me"}})), "");
    }

    #[test]
    fn an_autoscaler_of_somebodys_is_told_to_its_owner_and_left_alone() {
        let target = json!({"kind": "Deployment", "name": "web"});
        let autoscaler = |name: &str, owner: Option<&str>| {
            let owner = owner.map(|kind| json!([{"apiVersion": "x/v1", "kind": kind, "name": "o", "uid": "u", "controller": true}]));
            object(
                json!({"metadata": {"name": name, "ownerReferences": owner}, "spec": {"scaleTargetRef": target}}),
            )
        };
        let seen = Seen {
            name: "web".to_owned(),
            autoscalers: vec![
                autoscaler("own", None),
                autoscaler("keda-hpa", Some("ScaledObject")),
                autoscaler("other", Some("Scaler")),
            ],
            ..Seen::default()
        };
        let told = autoscalers(&seen, &Kinds::of(Way::Forward));
        assert!(
            matches!(&*told, [one, two] if one.contains("HorizontalPodAutoscaler own is pointed at the OrderedDeployment")
            && two.contains("other scales the Deployment and belongs to Scaler o")),
            "{told:?}"
        );
        assert_eq!(seen.autoscalers_of("Deployment").count(), 1);
        assert_eq!(autoscalers(&seen, &Kinds::of(Way::Back)), Vec::<String>::new());
    }

    #[test]
    fn keda_means_a_deployment_where_it_names_no_kind() {
        let scaler = object(json!({"metadata": {}, "spec": {"scaleTargetRef": {"name": "web"}}}));
        assert!(scales(&scaler, "scaleTargetRef", "Deployment", "web"));
        assert!(!scales(&scaler, "scaleTargetRef", "OrderedDeployment", "web"));
        assert!(!scales(&scaler, "scaleTargetRef", "Deployment", "other"));
    }
}
