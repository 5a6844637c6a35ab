//! Objects that do not change: what a controller needs while it has nothing to do.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Run;
use crate::observer::Observer;
use crate::results::{Metric, Outcome, Values, count};
use crate::workload::Bounds;

/// How long everything is idle after the last object was created.
const IDLE: Duration = Duration::from_secs(60);

impl Run<'_> {
    pub(super) async fn rest(&self, objects: usize, pods: usize, minutes: u64) -> Result<Outcome> {
        let names: Vec<String> = (0..objects).map(|number| format!("web-{number}")).collect();
        let running = self.cluster.run(self.contender).await?;
        let process = running.process.context("no process is measured")?;
        let observer = Observer::start(&self.test_cluster.client, &self.test_cluster.namespace);
        self.contender.create_all(&self.test_cluster, &names, pods, Bounds::STRICT).await?;
        observer.until_created(objects * pods).await?;
        tokio::time::sleep(IDLE).await;
        let (mark, begin, cpu) = (self.mark()?, Instant::now(), process.cpu_seconds()?);
        tokio::time::sleep(Duration::from_secs(60 * minutes)).await;
        let (took, cpu) = (begin.elapsed().as_secs_f64(), process.cpu_seconds()? - cpu);
        let resident = process.resident_mib()?;
        let requests = self.cluster.plane()?.requests_since(mark).await?;
        let sent = requests.iter().filter(|request| self.contender.sent(request) && request.verb != "watch");
        let sent = count(sent.count());
        running.kill().await?;
        Ok(Outcome::Kept(Values::from([
            (Metric::CpuPercent, 100.0 * cpu / took),
            (Metric::RequestsPerMinute, 60.0 * sent / took),
            (Metric::RestMib, resident),
        ])))
    }
}
