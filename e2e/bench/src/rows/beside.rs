//! The CPU time of a controller for a scale-up and a scale-down beside pods that are not its own.

use anyhow::{Context, Result};

use super::Run;
use crate::observer::Observer;
use crate::results::{Metric, Outcome, Values};
use crate::workload::{Bounds, NAME};

impl Run<'_> {
    pub(super) async fn beside(&self, pods: usize) -> Result<Outcome> {
        let running = self.cluster.run(self.contender).await?;
        let process = running.process.context("no process is measured")?;
        let observer = Observer::start(&self.test_cluster.client, &self.test_cluster.namespace);
        let before = process.cpu_seconds()?;
        self.contender.create(&self.test_cluster, NAME, pods, Bounds::STRICT).await?;
        observer.until_created(pods).await?;
        self.contender.scale(&self.test_cluster, NAME, pods / 2).await?;
        observer.until("half of the pods are gone", |state| state.len() == pods / 2).await?;
        self.contender.until_reported(&self.test_cluster, NAME, pods / 2).await?;
        let used = process.cpu_seconds()? - before;
        running.kill().await?;
        Ok(Outcome::Kept(Values::from([(Metric::CpuSeconds, used)])))
    }
}
