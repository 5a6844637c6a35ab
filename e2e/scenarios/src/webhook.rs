//! An admission webhook of a scenario. The scenario decides whether it allows or changes objects, fails, or
//! does not answer.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::TestCluster;
use crate::setting::TIMEOUT;

/// The label of namespaces with a webhook; its value is the name of the webhook.
const LABEL: &str = "e2e-webhook";
/// The interval of the check whether the API server calls a new webhook.
const POLL: Duration = Duration::from_millis(50);

/// The response of a webhook.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Admits the object.
    Allow,
    /// Admits the object with this JSON patch. Only for mutating webhooks.
    Change(Value),
    /// Responds with this status code and without a review.
    Fail(u16),
    /// Never responds.
    Silence,
}

type Decide = Box<dyn Fn(&Value) -> Verdict + Send + Sync>;

/// The number of requests so far, and the function that decides about them.
struct Desk {
    decide: Mutex<Decide>,
    seen: Mutex<usize>,
}

/// The configuration of a webhook.
#[derive(Clone, Debug)]
pub struct Hook {
    /// Whether it is a mutating webhook.
    pub mutates: bool,
    /// `Fail` or `Ignore`.
    pub failure_policy: &'static str,
    /// The timeout of the API server.
    pub timeout_seconds: u8,
}

/// A running webhook. Dropping it stops it.
pub struct Webhook {
    url: String,
    authority: String,
    desk: Arc<Desk>,
    _task: JoinSet<()>,
}

impl Webhook {
    /// Starts a webhook that decides with `decide`. The API server does not call it yet.
    pub async fn start(decide: impl Fn(&Value) -> Verdict + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("cannot listen on loopback")?;
        let address = listener.local_addr().context("cannot listen on loopback")?;
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)?;
        let desk = Arc::new(Desk { decide: Mutex::new(Box::new(decide)), seen: Mutex::default() });
        let mut task = JoinSet::new();
        task.spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), Arc::clone(&desk)));
        let authority = STANDARD.encode(certified.cert.pem());
        Ok(Self { url: format!("https://{address}/"), authority, desk, _task: task })
    }

    /// From now on the webhook decides with `decide`.
    pub fn decide_with(&self, decide: impl Fn(&Value) -> Verdict + Send + Sync + 'static) {
        *lock(&self.desk.decide) = Box::new(decide);
    }

    /// How many requests it has received.
    #[must_use]
    pub fn seen(&self) -> usize {
        *lock(&self.desk.seen)
    }

    /// Registers the webhook for new pods in the namespace of the scenario and waits until the API server
    /// calls it. The verdict must not be `Silence` yet.
    pub async fn register(&self, cluster: &TestCluster, hook: &Hook) -> Result<()> {
        let name = &cluster.namespace;
        let kind =
            if hook.mutates { "MutatingWebhookConfiguration" } else { "ValidatingWebhookConfiguration" };
        let manifest = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
            "webhooks": [{
                "name": "pods.e2e.example", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"url": self.url, "caBundle": self.authority},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                "resources": ["pods"]}],
                "namespaceSelector": {"matchLabels": {LABEL: name}},
                "failurePolicy": hook.failure_policy, "timeoutSeconds": hook.timeout_seconds,
            }],
        });
        cluster.kubectl.run(&["label", "namespace", name, &format!("{LABEL}={name}")]).await?;
        cluster.kubectl.run_with(&["apply", "-f", "-"], &manifest.to_string()).await?;
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "probe"}]},
        }))?;
        let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), name);
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let (before, limit) = (self.seen(), Instant::now() + TIMEOUT);
        while self.seen() == before {
            anyhow::ensure!(Instant::now() < limit, "the API server does not ask the webhook of {name}");
            // The result does not matter.
            drop(pods.create(&dry, &pod).await);
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, desk: Arc<Desk>) {
    // Dropping the set with this future ends every connection.
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        connections.spawn(serve(stream, acceptor.clone(), Arc::clone(&desk)));
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, desk: Arc<Desk>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request| answer(request, Arc::clone(&desk)));
    // An error means that the client disconnected.
    drop(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await);
}

async fn answer(request: Request<Incoming>, desk: Arc<Desk>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body =
        request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let request = review.get("request").cloned().unwrap_or_default();
    let verdict = (lock(&desk.decide))(request.get("object").unwrap_or(&Value::Null));
    *lock(&desk.seen) += 1;
    let mut answer = json!({"uid": request.get("uid"), "allowed": true});
    match verdict {
        Verdict::Allow => {}
        Verdict::Change(patch) => {
            answer["patchType"] = "JSONPatch".into();
            answer["patch"] = STANDARD.encode(patch.to_string()).into();
        }
        Verdict::Fail(code) => {
            let mut response = Response::new(Full::new(Bytes::from("refused by the scenario")));
            *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return Ok(response);
        }
        Verdict::Silence => std::future::pending().await,
    }
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})
        .to_string();
    let mut response = Response::new(Full::new(Bytes::from(review)));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    Ok(response)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
