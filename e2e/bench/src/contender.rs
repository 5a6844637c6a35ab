//! What is compared: two controllers and a driver without a controller.

use std::fmt;

use anyhow::Result;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use scenarios::{Request, TestCluster};
use serde_json::{Value, json};

use crate::null;
use crate::workload::{APP, Bounds, template};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
        f.pad(match self {
            Self::Ours => "OrderedDeployment",
            Self::BuiltIn => "Deployment",
            Self::Null => "null driver",
        })
    }
}

impl Contender {
    /// All, in the order of the report.
    pub const ALL: [Self; 3] = [Self::Ours, Self::BuiltIn, Self::Null];

    /// Version and kind of its objects; the null driver has none.
    fn kind(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Ours => Some(("ordereddeployment.io/v1alpha1", "OrderedDeployment")),
            Self::BuiltIn => Some(("apps/v1", "Deployment")),
            Self::Null => None,
        }
    }

    /// Creates an object with that many replicas.
    pub async fn create(
        self,
        test_cluster: &TestCluster,
        name: &str,
        replicas: usize,
        bounds: Bounds,
    ) -> Result<()> {
        let Some((version, kind)) = self.kind() else {
            let pods = (0..replicas).map(|number| null::pod(name, 1, number));
            return null::create(test_cluster, pods).await;
        };
        let limits = json!({"maxSurge": bounds.surge, "maxUnavailable": bounds.unavailable});
        let object = serde_json::from_value(json!({
            "apiVersion": version, "kind": kind, "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {APP: name}},
                "strategy": {"type": "RollingUpdate", "rollingUpdate": limits},
                "template": template(name, 1),
            },
        }))?;
        test_cluster.objects(version, kind).create(&PostParams::default(), &object).await?;
        Ok(())
    }

    /// Changes the spec of an object.
    pub async fn patch(self, test_cluster: &TestCluster, name: &str, spec: &Value) -> Result<()> {
        if let Some((version, kind)) = self.kind() {
            let patch = Patch::Merge(json!({"spec": spec}));
            test_cluster.objects(version, kind).patch(name, &PatchParams::default(), &patch).await?;
        }
        Ok(())
    }

    /// Waits until the controller has reported that all replicas are available.
    pub async fn until_reported(self, test_cluster: &TestCluster, name: &str, replicas: usize) -> Result<()> {
        let Some((version, kind)) = self.kind() else { return Ok(()) };
        let is_complete = |object: &DynamicObject| {
            let status = &object.data["status"];
            let counts = ["replicas", "updatedReplicas", "availableReplicas"];
            status["observedGeneration"].as_i64() == object.metadata.generation
                && counts.iter().all(|count| status[count] == replicas)
        };
        test_cluster
            .until_object(test_cluster.objects(version, kind), name, "complete", is_complete)
            .await
            .map(drop)
    }

    /// Whether this contender sent the request.
    pub fn sent(self, request: &Request) -> bool {
        match self {
            Self::Ours => request.by_the_controller(),
            Self::BuiltIn => ["/deployment-controller", "/replicaset-controller"]
                .iter()
                .any(|name| request.user_agent.ends_with(name)),
            Self::Null => request.user_agent.starts_with(null::USER_AGENT),
        }
    }
}
