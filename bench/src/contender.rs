//! Who rolls pods out: our controller, the built-in ones, or a driver that only sends requests.

use std::fmt;

use anyhow::Result;
use e2e::{Request, World};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde::Serialize;
use serde_json::{Value, json};

/// The name of the object in every row.
pub const NAME: &str = "web";
/// The label with the number of the template.
pub const REVISION: &str = "revision";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// The ordereddeployment controller.
    Ours,
    /// The built-in deployment and replicaset controllers.
    BuiltIn,
    /// No controller: create, wait until ready, delete. The upper limit of what a controller can reach here.
    Null,
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "OrderedDeployment",
            Self::BuiltIn => "Deployment",
            Self::Null => "null driver",
        })
    }
}

/// The limits of a rolling update.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub surge: i32,
    pub unavailable: i32,
}

impl Bounds {
    /// One pod after the other.
    pub const STRICT: Self = Self { surge: 1, unavailable: 0 };
}

/// A pod template with that revision.
pub fn template(revision: u32) -> Value {
    json!({
        "metadata": {"labels": {"app": NAME, REVISION: revision.to_string()}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": format!("registry.example/web:{revision}")}],
        },
    })
}

fn spec(replicas: i32, bounds: Bounds) -> Value {
    json!({
        "replicas": replicas,
        "selector": {"matchLabels": {"app": NAME}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {
            "maxSurge": bounds.surge, "maxUnavailable": bounds.unavailable,
        }},
        "template": template(1),
    })
}

impl Contender {
    /// Creates the object with that many replicas.
    pub async fn create(self, world: &World, replicas: i32, bounds: Bounds) -> Result<()> {
        let object = |api_version: &str, kind: &str| {
            json!({
                "apiVersion": api_version, "kind": kind, "metadata": {"name": NAME},
                "spec": spec(replicas, bounds),
            })
        };
        let options = PostParams::default();
        match self {
            Self::Ours => {
                let object =
                    serde_json::from_value(object("ordereddeployment.io/v1alpha1", "OrderedDeployment"))?;
                world.deployments().create(&options, &object).await?;
            }
            Self::BuiltIn => {
                let object = serde_json::from_value(object("apps/v1", "Deployment"))?;
                deployments(world).create(&options, &object).await?;
            }
            Self::Null => crate::null::create(world, replicas).await?,
        }
        Ok(())
    }

    /// Begins a rollout to the second template.
    pub async fn roll_out(self, world: &World) -> Result<()> {
        self.patch_spec(world, &json!({"template": template(2)})).await
    }

    /// Scales to that many replicas.
    pub async fn scale(self, world: &World, replicas: i32) -> Result<()> {
        self.patch_spec(world, &json!({"replicas": replicas})).await
    }

    async fn patch_spec(self, world: &World, spec: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        let options = PatchParams::default();
        match self {
            Self::Ours => world.deployments().patch(NAME, &options, &patch).await.map(drop)?,
            Self::BuiltIn => deployments(world).patch(NAME, &options, &patch).await.map(drop)?,
            Self::Null => {}
        }
        Ok(())
    }

    /// Whether this contender sent the request.
    pub fn sent(self, request: &Request) -> bool {
        let user = request.user.as_deref().unwrap_or_default();
        match self {
            Self::Ours => request.by_the_controller(),
            Self::BuiltIn => {
                ["deployment-controller", "replicaset-controller"].iter().any(|name| user.ends_with(name))
            }
            Self::Null => request.user_agent.starts_with(crate::null::USER_AGENT),
        }
    }
}

fn deployments(world: &World) -> Api<Deployment> {
    Api::namespaced(world.client.clone(), &world.namespace)
}
