//! One server with the CRDs installed, for one scenario.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use kube_runtime::watcher;
use ordereddeployment_api::{ConditionStatus, OrderedDeployment, crds, names::condition};
use ordereddeployment_sandbox::{Config, Sandbox};

use crate::{Kubectl, Manager};

/// How long anything may take that a scenario waits for. Far more than it needs: past it something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, and what a scenario needs on it.
pub struct World {
    /// The server itself, for delays and its log of requests.
    pub sandbox: Sandbox,
    /// Real kubectl.
    pub kubectl: Kubectl,
    /// A client of the scenario's own, for waiting.
    pub client: Client,
    kubeconfig: PathBuf,
    _folder: tempfile::TempDir,
}

impl World {
    /// A fresh sandbox with the CRDs, listening for kubectl; no controller runs yet.
    pub async fn new() -> Result<Self> {
        let config = Config {
            ready_delay: Duration::from_millis(100),
            termination_delay: Duration::from_millis(50),
            ..Config::default()
        };
        let sandbox = Sandbox::start(config).await?;
        let endpoint = sandbox.listen(([127, 0, 0, 1], 0).into()).await?;
        let folder = tempfile::tempdir().context("cannot make a folder for the kubeconfig")?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, &endpoint.kubeconfig).context("cannot write the kubeconfig")?;
        let client = sandbox.connect("scenario")?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in crds() {
            definitions.create(&PostParams::default(), &crd).await.context("cannot install a CRD")?;
        }
        Ok(Self { kubectl: Kubectl::new(&kubeconfig), sandbox, client, kubeconfig, _folder: folder })
    }

    /// Starts the controller's binary.
    pub fn start_manager(&self) -> Result<Manager> {
        Manager::start(&self.kubeconfig, &[])
    }

    /// The objects of the default namespace.
    pub fn deployments(&self) -> Api<OrderedDeployment> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Its pods that are not being deleted, by name.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        let mut pods = pods.list(&ListParams::default()).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.sort_by_key(ResourceExt::name_any);
        Ok(pods)
    }

    /// The names of [`Self::pods`] with that image.
    pub async fn pods_of_image(&self, image: &str) -> Result<Vec<String>> {
        let pods = self.pods().await?;
        let has_image = |pod: &Pod| {
            let spec = pod.spec.as_ref();
            spec.is_some_and(|spec| spec.containers.iter().any(|found| found.image.as_deref() == Some(image)))
        };
        Ok(pods.iter().filter(|pod| has_image(pod)).map(ResourceExt::name_any).collect())
    }

    /// The reasons of the events so far, one entry an event.
    pub async fn event_reasons(&self) -> Result<Vec<String>> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let events = events.list(&ListParams::default()).await?;
        Ok(events.items.into_iter().filter_map(|event| event.reason).collect())
    }

    /// Waits until the object `name` is as `wanted` says; fails with what it is instead.
    pub async fn until(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&OrderedDeployment) -> bool,
    ) -> Result<OrderedDeployment> {
        let mut seen = None;
        let found = tokio::time::timeout(PATIENCE, async {
            let stream = watcher::watch_object(self.deployments(), name);
            futures::pin_mut!(stream);
            while let Some(object) = stream.next().await.transpose().ok().flatten() {
                if let Some(object) = object {
                    if wanted(&object) {
                        return Some(object);
                    }
                    seen = Some(object);
                }
            }
            None
        });
        match found.await {
            Ok(Some(object)) => Ok(object),
            _ => bail!("{name} is not {what}: {}", serde_json::to_string_pretty(&seen)?),
        }
    }

    /// Waits until the object is complete, of its newest generation, with that many replicas.
    pub async fn complete(&self, name: &str, replicas: i32) -> Result<OrderedDeployment> {
        let what = format!("complete with {replicas} replicas");
        self.until(name, &what, |object| {
            let status = object.status.clone().unwrap_or_default();
            object.spec.replicas == replicas
                && status.observed_generation == object.metadata.generation
                && status.available_replicas == Some(replicas)
                && status
                    .condition(condition::COMPLETE)
                    .is_some_and(|found| found.status == ConditionStatus::True)
        })
        .await
    }

    /// Waits until the object is held.
    pub async fn held(&self, name: &str) -> Result<OrderedDeployment> {
        self.until(name, "held", |object| {
            let status = object.status.clone().unwrap_or_default();
            status.hold.is_some()
                && status
                    .condition(condition::HELD)
                    .is_some_and(|found| found.status == ConditionStatus::True)
        })
        .await
    }
}
