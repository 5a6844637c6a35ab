//! How the API server is reached: the kubeconfig, proxies, connections, and credentials that change.
//!
//! The layers of requests are kube's. Made here is what kube does otherwise than client-go: Nagle's algorithm
//! is off, connections have a keepalive, `NO_PROXY` is compared with the address of the cluster, and a
//! refused credential is loaded again. `docs/internals/kube.md` lists these differences.

use std::error::Error as StdError;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{StatusCode, Uri};
use hyper::rt::{Read, Write};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use hyper_util::rt::TokioExecutor;
use kube::client::retry::RetryPolicy;
use kube::client::{AuthError, Body, ConfigExt};
use kube::config::{Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use parking_lot::Mutex;
use secrecy::ExposeSecret;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tower::retry::RetryLayer;
use tower::util::option_layer;
use tower::{BoxError, Layer, Service, ServiceExt, service_fn};

use crate::client::error::with_causes;

/// Files of credentials are read again after that long, as token files in client-go.
const REREAD: Duration = Duration::from_secs(60);
/// Credentials that are refused, or cannot be loaded, are loaded again, no more often than that.
const AGAIN: Duration = Duration::from_secs(10);
/// Credentials that are refused for that long, and were refused in the last [`RECENT`], are given up.
const REFUSED: Duration = Duration::from_secs(180);
const RECENT: Duration = Duration::from_secs(60);
/// A connection without data is probed after that long, every [`PROBES`]: a dead one is closed after 45 s.
const IDLE: Duration = Duration::from_secs(30);
const PROBES: Duration = Duration::from_secs(5);
const MISSING: u32 = 3;

/// The kubeconfig that the environment names: of the files in `$KUBECONFIG` those that exist, as kubectl
/// does; without it, `~/.kube/config`.
///
/// # Errors
/// No file exists, or one cannot be read or parsed.
pub fn kubeconfig() -> Result<Kubeconfig, KubeconfigError> {
    let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let is_missing = |path: &PathBuf| {
        std::fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    let named = std::env::split_paths(&named).filter(|path| !path.as_os_str().is_empty());
    let mut found = named.filter(|path| !is_missing(path)).peekable();
    if found.peek().is_none() {
        return Kubeconfig::read();
    }
    found.try_fold(Kubeconfig::default(), |all, path| all.merge(Kubeconfig::read_from(path)?))
}

/// The file of certificate authorities that this kubeconfig names for its current cluster. kube reads it
/// once, unless the configuration names it in `root_cert_file`.
#[must_use]
pub fn authority_file(kubeconfig: &Kubeconfig) -> Option<PathBuf> {
    let current = kubeconfig.current_context.as_ref()?;
    let context = kubeconfig.contexts.iter().find(|one| one.name == *current)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|one| one.name == context.cluster)?.cluster.as_ref()?;
    let is_file = cluster.certificate_authority_data.is_none();
    cluster.certificate_authority.as_ref().filter(|_| is_file).map(PathBuf::from)
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
    /// Waits until every request was refused (401) for three minutes, with credentials loaded again.
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

/// A client of this configuration. Its credentials are loaded again when their files change, and when the API
/// server refuses them: a credential plugin is asked again, and a token that was revoked is replaced. The
/// cluster and the user stay those of the configuration.
///
/// # Errors
/// As those of `Client::try_from`: the configuration has no usable certificate, key, token or proxy.
/// [`plainly`] has no secret in it.
pub fn client(config: Config) -> kube::Result<(Client, Credentials)> {
    let namespace = config.default_namespace.clone();
    let current = Current {
        client: build(config.clone())?,
        print: fingerprint(&config),
        loaded: Instant::now(),
        is_loading: false,
        logged: None,
    };
    let refusals = watch::Sender::new(None);
    let credentials = Credentials(refusals.subscribe());
    let access = Arc::new(Access { config, current: Mutex::new(current), refusals });
    let service = service_fn(move |request| Arc::clone(&access).send(request));
    Ok((Client::new(service, namespace), credentials))
}

struct Access {
    config: Config,
    current: Mutex<Current>,
    refusals: watch::Sender<Option<Refusals>>,
}

struct Current {
    client: Client,
    /// Of the files, to see whether they change.
    print: u64,
    /// When they were loaded last.
    loaded: Instant,
    is_loading: bool,
    /// The last failure that was logged.
    logged: Option<String>,
}

impl Access {
    async fn send(self: Arc<Self>, request: http::Request<Body>) -> Result<http::Response<Body>, BoxError> {
        self.load_again(REREAD, false);
        let client = self.current.lock().client.clone();
        let answer = client.send(request).await?;
        let is_refused = answer.status() == StatusCode::UNAUTHORIZED;
        count(&self.refusals, is_refused);
        if is_refused {
            self.load_again(AGAIN, true);
        }
        Ok(answer)
    }

    /// Loads the credentials in the background, if that is that long ago. No request waits for it.
    fn load_again(self: &Arc<Self>, after: Duration, is_refused: bool) {
        let mut current = self.current.lock();
        let after = if current.logged.is_some() { AGAIN } else { after };
        if current.is_loading || current.loaded.elapsed() < after {
            return;
        }
        current.is_loading = true;
        let before = current.print;
        drop(current);
        let access = Arc::clone(self);
        // Files can be slow, and a credential plugin can take long.
        let made = tokio::task::spawn_blocking(move || {
            let print = fingerprint(&access.config);
            let is_new = is_refused || print != before;
            is_new.then(|| build(access.config.clone()).map(|client| (client, print)))
        });
        let access = Arc::clone(self);
        tokio::spawn(async move {
            let made = made.await;
            let mut current = access.current.lock();
            (current.is_loading, current.loaded) = (false, Instant::now());
            let failure = match made {
                Ok(Some(Ok((client, print)))) => {
                    (current.client, current.print) = (client, print);
                    tracing::info!("loaded the credentials again");
                    None
                }
                Ok(None) => None,
                Ok(Some(Err(error))) => Some(plainly(&error)),
                Err(error) => Some(error.to_string()),
            };
            if failure.is_some() && failure != current.logged {
                tracing::warn!(
                    error = failure,
                    "cannot load the credentials again, and go on with those from before"
                );
            }
            current.logged = failure;
        });
    }
}

/// The message of an error of [`client`], without what a credential plugin printed or was given.
#[must_use]
pub fn plainly(error: &kube::Error) -> String {
    match error {
        kube::Error::Auth(AuthError::AuthExecRun { out, .. }) => {
            format!("the credential plugin of the kubeconfig failed ({})", out.status)
        }
        kube::Error::Auth(AuthError::AuthExecParse(_) | AuthError::AuthExec(_)) => {
            "the credential plugin of the kubeconfig returned no credentials".to_owned()
        }
        other => with_causes(other),
    }
}

/// A number for the content of the files with credentials.
fn fingerprint(config: &Config) -> u64 {
    let mut hasher = DefaultHasher::new();
    let user = &config.auth_info;
    for path in [&user.token_file, &user.client_certificate, &user.client_key] {
        path.as_ref().and_then(|path| std::fs::read(path).ok()).hash(&mut hasher);
    }
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
    // Nagle's algorithm holds the first request back until the TLS handshake is acknowledged: 40 ms.
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(IDLE));
    tcp.set_keepalive_interval(Some(PROBES));
    tcp.set_keepalive_retries(Some(MISSING));
    // With data in flight there is no keepalive.
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(IDLE + PROBES * MISSING));
    let Some(proxy) = proxy(&config, &Environment::read())? else { return over(config, tcp) };
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

/// Whether requests do not leave this machine: its own address, and no proxy.
#[must_use]
pub fn stays_here(config: &Config) -> bool {
    is_loopback(&config.cluster_url) && matches!(proxy(config, &Environment::read()), Ok(None))
}

fn is_loopback(address: &Uri) -> bool {
    let host = host_of(address);
    host == "localhost" || host.parse().is_ok_and(|host: IpAddr| host.is_loopback())
}

fn host_of(address: &Uri) -> &str {
    address.host().unwrap_or_default().trim_matches(['[', ']'])
}

/// The proxy to the cluster, as for kubectl: that of the kubeconfig, else that of the environment, but not to
/// this machine. An error: its scheme is not supported.
fn proxy(config: &Config, environment: &Environment) -> kube::Result<Option<Intercept>> {
    // kube takes the proxy of the environment, too, whatever `NO_PROXY` says.
    let of_environment = environment.https.parse::<Uri>().ok();
    let named = config.proxy_url.as_ref().filter(|named| Some(*named) != of_environment.as_ref());
    let cluster = &config.cluster_url;
    if let Some(named) = named {
        let found = Matcher::builder().all(named.to_string()).build().intercept(cluster);
        let is_known =
            |found: &Intercept| !found.uri().scheme_str().is_some_and(|scheme| scheme.starts_with("socks4"));
        // Nothing is sent past a proxy that cannot be used.
        let unusable = || kube::Error::ProxyProtocolUnsupported { proxy_url: Box::new(named.clone()) };
        return found.filter(is_known).map(Some).ok_or_else(unusable);
    }
    if is_loopback(cluster) {
        return Ok(None);
    }
    let Environment { https, http, none } = environment;
    let none = without_proxy(none, host_of(cluster), cluster.port_u16().unwrap_or(443));
    Ok(Matcher::builder().https(https.as_str()).http(http.as_str()).no(none).build().intercept(cluster))
}

/// `NO_PROXY` for this cluster, in the words of the library: entries can have a port, and a domain that
/// begins with a dot or `*.` is not that domain itself (`golang.org/x/net/http/httpproxy`).
fn without_proxy(none: &str, host: &str, port: u16) -> String {
    let entries = none.split(',').map(str::trim).filter_map(|entry| {
        let (name, of_port) = match entry.rsplit_once(':') {
            Some((name, digits)) if !name.contains(':') || name.ends_with(']') => (name, digits.parse().ok()),
            _ => (entry, None),
        };
        let name = name.trim_matches(['[', ']']);
        let below = name.strip_prefix('*').unwrap_or(name).strip_prefix('.');
        let is_meant = of_port.is_none_or(|of_port: u16| of_port == port) && below != Some(host);
        is_meant.then(|| below.unwrap_or(name).to_owned())
    });
    entries.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;
    use kube::Config;
    use tokio::sync::watch;
    use tokio::time::{Instant, sleep, timeout};

    use super::{Credentials, Environment, REFUSED, authority_file, count, proxy};

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
    fn the_authorities_are_read_from_the_file_of_the_current_cluster() {
        let file = |cluster: serde_json::Value| {
            let kubeconfig = serde_json::json!({
                "current-context": "b",
                "clusters": [{"name": "a", "cluster": {"server": "https://a",
                "certificate-authority": "/a.crt"}}, {"name": "b", "cluster": cluster}],
                "contexts": [{"name": "a", "context": {"cluster": "a"}}, {"name": "b",
                "context": {"cluster": "b"}}],
            });
            authority_file(&serde_json::from_value(kubeconfig).unwrap())
        };
        let named = serde_json::json!({"server": "https://b", "certificate-authority": "/b.crt"});
        assert_eq!(file(named.clone()), Some("/b.crt".into()));
        let mut inline = named;
        inline["certificate-authority-data"] = "YQ==".into();
        assert_eq!(file(inline), None);
        assert_eq!(file(serde_json::json!({"server": "https://b"})), None);
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
            ("https://api.example:6443", None, through, "api.example:6443", None),
            ("https://api.example:6443", None, through, "api.example:443", Some("proxy:3128")),
            ("https://api.example:6443", None, through, "*.example", None),
            ("https://api.example:6443", None, through, "*", None),
            ("https://api.example:6443", None, through, ".api.example", Some("proxy:3128")),
            ("https://[fd00::1]:6443", None, through, "[fd00::1]:6443", None),
            ("https://[fd00::1]:6443", None, through, "fd00::/8", None),
            ("https://api.example:6443", Some("socks5://own:1080"), through, "api.example", Some("own:1080")),
            ("https://127.0.0.1:6443", Some("https://own:1080"), "", "", Some("own:1080")),
        ];
        for (cluster, named, https, none, expected) in table {
            let mut config = Config::new(cluster.parse().unwrap());
            // As kube reads it.
            let named = named.or(Some(https).filter(|https| !https.is_empty()));
            config.proxy_url = named.map(|named| named.parse().unwrap());
            let found = proxy(&config, &environment(https, none)).unwrap();
            let found = found.map(|found| found.uri().authority().unwrap().to_string());
            assert_eq!(found.as_deref(), expected, "{cluster} {named:?} {https} {none}");
        }
        for named in ["socks://own:1080", "socks4://own:1080", "ftp://own"] {
            let mut config = Config::new("https://api.example:6443".parse().unwrap());
            config.proxy_url = Some(named.parse().unwrap());
            let failed = proxy(&config, &Environment::default()).map(|_| ()).unwrap_err();
            assert!(matches!(failed, kube::Error::ProxyProtocolUnsupported { .. }), "{named}: {failed}");
        }
    }
}
