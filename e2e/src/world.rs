//! One server with the CRDs installed, for one scenario.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Event, Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::{Client, ResourceExt};
use ordereddeployment_api::{ConditionStatus, OrderedDeployment, crds, names::condition};
use ordereddeployment_sandbox::{Config, NodeSpec, Sandbox};

use crate::real::{BuiltIn, ControlPlane};
use crate::{Deletion, Kubectl, Manager, Proxy, Request, kubeconfig};

/// How long anything may take that a scenario waits for. Far more than it needs: past it something hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Which server a scenario runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The embedded one.
    Sandbox,
    /// A control plane of real Kubernetes programs.
    Real,
}

/// What a scenario wants to find.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Nodes with kubelets that only report.
    pub nodes: Vec<NodeSpec>,
    /// From a pod's assignment to Ready.
    pub ready_delay: Duration,
    /// From a pod's mark of deletion to its end.
    pub termination_delay: Duration,
    /// What a real kube-controller-manager runs, in the form of its `--controllers`.
    pub built_in_controllers: String,
    /// More arguments of a real kube-apiserver.
    pub api_server_arguments: Vec<String>,
    /// The custom kinds that are there from the start.
    pub definitions: Vec<CustomResourceDefinition>,
    /// For scenarios that break a real server: one of its own, whose store survives SIGKILL and can be read.
    pub faults: bool,
}

impl Default for Setting {
    /// Three nodes of the pool `inference`, three of the pool `hybrid`; quick kubelets; all controllers; our kinds.
    fn default() -> Self {
        Self {
            nodes: Config::default().nodes,
            ready_delay: Duration::from_millis(100),
            termination_delay: Duration::from_millis(50),
            built_in_controllers: "*".to_owned(),
            api_server_arguments: Vec::new(),
            definitions: crds(),
            faults: false,
        }
    }
}

/// What stands behind the proxy.
enum Backend {
    // Both are large, and there is one a scenario.
    Sandbox(Box<Sandbox>),
    Real(Box<ControlPlane>),
}

/// A server, and what a scenario needs on it. Clones stand on the same server, which ends with the last of them.
#[derive(Clone)]
pub struct World {
    /// Real kubectl, straight to the server.
    pub kubectl: Kubectl,
    /// A client of the scenario's own, for waiting, straight to the server.
    pub client: Client,
    /// What the controller talks through; it delays and breaks.
    pub proxy: Arc<Proxy>,
    /// The namespace of the scenario.
    pub namespace: String,
    /// How long anything may take that is waited for.
    pub(crate) patience: Duration,
    straight: PathBuf,
    kubeconfig: PathBuf,
    backend: Arc<Backend>,
    _folder: Arc<tempfile::TempDir>,
}

impl World {
    /// A fresh server with the CRDs; no controller of ours runs yet.
    pub async fn start(server: Server) -> Result<Self> {
        Self::with(server, Setting::default()).await
    }

