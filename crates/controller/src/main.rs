//! `ordered-controller-manager`: the controllers of this project as one process.

use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Parser, ValueEnum};
use futures::FutureExt;
use futures::future::{BoxFuture, try_join_all};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use ordereddeployment_api::parse_pause_duration;
use ordereddeployment_controller::{
    Apart, Controller, Error, Family, LOG_FILTER, Metrics, Options, RulesSource, health, run_node_costs,
};
use ordereddeployment_kubernetes::{
    Candidate, Credentials, Fence, Limiter, Limits, Timing, authority_file, client, client_config, counted,
    identity, kubeconfig, plainly, serve,
};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing_subscriber::EnvFilter;

/// Rolls OrderedDeployments out in the order their users chose.
#[derive(Debug, Parser)]
// The last of two occurrences wins: users that can only append arguments can override every one.
#[command(name = "ordered-controller-manager", version, args_override_self = true)]
struct Arguments {
    /// The controllers to run: names, `*` for those that run by default (ordereddeployment), and `-NAME` for
    /// one not to run. Others: nodecosts, replicaset.
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    controllers: Vec<String>,
    /// The controller replicaset acts even if kube-controller-manager's own may be alive. Only for clusters
    /// in which it cannot be: two at once delete twice as many pods.
    #[arg(long)]
    force: bool,
    /// The namespace of the empty ReplicaSet by which the controller replicaset finds that out. Default: the
    /// pod's own.
    #[arg(long, value_name = "NAMESPACE")]
    probe_namespace: Option<String>,
    /// The ConfigMap with the rules of nodecosts, as NAMESPACE/NAME. The controller replicaset applies them
    /// in its order.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = config_map)]
    node_costs_config: Option<RulesSource>,
    /// The kubeconfig to use. Default: $KUBECONFIG, ~/.kube/config, or the pod's own service account.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Watch this namespace only.
    #[arg(long)]
    namespace: Option<String>,
    /// The address that serves /metrics, /healthz and /readyz. [::] is IPv6 and IPv4; without IPv6 in the
    /// kernel, IPv4.
    #[arg(long, default_value = "[::]:8080")]
    metrics_bind_address: SocketAddr,
    /// Run only while this replica holds the Lease, so that several replicas are safe.
    #[arg(long)]
    leader_elect: bool,
    /// The namespace of the Lease. Default: the pod's own.
    #[arg(long)]
    leader_election_namespace: Option<String>,
    /// How long a Lease is valid after its last renewal.
    #[arg(long, default_value = "15s", value_parser = duration)]
    lease_duration: Duration,
    /// How long after its last renewal a leader still starts requests.
    #[arg(long, default_value = "10s", value_parser = duration)]
    renew_deadline: Duration,
    /// How often the leader renews the Lease.
    #[arg(long, default_value = "2s", value_parser = duration)]
    retry_period: Duration,
    /// How many requests per second are sent on average, besides watches and the Lease; 0: no limit.
    #[arg(long, value_name = "QPS", default_value_t = Limits::default().qps)]
    kube_api_qps: f64,
    /// How many requests are sent at once after an idle time.
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().burst)]
    kube_api_burst: u32,
    /// How many requests are in flight at the same time.
    #[arg(long, value_name = "COUNT", default_value_t = Limits::default().in_flight)]
    kube_api_max_in_flight: usize,
    /// How many OrderedDeployments are reconciled at the same time. One that waits for an answer
    /// for longer than a second does not count.
    #[arg(long, value_name = "COUNT", default_value_t = Options::WORKERS, value_parser = at_least_one)]
    concurrent_syncs: usize,
    /// The format of logs. $RUST_LOG sets what is logged.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// A controller of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    OrderedDeployment,
    NodeCosts,
    ReplicaSet,
}

impl Which {
    const ALL: [Self; 3] = [Self::OrderedDeployment, Self::NodeCosts, Self::ReplicaSet];

    fn name(self) -> &'static str {
        match self {
            Self::OrderedDeployment => "ordereddeployment",
            Self::NodeCosts => "nodecosts",
            Self::ReplicaSet => "replicaset",
        }
    }

    /// Those that the flag names, as for kube-controller-manager: the first mention of a controller counts.
    fn selected(words: &[String]) -> Result<Vec<Self>> {
        let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
        for word in words {
            let name = word.strip_prefix('-').unwrap_or(word);
            if name != "*" && !names.contains(&name) {
                bail!("--controllers: there is no controller {name:?}; there are {}", names.join(", "));
            }
        }
        let is_selected = |which: &Self| {
            let mentioned = words.iter().find_map(|word| match word.strip_prefix('-') {
                Some(name) => (name == which.name()).then_some(false),
                None => (word == which.name()).then_some(true),
            });
            mentioned
                .unwrap_or_else(|| *which == Self::OrderedDeployment && words.iter().any(|word| word == "*"))
        };
        Ok(Self::ALL.into_iter().filter(is_selected).collect())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// How long the process waits at its end for tasks that do not finish.
const LAST_WAIT: Duration = Duration::from_secs(1);

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    log(arguments.log_format);
    // Each watch and each request in flight needs a connection.
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::debug!(%error, "cannot raise the number of open files");
    }
    let runtime = tokio::runtime::Runtime::new().context("cannot start threads")?;
    let ended = runtime.block_on(run(arguments));
    // After the loss of leadership no task of this process may continue, not even a stuck one.
    runtime.shutdown_timeout(LAST_WAIT);
    ended
}

