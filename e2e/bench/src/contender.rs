//! What is compared: two controllers and a driver without a controller.

use std::fmt;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use scenarios::{Request, TestCluster};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::workload::{APP, Bounds, template};

/// How many objects a row writes at the same time.
const PARALLEL: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// The ordereddeployment controller.
    Ours,
    /// The built-in deployment and replicaset controllers.
    BuiltIn,
    /// No controller: create, wait until ready, delete. The upper limit of what a controller can reach here.
    Null,
}

impl Contender {
    /// All, in the order of the report.
    pub const ALL: [Self; 3] = [Self::Ours, Self::BuiltIn, Self::Null];
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ours => "OrderedDeployment",
            Self::BuiltIn => "Deployment",
            Self::Null => "null driver",
        })
    }
}

fn object(api_version: &str, kind: &str, name: &str, replicas: usize, bounds: Bounds) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {APP: name}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {
                "maxSurge": bounds.surge, "maxUnavailable": bounds.unavailable,
            }},
            "template": template(name, 1),
        },
    })
}

impl Contender {
    /// Creates an object with that many replicas.
    pub async fn create(
        self,
        test_cluster: &TestCluster,
        name: &str,
        replicas: usize,
        bounds: Bounds,
    ) -> Result<()> {
        let options = PostParams::default();
        match self {
            Self::Ours => {
                let kind = ("ordereddeployment.io/v1alpha1", "OrderedDeployment");
                let object = serde_json::from_value(object(kind.0, kind.1, name, replicas, bounds))?;
                test_cluster.deployments().create(&options, &object).await?;
            }
            Self::BuiltIn => {
                let object = serde_json::from_value(object("apps/v1", "Deployment", name, replicas, bounds))?;
                deployments(test_cluster).create(&options, &object).await?;
            }
            Self::Null => crate::null::create(test_cluster, name, replicas).await?,
        }
        Ok(())
    }

    /// Creates several objects.
    pub async fn create_all(
        self,
        test_cluster: &TestCluster,
        names: &[String],
        replicas: usize,
        bounds: Bounds,
    ) -> Result<()> {
        let creates = stream::iter(names).map(|name| self.create(test_cluster, name, replicas, bounds));
        creates.buffer_unordered(PARALLEL).try_collect().await
    }

    /// Begins a rollout to the second template.
    pub async fn roll_out(self, test_cluster: &TestCluster, name: &str) -> Result<()> {
        self.patch_spec(test_cluster, name, &json!({"template": template(name, 2)})).await
    }

    /// Scales to that many replicas.
    pub async fn scale(self, test_cluster: &TestCluster, name: &str, replicas: usize) -> Result<()> {
        self.patch_spec(test_cluster, name, &json!({"replicas": replicas})).await
    }

    async fn patch_spec(self, test_cluster: &TestCluster, name: &str, spec: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        let options = PatchParams::default();
        match self {
            Self::Ours => test_cluster.deployments().patch(name, &options, &patch).await.map(drop)?,
            Self::BuiltIn => {
                deployments(test_cluster).patch(name, &options, &patch).await.map(drop)?;
            }
            Self::Null => {}
        }
        Ok(())
    }

    /// Waits until the controller has reported that all replicas are available.
    pub async fn until_reported(self, test_cluster: &TestCluster, name: &str, replicas: usize) -> Result<()> {
        let replicas = i32::try_from(replicas)?;
        match self {
            Self::Ours => test_cluster.complete(name, replicas).await.map(drop),
            Self::BuiltIn => {
                let is_complete = |object: &Deployment| {
                    let status = object.status.clone().unwrap_or_default();
                    status.observed_generation == object.metadata.generation
                        && [status.replicas, status.updated_replicas, status.available_replicas]
                            == [Some(replicas); 3]
                };
                test_cluster
                    .until_object(deployments(test_cluster), name, "complete", is_complete)
                    .await
                    .map(drop)
            }
            Self::Null => Ok(()),
        }
    }

    /// Whether this contender sent the request.
    pub fn sent(self, request: &Request) -> bool {
        match self {
            Self::Ours => request.by_the_controller(),
            Self::BuiltIn => ["/deployment-controller", "/replicaset-controller"]
                .iter()
                .any(|name| request.user_agent.ends_with(name)),
            Self::Null => request.user_agent.starts_with(crate::null::USER_AGENT),
        }
    }
}

pub fn deployments(test_cluster: &TestCluster) -> Api<Deployment> {
    Api::namespaced(test_cluster.client.clone(), &test_cluster.namespace)
}
