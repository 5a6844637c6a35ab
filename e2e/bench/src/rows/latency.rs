//! The time from a watch event to the request that answers it, seen from a proxy in front of the API server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use scenarios::proxy::Passage;
use serde_json::Value;

use super::Run;
use crate::observer::Observer;
use crate::results::{Metric, Outcome, Values};
use crate::workload::{Bounds, NAME};

/// The pods of the rollout: one sample each.
const PODS: usize = 200;

impl Run<'_> {
    pub(super) async fn latency(&self) -> Result<Outcome> {
        let mut manager = self.test_cluster.start_manager_with(&["--kube-api-qps=0"])?;
        manager.until_logged("every watch has synced").await?;
        let rules = self.test_cluster.proxy.rules();
        let observer = Observer::start(&self.test_cluster.client, &self.test_cluster.namespace);
        self.contender.create(&self.test_cluster, NAME, PODS, Bounds::STRICT).await?;
        observer.until_created(PODS).await?;
        self.contender.until_reported(&self.test_cluster, NAME, PODS).await?;
        let before = rules.passed().len();
        self.contender.roll_out(&self.test_cluster, NAME).await?;
        observer.until_replaced(PODS).await?;
        let ready = ready_to_delete(&rules.passed()[before..])?;
        ensure!(ready.len() == PODS, "{} of {PODS} updated pods were followed by a DELETE", ready.len());
        manager.kill().await?;
        Ok(Outcome::Kept(Values::from([
            (Metric::LatencyP50, percentile(&ready, 50)?),
            (Metric::LatencyP99, percentile(&ready, 99)?),
        ])))
    }
}

/// The time from each event that first shows an updated pod ready to the first DELETE after it, unless the
/// next of these events comes first.
fn ready_to_delete(passages: &[Passage]) -> Result<Vec<Duration>> {
    let mut known = BTreeSet::new();
    let (mut waiting, mut times): (Option<Instant>, Vec<Duration>) = (None, Vec::new());
    for passage in passages.iter().filter(|passage| passage.plural == "pods") {
        match &passage.event {
            Some(line) => {
                let event: Value = serde_json::from_slice(line).context("a watch speaks no JSON")?;
                let conditions = event.pointer("/object/status/conditions").and_then(Value::as_array);
                let is_ready = conditions
                    .into_iter()
                    .flatten()
                    .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
                let metadata = &event["object"]["metadata"];
                if metadata["labels"]["revision"] == "2"
                    && is_ready
                    && known.insert(metadata["name"].to_string())
                {
                    waiting = Some(passage.at);
                }
            }
            None => {
                if let Some(begin) = waiting.take_if(|_| passage.verb == "delete") {
                    times.push(passage.at.duration_since(begin));
                }
            }
        }
    }
    Ok(times)
}

/// In milliseconds, the nearest rank.
fn percentile(times: &[Duration], percent: usize) -> Result<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let place = (sorted.len() * percent).div_ceil(100);
    ensure!(place > 0, "nothing was answered");
    let found = sorted.get(place - 1).context("a percentile beyond 100")?;
    Ok(found.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use scenarios::proxy::Passage;
    use serde_json::json;

    use super::{percentile, ready_to_delete};

    fn at(begin: Instant, ms: u64, plural: &str, verb: &'static str) -> Passage {
        Passage { at: begin + Duration::from_millis(ms), verb, plural: plural.to_owned(), event: None }
    }

    fn ready(begin: Instant, ms: u64, name: &str, revision: &str, status: &str) -> Passage {
        let object = json!({
            "metadata": {"name": name, "labels": {"revision": revision}},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        });
        let event = json!({"type": "MODIFIED", "object": object}).to_string();
        Passage { event: Some(event.into()), ..at(begin, ms, "pods", "watch") }
    }

    #[test]
    fn a_sample_begins_with_the_first_event_that_shows_a_pod_ready() {
        let begin = Instant::now();
        let passages = [
            ready(begin, 0, "a", "1", "True"),
            at(begin, 1, "pods", "delete"),
            ready(begin, 10, "b", "2", "False"),
            ready(begin, 12, "b", "2", "True"),
            ready(begin, 13, "b", "2", "True"),
            at(begin, 14, "events", "create"),
            at(begin, 17, "pods", "delete"),
            at(begin, 18, "pods", "delete"),
        ];
        assert_eq!(ready_to_delete(&passages).unwrap(), [Duration::from_millis(5)]);
    }

    #[test]
    fn a_percentile_is_a_time_that_occurred() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert!((percentile(&times, 50).unwrap() - 100.0).abs() < 1e-9);
        assert!((percentile(&times, 99).unwrap() - 198.0).abs() < 1e-9);
        assert!(percentile(&[], 50).is_err());
    }
}
