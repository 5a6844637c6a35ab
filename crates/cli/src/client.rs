//! The connection to a cluster, from kubectl's flags and the kubeconfig, which is never written.

mod args;
mod kubeconfig;
mod names;

use anyhow::{Context, Result};
use kube::Client;
use ordereddeployment_controller::Clock;

pub(crate) use args::{ConnectArgs, Timeout, quoted, timeout};
pub(crate) use names::{object_name, pod_name};

/// The User-Agent in audit logs.
const USER_AGENT: &str = concat!("kubectl-ordered/", env!("CARGO_PKG_VERSION"));

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
}

impl ConnectArgs {
    pub(crate) async fn connect(&self) -> Result<Connection> {
        let mut config = kubeconfig::config(self).await?;
        config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(USER_AGENT)));
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let watching = Client::try_from(config.clone()).context("cannot use the kubeconfig")?;
        let client = match self.request_timeout {
            Some(Timeout(Some(limit))) => {
                let mut config = config;
                config.connect_timeout = Some(limit);
                config.read_timeout = Some(limit);
                config.write_timeout = Some(limit);
                Client::try_from(config).context("cannot use the kubeconfig")?
            }
            _ => watching.clone(),
        };
        Ok(Connection { client, watching, namespace, clock: Clock::system(), flags: self.flags() })
    }
}

#[cfg(test)]
#[path = "client/tests.rs"]
mod tests;
