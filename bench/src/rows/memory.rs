//! The memory of a controller: at rest, after churn, and during a relist.

use std::time::Duration;

use anyhow::{Context, Result};
use e2e::real::Victim;

use super::Run;
use crate::contender::Bounds;
use crate::observer::Observer;
use crate::results::{Metric, Outcome, Values};

/// The pods of each object.
const PODS: usize = 100;
/// How long a process settles before its memory is read: it frees memory with a delay.
const SETTLES: Duration = Duration::from_secs(15);

impl Run<'_> {
    pub(super) async fn memory(&self, objects: usize) -> Result<Outcome> {
        let names: Vec<String> = (0..objects).map(|number| format!("web-{number}")).collect();
        let first = names.first().context("there is no object")?;
        let running = self.cluster.run(self.contender).await?;
        let process = running.process.context("no process is measured")?;
        let observer = Observer::start(&self.world.client, &self.world.namespace);
        let bounds = Bounds::quarter(PODS);
        self.contender.create_all(&self.world, &names, PODS, bounds).await?;
        observer.until_created(objects * PODS).await?;
        self.contender.until_reported(&self.world, first, PODS).await?;
        tokio::time::sleep(SETTLES).await;
        let rest = process.resident_mib()?;

        self.contender.roll_out(&self.world, first).await?;
        let replaced =
            |state: &crate::observer::State| state.ready_of(2) == PODS && state.len() == objects * PODS;
        observer.until("all pods of an object are replaced", replaced).await?;
        self.contender.until_reported(&self.world, first, PODS).await?;
        tokio::time::sleep(SETTLES).await;
        let churn = process.resident_mib()?;
        // Its watch would break.
        drop(observer);

        // A new API server knows no old versions, so every client lists all objects again.
        process.reset_peak()?;
        let plane = self.cluster.plane()?;
        plane.kill(Victim::ApiServer)?;
        plane.start_again(Victim::ApiServer).await?;
        // Only the watch of pods shows how many are left.
        self.contender.scale(&self.world, first, PODS - 1).await?;
        self.contender.until_reported(&self.world, first, PODS - 1).await?;
        tokio::time::sleep(SETTLES).await;
        let relist = process.peak_mib()?;
        running.kill().await?;
        Ok(Outcome::Kept(Values::from([
            (Metric::RestMib, rest),
            (Metric::ChurnMib, churn),
            (Metric::RelistMib, relist),
        ])))
    }
}
