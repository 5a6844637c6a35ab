//! A real control plane on loopback: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and
//! stand-ins for the kubelets.
//!
//! Every control plane has its own folder and ports, and its processes are ended by ID when it is dropped. It
//! never uses a cluster that it did not start.

mod assets;
mod audit;
mod children;
mod identity;
mod servers;
mod store;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Namespace, Node, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_sandbox::agents::{kubelet::Kubelets, nodes};
use ordereddeployment_sandbox::{Clock, NodeSpec};
use tokio::task::JoinSet;
use tokio::time::Instant;

use assets::Assets;
pub use audit::Mark;
use children::Children;
use identity::{Identity, User};
use servers::{quiet, start_api_server, start_controllers, start_crd_server, start_etcd};
pub(crate) use store::Store;

use crate::kubeconfig::{self, Access};
use crate::request::KUBELET;
use crate::{Request, Setting, lock};

/// The timeout of the start of the servers. It is far longer than necessary.
const READY_LIMIT: Duration = Duration::from_secs(120);
/// The interval of readiness checks.
const POLL: Duration = Duration::from_millis(50);
/// The interval of node heartbeats. The node controller marks a node unreachable after 40 seconds.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The namespace of scenarios.
pub(crate) const NAMESPACE: &str = "default";
/// The taint of a node that is not ready yet.
const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// A running control plane. Dropping it stops it.
pub struct ControlPlane {
    // Fields are dropped in order: clients, servers, their folder.
    stand_ins: Mutex<JoinSet<()>>,
    children: Children,
    identity: Identity,
    audit: PathBuf,
    /// The audit logs of killed API servers.
    dead: Mutex<Vec<PathBuf>>,
    /// The client of its etcd.
    pub(crate) store: Store,
    /// The version, such as `v1.20.2`.
    pub version: String,
    folder: tempfile::TempDir,
}

/// A component of the control plane that a scenario can kill or stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// kube-apiserver.
    ApiServer,
    /// etcd.
    Etcd,
    /// kube-controller-manager, which includes the garbage collector.
    ControllerManager,
}

impl Component {
    fn name(self) -> &'static str {
        match self {
            Self::ApiServer => servers::API_SERVER,
            Self::Etcd => servers::ETCD,
            Self::ControllerManager => servers::CONTROLLER_MANAGER,
        }
    }
}

impl ControlPlane {
    /// The minor version, 20 for `v1.20.2`.
    #[must_use]
    pub fn minor(&self) -> u32 {
        assets::minor(&self.version)
    }

    /// Starts a control plane. The CRDs are served before its controllers start.
    pub async fn start(setting: &Setting) -> Result<Self> {
        let mut plane = start_servers(&assets::find()?, folder()?, setting).await?;
        let client = plane.client("scenario").await?;
        install(&client, &setting.definitions).await?;
        start_controllers(&mut plane.children, &plane.identity, plane.folder.path(), setting)?;
        plane.start_stand_ins(setting).await?;
        plane.wait_for_pods(&client, NAMESPACE).await?;
        Ok(plane)
    }

    /// Starts Kubernetes' current CRD server beside the API server, in the same etcd, and creates these CRDs
    /// there. Returns an administrator's client of it.
    pub async fn start_crd_server(
        &mut self,
        program: &Path,
        definitions: &[CustomResourceDefinition],
    ) -> Result<Client> {
        let port = crate::free_port()?;
        let folder = self.folder.path();
        let kubeconfig = folder.join("crd-server.kubeconfig");
        kubeconfig::write_private(&kubeconfig, &self.kubeconfig())?;
        let access = Access { url: format!("https://127.0.0.1:{port}"), ..self.identity.access(User::Admin) };
        start_crd_server(&mut self.children, folder, program, (port, &self.store.url, &kubeconfig))?;
        let client = kubeconfig::client(&access.kubeconfig(NAMESPACE), "scenario").await?;
        self.answers(&client, "/readyz").await?;
        install(&client, definitions).await?;
        Ok(client)
    }

    /// A kubeconfig of an administrator.
    pub(crate) fn kubeconfig(&self) -> String {
        self.kubeconfig_of(User::Admin)
    }

    /// A kubeconfig of our controller: the user `ordered-controller-manager` with all permissions.
    #[must_use]
    pub fn controller_kubeconfig(&self) -> String {
        self.kubeconfig_of(User::Controller)
    }

