//! Many objects that are updated at once.

use std::time::Instant;

use anyhow::{Context, Result};

use super::{Run, rate};
use crate::observer::Observer;
use crate::promises;
use crate::results::{Metric, Outcome, Values, count};
use crate::workload::Bounds;

impl Run<'_> {
    pub(super) async fn storm(&self, objects: usize, pods: usize) -> Result<Outcome> {
        let names: Vec<String> = (0..objects).map(|number| format!("web-{number}")).collect();
        let running = self.cluster.run(self.contender).await?;
        let process = running.process.context("no process is measured")?;
        let observer = Observer::start(&self.test_cluster.client, &self.test_cluster.namespace);
        let (all, bounds) = (objects * pods, Bounds::quarter(pods));
        self.contender.create_all(&self.test_cluster, &names, pods, bounds).await?;
        observer.until_created(all).await?;
        for name in &names {
            self.contender.until_reported(&self.test_cluster, name, pods).await?;
        }
        process.reset_peak()?;
        observer.reset();
        let (cpu, begin) = (process.cpu_seconds()?, Instant::now());
        self.contender.roll_out_all(&self.test_cluster, &names).await?;
        let end = observer.until_replaced(all).await?;
        let (cpu, peak) = (process.cpu_seconds()? - cpu, process.peak_mib()?);
        running.kill().await?;
        let broken = observer.read(|state| promises::broken(state, pods, bounds, self.contender, None));
        if let Some(broken) = broken {
            return Ok(Outcome::Broken(broken));
        }
        let above = observer.read(|state| promises::above_ceiling(state, pods, bounds));
        Ok(Outcome::Kept(Values::from([
            (Metric::Seconds, end.duration_since(begin).as_secs_f64()),
            (Metric::PodsPerSecond, rate(all, begin, end)),
            (Metric::AboveCeiling, count(above)),
            (Metric::CpuSeconds, cpu),
            (Metric::PeakMib, peak),
        ])))
    }
}
