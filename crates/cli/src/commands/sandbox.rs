//! `sandbox`: runs a cluster in this process until Ctrl-C. It writes one file, the kubeconfig.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ordereddeployment_kubernetes::{Clock, Names};
use ordereddeployment_sandbox::{Config, NodeSpec};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::client::{ConnectArgs, Timeout};
use crate::commands::plan::duration;
use crate::embedded::Embedded;
use crate::terminal::escape::print;
use crate::terminal::style::has_colors_on_stderr;

/// The start of the kubeconfigs that this command writes. Only such files are overwritten.
const OURS: &str = "apiVersion: v1\nkind: Config\nclusters:\n- name: sandbox\n";

const NO_BUILTIN_CONTROLLERS: &str = "this sandbox runs no controllers for Deployments and ReplicaSets, so \
                                      nothing would happen; convert the manifest with `kubectl ordered \
                                      convert -f FILE`";

/// The timeout for a request to a server on this machine.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Run a cluster in memory, with nodes, the CRDs and the controller, for your own kubectl
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered sandbox --kubeconfig sandbox.yaml
  kubectl ordered sandbox --kubeconfig sandbox.yaml --watch-delay pods=2s
  kubectl ordered sandbox --kubeconfig sandbox.yaml --nodes 20 --pods-per-node 5
  kubectl ordered sandbox --kubeconfig sandbox.yaml --no-controller

