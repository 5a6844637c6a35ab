//! The connection to a cluster, by the flags that kubectl has. It reads kubeconfigs and never writes one.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// The flags of kubectl that say which cluster and who.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ConnectArgs {
    /// The kubeconfig to use, instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespace, instead of the context's
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Act as this user
    #[arg(long = "as", value_name = "USER")]
    pub(crate) impersonate: Option<String>,
    /// Give up a request after this long, such as 5s or 1m; 0 waits for ever
    #[arg(long, value_name = "DURATION", default_value = "0", value_parser = timeout)]
    pub(crate) request_timeout: Timeout,
}

/// A time limit; none waits for ever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Timeout(pub(crate) Option<Duration>);

/// A cluster, and where in it.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// Flags that a command for the user to copy must repeat.
    pub(crate) flags: String,
}

/// A duration as kubectl takes it: `30s`, `5m`, or a number of seconds.
pub(crate) fn timeout(text: &str) -> Result<Timeout, String> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Timeout((seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))));
    }
    match ordereddeployment_api::parse_pause_duration(text) {
        Some(duration) => Ok(Timeout(Some(duration))),
        None => Err("give a duration such as 30s or 5m, or 0".to_owned()),
    }
}

impl ConnectArgs {
    pub(crate) async fn connect(&self) -> Result<Connection> {
        let mut config = self.config().await?;
        if let Timeout(Some(limit)) = self.request_timeout {
            config.connect_timeout = Some(limit);
            config.read_timeout = Some(limit);
            config.write_timeout = Some(limit);
        }
        if self.impersonate.is_some() {
            config.auth_info.impersonate.clone_from(&self.impersonate);
        }
        let namespace = self.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).context("cannot use the kubeconfig")?;
        Ok(Connection { client, namespace, flags: self.flags() })
    }

    async fn config(&self) -> Result<Config> {
        let options = KubeConfigOptions { context: self.context.clone(), ..KubeConfigOptions::default() };
        let read = match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let kubeconfig = match read {
            Ok(kubeconfig) => kubeconfig,
            Err(error) => {
                // A pod has no kubeconfig, but a service account.
                if self.kubeconfig.is_none()
                    && self.context.is_none()
                    && let Ok(config) = Config::incluster()
                {
                    return Ok(config);
                }
                return Err(unreadable(error));
            }
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        config.map_err(|error| match (error, &self.context) {
            (KubeconfigError::LoadContext(_), Some(context)) => anyhow!(
                "the kubeconfig has no context {context:?}\nhint: `kubectl config get-contexts` lists them"
            ),
            (KubeconfigError::CurrentContextNotSet | KubeconfigError::LoadContext(_), None) => anyhow!(
                "the kubeconfig has no current context\nhint: choose one with --context or `kubectl config use-context`"
            ),
            (error, _) => unreadable(error),
        })
    }

    /// What a command to copy needs in order to reach the same place.
    fn flags(&self) -> String {
        let mut flags = String::new();
        let mut add = |flag: &str, value: Option<&str>| {
            if let Some(value) = value {
                flags.extend([" ", flag, " ", value]);
            }
        };
        add("-n", self.namespace.as_deref());
        add("--context", self.context.as_deref());
        add("--kubeconfig", self.kubeconfig.as_ref().and_then(|path| path.to_str()));
        flags
    }
}

fn unreadable(error: KubeconfigError) -> anyhow::Error {
    match error {
        KubeconfigError::ReadConfig(source, path) if source.kind() == std::io::ErrorKind::NotFound => {
            anyhow!(
                "no cluster: there is no kubeconfig at {}\nhint: name one with --kubeconfig, or try `kubectl ordered demo`, which needs none",
                path.display()
            )
        }
        KubeconfigError::FindPath => anyhow!(
            "no cluster: no kubeconfig is known\nhint: name one with --kubeconfig, or try `kubectl ordered demo`, which needs none"
        ),
        other => {
            // A parser draws a picture of the place below its message.
            let message = other.to_string();
            anyhow!("cannot use the kubeconfig: {}", message.lines().next().unwrap_or_default())
        }
    }
}

/// A name that the API server could know; others would make another path of the request.
pub(crate) fn object_name(text: &str) -> Result<String, String> {
    let text = text.rsplit_once('/').map_or(text, |(kind, name)| {
        // As kubectl takes it: od/web.
        let known =
            ["od", "ordereddeployment", "ordereddeployments", "ordereddeployments.ordereddeployment.io"];
        if known.contains(&kind) { name } else { text }
    });
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    if text.is_empty() || text.len() > 253 || !text.chars().all(allowed) {
        return Err("a name has lower-case letters, digits, '-' and '.'".to_owned());
    }
    Ok(text.to_owned())
}