async fn run(arguments: Arguments) -> Result<()> {
    let metrics = Arc::new(Metrics::new().context("cannot register the metrics")?);
    let config = config(arguments.kubeconfig.as_deref()).await?;
    let (client, credentials) = client(config)
        .map_err(|error| anyhow!("cannot make a client of that configuration: {}", plainly(&error)))?;
    let client = counted(&client, &metrics.client);

    let mut options = Options::new(Arc::clone(&metrics));
    let limits = Limits {
        qps: arguments.kube_api_qps,
        burst: arguments.kube_api_burst,
        in_flight: arguments.kube_api_max_in_flight,
    };
    if let Some(problem) = limits.problem() {
        bail!("these limits let no request through: {problem}");
    }
    options.limiter = Limiter::new(limits);
    options.workers = arguments.concurrent_syncs;
    options.namespace.clone_from(&arguments.namespace);
    let controllers = Which::selected(&arguments.controllers)?;
    let runs = |which| controllers.contains(&which);
    let families =
        [(Which::OrderedDeployment, Family::Ordered), (Which::ReplicaSet, Family::Plain)].into_iter();
    let families: Vec<_> = families.filter(|(which, _)| runs(*which)).map(|(_, family)| family).collect();
    options.health = health(&families, runs(Which::NodeCosts));
    let costs = arguments.node_costs_config.clone().filter(|_| runs(Which::NodeCosts));
    if runs(Which::NodeCosts) && costs.is_none() {
        bail!("the controller nodecosts needs --node-costs-config: where its rules are");
    }
    if runs(Which::ReplicaSet) && arguments.namespace.is_some() {
        bail!(
            "the controller replicaset reconciles all namespaces, since kube-controller-manager's is off in \
             all of them: leave --namespace away"
        );
    }
    let election = arguments.leader_elect.then(|| election(&arguments, &client, &mut options)).transpose()?;
    let address = arguments.metrics_bind_address;
    let listener = listen(address)
        .await
        .with_context(|| format!("cannot listen on {address}: choose another --metrics-bind-address"))?;

    let bound = listener.local_addr().context("cannot find the address of the metrics server")?;
    let (stop, stopped) = watch::channel(false);
    let ended = move || {
        let mut stopped = stopped.clone();
        async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        }
    };
    end_on_signal(stop)?;
    let rendered = Arc::new(move || metrics.render());
    tokio::spawn(serve(listener, rendered, options.health.clone(), ended()));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), controllers = ?controllers, "starting");
    tracing::info!("metrics and health on http://{bound}");
    let mut running: Vec<BoxFuture<'static, Result<(), Error>>> = Vec::new();
    if runs(Which::OrderedDeployment) {
        running.push(Controller::run(client.clone(), options.clone(), ended()));
    }
    if runs(Which::ReplicaSet) {
        let namespace = arguments.probe_namespace.as_deref().unwrap_or(client.default_namespace());
        let apart = Apart { namespace: namespace.to_owned(), force: arguments.force };
        let node_rules = arguments.node_costs_config.clone();
        let options = Options { family: Family::Plain, apart: Some(apart), node_rules, ..options.clone() };
        running.push(Controller::run(client.clone(), options, ended()));
    }
    let health = options.health.clone();
    if let Some(rules) = costs {
        running.push(run_node_costs(rules, client, options, ended()).boxed());
    }
    // A separate task, so that busy controllers do not delay the Lease. Dropping the set aborts it.
    let mut work = JoinSet::new();
    work.spawn(async move {
        // The first controller that fails ends the others and the process.
        tokio::select! {
            ended = try_join_all(running) => ended.map(drop),
            () = health.beats() => Ok(()),
        }
    });
    let controller = async move {
        match work.join_next().await {
            Some(Ok(ended)) => ended,
            // The task panicked. The process ends, and the kubelet restarts it.
            Some(Err(error)) => Err(Error::Panicked(error.to_string())),
            None => Ok(()),
        }
    };
    match election {
        Some((candidate, leadership)) => {
            let leads = candidate.run_while_leading(controller, leadership);
            unless_refused(leads.map(|ended| ended.unwrap_or(Err(Error::LostLease))), credentials).await
        }
        None => unless_refused(controller, credentials).await,
    }
}

