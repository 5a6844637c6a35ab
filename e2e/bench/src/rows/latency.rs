//! The time from a watch event to the request that answers it: seen from a proxy in front of the API server, and as the controller
//! measures it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use ordereddeployment_api::names::{annotation, pause_point};
use scenarios::proxy::{Passage, Passed};
use serde_json::{Value, json};

use super::{Run, annotate};
use crate::metrics::{self, Histogram};
use crate::observer::Observer;
use crate::results::{Metric, Outcome, Values};
use crate::workload::{Bounds, NAME, REVISION};

/// The pods of the rollout: one sample each.
const PODS: usize = 200;
/// The pods with a pause point: one resume each.
const PAUSED: usize = 50;
/// The histogram of the time from an event to the first request of the reconciliation that it causes.
const EVENT_TO_REQUEST: &str = "ordereddeployment_event_to_request_seconds";
/// How long nothing happens before a resume.
const QUIET: Duration = Duration::from_millis(200);

impl Run<'_> {
    pub(super) async fn latency(&self) -> Result<Outcome> {
        let mut manager = self.test_cluster.start_manager_with(&["--kube-api-qps=0"])?;
        let address = metrics::address(&manager.until_logged(metrics::LOGGED).await?)?;
        let histogram = async || Histogram::parse(&metrics::read(address).await?, EVENT_TO_REQUEST);
        manager.until_logged("every watch has synced").await?;
        let rules = self.test_cluster.proxy.rules();
        let observer = Observer::start(&self.test_cluster.client, &self.test_cluster.namespace);
        self.contender.create(&self.test_cluster, NAME, PODS, Bounds::STRICT).await?;
        observer.until_created(PODS).await?;
        self.contender.until_reported(&self.test_cluster, NAME, PODS).await?;
        let before = histogram().await?;
        rules.start_timeline();
        self.contender.roll_out(&self.test_cluster, NAME).await?;
        observer.until_replaced(PODS).await?;
        let ready = ready_to_delete(&rules.stop_timeline())?;
        let inside = histogram().await?.since(&before);
        ensure!(ready.len() == PODS, "{} of {PODS} updated pods were followed by a DELETE", ready.len());
        self.contender.until_reported(&self.test_cluster, NAME, PODS).await?;

        self.contender.scale(&self.test_cluster, NAME, PAUSED).await?;
        observer.until("pods are gone", |state| state.len() == PAUSED).await?;
        self.contender.until_reported(&self.test_cluster, NAME, PAUSED).await?;
        self.pause_at_all(&observer).await?;
        let before = histogram().await?;
        rules.start_timeline();
        self.resume_at_all().await?;
        let resume = resume_to_request(&rules.stop_timeline())?;
        let inside_resumes = histogram().await?.since(&before);
        ensure!(resume.len() == PAUSED, "{} of {PAUSED} resumes were followed by a request", resume.len());
        manager.kill().await?;
        Ok(Outcome::Kept(Values::from([
            (Metric::LatencyP50, percentile(&ready, 50)?),
            (Metric::LatencyP99, percentile(&ready, 99)?),
            (Metric::ResumeP50, percentile(&resume, 50)?),
            (Metric::ResumeP99, percentile(&resume, 99)?),
            (Metric::InsideP50, quantile(&inside, 0.5)?),
            (Metric::InsideP99, quantile(&inside, 0.99)?),
            (Metric::InsideResumesP50, quantile(&inside_resumes, 0.5)?),
            (Metric::InsideResumesP99, quantile(&inside_resumes, 0.99)?),
        ])))
    }

    async fn pause_at_all(&self, observer: &Observer) -> Result<()> {
        let names: Vec<String> = observer.read(|state| state.names().cloned().collect());
        let points = names.into_iter().map(|name| (name, pause_point::BEFORE.to_owned()));
        annotate(&self.test_cluster, annotation::PAUSE_POINT, points).await
    }

    /// Rolls out once more and resumes at every pod.
    async fn resume_at_all(&self) -> Result<()> {
        let patch = json!({"spec": {"template": {"metadata": {"labels": {REVISION: "3"}}}}});
        let deployments = self.test_cluster.deployments();
        deployments.patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await?;
        let mut last = String::new();
        for _ in 0..PAUSED {
            let object = self.test_cluster.until(NAME, "held at the next pod", |object| {
                let hold = object.status.as_ref().and_then(|status| status.hold.as_ref());
                hold.is_some_and(|hold| hold.id != last)
            });
            let status = object.await?.status;
            last = status.and_then(|status| status.hold).context("there is no hold")?.id;
            // The request that answers the resume must not be the last one of the pause.
            tokio::time::sleep(QUIET).await;
            let patch = Patch::Merge(json!({"status": {"resumeRequested": last}}));
            deployments.patch_status(NAME, &PatchParams::default(), &patch).await?;
        }
        self.contender.until_reported(&self.test_cluster, NAME, PAUSED).await
    }
}

