//! The connection to a cluster, from kubectl's flags and the kubeconfig, which is never written.

mod args;
mod dry_run;
mod kubeconfig;
mod names;

use std::time::Duration;

use anyhow::{Result, anyhow};
use kube::Client;
use ordereddeployment_controller::Clock;

use crate::connect_error::{Explained, explained, innermost};

pub(crate) use args::{ConnectArgs, Timeout, pause_length, quoted, timeout};
pub(crate) use dry_run::{DryRun, DryRunArgs};
pub(crate) use names::{OfEither, deployment_name, object_name, of_either, pod_name};

/// The User-Agent in audit logs.
const USER_AGENT: &str = concat!("kubectl-ordered/", env!("CARGO_PKG_VERSION"));

/// How long to wait for a connection, including TLS, without `--request-timeout`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to a cluster, with a namespace.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    /// For watches, without the timeout of `--request-timeout`.
    pub(crate) watching: Client,
    pub(crate) namespace: String,
    pub(crate) clock: Clock,
    /// Flags to repeat in printed commands.
    pub(crate) flags: String,
    /// Whether writes are sent and stored.
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
        let config = kubeconfig::config(self).await?;
        let namespace = self.namespace.clone().unwrap_or(config.default_namespace);
        let exec = config.auth_info.exec;
        let unusable = |error: anyhow::Error| match error.downcast::<kube::Error>() {
            Ok(error @ kube::Error::Auth(_)) => {
                let Explained { what, hint } = explained(&error, exec.as_ref());
                anyhow!("{what}\nhint: {hint}")
            }
            Ok(other) => anyhow!("cannot use the kubeconfig: {}", innermost(&other)),
            Err(other) => other,
        };
        let watching = self.client(false).await.map_err(unusable)?;
        let client = match self.request_timeout {
            Some(_) => self.client(true).await.map_err(unusable)?,
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

    /// A client with these flags; `is_limited`: `--request-timeout` ends its requests, not only its attempts to connect.
    async fn client(&self, is_limited: bool) -> Result<Client> {
        let args = self.clone();
        let load = move || {
            let args = args.clone();
            async move {
                let mut config = kubeconfig::config(&args).await?;
                config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(USER_AGENT)));
                config.connect_timeout = Some(CONNECT_TIMEOUT);
                if let Some(Timeout(limit)) = args.request_timeout {
                    config.connect_timeout = limit;
                    if is_limited {
                        (config.read_timeout, config.write_timeout) = (limit, limit);
                    }
                }
                Ok(config)
            }
        };
        Ok(ordereddeployment_controller::client(load).await?.0)
    }
}

#[cfg(test)]
#[path = "client/tests.rs"]
mod tests;