/// Sets the value at SIGTERM or Ctrl-C.
fn end_on_signal(stop: watch::Sender<bool>) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        tracing::info!("ending");
        stop.send_replace(true);
    });
    Ok(())
}

/// Runs the controllers until they end, or the API server has refused the credentials for minutes.
async fn unless_refused(
    controllers: impl Future<Output = Result<(), Error>>,
    credentials: Credentials,
) -> Result<()> {
    tokio::select! {
        ended = controllers => Ok(ended?),
        () = credentials.refused() => bail!(
            "the API server has refused the credentials for minutes (401 Unauthorized): the process ends, \
             and a new one reads them anew"
        ),
    }
}

/// Listens on that address. A kernel can have IPv6 off: then all addresses are those of IPv4.
async fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let listener = TcpListener::bind(address).await;
    if listener.is_err() && address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        return TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await;
    }
    listener
}

/// The candidate of the leader election, and the channel that says whether it is the leader.
fn election(
    arguments: &Arguments,
    client: &Client,
    options: &mut Options,
) -> Result<(Candidate, watch::Sender<bool>)> {
    let timing = Timing {
        lease: arguments.lease_duration,
        renew_deadline: arguments.renew_deadline,
        retry: arguments.retry_period,
    };
    if let Some(problem) = timing.problem() {
        bail!("these times cannot keep two leaders apart: {problem}");
    }
    let fence = Fence::default();
    let (leadership, is_leader) = watch::channel(false);
    options.leadership = Some((fence.clone(), is_leader));
    let namespace = arguments.leader_election_namespace.as_deref().unwrap_or(client.default_namespace());
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "host".to_owned());
    let identity = identity(&host, std::process::id());
    tracing::info!(%identity, namespace, "attempting to acquire lease");
    let (clock, health) = (options.clock.clone(), options.health.clone());
    Ok((Candidate::new(client, namespace, &identity, timing, fence, clock, health), leadership))
}

fn config_map(text: &str) -> Result<RulesSource, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok(RulesSource { namespace: namespace.to_owned(), name: name.to_owned() })
        }
        _ => Err("give NAMESPACE/NAME".to_owned()),
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "give a number, 1 or more".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    // The parser of the client library drops a leading sign and panics on a sign inside.
    parse_pause_duration(text).ok_or_else(|| "give a positive time, such as 15s or 1m30s".to_owned())
}

async fn config(path: Option<&Path>) -> Result<Config> {
    let (read, named) = match path {
        Some(path) => (Kubeconfig::read_from(path), path.display().to_string()),
        None => (kubeconfig(), "the kubeconfig".to_owned()),
    };
    let options = KubeConfigOptions::default();
    let config = match read {
        Ok(read) => {
            let authorities = authority_file(&read);
            let config = Config::from_custom_kubeconfig(read, &options).await;
            let mut config = config.with_context(|| format!("cannot use {named}"))?;
            config.root_cert_file = authorities;
            config
        }
        Err(error) => {
            // The first line is the message; the parser adds an excerpt, with credentials.
            let message = error.to_string();
            let message = message.lines().next().unwrap_or_default();
            match Config::incluster() {
                Ok(config) if path.is_none() => config,
                _ if path.is_some() => bail!("cannot read {named}: {message}"),
                _ => bail!("cannot find a cluster: {message}: give --kubeconfig, or run inside one"),
            }
        }
    };
    Ok(client_config(config))
}

fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG_FILTER));
    let has_colors =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(has_colors)
        // It says so on standard error, and panics if that is closed or its disk is full.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().init(),
    }
}

#[cfg(test)]
mod tests {
    use super::Which;

    #[test]
    fn controllers_are_selected_as_in_kube_controller_manager() {
        let selected = |text: &str| {
            let words: Vec<String> = text.split(',').map(str::to_owned).collect();
            let names =
                Which::selected(&words).map(|all| all.into_iter().map(Which::name).collect::<Vec<_>>());
            names.map_err(|error| error.to_string())
        };
        let table: [(&str, &[&str]); 6] = [
            ("*", &["ordereddeployment"]),
            ("ordereddeployment,replicaset", &["ordereddeployment", "replicaset"]),
            ("replicaset", &["replicaset"]),
            ("*,-ordereddeployment,nodecosts", &["nodecosts"]),
            ("-ordereddeployment,*", &[]),
            ("*,replicaset", &["ordereddeployment", "replicaset"]),
        ];
        for (text, expected) in table {
            assert_eq!(selected(text).unwrap(), expected, "{text}");
        }
        assert!(selected("replicasets").unwrap_err().contains("there is no controller \"replicasets\""));
    }
}