/// The times from the event that shows an updated pod ready to the next DELETE.
fn ready_to_delete(passages: &[Passage]) -> Result<Vec<Duration>> {
    let mut known = BTreeSet::new();
    answers(
        passages,
        |passage, event| {
            let is_ready = passage.plural == "pods"
                && event.pointer("/object/metadata/labels/revision").and_then(Value::as_str) == Some("2")
                && event.pointer("/object/status/conditions").and_then(Value::as_array).is_some_and(|all| {
                    all.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
                });
            let name = event.pointer("/object/metadata/name").and_then(Value::as_str).unwrap_or_default();
            is_ready && known.insert(name.to_owned())
        },
        |passage, verb| passage.plural == "pods" && verb == "delete",
    )
}

/// The times from the event that shows a request to resume to the next request of any kind but those of events and leases.
fn resume_to_request(passages: &[Passage]) -> Result<Vec<Duration>> {
    let mut known = BTreeSet::new();
    answers(
        passages,
        |passage, event| {
            let resume = event.pointer("/object/status/resumeRequested").and_then(Value::as_str);
            passage.plural == "ordereddeployments" && resume.is_some_and(|id| known.insert(id.to_owned()))
        },
        |passage, verb| verb != "watch" && !matches!(passage.plural.as_str(), "events" | "leases"),
    )
}

/// The time from each of these events to the first of these requests after it, unless the next of these events comes first.
fn answers(
    passages: &[Passage],
    mut is_event: impl FnMut(&Passage, &Value) -> bool,
    is_answer: impl Fn(&Passage, &str) -> bool,
) -> Result<Vec<Duration>> {
    let (mut waiting, mut times): (Option<Instant>, Vec<Duration>) = (None, Vec::new());
    for passage in passages {
        match &passage.passed {
            Passed::Event(line) => {
                let event: Value = serde_json::from_slice(line).context("a watch speaks no JSON")?;
                if is_event(passage, &event) {
                    waiting = Some(passage.at);
                }
            }
            Passed::Request(verb) => {
                if let Some(begin) = waiting.take_if(|_| is_answer(passage, verb)) {
                    times.push(passage.at.duration_since(begin));
                }
            }
        }
    }
    Ok(times)
}

/// In milliseconds.
fn quantile(histogram: &Histogram, quantile: f64) -> Result<f64> {
    histogram.quantile(quantile).map(|seconds| seconds * 1000.0).context("the controller measured nothing")
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

    use scenarios::proxy::{Passage, Passed};
    use serde_json::json;

    use super::{percentile, ready_to_delete, resume_to_request};

    fn at(begin: Instant, ms: u64, plural: &str, passed: Passed) -> Passage {
        Passage { at: begin + Duration::from_millis(ms), plural: plural.to_owned(), passed }
    }

    fn ready(name: &str, revision: &str, status: &str) -> Passed {
        let object = json!({
            "metadata": {"name": name, "labels": {"revision": revision}},
            "status": {"conditions": [{"type": "Ready", "status": status}]},
        });
        Passed::Event(json!({"type": "MODIFIED", "object": object}).to_string().into())
    }

    #[test]
    fn a_sample_begins_with_the_first_event_that_shows_a_pod_ready() {
        let begin = Instant::now();
        let passages = [
            at(begin, 0, "pods", ready("a", "1", "True")),
            at(begin, 1, "pods", Passed::Request("delete")),
            at(begin, 10, "pods", ready("b", "2", "False")),
            at(begin, 12, "pods", ready("b", "2", "True")),
            at(begin, 13, "pods", ready("b", "2", "True")),
            at(begin, 14, "events", Passed::Request("create")),
            at(begin, 17, "pods", Passed::Request("delete")),
            at(begin, 18, "pods", Passed::Request("delete")),
        ];
        assert_eq!(ready_to_delete(&passages).unwrap(), [Duration::from_millis(5)]);
    }

    #[test]
    fn a_resume_is_answered_by_the_first_request_that_is_no_event() {
        let begin = Instant::now();
        let resume = |id: &str| {
            let object = json!({"status": {"resumeRequested": id}});
            Passed::Event(json!({"type": "MODIFIED", "object": object}).to_string().into())
        };
        let passages = [
            at(begin, 0, "ordereddeployments", resume("a@2")),
            at(begin, 1, "events", Passed::Request("create")),
            at(begin, 3, "ordereddeployments", Passed::Request("get")),
            at(begin, 4, "ordereddeployments", resume("a@2")),
            at(begin, 5, "ordereddeployments", Passed::Request("patch")),
        ];
        assert_eq!(resume_to_request(&passages).unwrap(), [Duration::from_millis(3)]);
    }

    #[test]
    fn a_percentile_is_a_time_that_occurred() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert!((percentile(&times, 50).unwrap() - 100.0).abs() < 1e-9);
        assert!((percentile(&times, 99).unwrap() - 198.0).abs() < 1e-9);
        assert!(percentile(&[], 50).is_err());
    }
}
