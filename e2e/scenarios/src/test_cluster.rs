//! A server with the CRDs, for one scenario.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use ordereddeployment_api::names::condition;
use ordereddeployment_api::{Condition, ConditionStatus, OrderedDeployment, OrderedReplicaSet};
use ordereddeployment_sandbox::{Config, Sandbox};

use crate::real::{BuiltIn, ControlPlane, NAMESPACE};
use crate::setting::TIMEOUT;
use crate::{Deletion, Kubectl, Manager, Proxy, Request, Setting, kubeconfig};

/// Which server a scenario runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The embedded server.
    Sandbox,
    /// A control plane of real Kubernetes binaries.
    Real,
}

/// The server behind the proxy.
enum Backend {
    // Boxed: both are large, and there is one per scenario.
    Sandbox(Box<Sandbox>),
    Real(Box<ControlPlane>),
}

/// A server with the clients and the proxy of a scenario. Clones share the server, which ends with the last
/// clone.
#[derive(Clone)]
pub struct TestCluster {
    /// Real kubectl with a direct connection.
    pub kubectl: Kubectl,
    /// The client of the scenario, with a direct connection.
    pub client: Client,
    /// The proxy of the controller; it delays and breaks requests.
    pub proxy: Arc<Proxy>,
    /// The namespace of the scenario.
    pub namespace: String,
    /// The timeout of waits.
    pub(crate) timeout: Duration,
    /// The kubeconfig of [`Self::kubectl`], for other programs.
    pub straight: PathBuf,
    /// The kubeconfig of clients behind the proxy.
    pub kubeconfig: PathBuf,
    backend: Arc<Backend>,
    _folder: Arc<tempfile::TempDir>,
}

impl TestCluster {
    /// A new server with the CRDs; our controller does not run yet.
    pub async fn start(server: Server) -> Result<Self> {
        Self::with(server, Setting::default()).await
    }

    /// A new server with this configuration.
    pub async fn with(server: Server, setting: Setting) -> Result<Self> {
        match server {
            Server::Sandbox => Self::sandbox(setting).await,
            Server::Real => {
                let plane = ControlPlane::start(&setting).await?;
                let client = plane.client("scenario").await?;
                let (ours, controllers) = (plane.kubeconfig(), plane.controller_kubeconfig());
                Self::assemble(Backend::Real(Box::new(plane)), client, &ours, &controllers).await
            }
        }
    }

    async fn sandbox(setting: Setting) -> Result<Self> {
        let config = Config {
            nodes: setting.nodes,
            ready_delay: setting.ready_delay,
            termination_delay: setting.termination_delay,
            ..Config::default()
        };
        let sandbox = Sandbox::start(config).await?;
        let kubeconfig = sandbox.listen(([127, 0, 0, 1], 0).into()).await?.kubeconfig;
        let client = sandbox.connect("scenario")?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in setting.definitions {
            definitions.create(&PostParams::default(), &crd).await.context("cannot install a CRD")?;
        }
        let backend = Backend::Sandbox(Box::new(sandbox));
        Self::assemble(backend, client, &kubeconfig, &kubeconfig).await
    }

    async fn assemble(backend: Backend, client: Client, ours: &str, controllers: &str) -> Result<Self> {
        let proxy = Proxy::start(controllers).await?;
        let folder = tempfile::tempdir().context("cannot make a folder for the kubeconfig")?;
        let straight = folder.path().join("kubeconfig");
        kubeconfig::write_private(&straight, ours)?;
        let kubeconfig = folder.path().join("controller.kubeconfig");
        kubeconfig::write_private(&kubeconfig, &proxy.kubeconfig(NAMESPACE))?;
        Ok(Self {
            kubectl: Kubectl::new(&straight),
            client,
            proxy: Arc::new(proxy),
            namespace: NAMESPACE.to_owned(),
            timeout: TIMEOUT,
            straight,
            kubeconfig,
            backend: Arc::new(backend),
            _folder: Arc::new(folder),
        })
    }

