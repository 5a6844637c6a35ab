//! Kubeconfigs: written for kubectl and the controller, read for clients.

use std::path::Path;

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

/// One user of one server.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) url: String,
    /// The CA certificate, PEM in base64; `None` for a server with plain HTTP.
    pub(crate) authority: Option<String>,
    pub(crate) token: String,
}

impl Access {
    /// The kubeconfig as JSON, which is valid YAML.
    pub(crate) fn kubeconfig(&self, namespace: &str) -> String {
        let mut cluster = json!({"server": self.url});
        if let Some(authority) = &self.authority {
            cluster["certificate-authority-data"] = authority.as_str().into();
        }
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": cluster}],
            "users": [{"name": "it", "user": {"token": self.token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it", "namespace": namespace}}],
        })
        .to_string()
    }
}

/// The client configuration in a kubeconfig. The client never retries a request.
pub(crate) async fn config(text: &str) -> Result<Config> {
    let parsed = Kubeconfig::from_yaml(text).context("cannot read the kubeconfig")?;
    let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await;
    let mut config = config.context("cannot use the kubeconfig")?;
    config.default_retry = false;
    config.read_timeout = None;
    Ok(config)
}

/// A client with this user agent.
pub(crate) async fn client(text: &str, user_agent: &str) -> Result<Client> {
    let mut config = config(text).await?;
    let value = http::HeaderValue::from_str(user_agent).context("cannot use this user agent")?;
    config.headers.push((http::header::USER_AGENT, value));
    Client::try_from(config).context("cannot make a client")
}

/// A client of a server with plain HTTP, without credentials.
pub(crate) fn client_of(url: &str) -> Result<Client> {
    let mut config = Config::new(url.parse().context("cannot read an address")?);
    config.default_retry = false;
    config.read_timeout = None;
    Client::try_from(config).context("cannot make a client")
}

/// Writes a file that only its owner can read: it contains a token.
pub(crate) fn write_private(file: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let opened = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", file.display()))
}