    /// A kubeconfig of a service account, with a token as in its pods.
    pub async fn kubeconfig_of_account(&self, namespace: &str, name: &str) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client("scenario").await?, namespace);
        let wanted = TokenRequest::default();
        let made = accounts.create_token_request(name, &PostParams::default(), &wanted).await;
        let made = made.with_context(|| format!("cannot get a token of {namespace}/{name}"))?;
        let token = made.status.context("a token request without its token")?.token;
        let access = Access { token, ..self.identity.access(User::Admin) };
        Ok(access.kubeconfig(NAMESPACE))
    }

    fn kubeconfig_of(&self, user: User) -> String {
        self.identity.access(user).kubeconfig(NAMESPACE)
    }

    /// An administrator's client with that user agent.
    pub async fn client(&self, user_agent: &str) -> Result<Client> {
        kubeconfig::client(&self.kubeconfig(), user_agent).await
    }

    /// Every request so far that the audit policy records. Waits for deletes in progress.
    pub async fn requests(&self) -> Result<Vec<Request>> {
        self.requests_since(Mark::default()).await
    }

    /// The requests that were recorded after the mark.
    pub async fn requests_since(&self, mark: Mark) -> Result<Vec<Request>> {
        let dead = lock(&self.dead).clone();
        audit::requests(&dead, &self.audit, mark).await
    }

    /// Marks the end of the audit log.
    pub fn mark(&self) -> Result<Mark> {
        audit::end(&lock(&self.dead), &self.audit)
    }

    /// Kills a server with SIGKILL, like a crash. Returns after it has ended.
    pub fn kill(&self, component: Component) -> Result<()> {
        self.children.kill(component.name())?;
        if component == Component::ApiServer {
            // The next server starts a new log; requests without a response remain in the old one.
            let mut dead = lock(&self.dead);
            let kept = self.audit.with_file_name(format!("audit-{}.log", dead.len() + 1));
            fs::rename(&self.audit, &kept).context("cannot keep the audit log")?;
            dead.push(kept);
        }
        Ok(())
    }

    /// Restarts a server on the same port and with the same data, and waits until custom resources are
    /// served.
    pub async fn start_again(&self, component: Component) -> Result<()> {
        self.children.start_again(component.name())?;
        if component == Component::ApiServer {
            // Restart the scheduler too: its backoff after an outage grows to half a minute.
            self.children.kill(servers::SCHEDULER)?;
            self.children.start_again(servers::SCHEDULER)?;
        }
        let client = self.client("scenario").await?;
        self.answers(&client, "/readyz").await?;
        let objects = <OrderedDeployment as kube::Resource>::url_path(&(), None);
        self.answers(&client, &format!("{objects}?limit=1")).await
    }

    /// Copies the data of etcd while neither etcd nor the API server runs.
    pub async fn back_up(&self) -> Result<()> {
        self.kill(Component::ApiServer)?;
        self.kill(Component::Etcd)?;
        let (data, backup) = (self.folder.path().join("etcd"), self.folder.path().join("backup"));
        copy(&data, &backup).context("cannot copy the store")?;
        self.children.start_again(servers::ETCD)?;
        self.start_again(Component::ApiServer).await
    }

    /// Restores the data of etcd from [`Self::back_up`] and restarts all servers and kubelet stand-ins, as an
    /// administrator does. Other controllers keep running.
    pub async fn restore(&self, setting: &Setting) -> Result<()> {
        self.kill(Component::ApiServer)?;
        self.kill(Component::Etcd)?;
        self.kill(Component::ControllerManager)?;
        let (data, backup) = (self.folder.path().join("etcd"), self.folder.path().join("backup"));
        fs::remove_dir_all(&data).context("cannot remove the store")?;
        copy(&backup, &data).context("cannot copy the store")?;
        self.children.start_again(servers::ETCD)?;
        self.start_again(Component::ApiServer).await?;
        self.children.start_again(servers::CONTROLLER_MANAGER)?;
        self.start_stand_ins(setting).await
    }

    async fn answers(&self, client: &Client, path: &str) -> Result<()> {
        self.poll(&format!("answer {path}"), async || {
            let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
            client.request_text(request).await.map(drop).map_err(|error| error.to_string())
        })
        .await
    }

    async fn start_stand_ins(&self, setting: &Setting) -> Result<()> {
        if setting.nodes.is_empty() {
            return Ok(());
        }
        let client = kubeconfig::client(&self.kubeconfig_of(User::Kubelet), KUBELET).await?;
        nodes::register(&client, &Clock::system(), &setting.nodes)
            .await
            .context("cannot register the nodes")?;
        let kubelets = Kubelets {
            nodes: Some(setting.nodes.iter().map(|node| node.name.clone()).collect()),
            ready_delay: setting.ready_delay,
            termination_delay: setting.termination_delay,
            clock: Clock::system(),
            silent: tokio::sync::watch::Sender::default().subscribe(),
        };
        let mut stand_ins = JoinSet::new();
        stand_ins.spawn(kubelets.run(client.clone()));
        stand_ins.spawn(beat(client.clone(), setting.nodes.clone()));
        // The previous stand-ins end.
        *lock(&self.stand_ins) = stand_ins;
        self.wait_for_nodes(&client, &setting.nodes).await
    }

    /// A new node is tainted until the node controller has seen that it is ready. The scheduler ignores it
    /// until then.
    async fn wait_for_nodes(&self, client: &Client, specs: &[NodeSpec]) -> Result<()> {
        let nodes: Api<Node> = Api::all(client.clone());
        let is_tainted = |node: &Node| {
            let mut taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
            taints.any(|taint| taint.key == NOT_READY)
        };
        self.poll("take its nodes for ready", async || {
            let stored = nodes.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let waits = |spec: &&NodeSpec| {
                stored.items.iter().any(|node| node.name_any() == spec.name && is_tainted(node))
            };
            match specs.iter().find(waits) {
                Some(spec) => Err(format!("{} has the taint {NOT_READY}", spec.name)),
                None => Ok(()),
            }
        })
        .await
    }

    /// The API server accepts pods only after the controllers have created the service account of the
    /// namespace.
    pub(crate) async fn wait_for_pods(&self, client: &Client, namespace: &str) -> Result<()> {
        let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(client.clone(), namespace);
        let pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "readiness"}, "spec": {"containers": [{"name": "c", "image": "c"}]},
        }))?;
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        self.poll("take pods", async || {
            pods.create(&dry, &pod).await.map(drop).map_err(|error| error.to_string())
        })
        .await
    }

    async fn poll(&self, what: &str, mut attempt: impl AsyncFnMut() -> Result<(), String>) -> Result<()> {
        poll(what, async || {
            self.children.check()?;
            Ok(attempt().await)
        })
        .await
    }
}

