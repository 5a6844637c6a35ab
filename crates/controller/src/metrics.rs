//! The metrics of decisions and of what they cause. Each instance has its own registry.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use ordereddeployment_kubernetes::{ClientMetrics, Collectors};
use ordereddeployment_sorter::Rule;
use ordereddeployment_wire::NamespacedUid;
use parking_lot::Mutex;
use prometheus::{GaugeVec, Histogram, IntCounter, IntCounterVec, IntGauge, Opts};

/// Why an object waits, and since when, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WaitTimes {
    /// Held at a pause point.
    pub(crate) held: Option<Timestamp>,
    /// The next pod cannot be deleted, since too few others are available.
    pub(crate) blocked: Option<Timestamp>,
    /// A disruption budget refuses its evictions.
    pub(crate) refused: Option<Timestamp>,
}

/// The name of an object that waits, and why.
type Waiting = (String, WaitTimes);

ordereddeployment_kubernetes::metrics! {
    /// The metrics of one controller.
    pub struct Metrics, fn within(registry) {
        collectors: Collectors = registry.clone(),
        /// Those of requests, watches, events, the queue and leader election.
        pub client: Arc<ClientMetrics> = Arc::new(ClientMetrics::new(registry)?),
        pub(crate) reconciles: IntCounterVec = registry.counter_by(
            "ordereddeployment_reconciles_total",
            "Passes over a deployment.",
            &["result"],
        )?,
        pub(crate) reconcile_duration: Histogram = registry.histogram(
            "ordereddeployment_reconcile_duration_seconds",
            "How long the reconciliation of an OrderedDeployment takes.",
        )?,
        pub(crate) pod_deletions: IntCounterVec = registry.counter_by(
            "ordereddeployment_pod_deletions_total",
            "Pods deleted or evicted.",
            &["purpose", "rule"],
        )?,
        pub(crate) pod_creations: IntCounter =
            registry.counter("ordereddeployment_pod_creations_total", "Pods created.")?,
        pub(crate) write_failures: IntCounterVec = registry.counter_by(
            "ordereddeployment_write_failures_total",
            "Writes that failed.",
            &["verb"],
        )?,
        pub(crate) live_reads: IntCounterVec = registry.counter_by(
            "ordereddeployment_live_reads_total",
            "Reads of a deployment and its pods past the cache.",
            &["reason"],
        )?,
        holds: IntGauge = registry.gauge("ordereddeployment_holds", "Deployments paused at a pause point \
             now.")?,
        hold_start: GaugeVec = registry.gauge_by(
            "ordereddeployment_hold_start_time_seconds",
            "Since when a deployment is paused at a pause point.",
            &["namespace", "name"],
        )?,
        blocked_start: GaugeVec = registry.gauge_by(
            "ordereddeployment_blocked_start_time_seconds",
            "Since when the next pod may not go, since too few others are available.",
            &["namespace", "name"],
        )?,
        eviction_refused_start: GaugeVec = registry.gauge_by(
            "ordereddeployment_eviction_refused_start_time_seconds",
            "Since when a disruption budget refuses the evictions of a deployment.",
            &["namespace", "name"],
        )?,
        pub(crate) resumes: IntCounterVec = registry.counter_by(
            "ordereddeployment_resumes_total",
            "Resumes of held rollouts.",
            &["result"],
        )?,
        pub(crate) malformed_annotations: IntCounter = registry.counter(
            "ordereddeployment_malformed_annotations_total",
            "Malformed annotations warned of.",
        )?,
        pub(crate) watch_lag: Histogram = registry.times(Opts::new(
            "ordereddeployment_watch_lag_seconds",
            "How long after the answer to an own write it was noticed that the watch shows it.",
        ))?,
        pub(crate) stands_aside: IntGauge = registry.gauge(
            "ordereddeployment_replicaset_stands_aside",
            "Whether the controller of ReplicaSets waits because kube-controller-manager's is alive, or may \
             be.",
        )?,
        pub(crate) foreign_statuses: IntCounter = registry.counter(
            "ordereddeployment_replicaset_foreign_statuses_total",
            "ReplicaSets reported by another client.",
        )?,
        pub(crate) node_cost_writes: IntCounter = registry.counter(
            "ordereddeployment_node_cost_writes_total",
            "Deletion costs written or taken back.",
        )?,
        pub(crate) node_cost_config_invalid: IntGauge = registry.gauge(
            "ordereddeployment_node_cost_config_invalid",
            "Whether the rules for deletion costs are malformed.",
        )?,
        /// The objects that wait.
        waiting: Arc<Mutex<BTreeMap<NamespacedUid, Waiting>>> = Arc::default(),
    }
}

impl Metrics {
    /// New metrics, all 0.
    pub fn new() -> prometheus::Result<Self> {
        let metrics = Self::within(&Collectors::default())?;
        metrics.begin_at_zero();
        Ok(metrics)
    }

