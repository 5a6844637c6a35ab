//! The whole: server, garbage collector, nodes, scheduler and kubelets, started together.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::HeaderValue;
use kube::Client;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::agents::collector::{self, Collector};
use crate::agents::disruption;
use crate::agents::kubelet::Kubelets;
use crate::agents::nodes::{self, NodeSpec};
use crate::agents::outages::Outages;
use crate::agents::quota;
use crate::agents::scheduler;
use crate::agents::taints;
use crate::audit::Record;
use crate::clock::Clock;
use crate::fault::Fault;
use crate::http::Front;
use crate::pipe::Pipes;
use crate::server::{self, Server};
use crate::store::{Backup, Commit, Journal};
use crate::tls::{self, Endpoint};

/// What a sandbox is made of.
#[derive(Debug, Clone)]
pub struct Config {
    /// Decides UIDs and generated names.
    pub seed: u64,
    /// The nodes.
    pub nodes: Vec<NodeSpec>,
    /// From a pod's assignment to Ready.
    pub ready_delay: Duration,
    /// From a pod's mark of deletion to its end.
    pub termination_delay: Duration,
    /// How many events each resource remembers for watches.
    pub history: usize,
    /// How the garbage collector works, to begin with.
    pub collector: Collector,
    /// Whether to keep every commit and every request's body, for [`Sandbox::commits`].
    pub journal: bool,
    /// The source of time.
    pub clock: Clock,
}

impl Default for Config {
    /// Six nodes: three of the pool `inference`, three of the pool `hybrid`.
    fn default() -> Self {
        let pools = ["inference", "inference", "inference", "hybrid", "hybrid", "hybrid"];
        let nodes = pools
            .iter()
            .enumerate()
            .map(|(index, pool)| NodeSpec::in_pool(&format!("n{}", index + 1), pool))
            .collect();
        Self {
            seed: 1,
            nodes,
            ready_delay: Duration::from_secs(1),
            termination_delay: Duration::from_millis(500),
            history: 10_000,
            collector: Collector::default(),
            journal: false,
            clock: Clock::system(),
        }
    }
}

