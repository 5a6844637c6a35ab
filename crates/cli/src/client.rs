//! The connection to a cluster, from kubectl's flags and the kubeconfig, which is never written.

mod args;
pub(crate) mod explain;
mod kubeconfig;
pub(crate) mod output;
pub(crate) mod reader;
pub(crate) mod watch_cache;
pub(crate) mod watches;

use std::time::Duration;

use anyhow::{Result, anyhow};
use kube::Client;
use ordereddeployment_kubernetes::Clock;

use crate::client::explain::{escaped_cause, explained};

pub(crate) use args::{
    ConnectArgs, DryRun, DryRunArgs, OfEither, Target, Timeout, deployment_name, innermost, object_name,
    of_either, pause_length, pod_name, quoted, timeout,
};

const USER_AGENT: &str = concat!("kubectl-ordered/", env!("CARGO_PKG_VERSION"));

/// How long to wait for a connection, including TLS, without `--request-timeout`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// For watches, without the timeout of `--request-timeout`.
    pub(crate) watching: Client,
    pub(crate) namespace: String,
    pub(crate) clock: Clock,
    /// Flags to repeat in printed commands.
    pub(crate) flags: String,
    pub(crate) dry_run: DryRun,
}

impl Connection {
    /// The same connection, for writes with that flag.
    pub(crate) fn with(self, DryRunArgs { dry_run }: DryRunArgs) -> Self {
        Self { dry_run, ..self }
    }
}

impl ConnectArgs {
    pub(crate) async fn connect(&self) -> Result<Connection> {
        let mut config = kubeconfig::config(self).await?;
        config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(USER_AGENT)));
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let exec = config.auth_info.exec.clone();
        let unusable = |error: kube::Error| match error {
            kube::Error::Auth(_) => anyhow!("{}", explained(&error, exec.as_ref())),
            other => anyhow!("cannot use the kubeconfig: {}", escaped_cause(&other)),
        };
        let mut limited = config.clone();
        if let Some(Timeout(limit)) = self.request_timeout {
            (limited.connect_timeout, limited.read_timeout, limited.write_timeout) = (limit, limit, limit);
            config.connect_timeout = limit;
        }
        let watching = ordereddeployment_kubernetes::client(config).map_err(unusable)?.0;
        let client = match self.request_timeout {
            Some(_) => ordereddeployment_kubernetes::client(limited).map_err(unusable)?.0,
            None => watching.clone(),
        };
        Ok(Connection {
            client,
            watching,
            namespace,
            clock: Clock::system(),
            flags: self.flags(),
            dry_run: DryRun::None,
        })
    }
}

#[cfg(test)]
mod tests;
