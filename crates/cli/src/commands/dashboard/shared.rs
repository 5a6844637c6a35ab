//! What all requests of a dashboard share.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, anyhow};
use jiff::Timestamp;
use ordereddeployment_wire::Family;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::access::Access;
use super::args::Args;
use super::connections::Usage;
use super::guard::Gate;
use super::live::{Pulse, follow};
use crate::client::reader::Scope;
use crate::client::watch_cache::{Stores, WatchCache};
use crate::client::{ConnectArgs, Connection};

/// How long an answer about permissions is used.
const ACCESS_AGE: Duration = Duration::from_secs(30);
/// How long the page waits for an answer about permissions.
const ACCESS_LIMIT: Duration = Duration::from_secs(3);

/// A running dashboard.
pub(super) struct Dashboard {
    pub(super) gate: Gate,
    pub(super) usage: Usage,
    connect: ConnectArgs,
    pub(super) connection: Connection,
    pub(super) all_namespaces: bool,
    pub(super) read_only: bool,
    pub(super) pool_label: String,
    pub(super) stores: Stores,
    pub(super) pulse: watch::Receiver<Pulse>,
    /// What the user may do, by namespace and name, and when the API server said so.
    access: Mutex<BTreeMap<(String, String), (Instant, Access)>>,
    /// One plan at a time: that of a large rollout needs a core. It is computed on a thread for blocking
    /// work.
    pub(super) plans: Semaphore,
}

impl Dashboard {
    pub(super) async fn start(
        args: Args,
        connect: ConnectArgs,
        connection: Connection,
        port: u16,
    ) -> Result<Self> {
        let namespace = (!args.all_namespaces).then_some(connection.namespace.as_str());
        let scope = Scope { family: Family::Ordered, namespace, name: None, selector: None };
        let (stores, pulse) = follow(WatchCache::start(&connection, scope).await?);
        Ok(Self {
            gate: Gate::new(port, args.use_ip),
            usage: Usage::new(),
            connect,
            connection,
            all_namespaces: args.all_namespaces,
            read_only: args.read_only,
            pool_label: args.pool_label,
            stores,
            pulse,
            access: Mutex::default(),
            plans: Semaphore::new(1),
        })
    }

    pub(super) fn now(&self) -> Timestamp {
        self.connection.clock.now()
    }

    /// The flags of printed commands for objects in that namespace.
    pub(super) fn flags(&self, namespace: &str) -> String {
        if !self.all_namespaces {
            return self.connection.flags.clone();
        }
        ConnectArgs { namespace: Some(namespace.to_owned()), ..self.connect.clone() }.flags()
    }

    /// The connection for objects in that namespace; an error if the dashboard does not show it.
    pub(super) fn connection(&self, namespace: &str) -> Result<Connection> {
        if !self.all_namespaces && namespace != self.connection.namespace {
            return Err(anyhow!("this dashboard shows the namespace {} only", self.connection.namespace));
        }
        let (namespace, flags) = (namespace.to_owned(), self.flags(namespace));
        Ok(Connection { namespace, flags, ..self.connection.clone() })
    }

    /// What the user may do with that object. An answer is used for a while.
    pub(super) async fn access(&self, namespace: &str, name: &str) -> Access {
        let object = (namespace.to_owned(), name.to_owned());
        let known = self.access.lock().unwrap_or_else(PoisonError::into_inner).get(&object).cloned();
        if let Some((at, access)) = &known
            && at.elapsed() < ACCESS_AGE
        {
            return access.clone();
        }
        let asked = timeout(ACCESS_LIMIT, Access::read(&self.connection.client, namespace, name)).await;
        let access = asked.unwrap_or_else(|_| known.map(|(_, access)| access).unwrap_or_default());
        let entry = (Instant::now(), access.clone());
        self.access.lock().unwrap_or_else(PoisonError::into_inner).insert(object, entry);
        access
    }
}
