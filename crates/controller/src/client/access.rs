//! How the API server is reached: the kubeconfig, proxies and connections, and credentials that are loaded again when they change.
//!
//! The layers of requests are kube's. Made here is what kube does otherwise than client-go: Nagle's algorithm is off, connections have a
//! keepalive, `NO_PROXY` is compared with the address of the cluster, and a refused credential is loaded again.
//! `docs/internals/kube.md` lists these differences.

use std::error::Error as StdError;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{StatusCode, Uri};
use hyper::rt::{Read, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioExecutor;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt};
use kube::config::{Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use secrecy::ExposeSecret;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tower::retry::RetryLayer;
use tower::util::option_layer;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

/// Files of credentials are read again after that long, as in client-go.
const REREAD: Duration = Duration::from_secs(60);
/// Credentials that the API server refuses are loaded again, no more often than that.
const AGAIN: Duration = Duration::from_secs(10);
/// Credentials that are refused for that long, and were refused in the last [`RECENT`], are given up.
const REFUSED: Duration = Duration::from_secs(180);
const RECENT: Duration = Duration::from_secs(60);
/// A connection without data is probed after that long, then every [`PROBES`], [`MISSING`] times: a dead one is closed after 45 s.
const IDLE: Duration = Duration::from_secs(30);
const PROBES: Duration = Duration::from_secs(5);
const MISSING: u32 = 3;

/// The kubeconfig that the environment names: of the files in `$KUBECONFIG` those that exist, as kubectl does; without it,
/// `~/.kube/config`.
///
/// # Errors
/// No file exists, or one cannot be read or parsed.
pub fn kubeconfig() -> Result<Kubeconfig, KubeconfigError> {
    let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let mut found = std::env::split_paths(&named).filter(|path| path.is_file()).peekable();
    if found.peek().is_none() {
        return Kubeconfig::read();
    }
    found.try_fold(Kubeconfig::default(), |all, path| all.merge(Kubeconfig::read_from(path)?))
}

/// Whether the API server accepts the credentials of a client.
#[derive(Clone, Debug)]
pub struct Credentials(watch::Receiver<Option<Refusals>>);

/// Answers 401 without another answer between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Refusals {
    first: Instant,
    last: Instant,
}

/// Counts an answer.
fn count(refusals: &watch::Sender<Option<Refusals>>, is_refused: bool) {
    if !is_refused {
        refusals.send_if_modified(|refusals| refusals.take().is_some());
        return;
    }
    let last = Instant::now();
    refusals.send_modify(|refusals| {
        let first = refusals.map_or(last, |refusals| refusals.first);
        *refusals = Some(Refusals { first, last });
    });
}

impl Credentials {
    /// Waits until every request was refused for three minutes (401), though the credentials were loaded again.
    pub async fn refused(mut self) {
        loop {
            let Ok(refusals) = self.0.wait_for(Option::is_some).await.map(|refusals| *refusals) else {
                // The client is gone.
                return std::future::pending().await;
            };
            let Some(Refusals { first, .. }) = refusals else { continue };
            sleep_until(first + REFUSED).await;
            let now = *self.0.borrow_and_update();
            match now {
                Some(now) if now.first == first && now.last.elapsed() < RECENT => return,
                // The last one was long ago.
                Some(now) if now.first == first => _ = self.0.changed().await,
                _ => {}
            }
        }
    }
}

/// A client of the configuration that `load` returns. It is loaded again when files of credentials change, and when the API server
/// refuses them: a credential plugin is asked again, and a token that was revoked is replaced.
///
/// # Errors
/// Those of `load`, and those of `Client::try_from`: the configuration has no usable certificate, key or token.
pub async fn client<L, F>(load: L) -> anyhow::Result<(Client, Credentials)>
where
    L: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = anyhow::Result<Config>> + Send + 'static,
{
    let config = load().await?;
    let namespace = config.default_namespace.clone();
    let print = fingerprint(&config);
    let current = Current { client: build(config)?, print, loaded: Instant::now(), logged: None };
    let refusals = watch::Sender::new(None);
    let credentials = Credentials(refusals.subscribe());
    let access = Arc::new(Access { load, current: Mutex::new(current), refusals });
    let service = service_fn(move |request| Arc::clone(&access).send(request));
    Ok((Client::new(service, namespace), credentials))
}

struct Access<L> {
    load: L,
    current: Mutex<Current>,
    refusals: watch::Sender<Option<Refusals>>,
}

struct Current {
    client: Client,
    /// Of the configuration, to see whether it changes.
    print: u64,
    /// When it was loaded, or was begun to be.
    loaded: Instant,
    /// The last failure that was logged.
    logged: Option<String>,
}