A Node that you create gets a kubelet too. Deployments and ReplicaSets are refused: no controller runs them. \
There are no users and no roles. The kubeconfig is written once the cluster is ready. The server listens on \
127.0.0.1 only. It runs until Ctrl-C and stores nothing. Containers whose image name contains `broken` \
never become ready, those with `crash` restart repeatedly, and pods with `refused` in an image name are \
rejected by their node.")]
pub(crate) struct Args {
    /// Where to write the kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig: PathBuf,
    /// The port to listen on; 0 is any free port
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Delay the watch events of a resource, such as pods=2s
    #[arg(long, value_name = "RESOURCE=DURATION", value_parser = watch_delay)]
    watch_delay: Vec<(String, Duration)>,
    /// The time from scheduling a pod until it is ready
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    ready_delay: Duration,
    /// The time from deleting a pod until it is removed
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration)]
    termination_delay: Duration,
    /// The number of nodes, half of them in the pool `inference` and half in `hybrid`
    #[arg(long, value_name = "N", default_value_t = 6,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    nodes: u16,
    /// How many pods fit on a node
    #[arg(long, value_name = "N", default_value_t = NodeSpec::PODS,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pods_per_node: u32,
    /// Do not run the controller
    #[arg(long)]
    no_controller: bool,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    // A subscriber that is already set stays.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _ = log.with_ansi(has_colors_on_stderr()).try_init();
    may_overwrite(&args.kubeconfig).await?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let config = Config {
        nodes: nodes(args.nodes, args.pods_per_node),
        serve_new_nodes: true,
        ready_delay: args.ready_delay,
        termination_delay: args.termination_delay,
        ..Config::default()
    };
    let nodes = config.nodes.len();
    let mut cluster = Embedded::start(config).await?;
    for (plural, delay) in &args.watch_delay {
        cluster.sandbox.delay_watch(plural, *delay);
    }
    for plural in ["deployments", "replicasets"] {
        cluster.sandbox.refuse_creates(plural, NO_BUILTIN_CONTROLLERS);
    }
    if !args.no_controller {
        cluster.start_controller(Clock::system(), Names::random(), Duration::ZERO)?;
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let endpoint = cluster.sandbox.listen(address).await?;
    write_secret(&args.kubeconfig, &endpoint.kubeconfig)?;
    // The other terminal can have another directory.
    let path = std::path::absolute(&args.kubeconfig).unwrap_or(args.kubeconfig);
    let controller = if args.no_controller { "no controller" } else { "the controller" };
    print(format_args!(
        "A cluster in memory listens on {}: {nodes} nodes, the CRDs and {controller}. Run in another \
         terminal:\n\n  export KUBECONFIG={}\n  kubectl apply -f docs/examples/web.yaml\n  kubectl get \
         od,ors,pods\n\nPress Ctrl-C to stop it. Nothing is stored.\n",
        endpoint.url,
        path.display()
    ))?;
    tokio::select! {
        error = cluster.failed() => return Err(error),
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    cluster.stop().await
}

fn nodes(number: u16, pods_capacity: u32) -> Vec<NodeSpec> {
    let node = |index: u16| {
        let pool = if index <= number.div_ceil(2) { "inference" } else { "hybrid" };
        NodeSpec { pods_capacity, ..NodeSpec::in_pool(&format!("n{index}"), pool) }
    };
    (1..=number).map(node).collect()
}

/// An error if the file is another kubeconfig, or that of a running sandbox.
async fn may_overwrite(path: &Path) -> Result<()> {
    match std::fs::read_to_string(path) {
        Ok(text) if text.is_empty() => Ok(()),
        Ok(text) if text.starts_with(OURS) => {
            if is_served(path).await {
                bail!(
                    "{} is the kubeconfig of a sandbox that is running\nhint: stop that one, or choose \
                     another file",
                    path.display()
                )
            }
            Ok(())
        }
        Ok(_) => bail!(
            "{} exists and is not the kubeconfig of a sandbox\nhint: choose a new file; this command \
             overwrites only kubeconfigs of sandboxes",
            path.display()
        ),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot use {}", path.display())),
    }
}

/// Whether the server of that kubeconfig answers, with the certificate of the kubeconfig.
async fn is_served(path: &Path) -> bool {
    let limit = Some(Timeout(Some(PROBE_TIMEOUT)));
    let args =
        ConnectArgs { kubeconfig: Some(path.to_owned()), request_timeout: limit, ..ConnectArgs::default() };
    match args.connect().await {
        Ok(connection) => connection.client.apiserver_version().await.is_ok(),
        Err(_) => false,
    }
}

/// Writes the file atomically, with access for this user only, because it contains a token.
fn write_secret(path: &Path, text: &str) -> Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let write = || -> std::io::Result<()> {
        let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
        temporary.write_all(text.as_bytes())?;
        temporary.persist(path)?;
        Ok(())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

fn watch_delay(text: &str) -> Result<(String, Duration)> {
    let (plural, time) = text.split_once('=').context("give a resource and a duration, such as pods=2s")?;
    if plural.is_empty() || !plural.chars().all(|c| c.is_ascii_lowercase()) {
        bail!("name the resource in the plural, such as pods");
    }
    Ok((plural.to_owned(), duration(time)?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::time::Duration;

    use ordereddeployment_sandbox::{Config, Sandbox};

    use super::{OURS, may_overwrite, watch_delay, write_secret};

    #[tokio::test]
    async fn another_kubeconfig_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        assert!(may_overwrite(&path).await.is_ok());
        std::fs::write(&path, format!("{OURS}  cluster: {{}}\n")).unwrap();
        assert!(may_overwrite(&path).await.is_ok());
        std::fs::write(&path, "apiVersion: v1\nkind: Config\nclusters:\n- name: production\n").unwrap();
        assert!(may_overwrite(&path).await.is_err());
    }

    #[tokio::test]
    async fn the_kubeconfig_of_a_running_sandbox_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let sandbox = Sandbox::start(Config::default()).await.unwrap();
        let endpoint = sandbox.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
        write_secret(&path, &endpoint.kubeconfig).unwrap();
        let refused = may_overwrite(&path).await.unwrap_err().to_string();
        assert!(refused.contains("a sandbox that is running\nhint: stop that one"), "{refused}");
        drop((sandbox, endpoint));
        may_overwrite(&path).await.unwrap();
    }

    #[test]
    fn the_kubeconfig_is_readable_by_its_owner_only_even_if_the_old_file_was_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        write_secret(&path, OURS).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), OURS);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_watch_delay_names_a_resource_and_a_duration() {
        assert_eq!(watch_delay("pods=2s").unwrap(), ("pods".to_owned(), Duration::from_secs(2)));
        for wrong in ["pods", "=2s", "pods=", "Pods=2s", "pods=2", "pods=-1s"] {
            assert!(watch_delay(wrong).is_err(), "{wrong}");
        }
    }
}
