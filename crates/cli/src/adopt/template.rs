//! The template that the new object gets: the manifest's own words, where the server reads them as what runs already.
//!
//! A server fills in the defaults of a Deployment's template, and not of an OrderedDeployment's, whose template is carried
//! through untouched. And `kubectl apply`, Helm and server-side apply replace lists of a custom object as a whole: one that
//! holds the filled-in template would be rolled out by the next apply of its manifest, though nothing changed. What the
//! server makes of a template only the server knows: it is asked by a dry run. Nothing is written.

use kube::api::PostParams;
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use ordereddeployment_api::Template;
use serde_json::Value;

use super::seen::{Kind, annotation_of};

pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What was chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// None: the Deployment's own, as it runs.
    pub(crate) template: Option<Value>,
    /// Why applying a manifest may start a rollout.
    pub(crate) note: Option<String>,
}

/// Chooses for that Deployment; `given` is the template of a manifest, else the one applied last counts.
pub(crate) async fn choose(
    client: &Client,
    namespace: &str,
    deployment: &DynamicObject,
    given: Option<&Value>,
) -> Choice {
    let name = deployment.name_any();
    let Some(manifest) = given.cloned().or_else(|| applied(deployment)) else {
        let note = format!(
            "the manifest of {name} is not known, so that applying one later may start a rollout, which restarts the pods; \
             give it with `-f FILE` (`helm get manifest RELEASE | kubectl ordered adopt {name} -f -`) to have none"
        );
        return Choice { template: None, note: Some(note) };
    };
    let live = deployment.data.pointer("/spec/template").cloned().unwrap_or_default();
    if same(&manifest, &live) {
        return Choice::default();
    }
    let mut why = String::new();
    // What others have added, such as the time of `kubectl rollout restart`, an apply leaves as it is.
    for candidate in [manifest.clone(), merged(&live, &manifest)] {
        why = match filled_in(client, namespace, deployment, &candidate).await {
            Ok(filled) if same(&filled, &live) => {
                return Choice { template: Some(candidate), note: None };
            }
            Ok(filled) => format!(
                "the manifest of {name} is not what runs ({}), so that applying it starts",
                difference("template", &filled, &live).unwrap_or_default()
            ),
            Err(error) => format!(
                "whether the manifest of {name} is what runs the server does not say ({error}), so that applying it may start"
            ),
        };
    }
    Choice { template: None, note: Some(format!("{why} a rollout, which restarts the pods")) }
}

/// The template that was applied last.
fn applied(deployment: &DynamicObject) -> Option<Value> {
    let applied: Value = serde_json::from_str(annotation_of(deployment, LAST_APPLIED)?).ok()?;
    applied.pointer("/spec/template").cloned()
}

/// The template as a server keeps it in this Deployment.
async fn filled_in(
    client: &Client,
    namespace: &str,
    deployment: &DynamicObject,
    template: &Value,
) -> kube::Result<Value> {
    let mut tried = deployment.clone();
    // Its status changes all the time, and nothing is written.
    tried.metadata.resource_version = None;
    tried.data["spec"]["template"] = template.clone();
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let api = Kind::Deployment.api(client, namespace);
    let kept = api.replace(&deployment.name_any(), &dry, &tried).await?;
    Ok(kept.data.pointer("/spec/template").cloned().unwrap_or_default())
}

fn same(first: &Value, second: &Value) -> bool {
    Template::new(first).same_as(&Template::new(second))
}

/// What an apply of the manifest makes of an object of a custom kind: maps are merged, everything else is replaced.
fn merged(live: &Value, manifest: &Value) -> Value {
    let (Some(old), Some(new)) = (live.as_object(), manifest.as_object()) else { return manifest.clone() };
    let mut merged = old.clone();
    for (key, value) in new.iter().filter(|(_, value)| !value.is_null()) {
        let value = old.get(key).map_or_else(|| value.clone(), |old| self::merged(old, value));
        merged.insert(key.clone(), value);
    }
    merged.into()
}

/// The first place where the two differ, for people.
fn difference(path: &str, first: &Value, second: &Value) -> Option<String> {
    match (first, second) {
        (Value::Object(one), Value::Object(two)) => {
            let keys = one.keys().chain(two.keys().filter(|key| !one.contains_key(*key)));
            keys.into_iter().find_map(|key| {
                let null = Value::Null;
                let (one, two) = (one.get(key).unwrap_or(&null), two.get(key).unwrap_or(&null));
                difference(&format!("{path}.{key}"), one, two)
            })
        }
        (Value::Array(one), Value::Array(two)) if one.len() == two.len() => {
            let pairs = one.iter().zip(two).enumerate();
            pairs
                .into_iter()
                .find_map(|(index, (one, two))| difference(&format!("{path}[{index}]"), one, two))
        }
        _ if first == second => None,
        _ => Some(format!("{path} differs")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{difference, merged};

    #[test]
    fn maps_are_merged_and_lists_replaced() {
        let live = json!({"metadata": {"annotations": {"a": "1", "restarted": "now"}},
                          "spec": {"dnsPolicy": "ClusterFirst", "containers": [{"name": "web", "resources": {}}]}});
        let manifest = json!({"metadata": {"annotations": {"a": "2"}, "creationTimestamp": null},
                              "spec": {"containers": [{"name": "web"}]}});
        assert_eq!(
            merged(&live, &manifest),
            json!({"metadata": {"annotations": {"a": "2", "restarted": "now"}},
                   "spec": {"dnsPolicy": "ClusterFirst", "containers": [{"name": "web"}]}})
        );
    }

    #[test]
    fn the_first_difference_is_told_by_its_path() {
        let one = json!({"spec": {"containers": [{"image": "a"}, {"image": "b"}]}});
        let two = json!({"spec": {"containers": [{"image": "a"}, {"image": "c"}]}});
        assert_eq!(difference("template", &one, &two).unwrap(), "template.spec.containers[1].image differs");
        assert_eq!(difference("template", &one, &one), None);
        assert_eq!(difference("template", &json!({}), &one).unwrap(), "template.spec differs");
    }
}