    /// The same with nodes and delays of one's own.
    pub async fn with(server: Server, setting: Setting) -> Result<Self> {
        match server {
            Server::Sandbox => Self::sandbox(setting).await,
            Server::Real => Self::real(setting).await,
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
        let endpoint = sandbox.listen(([127, 0, 0, 1], 0).into()).await?;
        let client = sandbox.connect("scenario")?;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in setting.definitions {
            definitions.create(&PostParams::default(), &crd).await.context("cannot install a CRD")?;
        }
        let (ours, theirs) = (endpoint.kubeconfig.clone(), endpoint.kubeconfig);
        Self::assemble(Backend::Sandbox(Box::new(sandbox)), client, &ours, &theirs, "default").await
    }

    /// A real control plane that knows nothing of us yet, for what installs the CRDs itself. Never somebody's cluster.
    pub async fn bare() -> Result<Self> {
        let setting = Setting { definitions: Vec::new(), ..Setting::default() };
        Self::around(ControlPlane::start_own(&setting).await?).await
    }

    async fn real(setting: Setting) -> Result<Self> {
        let own = setting.faults;
        let plane = if own {
            ControlPlane::start_own(&setting).await?
        } else {
            ControlPlane::start(&setting).await?
        };
        Self::around(plane).await
    }

    async fn around(plane: ControlPlane) -> Result<Self> {
        let plane = Box::new(plane);
        let client = plane.client("scenario").await?;
        let (ours, theirs) = (plane.kubeconfig(), plane.controller_kubeconfig());
        let namespace = plane.namespace().to_owned();
        Self::assemble(Backend::Real(plane), client, &ours, &theirs, &namespace).await
    }

    async fn assemble(
        backend: Backend,
        client: Client,
        ours: &str,
        controllers: &str,
        namespace: &str,
    ) -> Result<Self> {
        let proxy = Proxy::start(controllers).await?;
        let folder = tempfile::tempdir().context("cannot make a folder for the kubeconfig")?;
        let straight = folder.path().join("kubeconfig");
        kubeconfig::write_private(&straight, ours)?;
        let kubeconfig = folder.path().join("controller.kubeconfig");
        kubeconfig::write_private(&kubeconfig, &proxy.kubeconfig(namespace))?;
        let kubectl = Kubectl::new(&straight);
        let namespace = namespace.to_owned();
        let (proxy, backend, folder) = (Arc::new(proxy), Arc::new(backend), Arc::new(folder));
        let patience = PATIENCE;
        Ok(Self {
            kubectl,
            client,
            proxy,
            namespace,
            patience,
            straight,
            kubeconfig,
            backend,
            _folder: folder,
        })
    }

    /// The same server, in a fresh namespace of that name, so that scenarios can share it.
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

    /// The same server, seen from a namespace that somebody makes or has made.
    #[must_use]
    pub fn inside(&self, namespace: &str) -> Self {
        let kubectl = self.kubectl.in_namespace(Some(namespace));
        Self { kubectl, namespace: namespace.to_owned(), ..self.clone() }
    }

    /// The same where what is waited for may take that long.
    #[must_use]
    pub fn patient(&self, patience: Duration) -> Self {
        Self { patience, ..self.clone() }
    }

    /// Removes the namespace with all that is in it, without waiting for the end of that.
    pub async fn clear(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        match namespaces.delete(&self.namespace, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            other => other.map(drop).context("cannot delete the namespace"),
        }
    }

    /// The control plane, for scenarios that make sense only there.
    #[must_use]
    pub fn control_plane(&self) -> Option<&ControlPlane> {
        match &*self.backend {
            Backend::Sandbox(_) => None,
            Backend::Real(plane) => Some(plane),
        }
    }

    /// From now on the controller behind the proxy is that service account, and the scenario's namespace is this one.
    pub async fn act_as(&mut self, account: (&str, &str), namespace: &str) -> Result<()> {
        let plane = self.control_plane().context("the sandbox has no service accounts")?;
        let kubeconfig = plane.kubeconfig_of_account(account.0, account.1).await?;
        self.proxy = Arc::new(Proxy::start(&kubeconfig).await?);
        namespace.clone_into(&mut self.namespace);
        kubeconfig::write_private(&self.kubeconfig, &self.proxy.kubeconfig(namespace))
    }

    /// The same server, for a controller with a proxy of its own.
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

    /// Starts the controller's binary behind the proxy with these arguments and variables, and no others.
    pub fn start_manager_exactly(
        &self,
        arguments: &[String],
        variables: &[(String, String)],
    ) -> Result<Manager> {
        Manager::exactly(&self.kubeconfig, arguments, variables)
    }

    /// Starts these controllers of Kubernetes' own beside the sandbox, by the binaries of a real server. On a real one they
    /// are there.
    pub fn start_built_in(&self, controllers: &str) -> Result<Option<BuiltIn>> {
        match &*self.backend {
            Backend::Sandbox(_) => BuiltIn::start(&self.straight, controllers).map(Some),
            Backend::Real(_) => Ok(None),
        }
    }

    /// The kubeconfig of [`Self::kubectl`], for other programs of a user.
    #[must_use]
    pub fn straight(&self) -> &Path {
        &self.straight
    }

    /// The kubeconfig of those who talk through the proxy.
    #[must_use]
    pub fn behind_the_proxy(&self) -> &Path {
        &self.kubeconfig
    }

    /// Starts the controller's binary behind the proxy.
    pub fn start_manager(&self) -> Result<Manager> {
        self.start_manager_with(&[])
    }

    /// The same with these arguments.
    pub fn start_manager_with(&self, arguments: &[&str]) -> Result<Manager> {
        Manager::start(&self.kubeconfig, arguments)
    }

    /// Every request that the server has answered, as far as it records them.
    pub async fn requests(&self) -> Result<Vec<Request>> {
        match &*self.backend {
            Backend::Sandbox(sandbox) => Ok(sandbox.requests().into_iter().map(Request::from).collect()),
            Backend::Real(plane) => plane.requests().await,
        }
    }

    /// Every accepted deletion of a pod of this namespace, in order, whoever asked for it.
    pub async fn deletions(&self) -> Result<Vec<Deletion>> {
        let mut requests = self.requests().await?;
        requests.retain(|request| request.namespace.as_deref() == Some(&self.namespace));
        for request in &mut requests {
            if let (Some("eviction"), None, Some(pod)) =
                (request.subresource.as_deref(), &request.body, &request.name)
            {
                request.body = self.proxy.rules().eviction(pod);
            }
        }
        Ok(requests.iter().filter_map(Deletion::of).collect())
    }

    /// Makes the server forget all history, so that watches resumed from before expire with 410.
    pub async fn compact(&self) -> Result<()> {
        match &*self.backend {
            Backend::Sandbox(sandbox) => sandbox.compact(),
            Backend::Real(plane) => plane.compact().await?,
        }
        Ok(())
    }

    /// The objects of the scenario's namespace.
    #[must_use]
    pub fn deployments(&self) -> Api<OrderedDeployment> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Its pods that are not being deleted, by name.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
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
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
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
        self.until_object(self.deployments(), name, what, wanted).await
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