impl<L, F> Access<L>
where
    L: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = anyhow::Result<Config>> + Send + 'static,
{
    async fn send(self: Arc<Self>, request: http::Request<Body>) -> Result<http::Response<Body>, BoxError> {
        self.load_again(REREAD, false);
        let client = self.current().client.clone();
        let answer = client.send(request).await?;
        let is_refused = answer.status() == StatusCode::UNAUTHORIZED;
        count(&self.refusals, is_refused);
        if is_refused {
            self.load_again(AGAIN, true);
        }
        Ok(answer)
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads the configuration in the background, if that is that long ago. No request waits for it.
    fn load_again(self: &Arc<Self>, after: Duration, is_refused: bool) {
        let mut current = self.current();
        if current.loaded.elapsed() < after {
            return;
        }
        current.loaded = Instant::now();
        drop(current);
        let access = Arc::clone(self);
        tokio::spawn(async move {
            let failure = access.replace(is_refused).await.err().map(|error| format!("{error:#}"));
            let mut current = access.current();
            if failure.is_some() && failure != current.logged {
                tracing::warn!(
                    error = failure,
                    "cannot load the credentials again, and go on with those from before"
                );
            }
            current.logged = failure;
        });
    }

    /// Makes a client of the configuration as it is now, if it has changed or is refused.
    async fn replace(&self, is_refused: bool) -> anyhow::Result<()> {
        let config = (self.load)().await?;
        let print = fingerprint(&config);
        if !is_refused && print == self.current().print {
            return Ok(());
        }
        // A credential plugin can take long.
        let client = tokio::task::spawn_blocking(move || build(config)).await??;
        let mut current = self.current();
        (current.client, current.print) = (client, print);
        tracing::info!("loaded the credentials again");
        Ok(())
    }
}

/// A number for the credentials and the authority of the configuration, with the content of their files.
fn fingerprint(config: &Config) -> u64 {
    let mut hasher = DefaultHasher::new();
    let user = &config.auth_info;
    let content = |path: &Option<String>| path.as_ref().and_then(|path| std::fs::read(path).ok());
    config.cluster_url.to_string().hash(&mut hasher);
    config.root_cert.hash(&mut hasher);
    for path in [&user.token_file, &user.client_certificate, &user.client_key] {
        content(path).hash(&mut hasher);
    }
    for secret in [&user.token, &user.password, &user.client_key_data] {
        secret.as_ref().map(ExposeSecret::expose_secret).hash(&mut hasher);
    }
    user.client_certificate_data.hash(&mut hasher);
    hasher.finish()
}

/// A client of this configuration as it is now.
fn build(mut config: Config) -> kube::Result<Client> {
    let user = &mut config.auth_info;
    // kube panics at a token with a line break, and cannot send one from a file.
    let of_file = user.token_file.as_ref().filter(|_| user.token.is_none());
    let of_file = of_file.and_then(|path| std::fs::read_to_string(path).ok());
    let token = of_file.or_else(|| user.token.as_ref().map(|token| token.expose_secret().to_owned()));
    if let Some(token) = token {
        // Another file is read by this client's own timer.
        (user.token, user.token_file) = (Some(token.trim().into()), None);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // Nagle's algorithm holds the first request of a connection back until the API server acknowledges the TLS handshake: 40 ms.
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(IDLE));
    tcp.set_keepalive_interval(Some(PROBES));
    tcp.set_keepalive_retries(Some(MISSING));
    // With data in flight there is no keepalive.
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(IDLE + PROBES * MISSING));
    let Some(proxy) = proxy(&config, &Environment::read()) else { return over(config, tcp) };
    match proxy.uri().scheme_str() {
        Some("socks5" | "socks5h") => {
            let mut socks = SocksV5::new(proxy.uri().clone(), tcp);
            if let Some((user, password)) = proxy.raw_auth() {
                socks = socks.with_auth(user.to_owned(), password.to_owned());
            }
            over(config, socks)
        }
        Some("https") => {
            let mut of_proxy = config.clone();
            of_proxy.tls_server_name = None;
            let connector = of_proxy.rustls_https_connector_with_connector(tcp)?;
            over(config, tunnel(&proxy, connector))
        }
        _ => over(config, tunnel(&proxy, tcp)),
    }
}

fn tunnel<C>(proxy: &Intercept, connector: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.uri().clone(), connector);
    match proxy.basic_auth() {
        Some(auth) => tunnel.with_auth(auth.clone()),
        None => tunnel,
    }
}

/// The client that kube makes, over that connector.
fn over<C>(config: Config, connector: C) -> kube::Result<Client>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: StdError + Send + Sync + 'static,
{
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let service = config.extra_headers_layer()?.layer(http);
    let service = option_layer(config.auth_layer()?).layer(service.map_err(BoxError::from));
    let retries = config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry()));
    let service = option_layer(retries).layer(service);
    Ok(Client::new(config.base_uri_layer().layer(service.map_err(BoxError::from)), config.default_namespace))
}

