//! A real Prometheus: it scrapes the controller and evaluates the rules of the chart.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use crate::setting::TIMEOUT;
use crate::{free_port, kubeconfig};

/// A running Prometheus. Dropping it kills it.
pub struct Prometheus {
    _child: Child,
    _folder: tempfile::TempDir,
    client: Client,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes this address and evaluates these rules every second.
    pub async fn start(target: &str, rules: &Value) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder for Prometheus")?;
        let config = json!({
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{
                "job_name": "ordered-deployment", "honor_labels": true,
                "static_configs": [{"targets": [target], "labels": {"namespace": "ordered-system"}}],
            }],
        });
        // JSON is valid YAML.
        for (name, content) in [("prometheus.yml", &config), ("rules.yml", rules)] {
            std::fs::write(folder.path().join(name), content.to_string())
                .context("cannot write for Prometheus")?;
        }
        let program =
            std::env::var_os("PROMETHEUS").map_or_else(|| PathBuf::from("prometheus"), PathBuf::from);
        let address = format!("127.0.0.1:{}", free_port()?);
        let child = Command::new(&program)
            .arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .args(["--log.level=warn"])
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} does not start: set PROMETHEUS to it", program.display()))?;
        let client = kubeconfig::client_of(&format!("http://{address}"))?;
        let started = Self { _child: child, _folder: folder, client };
        started.until("answering", async || Ok(started.query("vector(1)").await.is_ok())).await?;
        Ok(started)
    }

    /// The current value of the expression: a list of series.
    pub async fn query(&self, expression: &str) -> Result<Vec<Value>> {
        let data = self.get("query", &[("query", expression)]).await?;
        Ok(data["result"].as_array().cloned().unwrap_or_default())
    }

    /// The loaded rules by name, each with its last error (empty: none).
    pub async fn rules(&self) -> Result<Vec<(String, String)>> {
        let data = self.get("rules", &[]).await?;
        let groups = data["groups"].as_array().cloned().unwrap_or_default();
        let rules = groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(rules.map(|rule| (text(&rule["name"]), text(&rule["lastError"]))).collect())
    }

    /// Waits until this alert fires. Returns its labels.
    pub async fn fires(&self, alert: &str) -> Result<Value> {
        let mut labels = Value::Null;
        self.until(alert, async || {
            let data = self.get("alerts", &[]).await?;
            let alerts = data["alerts"].as_array().cloned().unwrap_or_default();
            let is_it = |found: &&Value| found["labels"]["alertname"] == alert && found["state"] == "firing";
            let Some(found) = alerts.iter().find(is_it) else { return Ok(false) };
            labels = found["labels"].clone();
            Ok(true)
        })
        .await?;
        Ok(labels)
    }

    /// Polls until the condition holds: Prometheus has no notification for an evaluation.
    async fn until(&self, what: &str, mut reached: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
        let waited = async {
            while !reached().await? {
                sleep(Duration::from_millis(200)).await;
            }
            Ok(())
        };
        timeout(TIMEOUT, waited).await.with_context(|| format!("Prometheus does not come to this: {what}"))?
    }

    async fn get(&self, what: &str, parameters: &[(&str, &str)]) -> Result<Value> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(parameters).finish();
        let request = Request::get(format!("/api/v1/{what}?{query}")).body(Vec::new())?;
        let answer: Value = self.client.request(request).await.context("Prometheus does not answer")?;
        ensure!(answer["status"] == "success", "Prometheus refuses {parameters:?}: {answer}");
        Ok(answer["data"].clone())
    }
}
