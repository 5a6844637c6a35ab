//! `ordered-controller-manager`: the controllers of this project as one process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use ordereddeployment_controller::{Controller, Metrics, Options, client_config, serve};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::EnvFilter;

/// Rolls OrderedDeployments out in the order their users chose.
#[derive(Debug, Parser)]
#[command(name = "ordered-controller-manager", version)]
struct Arguments {
    /// The controllers to run.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "ordereddeployment")]
    controllers: Vec<Which>,
    /// The kubeconfig to use. Without it: $KUBECONFIG, ~/.kube/config, or the pod's own service account.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Look at this namespace only.
    #[arg(long)]
    namespace: Option<String>,
    /// Where to serve /metrics, /healthz and /readyz.
    #[arg(long, default_value = "0.0.0.0:8080")]
    metrics_bind_address: SocketAddr,
    /// How to write logs. What to log is set by $RUST_LOG.
    #[arg(long, value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Which {
    #[value(name = "ordereddeployment")]
    OrderedDeployment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    log(arguments.log_format);
    let client = Client::try_from(client_config(config(arguments.kubeconfig).await?))
        .context("cannot make a client of that configuration")?;

    let metrics = Arc::new(Metrics::new()?);
    let mut options = Options::new(Arc::clone(&metrics));
    options.namespace = arguments.namespace;
    let address = arguments.metrics_bind_address;
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}: choose another --metrics-bind-address"))?;

    let (stop, stopped) = watch::channel(false);
    let ended = move || {
        let mut stopped = stopped.clone();
        async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        }
    };
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        tracing::info!("ending");
        stop.send_replace(true);
    });
    tokio::spawn(serve(listener, metrics, options.readiness.clone(), ended()));
    tracing::info!(version = env!("CARGO_PKG_VERSION"), controllers = ?arguments.controllers, "starting");
    Controller::run(client, options, ended()).await?;
    Ok(())
}

async fn config(kubeconfig: Option<PathBuf>) -> Result<Config> {
    let Some(path) = kubeconfig else {
        return Config::infer().await.context("cannot find a cluster: give --kubeconfig, or run inside one");
    };
    let read = Kubeconfig::read_from(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    config.with_context(|| format!("cannot use {}", path.display()))
}

fn log(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => subscriber.init(),
        LogFormat::Json => subscriber.json().init(),
    }
}