/// Why a sandbox cannot do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The first nodes could not be registered.
    #[error("cannot register the nodes: {0}")]
    RegisterNodes(#[source] kube::Error),
    /// A node could not be taken out of service.
    #[error("cannot take the node out of service: {0}")]
    LoseNode(#[source] kube::Error),
    /// A node could not be brought back.
    #[error("cannot bring the node back: {0}")]
    RestoreNode(#[source] kube::Error),
    /// The user agent is no header value.
    #[error("cannot use {0:?} as a user agent")]
    UserAgent(String),
    /// The address can be reached from elsewhere.
    #[error("cannot listen on {0}: the sandbox listens on loopback addresses only, such as 127.0.0.1")]
    ListenBeyondLoopback(SocketAddr),
    /// The address is taken or not there.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// No certificate could be made.
    #[error("cannot make a certificate: {0}")]
    Certify(#[source] rcgen::Error),
    /// The certificate was not taken.
    #[error("cannot configure TLS: {0}")]
    ConfigureTls(#[source] tokio_rustls::rustls::Error),
}

/// A running sandbox. Dropping it ends its agents and its listeners.
pub struct Sandbox {
    server: Arc<Server>,
    front: Front,
    tasks: Mutex<Vec<AbortHandle>>,
    outages: Outages,
    collector: watch::Sender<Collector>,
}

impl Sandbox {
    /// Starts the server and everything around it; the nodes are registered when this returns.
    pub async fn start(config: Config) -> Result<Self, Error> {
        let clock = config.clock;
        let server = Server::new(clock.clone(), config.seed, config.history);
        if config.journal {
            server.state().store.journal = Some(Journal::default());
        }
        let sandbox = Self {
            front: Front::new(Arc::clone(&server)),
            server,
            tasks: Mutex::default(),
            outages: Outages::default(),
            collector: watch::Sender::new(config.collector),
        };
        sandbox.spawn(server::clean_up(Arc::downgrade(&sandbox.server)));
        let collector = sandbox.connect("sandbox-garbage-collector")?;
        sandbox.spawn(collector::run(collector, sandbox.collector.subscribe()));
        let kubelet = sandbox.connect("sandbox-kubelet")?;
        nodes::register(&kubelet, &clock, &config.nodes).await.map_err(Error::RegisterNodes)?;
        sandbox.spawn(scheduler::run(sandbox.connect("sandbox-scheduler")?, clock.clone()));
        let kubelets = Kubelets {
            nodes: config.nodes.iter().map(|node| node.name.clone()).collect(),
            ready_delay: config.ready_delay,
            termination_delay: config.termination_delay,
            clock: clock.clone(),
            silent: sandbox.outages.silent(),
        };
        sandbox.spawn(kubelets.run(kubelet));
        sandbox.spawn(disruption::run(sandbox.connect("sandbox-disruption")?, clock.clone()));
        sandbox.spawn(quota::run(sandbox.connect("sandbox-quota")?));
        sandbox.spawn(taints::run(sandbox.connect("sandbox-taints")?, clock));
        Ok(sandbox)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let handle = tokio::spawn(task).abort_handle();
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }

    /// A client over in-memory pipes. It never repeats a request by itself.
    pub fn client(&self) -> Result<Client, Error> {
        self.connect("sandbox-client")
    }

    /// The same with a user agent of its own, for [`Self::requests`].
    pub fn connect(&self, user_agent: &str) -> Result<Client, Error> {
        let value = HeaderValue::from_str(user_agent).map_err(|_| Error::UserAgent(user_agent.to_owned()))?;
        Ok(Client::new(Pipes::new(self.front.clone(), value), "default"))
    }

    /// Listens for kubectl with TLS and a token, on loopback only; port 0 takes any free one.
    pub async fn listen(&self, address: SocketAddr) -> Result<Endpoint, Error> {
        let (endpoint, serve) = tls::listen(&self.front, address).await?;
        self.spawn(serve);
        Ok(endpoint)
    }

    /// What its clock says.
    #[must_use]
    pub fn now(&self) -> jiff::Timestamp {
        self.server.clock.now()
    }

    /// Every request so far, in the order in which they were answered.
    #[must_use]
    pub fn requests(&self) -> Vec<Record> {
        let audit: VecDeque<Record> = self.server.state().audit.clone();
        audit.into()
    }

    /// Every commit so far, in order; none without [`Config::journal`].
    #[must_use]
    pub fn commits(&self) -> Vec<Commit> {
        self.server.state().store.journal.as_ref().map(|journal| journal.commits.clone()).unwrap_or_default()
    }

    /// The version of the newest commit.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.server.state().store.version
    }

    /// How many requests were answered so far.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.server.state().audit.len()
    }

    /// From now on watches of that resource, also those under way, show every event this much late. Lists do not lag.
    pub fn delay_watch(&self, plural: &str, delay: Duration) {
        self.server.state().delay_watch(plural, delay);
    }

    /// From now on the garbage collector works like this.
    pub fn set_collector(&self, collector: Collector) {
        self.collector.send_replace(collector);
    }

    /// How the garbage collector works now.
    #[must_use]
    pub fn collector(&self) -> Collector {
        *self.collector.borrow()
    }

    /// Takes a node out of service: its kubelet falls silent, and the node controller says so.
    ///
    /// # Errors
    /// Where there is no such node.
    pub async fn lose_node(&self, name: &str) -> Result<(), Error> {
        let client = self.connect("sandbox-nodes")?;
        self.outages.lose(&client, &self.server.clock, name).await.map_err(Error::LoseNode)
    }

    /// Brings it back.
    ///
    /// # Errors
    /// Where there is no such node any more.
    pub async fn restore_node(&self, name: &str) -> Result<(), Error> {
        let client = self.connect("sandbox-nodes")?;
        self.outages.restore(&client, &self.server.clock, name).await.map_err(Error::RestoreNode)
    }

    /// Forgets the history of all resources: watches that lag, and those resumed from before, expire with 410.
    pub fn compact(&self) {
        self.server.state().store.compact();
    }

    /// All objects as they are now, for [`Self::restore`].
    #[must_use]
    pub fn backup(&self) -> Backup {
        self.server.state().store.backup()
    }

    /// Brings all objects back as they were: what is restored of etcd has older versions than what was there. Watches end.
    pub fn restore(&self, backup: &Backup) {
        self.server.state().store.restore(backup);
    }

    /// Refuses the next requests that match.
    pub fn inject(&self, fault: Fault) {
        self.server.state().faults.push(fault);
    }

    /// Ends all failures that were asked for.
    pub fn clear_faults(&self) {
        self.server.state().faults.clear();
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for task in self.tasks.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            task.abort();
        }
    }
}
