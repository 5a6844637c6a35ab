//! How long no controller acts after a start.

use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::Timestamp;
use scenarios::Request;
use scenarios::real::Mark;
use tokio::time::Instant;

use super::Run;
use crate::observer::Observer;
use crate::results::{Metric, Outcome, Values};
use crate::workload::{Bounds, NAME};

const PODS: usize = 20;
/// How long a first write may take.
const LIMIT: Duration = Duration::from_secs(300);

impl Run<'_> {
    /// Nothing runs, an object is scaled, and the controller starts.
    pub(super) async fn restart(&self) -> Result<Outcome> {
        let running = self.cluster.run(self.contender).await?;
        let observer = Observer::start(&self.test_cluster.client, &self.test_cluster.namespace);
        self.contender.create(&self.test_cluster, NAME, PODS, Bounds::STRICT).await?;
        observer.until_created(PODS).await?;
        self.contender.until_reported(&self.test_cluster, NAME, PODS).await?;
        running.kill().await?;
        let mark = self.mark()?;
        self.contender.scale(&self.test_cluster, NAME, PODS + 1).await?;
        let begin = Timestamp::now();
        let started = self.cluster.spawn(self.contender)?;
        let seconds = self.first_write(mark, begin).await?;
        started.kill().await?;
        Ok(Outcome::Kept(Values::from([(Metric::Seconds, seconds)])))
    }

    /// Seconds from `begin` until the API server received the first write of the contender in its namespace.
    async fn first_write(&self, mark: Mark, begin: Timestamp) -> Result<f64> {
        let limit = Instant::now() + LIMIT;
        loop {
            let requests = self.cluster.plane()?.requests_since(mark).await?;
            let writes = requests.iter().filter(|request| self.is_write(request));
            if let Some(first) = writes.filter_map(|request| request.received).min() {
                return Ok(first.duration_since(begin).as_secs_f64());
            }
            ensure!(Instant::now() < limit, "no write within {} s", LIMIT.as_secs());
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