/// A kube-controller-manager of its own. Dropping it kills it.
pub struct BuiltIn {
    children: Children,
    _folder: tempfile::TempDir,
}

impl BuiltIn {
    /// Starts these controllers of kube-controller-manager, in the form of its flag `--controllers`, on the
    /// server of this kubeconfig.
    pub(crate) fn start(kubeconfig: &Path, controllers: &str, arguments: &[&str]) -> Result<Self> {
        let (assets, folder) = (assets::find()?, folder()?);
        let mut children = Children::new(&assets, folder.path())?;
        let mut manager = children.command(servers::CONTROLLER_MANAGER);
        quiet(&mut manager, &children);
        manager
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--controllers={controllers}"))
            .args(arguments);
        children.start(servers::CONTROLLER_MANAGER, manager)?;
        Ok(Self { children, _folder: folder })
    }

    /// Its process ID.
    pub fn id(&self) -> Result<u32> {
        self.children.id(servers::CONTROLLER_MANAGER)
    }

    /// Kills it with SIGKILL, like a crash. Returns after it has ended.
    pub fn kill(self) -> Result<()> {
        self.children.kill(servers::CONTROLLER_MANAGER)
    }
}

/// Copies a folder with its content.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

fn folder() -> Result<tempfile::TempDir> {
    let made = tempfile::Builder::new().prefix("ordereddeployment-e2e-").tempdir();
    made.context("cannot make a folder for the servers")
}

/// Polls until the attempt succeeds: servers have no notification.
async fn poll(what: &str, mut attempt: impl AsyncFnMut() -> Result<Result<(), String>>) -> Result<()> {
    let limit = Instant::now() + READY_LIMIT;
    loop {
        match attempt().await? {
            Ok(()) => return Ok(()),
            Err(why) if Instant::now() > limit => {
                bail!("the control plane does not {what} within {} s: {why}", READY_LIMIT.as_secs())
            }
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

/// Starts etcd and the API server and waits until they are ready.
async fn start_servers(
    assets: &Assets,
    folder: tempfile::TempDir,
    setting: &Setting,
) -> Result<ControlPlane> {
    let mut children = Children::new(assets, folder.path())?;
    let port = crate::free_port()?;
    let identity = Identity::make(folder.path(), port)?;
    let etcd = start_etcd(&mut children, folder.path(), setting)?;
    let audit = start_api_server(&mut children, folder.path(), port, &etcd, setting)?;
    let plane = ControlPlane {
        stand_ins: Mutex::default(),
        children,
        identity,
        audit,
        dead: Mutex::default(),
        store: Store::at(&etcd)?,
        version: assets.version.clone(),
        folder,
    };
    let client = plane.client("scenario").await?;
    plane.answers(&client, "/readyz").await?;
    let namespaces: Api<Namespace> = Api::all(client);
    plane
        .poll("make its first namespace", async || {
            namespaces.get(NAMESPACE).await.map(drop).map_err(|error| error.to_string())
        })
        .await?;
    Ok(plane)
}

/// Creates the CRDs and waits until they are served.
async fn install(client: &Client, definitions: &[CustomResourceDefinition]) -> Result<()> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions {
        api.create(&PostParams::default(), definition).await.context("cannot install a CRD")?;
    }
    for definition in definitions {
        let name = definition.metadata.name.clone().unwrap_or_default();
        poll(&format!("serve {name}"), async || {
            let stored = api.get(&name).await?;
            let conditions = stored.status.and_then(|status| status.conditions).unwrap_or_default();
            let served = conditions.iter().any(|one| one.type_ == "Established" && one.status == "True");
            Ok(if served { Ok(()) } else { Err(format!("{conditions:?}")) })
        })
        .await?;
    }
    Ok(())
}

/// Sends the heartbeats of the nodes.
async fn beat(client: Client, specs: Vec<NodeSpec>) {
    loop {
        tokio::time::sleep(HEARTBEAT).await;
        // A missed heartbeat is harmless; the next one follows soon.
        drop(nodes::register(&client, &Clock::system(), &specs).await);
    }
}