    /// The same server with a new namespace, so that scenarios can share a server.
    pub async fn apart(&self, namespace: &str) -> Result<Self> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let mut object = Namespace::default();
        object.metadata.name = Some(namespace.to_owned());
        namespaces.create(&PostParams::default(), &object).await.context("cannot make a namespace")?;
        if let Some(plane) = self.control_plane() {
            plane.wait_for_pods(&self.client, namespace).await?;
        }
        Ok(self.inside(namespace))
    }

    /// The same server with a namespace that the scenario creates itself.
    #[must_use]
    pub fn inside(&self, namespace: &str) -> Self {
        let kubectl = self.kubectl.in_namespace(Some(namespace));
        Self { kubectl, namespace: namespace.to_owned(), ..self.clone() }
    }

    /// The same server with another timeout of waits.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self { timeout, ..self.clone() }
    }

    /// Deletes the namespace with its content. Does not wait for the end of the deletion.
    pub async fn clear(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        match namespaces.delete(&self.namespace, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            other => other.map(drop).context("cannot delete the namespace"),
        }
    }

    /// The control plane, for scenarios that need a real server.
    #[must_use]
    pub fn control_plane(&self) -> Option<&ControlPlane> {
        match &*self.backend {
            Backend::Sandbox(_) => None,
            Backend::Real(plane) => Some(plane),
        }
    }

    /// From now on the controller behind the proxy has the identity of this service account, and `namespace`
    /// is the namespace of the scenario.
    pub async fn act_as(&mut self, account: (&str, &str), namespace: &str) -> Result<()> {
        let plane = self.control_plane().context("the sandbox has no service accounts")?;
        let kubeconfig = plane.kubeconfig_of_account(account.0, account.1).await?;
        self.proxy = Arc::new(Proxy::start(&kubeconfig).await?);
        (self.kubectl, self.namespace) = (self.kubectl.in_namespace(Some(namespace)), namespace.to_owned());
        kubeconfig::write_private(&self.kubeconfig, &self.proxy.kubeconfig(namespace))
    }

    /// The same server with a separate proxy, for another controller.
    pub async fn behind_another_proxy(&self) -> Result<Self> {
        let upstream = match &*self.backend {
            Backend::Sandbox(_) => {
                std::fs::read_to_string(&self.straight).context("cannot read a kubeconfig")?
            }
            Backend::Real(plane) => plane.controller_kubeconfig(),
        };
        let proxy = Arc::new(Proxy::start(&upstream).await?);
        let kubeconfig = self.kubeconfig.with_extension(format!("{:08x}", rand::random::<u32>()));
        kubeconfig::write_private(&kubeconfig, &proxy.kubeconfig(&self.namespace))?;
        Ok(Self { proxy, kubeconfig, ..self.clone() })
    }

    /// Starts these Kubernetes controllers of a real server in a process of their own, with these additional
    /// arguments. [`Setting::built_in_controllers`] must not include them.
    pub fn start_built_in_apart(&self, controllers: &str, arguments: &[&str]) -> Result<BuiltIn> {
        BuiltIn::start(&self.straight, controllers, arguments)
    }

    /// Starts the controller's binary behind the proxy.
    pub fn start_manager(&self) -> Result<Manager> {
        self.start_manager_with(&[])
    }

    /// Starts the controller's binary behind the proxy with these arguments.
    pub fn start_manager_with(&self, arguments: &[&str]) -> Result<Manager> {
        Manager::start(&self.kubeconfig, arguments)
    }

    /// Starts the controller's binary with a direct connection: the proxy would be part of a measurement.
    pub fn start_manager_beside_the_proxy(&self, arguments: &[&str]) -> Result<Manager> {
        let plane = self.control_plane().context("the sandbox is not measured")?;
        let kubeconfig = self.kubeconfig.with_file_name("beside.kubeconfig");
        kubeconfig::write_private(&kubeconfig, &plane.controller_kubeconfig())?;
        Manager::start(&kubeconfig, arguments)
    }

    /// Every request that the server has answered and recorded.
    pub async fn requests(&self) -> Result<Vec<Request>> {
        match &*self.backend {
            Backend::Sandbox(sandbox) => Ok(sandbox.requests().into_iter().map(Request::from).collect()),
            Backend::Real(plane) => plane.requests().await,
        }
    }

    /// Every accepted deletion of a pod in this namespace, in order, by any client.
    pub async fn deletions(&self) -> Result<Vec<Deletion>> {
        let mut requests = self.requests().await?;
        requests.retain(|request| request.namespace.as_deref() == Some(&self.namespace));
        Ok(requests.iter().filter_map(Deletion::of).collect())
    }

    /// Compacts the history of a real server before this version, so that watches from an older version
    /// expire with 410.
    pub async fn compact(&self, version: u64) -> Result<()> {
        self.control_plane().context("the sandbox is not compacted")?.store.compact(version).await
    }

    /// The OrderedDeployments in the namespace of the scenario.
    #[must_use]
    pub fn deployments(&self) -> Api<OrderedDeployment> {
        self.api()
    }

    /// The objects of this kind in the namespace of the scenario.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The objects of this version and kind, such as `apps/v1` and `Deployment`, in the namespace of the
    /// scenario.
    #[must_use]
    pub fn objects(&self, version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    /// The OrderedReplicaSets in the namespace of the scenario.
    #[must_use]
    pub fn sets(&self) -> Api<OrderedReplicaSet> {
        self.api()
    }

    /// The pods in the namespace that are not terminating, by name.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let mut pods = self.api::<Pod>().list(&ListParams::default()).await?.items;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        pods.sort_by_key(ResourceExt::name_any);
        Ok(pods)
    }

    /// The names of [`Self::pods`] with this image.
    pub async fn pods_of_image(&self, image: &str) -> Result<Vec<String>> {
        let pods = self.pods().await?;
        Ok(pods.iter().filter(|pod| image_of(pod) == image).map(ResourceExt::name_any).collect())
    }

    /// The names of the nodes of this pool.
    pub async fn pool(&self, usage: &str) -> Result<BTreeSet<String>> {
        let of_pool = ListParams::default().labels(&format!("node.usage={usage}"));
        let nodes = Api::<Node>::all(self.client.clone()).list(&of_pool).await?;
        Ok(nodes.iter().map(ResourceExt::name_any).collect())
    }

    /// The names of [`Self::pods`].
    pub async fn names(&self) -> Result<Vec<String>> {
        Ok(self.pods().await?.iter().map(ResourceExt::name_any).collect())
    }

    /// The UIDs of [`Self::pods`].
    pub async fn uids(&self) -> Result<BTreeSet<String>> {
        Ok(self.pods().await?.iter().filter_map(ResourceExt::uid).collect())
    }

    /// Waits until the object `name` satisfies `wanted`. The error contains its state.
    pub async fn until(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&OrderedDeployment) -> bool,
    ) -> Result<OrderedDeployment> {
        self.until_object(self.deployments(), name, what, wanted).await
    }

    /// Waits until the condition of `web` has this status and reason, about the newest generation. Returns
    /// its message.
    pub async fn until_said(&self, type_: &str, status: ConditionStatus, reason: &str) -> Result<String> {
        let said = |object: &OrderedDeployment| {
            let found = condition_of(object, type_)?;
            (found.status == status && found.reason == reason).then_some(found.message)
        };
        let what = format!("{type_} {status:?}: {reason}");
        let object = self.until("web", &what, |object| said(object).is_some()).await?;
        Ok(said(&object).unwrap_or_default())
    }

    /// Waits until the newest generation of the object is complete with this number of replicas.
    pub async fn complete(&self, name: &str, replicas: i32) -> Result<OrderedDeployment> {
        let what = format!("complete with {replicas} replicas");
        self.until(name, &what, |object| is_complete(object, replicas)).await
    }

    /// Waits until the object is held.
    pub async fn held(&self, name: &str) -> Result<OrderedDeployment> {
        self.until(name, "held", |object| {
            let status = object.status.clone().unwrap_or_default();
            let condition = status.condition(condition::HELD);
            status.hold.is_some() && condition.is_some_and(|found| found.status == ConditionStatus::True)
        })
        .await
    }
}

/// Whether the newest generation of the object is complete with this number of replicas.
#[must_use]
pub fn is_complete(object: &OrderedDeployment, replicas: i32) -> bool {
    object.spec.replicas == replicas
        && object.status.as_ref().and_then(|status| status.available_replicas) == Some(replicas)
        && condition_of(object, condition::COMPLETE)
            .is_some_and(|found| found.status == ConditionStatus::True)
}

/// The condition of this type, if the status is about the newest generation.
#[must_use]
pub fn condition_of(object: &OrderedDeployment, type_: &str) -> Option<Condition> {
    let status = object.status.as_ref()?;
    let is_current = status.observed_generation == object.metadata.generation;
    status.condition(type_).filter(|_| is_current).cloned()
}

/// The image of the first container; empty if there is none.
#[must_use]
pub fn image_of(pod: &Pod) -> &str {
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    container.and_then(|container| container.image.as_deref()).unwrap_or_default()
}