    /// Sets counters to 0 instead of leaving them absent, so that the first event is an increase.
    fn begin_at_zero(&self) {
        self.client.begin_at_zero(&["ordereddeployments", "orderedreplicasets", "pods", "nodes"]);
        let all: [(&IntCounterVec, &[&str]); 3] = [
            (&self.reconciles, &["ok", "failed", "error"]),
            (&self.write_failures, &["create", "update", "delete", "evict", "status"]),
            (&self.resumes, &["accepted", "ignored"]),
        ];
        for (counter, values) in all {
            for value in values {
                let _ = counter.with_label_values(&[value]);
            }
        }
    }

    /// All metrics in Prometheus' text format.
    pub fn render(&self) -> prometheus::Result<String> {
        // The lock is held until all metrics are gathered: another scrape starts without these labels.
        let waiting = self.waiting.lock();
        self.set_waiting(&waiting);
        self.collectors.render()
    }

    pub(crate) fn write_failed(&self, verb: &str) {
        self.write_failures.with_label_values(&[verb]).inc();
    }

    /// A pod was deleted for that purpose, by that rule.
    pub(crate) fn deleted(&self, purpose: &str, rule: Option<Rule>) {
        self.pod_deletions.with_label_values(&[purpose, rule.map_or("last", label)]).inc();
    }

    /// Records why an object waits. Only the leader reports it.
    pub(crate) fn waits(&self, key: &NamespacedUid, name: &str, waits: WaitTimes) {
        let mut waiting = self.waiting.lock();
        if waits == WaitTimes::default() {
            waiting.remove(key);
        } else {
            waiting.insert(key.clone(), (name.to_owned(), waits));
        }
    }

    /// Drops all objects except those that are wanted.
    pub(crate) fn forget(&self, keep: impl Fn(&NamespacedUid) -> bool) {
        self.waiting.lock().retain(|key, _| keep(key));
    }

    fn set_waiting(&self, waiting: &BTreeMap<NamespacedUid, Waiting>) {
        let held = waiting.values().filter(|(.., waits)| waits.held.is_some()).count();
        self.holds.set(i64::try_from(held).unwrap_or(i64::MAX));
        for gauge in [&self.hold_start, &self.blocked_start, &self.eviction_refused_start] {
            gauge.reset();
        }
        for (key, (name, waits)) in waiting {
            let gauges = [
                (&self.hold_start, waits.held),
                (&self.blocked_start, waits.blocked),
                (&self.eviction_refused_start, waits.refused),
            ];
            for (gauge, since) in gauges {
                if let Some(since) = since {
                    gauge.with_label_values(&[&**key.namespace(), name.as_str()]).set(seconds(since));
                }
            }
        }
    }
}

fn seconds(time: Timestamp) -> f64 {
    time.as_duration().as_secs_f64()
}

/// A rule as a label.
fn label(rule: Rule) -> &'static str {
    match rule {
        Rule::DeletePriority => "delete_priority",
        Rule::Unassigned => "unassigned",
        Rule::Phase => "phase",
        Rule::NotReady => "not_ready",
        Rule::DeletionCost => "deletion_cost",
        Rule::Rank => "rank",
        Rule::ReadyTime => "ready_time",
        Rule::Restarts => "restarts",
        Rule::SidecarRestarts => "sidecar_restarts",
        Rule::CreationTime => "creation_time",
        Rule::Uid => "uid",
    }
}

#[cfg(test)]
mod tests {
    use ordereddeployment_sorter::Rule;

    use super::{Metrics, WaitTimes};
    use crate::testing::{at, key};

    #[test]
    fn every_metric_is_rendered_and_is_in_the_table_of_metrics() {
        let page = include_str!("../../../docs/operations.md");
        let metrics = Metrics::new().unwrap();
        metrics.deleted("rollout", Some(Rule::DeletePriority));
        let all = WaitTimes { held: Some(at(1)), blocked: Some(at(2)), refused: Some(at(3)) };
        metrics.waits(&key("1"), "web", all);
        metrics.live_reads.with_label_values(&["first"]).inc();
        metrics.client.synced("pods", at(3));
        let text = metrics.render().unwrap();
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        let names: Vec<&str> = types.collect();
        // Those that are missing tell of answers of the API server, and of data that arrived on a watch.
        assert_eq!(names.len(), 25, "{names:?}");
        for name in names {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
        let by = "ordereddeployment_pod_deletions_total{purpose=\"rollout\",rule=\"delete_priority\"} 1";
        assert!(text.contains(by), "{text}");
    }

    #[test]
    fn a_waiting_object_has_metrics_as_long_as_it_waits() {
        let metrics = Metrics::new().unwrap();
        let held = WaitTimes { held: Some(at(7)), ..WaitTimes::default() };
        metrics.waits(&key("1"), "web", held);
        metrics.waits(&key("2"), "api", held);
        let start = "ordereddeployment_hold_start_time_seconds";
        let line = |name| format!("{start}{{name=\"{name}\",namespace=\"shop\"}} 7\n");
        let text = metrics.render().unwrap();
        assert!(text.contains(&line("web")) && text.contains(&line("api")), "{text}");
        assert!(text.contains("ordereddeployment_holds 2\n"));
        metrics.waits(&key("1"), "web", WaitTimes::default());
        metrics.forget(|other| *other != key("2"));
        let text = metrics.render().unwrap();
        assert!(!text.contains(start) && text.contains("ordereddeployment_holds 0\n"), "{text}");
    }
}
