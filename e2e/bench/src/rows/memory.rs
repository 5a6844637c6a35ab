//! The memory of a controller: at rest, after churn, and during a relist.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use kube::{Client, Config};
use scenarios::real::Component;

use super::Run;
use crate::observer::{LIMIT, Observer, State};
use crate::results::{Metric, Outcome, Values};
use crate::workload::Bounds;

/// The pods of each object.
const PODS: usize = 100;
/// How long a process is idle before its memory is read: it frees memory with a delay.
const IDLE: Duration = Duration::from_secs(15);
/// When the controller completed its last list of pods.
const LAST_SYNC: &str = "ordereddeployment_watch_last_sync_timestamp_seconds{resource=\"pods\"}";

impl Run<'_> {
    pub(super) async fn memory(&self, objects: usize) -> Result<Outcome> {
        let names: Vec<String> = (0..objects).map(|number| format!("web-{number}")).collect();
        let first = names.first().context("there is no object")?;
        let running = self.cluster.run(self.contender).await?;
        let process = running.process.context("no process is measured")?;
        let observer = Observer::start(&self.test_cluster.client, &self.test_cluster.namespace);
        let bounds = Bounds::quarter(PODS);
        self.contender.create_all(&self.test_cluster, &names, PODS, bounds).await?;
        observer.until_created(objects * PODS).await?;
        self.contender.until_reported(&self.test_cluster, first, PODS).await?;
        tokio::time::sleep(IDLE).await;
        let rest = process.resident_mib()?;

        self.contender.roll_out(&self.test_cluster, first).await?;
        let replaced = |state: &State| state.ready_of(2) == PODS && state.len() == objects * PODS;
        observer.until("all pods of an object are replaced", replaced).await?;
        self.contender.until_reported(&self.test_cluster, first, PODS).await?;
        tokio::time::sleep(IDLE).await;
        let churn = process.resident_mib()?;
        // Its watch would break.
        drop(observer);

        // A new API server knows no old versions, so every client lists all objects again.
        process.reset_peak()?;
        let (plane, begin) = (self.cluster.plane()?, Timestamp::now());
        plane.kill(Component::ApiServer)?;
        plane.start_again(Component::ApiServer).await?;
        // Only the watch of pods shows the built-in controllers how many are left; ours knows it from its own
        // requests.
        self.contender.scale(&self.test_cluster, first, PODS - 1).await?;
        self.contender.until_reported(&self.test_cluster, first, PODS - 1).await?;
        if let Some(address) = running.metrics {
            until_listed(address, begin).await?;
        }
        tokio::time::sleep(IDLE).await;
        let relist = process.peak_mib()?;
        running.kill().await?;
        Ok(Outcome::Kept(Values::from([
            (Metric::RestMib, rest),
            (Metric::ChurnMib, churn),
            (Metric::RelistMib, relist),
        ])))
    }
}

/// Waits until the ordereddeployment controller has listed all pods since `begin`.
async fn until_listed(address: SocketAddr, begin: Timestamp) -> Result<()> {
    let limit = Instant::now() + LIMIT;
    let mut config = Config::new(format!("http://{address}").parse()?);
    config.default_retry = false;
    let client = Client::try_from(config)?;
    let last_sync = async || -> Result<f64> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let text = client.request_text(request).await.context("no metrics are served")?;
        let value = text.lines().find_map(|line| line.strip_prefix(LAST_SYNC));
        Ok(value.context("the controller has no time of its last list of pods")?.trim().parse()?)
    };
    while last_sync().await? < begin.as_duration().as_secs_f64() {
        ensure!(Instant::now() < limit, "the pods are not listed again within {} s", LIMIT.as_secs());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
