//! What a controller needs while nothing changes, and how long it does nothing after a start.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use scenarios::Request;
use scenarios::real::Mark;
use serde_json::json;

use super::{PARALLEL, Run};
use crate::observer::Observer;
use crate::results::{Outcome, count};
use crate::workload::{Bounds, NAME};

/// How long everything is idle after the last object was created.
const IDLE: Duration = Duration::from_secs(60);

/// How many pods there are at a start.
const PODS: usize = 20;
/// How long a first write may take.
const FIRST_WRITE: Duration = Duration::from_secs(300);

impl Run<'_> {
    pub(super) async fn rest(&self, objects: usize, pods: usize, minutes: u64) -> Result<Outcome> {
        let names: Vec<String> = (0..objects).map(|number| format!("web-{number}")).collect();
        let running = self.cluster.run(self.contender).await?;
        let process = running.process()?;
        let observer = Observer::start(&self.test_cluster);
        stream::iter(&names)
            .map(|name| self.contender.create(&self.test_cluster, name, pods, Bounds::STRICT))
            .buffer_unordered(PARALLEL)
            .try_collect::<()>()
            .await?;
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
        Ok(Outcome::Kept(vec![
            ("CPU, % of a core", 100.0 * cpu / took),
            ("requests a minute", 60.0 * sent / took),
            ("RSS at rest, MiB", resident),
        ]))
    }

    /// Nothing runs, an object is scaled, and the controller starts.
    pub(super) async fn restart(&self) -> Result<Outcome> {
        let running = self.cluster.run(self.contender).await?;
        let observer = Observer::start(&self.test_cluster);
        self.contender.create(&self.test_cluster, NAME, PODS, Bounds::STRICT).await?;
        observer.until_created(PODS).await?;
        self.contender.until_reported(&self.test_cluster, NAME, PODS).await?;
        running.kill().await?;
        let mark = self.mark()?;
        self.contender.patch(&self.test_cluster, NAME, &json!({"replicas": PODS + 1})).await?;
        let begin = Timestamp::now();
        let started = self.cluster.spawn(self.contender)?;
        let seconds = self.first_write(mark, begin).await?;
        started.kill().await?;
        Ok(Outcome::Kept(vec![("time, s", seconds)]))
    }

    /// Seconds from `begin` until the API server received the first write of the contender in its namespace.
    async fn first_write(&self, mark: Mark, begin: Timestamp) -> Result<f64> {
        let limit = Instant::now() + FIRST_WRITE;
        loop {
            let requests = self.cluster.plane()?.requests_since(mark).await?;
            let writes = requests.iter().filter(|request| self.is_write(request));
            if let Some(first) = writes.filter_map(|request| request.received).min() {
                return Ok(first.duration_since(begin).as_secs_f64());
            }
            ensure!(Instant::now() < limit, "no write within {} s", FIRST_WRITE.as_secs());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn is_write(&self, request: &Request) -> bool {
        self.contender.sent(request)
            && request.namespace.as_deref() == Some(&self.test_cluster.namespace)
            && request.writes()
            && request.code < 300
            && !matches!(request.plural.as_str(), "leases" | "events" | "endpoints")
    }
}
