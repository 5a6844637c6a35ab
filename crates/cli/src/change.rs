//! A change of the template: one write, only onto the template that was read. The rollout is the controller's.

use anyhow::{Result, anyhow, bail};
use kube::Api;
use kube::api::{Patch, PatchParams};
use ordereddeployment_api::{OrderedDeployment, Template};
use serde_json::{Value, json};

use crate::ahead::{self, Ahead};
use crate::client::Connection;
use crate::explain::explain;
use crate::observe::Seen;

/// A new template for an OrderedDeployment.
pub(crate) struct Change<'a> {
    pub(crate) seen: &'a Seen,
    pub(crate) name: &'a str,
    pub(crate) template: Template,
    /// The annotation to write with it, or to remove.
    pub(crate) annotation: Option<(&'static str, Option<String>)>,
    /// What is done, for errors: `cannot restart web in shop`.
    pub(crate) doing: &'a str,
}

impl Change<'_> {
    /// The pause points that the rollout meets.
    pub(crate) fn ahead(&self) -> Vec<Ahead> {
        ahead::points(self.seen, &self.template)
    }

    /// Refused where the rollout would not start.
    pub(crate) fn refuse_if_paused(&self, flags: &str) -> Result<()> {
        if self.seen.deployment.spec.paused {
            bail!(
                "{}: it is paused as a whole (spec.paused)\nhint: `kubectl ordered unpause {}{flags}` first",
                self.doing,
                self.name
            );
        }
        Ok(())
    }

    /// Writes it. The object as it is then.
    pub(crate) async fn write(&self, connection: &Connection) -> Result<OrderedDeployment> {
        let api: Api<OrderedDeployment> = Api::namespaced(connection.client.clone(), &connection.namespace);
        let patch = Patch::<()>::Json(serde_json::from_value(Value::Array(self.operations()))?);
        let written = api.patch(self.name, &PatchParams::default(), &patch).await;
        match written {
            Ok(written) => Ok(written),
            Err(error) if self.was_overtaken(&error, &api).await => Err(anyhow!(
                "{}: somebody else has changed its template since it was read\nhint: look at `kubectl ordered get {}{}` and try again",
                self.doing,
                self.name,
                connection.flags
            )),
            Err(error) => Err(explain(error, self.doing)),
        }
    }

    /// Whether it was refused as the template is no more the one that was read. The server says of a failed test no more than
    /// that the request was wrong, with the code of an invalid object: so it is looked at again.
    async fn was_overtaken(&self, error: &kube::Error, api: &Api<OrderedDeployment>) -> bool {
        if !matches!(error, kube::Error::Api(status) if status.code == 422) {
            return false;
        }
        let now = api.get(self.name).await;
        now.is_ok_and(|now| now.spec.template != self.seen.deployment.spec.template)
    }

    fn operations(&self) -> Vec<Value> {
        let deployment = &self.seen.deployment;
        let path = "/spec/template";
        let mut operations = vec![
            json!({"op": "test", "path": path, "value": deployment.spec.template}),
            json!({"op": "replace", "path": path, "value": self.template}),
        ];
        if let Some((key, value)) = &self.annotation {
            let present = deployment.metadata.annotations.as_ref();
            let path = format!("/metadata/annotations/{}", key.replace('~', "~0").replace('/', "~1"));
            match value {
                Some(value) => {
                    if present.is_none() {
                        operations.push(json!({"op": "add", "path": "/metadata/annotations", "value": {}}));
                    }
                    operations.push(json!({"op": "add", "path": path, "value": value}));
                }
                None if present.is_some_and(|present| present.contains_key(*key)) => {
                    operations.push(json!({"op": "remove", "path": path}));
                }
                None => {}
            }
        }
        operations
    }
}

/// What a user does next, once a rollout has started.
pub(crate) fn next(name: &str, flags: &str, points: &[Ahead]) -> String {
    match points {
        [] => format!("watch it with `kubectl ordered get {name} -w{flags}`"),
        _ => format!(
            "`kubectl ordered status {name} --until held{flags}` waits for the first, `kubectl ordered resume {name}{flags}` passes it"
        ),
    }
}
