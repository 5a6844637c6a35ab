//! The sandbox: starts the server, garbage collector, nodes, scheduler and kubelets.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::HeaderValue;
use kube::Client;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::agents::collector::{self, Collector};
use crate::agents::disruption;
use crate::agents::kubelet::Kubelets;
use crate::agents::nodes::{self, NodeSpec};
use crate::agents::scheduler;
use crate::agents::taints;
use crate::audit::{Fault, Record};
use crate::clock::Clock;
use crate::http::{Front, pipe_client};
use crate::server::{self, Server};
use crate::store::{Backup, Commit, Journal};
use crate::tls::{self, Endpoint, Error};

/// The configuration of a sandbox.
#[derive(Debug, Clone)]
pub struct Config {
    /// Seed of UIDs and generated names.
    pub seed: u64,
    /// The nodes.
    pub nodes: Vec<NodeSpec>,
    /// Whether nodes that users create get a kubelet too.
    pub serve_new_nodes: bool,
    /// Time from the assignment of a pod to Ready.
    pub ready_delay: Duration,
    /// Time from the deletion timestamp of a pod to its removal.
    pub termination_delay: Duration,
    /// How many events each resource keeps for watches.
    pub history: usize,
    /// The initial settings of the garbage collector.
    pub collector: Collector,
    /// Whether to record every commit and the body of every request, for [`Sandbox::commits`].
    pub journal: bool,
    /// The source of time.
    pub clock: Clock,
}

impl Default for Config {
    /// Six nodes: three in the pool `inference`, three in the pool `hybrid`.
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
            serve_new_nodes: false,
            ready_delay: Duration::from_secs(1),
            termination_delay: Duration::from_millis(500),
            history: 10_000,
            collector: Collector::default(),
            journal: false,
            clock: Clock::system(),
        }
    }
}

/// A running sandbox. Dropping it stops its agents and its listeners.
pub struct Sandbox {
    server: Arc<Server>,
    front: Front,
    tasks: Mutex<Vec<AbortHandle>>,
    /// The nodes whose kubelets are silent.
    silent: watch::Sender<BTreeSet<String>>,
    collector: watch::Sender<Collector>,
}