/// The proxies that the environment names.
#[derive(Debug, Default)]
struct Environment {
    https: String,
    http: String,
    none: String,
}

impl Environment {
    fn read() -> Self {
        let value = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let read = |name: &str| value(name).or_else(|| value(&name.to_lowercase())).unwrap_or_default();
        Self { https: read("HTTPS_PROXY"), http: read("HTTP_PROXY"), none: read("NO_PROXY") }
    }
}

/// The proxy to the cluster, as for kubectl: that of the kubeconfig, else that of the environment, but not to this machine.
fn proxy(config: &Config, environment: &Environment) -> Option<Intercept> {
    // kube takes the proxy of the environment, too, whatever `NO_PROXY` says.
    let of_environment = environment.https.parse::<Uri>().ok();
    let named = config.proxy_url.as_ref().filter(|named| Some(*named) != of_environment.as_ref());
    let cluster = &config.cluster_url;
    if let Some(named) = named {
        return Matcher::builder().all(named.to_string()).build().intercept(cluster);
    }
    let host = cluster.host().unwrap_or_default().trim_matches(['[', ']']);
    if host == "localhost" || host.parse().is_ok_and(|host: IpAddr| host.is_loopback()) {
        return None;
    }
    let Environment { https, http, none } = environment;
    let matcher = Matcher::builder().https(https.as_str()).http(http.as_str()).no(none.as_str()).build();
    matcher.intercept(cluster)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use kube::Config;
    use tokio::sync::watch;
    use tokio::time::{Instant, sleep, timeout};

    use super::{Credentials, Environment, REFUSED, count, proxy};

    #[tokio::test(start_paused = true)]
    async fn credentials_that_are_refused_for_minutes_are_given_up() {
        let refusals = watch::Sender::new(None);
        let credentials = Credentials(refusals.subscribe());
        let begun = Instant::now();
        let refuses = async {
            loop {
                count(&refusals, true);
                sleep(Duration::from_secs(30)).await;
            }
        };
        tokio::select! {
            () = credentials.refused() => {}
            () = refuses => {}
        }
        assert_eq!(begun.elapsed(), REFUSED);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_long_ago_or_before_a_success_gives_nothing_up() {
        let refusals = watch::Sender::new(None);
        let mut refused = Box::pin(Credentials(refusals.subscribe()).refused());
        count(&refusals, true);
        assert!(timeout(2 * REFUSED, &mut refused).await.is_err(), "nothing was sent since");
        count(&refusals, false);
        assert!(refused.as_mut().now_or_never().is_none());
        for is_refused in [true, false, true, false].into_iter().cycle().take(20) {
            count(&refusals, is_refused);
            assert!(timeout(REFUSED / 4, &mut refused).await.is_err());
        }
    }

    #[test]
    fn the_proxy_is_the_one_that_kubectl_takes() {
        let environment = |https: &str, none: &str| Environment {
            https: https.to_owned(),
            http: "http://plain:1".to_owned(),
            none: none.to_owned(),
        };
        let through = "http://proxy:3128";
        let table = [
            ("https://api.example:6443", None, "", "", None),
            ("https://api.example:6443", None, through, "", Some("proxy:3128")),
            ("https://api.example:6443", None, "proxy:3128", "", Some("proxy:3128")),
            ("http://api.example:8080", None, through, "", Some("plain:1")),
            ("https://api.example:6443", None, through, "other.example,.example", None),
            ("https://10.1.2.3:6443", None, through, "10.0.0.0/8", None),
            ("https://10.1.2.3:6443", None, through, "proxy", Some("proxy:3128")),
            ("https://127.0.0.1:6443", None, through, "", None),
            ("https://[::1]:6443", None, through, "", None),
            ("https://localhost:6443", None, through, "", None),
            ("https://api.example:6443", Some("socks5://own:1080"), through, "api.example", Some("own:1080")),
            ("https://127.0.0.1:6443", Some("https://own:1080"), "", "", Some("own:1080")),
        ];
        for (cluster, named, https, none, expected) in table {
            let mut config = Config::new(cluster.parse().unwrap());
            // As kube reads it.
            let named = named.or(Some(https).filter(|https| !https.is_empty()));
            config.proxy_url = named.map(|named| named.parse().unwrap());
            let found = proxy(&config, &environment(https, none));
            let found = found.map(|found| found.uri().authority().unwrap().to_string());
            assert_eq!(found.as_deref(), expected, "{cluster} {named:?} {https} {none}");
        }
    }
}
