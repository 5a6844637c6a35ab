//! Chooses the template of the new object: that of the manifest, if the API server defaults it to the running
//! one.
//!
//! The API server sets defaults in the template of a Deployment, and not in that of an OrderedDeployment,
//! which is stored as written. `kubectl apply`, Helm and server-side apply replace lists of custom objects as
//! a whole. So if the new object had the template with defaults, the next apply of its manifest would start a
//! rollout without a change. Only the API server knows its defaults, so this module uses a dry run. Nothing
//! is written.

use kube::api::PostParams;
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use ordereddeployment_api::Template;
use serde_json::Value;

use super::objects::{Kind, annotation_of};

pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

#[derive(Clone, Debug, Default)]
pub(crate) struct TemplateChoice {
    /// `None` is the live template of the Deployment.
    pub(crate) template: Option<Value>,
    /// Why an apply of the manifest can start a rollout.
    pub(crate) note: Option<String>,
}

/// Chooses the template. `given` is that of a manifest; the default is the last applied one.
pub(crate) async fn choose(
    client: &Client,
    namespace: &str,
    deployment: &DynamicObject,
    given: Option<&Value>,
) -> TemplateChoice {
    let name = deployment.name_any();
    let Some(manifest) = given.cloned().or_else(|| applied(deployment)) else {
        let note = format!(
            "the manifest of {name} is not known, so applying one later can start a rollout, which replaces \
             the pods; to avoid it, use `-f FILE` (`helm get manifest RELEASE | kubectl ordered adopt {name} \
             -f -`)"
        );
        return TemplateChoice { template: None, note: Some(note) };
    };
    let live = deployment.data.pointer("/spec/template").cloned().unwrap_or_default();
    if same(&manifest, &live) {
        return TemplateChoice::default();
    }
    let mut why = String::new();
    // An apply keeps fields of other clients, such as the annotation of `kubectl rollout restart`.
    let mut merged = live.clone();
    json_patch::merge(&mut merged, &manifest);
    for candidate in [manifest, merged] {
        why = match with_defaults(client, namespace, deployment, &candidate).await {
            Ok(filled) if same(&filled, &live) => {
                return TemplateChoice { template: Some(candidate), note: None };
            }
            Ok(filled) => format!(
                "the manifest of {name} differs from the live template ({} differs), so applying it \
                 starts",
                difference(&filled, &live).unwrap_or_default()
            ),
            Err(error) => format!(
                "the manifest of {name} cannot be compared with the live template ({error}), so applying it \
                 can start"
            ),
        };
    }
    TemplateChoice { template: None, note: Some(format!("{why} a rollout, which replaces the pods")) }
}

fn applied(deployment: &DynamicObject) -> Option<Value> {
    let applied: Value = serde_json::from_str(annotation_of(deployment, LAST_APPLIED)?).ok()?;
    applied.pointer("/spec/template").cloned()
}

/// The template with the defaults of the API server, by a dry run with this Deployment.
async fn with_defaults(
    client: &Client,
    namespace: &str,
    deployment: &DynamicObject,
    template: &Value,
) -> kube::Result<Value> {
    let mut changed = deployment.clone();
    // No precondition: the status changes often, and nothing is written.
    changed.metadata.resource_version = None;
    changed.data["spec"]["template"] = template.clone();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let api = Kind::Deployment.api(client, namespace);
    let kept = api.replace(&deployment.name_any(), &dry, &changed).await?;
    Ok(kept.data.pointer("/spec/template").cloned().unwrap_or_default())
}

fn same(first: &Value, second: &Value) -> bool {
    Template::new(first).same_as(&Template::new(second))
}

/// The path of the first difference, for the user: `template.spec.containers.1.image`.
fn difference(first: &Value, second: &Value) -> Option<String> {
    let changes = json_patch::diff(first, second);
    let path = changes.first()?.path().tokens().map(|token| format!(".{}", token.decoded()));
    Some(path.fold("template".to_owned(), |path, token| path + &token))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::difference;

    #[test]
    fn the_first_difference_is_shown_by_its_path() {
        let one = json!({"spec": {"containers": [{"image": "a"}, {"image": "b"}]}});
        let two = json!({"spec": {"containers": [{"image": "a"}, {"image": "c"}]}});
        assert_eq!(difference(&one, &two).unwrap(), "template.spec.containers.1.image");
        assert_eq!(difference(&one, &one), None);
        let key = json!({"a/b": "1"});
        assert_eq!(difference(&key, &json!({"a/b": "2"})).unwrap(), "template.a/b");
        assert_eq!(difference(&json!({}), &one).unwrap(), "template.spec");
    }
}
