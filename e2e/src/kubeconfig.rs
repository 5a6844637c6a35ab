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
    /// Base64 of PEM; none where the server speaks plain HTTP.
    pub(crate) authority: Option<String>,
    pub(crate) token: String,
}

impl Access {
    /// JSON, which is YAML too.
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

/// A client's configuration out of a kubeconfig. It never repeats a request by itself.
pub(crate) async fn config(text: &str) -> Result<Config> {
    let parsed = Kubeconfig::from_yaml(text).context("cannot read the kubeconfig")?;
    let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await;
    let mut config = config.context("cannot use the kubeconfig")?;
    config.default_retry = false;
    config.read_timeout = None;
    Ok(config)
}

/// A client with a user agent of its own.
pub(crate) async fn client(text: &str, user_agent: &str) -> Result<Client> {
    let mut config = config(text).await?;
    let value = http::HeaderValue::from_str(user_agent).context("cannot use this user agent")?;
    config.headers.push((http::header::USER_AGENT, value));
    Client::try_from(config).context("cannot make a client")
}

/// Writes what only its owner may read: it holds a token.
pub(crate) fn write_private(file: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let opened = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file);
    opened
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", file.display()))
}
