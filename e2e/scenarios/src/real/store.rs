//! Direct access to etcd, without the API server: committed changes in order, and compaction.
//!
//! It uses the JSON gateway of etcd and reads objects only if the API server stores them as JSON. It changes
//! no object.

use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use http::Request;
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

use crate::{Commit, kubeconfig};

/// The key prefix of the objects of API servers.
const OBJECTS: &str = "/registry/";
/// A key that no API server reads: a write to it marks the current version.
const MARK: &str = "/e2e/mark";

/// A client of etcd.
pub(crate) struct Store {
    client: Client,
    pub(super) url: String,
}

impl Store {
    pub(super) fn at(url: &str) -> Result<Self> {
        Ok(Self { client: kubeconfig::client_of(url)?, url: url.to_owned() })
    }

    /// All changes from this version until now, and the current version.
    pub(crate) async fn commits(&self, from: u64) -> Result<(Vec<Commit>, u64)> {
        let now = self.mark().await?;
        // The range of all keys.
        let every = STANDARD.encode([0]);
        let wanted =
            json!({"create_request": {"key": every, "range_end": every, "start_revision": from.to_string()}});
        let answer = self
            .client
            .send(request("/v3/watch", &wanted)?.map(Body::from))
            .await
            .context("cannot watch etcd")?;
        ensure!(answer.status().is_success(), "etcd answers a watch with {}", answer.status());
        let (mut body, mut buffer, mut commits) = (answer.into_body(), BytesMut::new(), Vec::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.context("etcd ends a watch early")?.into_data() else { continue };
            buffer.extend_from_slice(&data);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Value =
                    serde_json::from_slice(&buffer.split_to(end + 1)).context("etcd speaks no JSON")?;
                if line.pointer("/result/canceled").is_some_and(|canceled| canceled == true) {
                    bail!("etcd cancels a watch from {from}: {line}");
                }
                for event in line.pointer("/result/events").and_then(Value::as_array).into_iter().flatten() {
                    if version(event)? >= now {
                        return Ok((commits, now));
                    }
                    commits.extend(commit(event)?);
                }
            }
        }
        bail!("etcd ends a watch before its end")
    }

    pub(crate) async fn compact(&self, version: u64) -> Result<()> {
        let wanted = json!({"revision": version.to_string(), "physical": true});
        self.ask("/v3/kv/compaction", &wanted).await.map(drop)
    }

    async fn mark(&self) -> Result<u64> {
        let key = STANDARD.encode(MARK);
        let answer = self.ask("/v3/kv/put", &json!({"key": key, "value": key})).await?;
        number(&answer, "/header/revision")
    }

    async fn ask(&self, path: &str, body: &Value) -> Result<Value> {
        self.client.request(request(path, body)?).await.with_context(|| format!("etcd refuses {path}"))
    }
}

fn request(path: &str, body: &Value) -> Result<Request<Vec<u8>>> {
    Request::post(path).body(body.to_string().into_bytes()).context("cannot make a request")
}

fn number(value: &Value, pointer: &str) -> Result<u64> {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.and_then(|text| text.parse().ok()).with_context(|| format!("etcd gives no {pointer}: {value}"))
}

fn version(event: &Value) -> Result<u64> {
    number(event, "/kv/mod_revision")
}

/// One change of one object; `None` if the key is not that of a namespaced object.
fn commit(event: &Value) -> Result<Option<Commit>> {
    let decoded = |field: &str| {
        let text = event.pointer(&format!("/kv/{field}")).and_then(Value::as_str).unwrap_or_default();
        STANDARD.decode(text).context("etcd gives no base64")
    };
    let key = String::from_utf8(decoded("key")?).context("a key is not UTF-8")?;
    let mut parts = key.strip_prefix(OBJECTS).unwrap_or_default().rsplit('/');
    let (Some(name), Some(namespace), Some(plural)) = (parts.next(), parts.next(), parts.next()) else {
        return Ok(None);
    };
    let deleted = event.get("type").is_some_and(|type_| type_ == "DELETE");
    // Objects in another encoding are not ours.
    let object = if deleted { None } else { serde_json::from_slice(&decoded("value")?).ok() };
    if !deleted && object.is_none() {
        return Ok(None);
    }
    let [plural, namespace, name] = [plural, namespace, name].map(str::to_owned);
    Ok(Some(Commit { version: version(event)?, plural, namespace, name, object }))
}