impl Sandbox {
    /// Starts the server and its agents. All nodes are registered when this returns.
    #[must_use = "nothing starts before the future is polled"]
    pub fn start(config: Config) -> BoxFuture<'static, Result<Self, Error>> {
        // A box: the crates that call it do not compile the sandbox again.
        Self::start_agents(config).boxed()
    }

    async fn start_agents(config: Config) -> Result<Self, Error> {
        let clock = config.clock;
        let server = Server::new(clock.clone(), config.seed, config.history);
        if config.journal {
            server.state().store.journal = Some(Journal::default());
        }
        let sandbox = Self {
            front: Front::new(Arc::clone(&server)),
            server,
            tasks: Mutex::default(),
            silent: watch::Sender::default(),
            collector: watch::Sender::new(config.collector),
        };
        sandbox.spawn(server::clean_up(Arc::clone(&sandbox.server)));
        let collector = sandbox.connect("sandbox-garbage-collector")?;
        let server = Arc::clone(&sandbox.server);
        sandbox.spawn(collector::run(server, collector, sandbox.collector.subscribe()));
        let kubelet = sandbox.connect("sandbox-kubelet")?;
        nodes::register(&kubelet, &clock, &config.nodes).await.map_err(Error::RegisterNodes)?;
        sandbox.spawn(scheduler::run(sandbox.connect("sandbox-scheduler")?, clock.clone()));
        let kubelets = Kubelets {
            nodes: (!config.serve_new_nodes)
                .then(|| config.nodes.iter().map(|node| node.name.clone()).collect()),
            ready_delay: config.ready_delay,
            termination_delay: config.termination_delay,
            clock: clock.clone(),
            silent: sandbox.silent.subscribe(),
        };
        if config.serve_new_nodes {
            let room = config.nodes.first().map_or(NodeSpec::PODS, |node| node.pods_capacity);
            sandbox.spawn(nodes::serve_new(kubelet.clone(), clock.clone(), room));
        }
        sandbox.spawn(kubelets.run(kubelet));
        sandbox.spawn(disruption::run(sandbox.connect("sandbox-disruption")?, clock.clone()));
        sandbox.spawn(taints::run(sandbox.connect("sandbox-taints")?, clock));
        Ok(sandbox)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let handle = tokio::spawn(task).abort_handle();
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(handle);
    }

    /// A client over in-memory pipes. It never retries a request.
    pub fn client(&self) -> Result<Client, Error> {
        self.connect("sandbox-client")
    }

    /// A client with its own user agent, which [`Self::requests`] records.
    pub fn connect(&self, user_agent: &str) -> Result<Client, Error> {
        let value = HeaderValue::from_str(user_agent).map_err(|_| Error::UserAgent(user_agent.to_owned()))?;
        Ok(pipe_client(self.front.clone(), value))
    }

    /// Listens for kubectl with TLS and a token, on loopback only. Port 0 selects a free port.
    pub fn listen(&self, address: SocketAddr) -> BoxFuture<'_, Result<Endpoint, Error>> {
        let listen = async move {
            let (endpoint, serve) = tls::listen(&self.front, address).await?;
            self.spawn(serve);
            Ok(endpoint)
        };
        listen.boxed()
    }

    /// The current time of its clock.
    #[must_use]
    pub fn now(&self) -> jiff::Timestamp {
        self.server.clock.now()
    }

    /// All requests so far, in the order of their responses.
    #[must_use]
    pub fn requests(&self) -> Vec<Record> {
        self.server.state().audit.iter().cloned().collect()
    }

    /// All commits so far, in order; empty without [`Config::journal`].
    #[must_use]
    pub fn commits(&self) -> Vec<Commit> {
        self.server.state().store.journal.as_ref().map(|journal| journal.commits.clone()).unwrap_or_default()
    }

    /// The resource version of the newest commit.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.server.state().store.version
    }

    /// The number of requests that the server has answered.
    #[must_use]
    pub fn answered(&self) -> usize {
        self.server.state().audit.len()
    }

    /// From now on, watches of this resource show every event with this delay, including open watches. Lists
    /// have no delay.
    pub fn delay_watch(&self, plural: &str, delay: Duration) {
        self.server.state().delay_watch(plural, delay);
    }

    /// Changes the settings of the garbage collector.
    pub fn set_collector(&self, collector: Collector) {
        self.collector.send_replace(collector);
    }

    /// The current settings of the garbage collector.
    #[must_use]
    pub fn collector(&self) -> Collector {
        *self.collector.borrow()
    }

    /// From now on, the kubelet of this node reports no status and ends no pods, or does so again. Nothing
    /// else about the node changes.
    pub fn silence(&self, node: &str, is_silent: bool) {
        self.silent.send_modify(|silent| {
            if is_silent {
                silent.insert(node.to_owned());
            } else {
                silent.remove(node);
            }
        });
    }

    /// Compacts the history of all resources up to a version: watches that lag and watches from an older
    /// version expire with 410. `u64::MAX` drops the whole history.
    pub fn compact(&self, until: u64) {
        self.server.state().store.compact(until);
    }

    /// All objects in their current state, for [`Self::restore`].
    #[must_use]
    pub fn backup(&self) -> Backup {
        self.server.state().store.backup()
    }

    /// Restores all objects from a backup. As after a restore of etcd, they have older versions than before.
    /// Watches end.
    pub fn restore(&self, backup: &Backup) {
        self.server.state().store.restore(backup);
    }

    /// Rejects the next requests that match.
    pub fn inject(&self, fault: Fault) {
        self.server.state().faults.push(fault);
    }

    /// Refuses every create of a resource, with that message: no controller would act on its objects.
    pub fn refuse_creates(&self, plural: &str, message: &str) {
        self.server.state().refused_creates.insert(plural.to_owned(), message.to_owned());
    }

    /// Removes all injected faults.
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
