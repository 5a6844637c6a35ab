//! Changes the pod template with one write, and only if the template is still the one that was read. The
//! controller does the rollout.

use anyhow::{Result, anyhow, bail};
use kube::api::Patch;
use kube::{Api, ResourceExt};
use ordereddeployment_api::{OrderedDeployment, Template};
use serde_json::{Value, json};

use crate::client::Connection;
use crate::client::explain::explain;
use crate::commands::request;
use crate::view::pause_points::upcoming;
use crate::view::state::ObservedState;

/// A new template for an OrderedDeployment.
pub(crate) struct TemplateChange<'a> {
    pub(crate) state: &'a ObservedState,
    /// What the user asked for, such as `restart`.
    pub(crate) verb: &'static str,
    pub(crate) template: Template,
    /// An annotation of the OrderedDeployment to write with the template; `None` as the value removes it.
    pub(crate) annotation: Option<(&'static str, Option<String>)>,
}

impl TemplateChange<'_> {
    /// The start of error messages: `cannot restart web in shop`.
    fn doing(&self) -> String {
        let deployment = &self.state.deployment;
        let namespace = deployment.namespace().unwrap_or_default();
        format!("cannot {} {} in {namespace}", self.verb, deployment.name_any())
    }

    /// The text that lists the pause points of the rollout that it starts, and how many there are.
    pub(crate) fn pause_points(&self) -> (String, usize) {
        upcoming(self.state, &self.template)
    }

    pub(crate) fn refuse_if_paused(&self, flags: &str) -> Result<()> {
        if self.state.deployment.spec.paused {
            bail!(
                "{}: it is paused (spec.paused)\nhint: run `kubectl ordered unpause {}{flags}` first",
                self.doing(),
                self.state.deployment.name_any()
            );
        }
        Ok(())
    }

    /// Writes the change. Returns what is done, or would be, then the pause points and the next command.
    pub(crate) async fn apply(&self, connection: &Connection, done: &str, would: &str) -> Result<String> {
        let (listed, points) = self.pause_points();
        self.write(connection).await?;
        let (name, flags) = (self.state.deployment.name_any(), &connection.flags);
        if connection.dry_run.is_dry() {
            return Ok(format!("{name}: {would}{}\n{listed}", connection.dry_run.note()));
        }
        let next = if self.state.deployment.spec.paused {
            format!(
                "it is paused (spec.paused): start the rollout with `kubectl ordered unpause {name}{flags}`"
            )
        } else {
            next_command(&name, flags, points)
        };
        Ok(format!("{name}: {done}\n{listed}\n{next}"))
    }

    /// Writes the change and returns the updated object; `None` if no write is sent.
    pub(crate) async fn write(&self, connection: &Connection) -> Result<Option<OrderedDeployment>> {
        if !connection.dry_run.sends() {
            return Ok(None);
        }
        let (api, name) = (connection.deployments(), self.state.deployment.name_any());
        let patch = Patch::<()>::Json(serde_json::from_value(Value::Array(self.operations()))?);
        match api.patch(&name, &connection.dry_run.patch_params(), &patch).await {
            Ok(written) => Ok(Some(written)),
            Err(error) if self.is_outdated(&error, &api).await => Err(anyhow!(
                "{}: another client has changed the template since it was read\nhint: check `kubectl ordered \
                 get {name}{}` and try again",
                self.doing(),
                connection.flags
            )),
            Err(error) => Err(explain(error, &self.doing())),
        }
    }

    /// Whether the write failed because the template is no longer the one that was read. The API server
    /// reports a failed JSON patch test as 422 without details, so the object is read again.
    async fn is_outdated(&self, error: &kube::Error, api: &Api<OrderedDeployment>) -> bool {
        if !matches!(error, kube::Error::Api(status) if status.code == 422) {
            return false;
        }
        let now = api.get(&self.state.deployment.name_any()).await;
        now.is_ok_and(|now| now.spec.template != self.state.deployment.spec.template)
    }

    fn operations(&self) -> Vec<Value> {
        let deployment = &self.state.deployment;
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

pub(crate) fn next_command(name: &str, flags: &str, points: usize) -> String {
    match points {
        0 => request::next_command((name, flags), None, false),
        _ => format!(
            "wait for the first with `kubectl ordered status {name} --until held{flags}`, pass it with \
             `kubectl ordered resume {name}{flags}`"
        ),
    }
}
