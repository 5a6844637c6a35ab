//! The metrics of decisions and of what they cause. Each instance has its own registry, so that several can live in one process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use ordereddeployment_kubernetes::{ClientMetrics, Collectors};
use ordereddeployment_sorter::Rule;
use ordereddeployment_wire::NamespacedUid;
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

/// The metrics of one controller.
#[derive(Clone, Debug)]
pub struct Metrics {
    collectors: Collectors,
    /// Those of requests, watches, events, the queue and leader election.
    pub client: Arc<ClientMetrics>,
    pub(crate) reconciles: IntCounterVec,
    pub(crate) reconcile_duration: Histogram,
    pub(crate) pod_deletions: IntCounterVec,
    pub(crate) deletion_age_ratio: Histogram,
    pub(crate) pod_creations: IntCounter,
    pub(crate) write_failures: IntCounterVec,
    pub(crate) live_reads: IntCounterVec,
    holds: IntGauge,
    hold_start: GaugeVec,
    blocked_start: GaugeVec,
    eviction_refused_start: GaugeVec,
    pub(crate) resumes: IntCounterVec,
    pub(crate) malformed_annotations: IntCounter,
    pub(crate) watch_lag: Histogram,
    pub(crate) stands_aside: IntGauge,
    pub(crate) foreign_statuses: IntCounter,
    pub(crate) node_cost_writes: IntCounter,
    pub(crate) node_cost_config_invalid: IntGauge,
    /// The objects that wait.
    waiting: Arc<Mutex<BTreeMap<NamespacedUid, Waiting>>>,
}

/// The names of the metrics.
pub mod metric {
    /// Reconciliations, by result: `ok`, `failed` (a write was refused) or `error` (a read was).
    pub const RECONCILES: &str = "ordereddeployment_reconciles_total";
    /// The duration of a reconciliation, in seconds.
    pub const RECONCILE_DURATION: &str = "ordereddeployment_reconcile_duration_seconds";
    /// Pods deleted or evicted, by purpose (`rollout` or `scale`) and by the rule that sorted the pod before the next one
    /// (`last`: there was no next one).
    pub const POD_DELETIONS: &str = "ordereddeployment_pod_deletions_total";
    /// The age of a deleted pod divided by the mean age of the remaining pods.
    pub const DELETION_AGE_RATIO: &str = "ordereddeployment_pod_deletion_age_ratio";
    /// Pods created.
    pub const POD_CREATIONS: &str = "ordereddeployment_pod_creations_total";
    /// Writes that failed, by verb: `create`, `update`, `delete`, `evict` or `status`.
    pub const WRITE_FAILURES: &str = "ordereddeployment_write_failures_total";
    /// Live reads of a deployment and its pods, by reason.
    pub const LIVE_READS: &str = "ordereddeployment_live_reads_total";
    /// Deployments paused at a pause point now; only the leader reports them.
    pub const HOLDS: &str = "ordereddeployment_holds";
    /// Since when a deployment is held, in seconds since 1970.
    pub const HOLD_START: &str = "ordereddeployment_hold_start_time_seconds";
    /// Since when the next pod cannot be deleted, since too few others are available, in seconds since 1970.
    pub const BLOCKED_START: &str = "ordereddeployment_blocked_start_time_seconds";
    /// Since when a disruption budget refuses the evictions of a deployment, in seconds since 1970.
    pub const EVICTION_REFUSED_START: &str = "ordereddeployment_eviction_refused_start_time_seconds";
    /// Resume requests, by result: `accepted` (a hold ended) or `ignored` (it named no current hold).
    pub const RESUMES: &str = "ordereddeployment_resumes_total";
    /// Warnings of malformed annotations.
    pub const MALFORMED_ANNOTATIONS: &str = "ordereddeployment_malformed_annotations_total";
    /// The time from the answer to an own write until the controller saw it in the watch, in seconds.
    pub const WATCH_LAG: &str = "ordereddeployment_watch_lag_seconds";
    /// 1 while the controller of `ReplicaSets` does nothing, because kube-controller-manager's is alive or may be.
    pub const STANDS_ASIDE: &str = "ordereddeployment_replicaset_stands_aside";
    /// Statuses of `ReplicaSets` that another client has written.
    pub const FOREIGN_STATUSES: &str = "ordereddeployment_replicaset_foreign_statuses_total";
    /// Deletion costs written or removed on pods of plain Deployments.
    pub const NODE_COST_WRITES: &str = "ordereddeployment_node_cost_writes_total";
    /// 1 while the rules for deletion costs are malformed and the previous ones are in force.
    pub const NODE_COST_CONFIG_INVALID: &str = "ordereddeployment_node_cost_config_invalid";
}

impl Metrics {
    /// New metrics, all 0.
    pub fn new() -> prometheus::Result<Self> {
        let new = Collectors::default();
        let object = ["namespace", "name"];
        let lag = Opts::new(
            metric::WATCH_LAG,
            "How long after the answer to an own write it was noticed that the watch shows it.",
        );
        let ages = Opts::new(
            metric::DELETION_AGE_RATIO,
            "The age of a deleted pod by the mean age of those that remain.",
        );
        let metrics = Self {
            client: Arc::new(ClientMetrics::new(&new)?),
            reconciles: new.counter_by(metric::RECONCILES, "Passes over a deployment.", &["result"])?,
            reconcile_duration: new.histogram(
                metric::RECONCILE_DURATION,
                "How long the reconciliation of an OrderedDeployment takes.",
            )?,
            pod_deletions: new.counter_by(
                metric::POD_DELETIONS,
                "Pods deleted or evicted.",
                &["purpose", "rule"],
            )?,
            deletion_age_ratio: new.exponential(ages, 0.125, 2.0, 7)?,
            pod_creations: new.counter(metric::POD_CREATIONS, "Pods created.")?,
            write_failures: new.counter_by(metric::WRITE_FAILURES, "Writes that failed.", &["verb"])?,
            live_reads: new.counter_by(
                metric::LIVE_READS,
                "Reads of a deployment and its pods past the cache.",
                &["reason"],
            )?,
            holds: new.gauge(metric::HOLDS, "Deployments paused at a pause point now.")?,
            hold_start: new.gauge_by(
                metric::HOLD_START,
                "Since when a deployment is paused at a pause point.",
                &object,
            )?,
            blocked_start: new.gauge_by(
                metric::BLOCKED_START,
                "Since when the next pod may not go, since too few others are available.",
                &object,
            )?,
            eviction_refused_start: new.gauge_by(
                metric::EVICTION_REFUSED_START,
                "Since when a disruption budget refuses the evictions of a deployment.",
                &object,
            )?,
            resumes: new.counter_by(metric::RESUMES, "Resumes of held rollouts.", &["result"])?,
            malformed_annotations: new
                .counter(metric::MALFORMED_ANNOTATIONS, "Malformed annotations warned of.")?,
            watch_lag: new.exponential(lag, 0.001, 4.0, 9)?,
            stands_aside: new.gauge(
                metric::STANDS_ASIDE,
                "Whether the controller of ReplicaSets waits because kube-controller-manager's is alive, or may be.",
            )?,
            foreign_statuses: new
                .counter(metric::FOREIGN_STATUSES, "ReplicaSets reported by another client.")?,
            node_cost_writes: new
                .counter(metric::NODE_COST_WRITES, "Deletion costs written or taken back.")?,
            node_cost_config_invalid: new.gauge(
                metric::NODE_COST_CONFIG_INVALID,
                "Whether the rules for deletion costs are malformed.",
            )?,
            collectors: new,
            waiting: Arc::default(),
        };
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
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waits == WaitTimes::default() {
            waiting.remove(key);
        } else {
            waiting.insert(key.clone(), (name.to_owned(), waits));
        }
    }

    /// Drops all objects except those that are wanted.
    pub(crate) fn forget(&self, keep: impl Fn(&NamespacedUid) -> bool) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).retain(|key, _| keep(key));
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
    use jiff::Timestamp;
    use ordereddeployment_sorter::Rule;

    use super::{Metrics, WaitTimes, metric};
    use crate::testing::key;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn every_metric_is_rendered_under_its_name() {
        let metrics = Metrics::new().unwrap();
        metrics.deleted("rollout", Some(Rule::DeletePriority));
        metrics.resumes.with_label_values(&["accepted"]).inc();
        let all = WaitTimes { held: Some(at(1)), blocked: Some(at(2)), refused: Some(at(3)) };
        metrics.waits(&key("1"), "web", all);
        metrics.reconciles.with_label_values(&["ok"]).inc();
        metrics.live_reads.with_label_values(&["first"]).inc();
        metrics.write_failed("create");
        let text = metrics.render().unwrap();
        for name in [
            metric::DELETION_AGE_RATIO,
            metric::HOLD_START,
            metric::BLOCKED_START,
            metric::EVICTION_REFUSED_START,
            metric::WATCH_LAG,
            metric::RECONCILES,
            metric::RECONCILE_DURATION,
            metric::POD_DELETIONS,
            metric::POD_CREATIONS,
            metric::WRITE_FAILURES,
            metric::LIVE_READS,
            metric::HOLDS,
            metric::RESUMES,
            metric::MALFORMED_ANNOTATIONS,
            metric::NODE_COST_WRITES,
            metric::NODE_COST_CONFIG_INVALID,
        ] {
            assert!(text.contains(&format!("# TYPE {name}")), "{name}");
        }
        let by = "{purpose=\"rollout\",rule=\"delete_priority\"}";
        assert!(text.contains(&format!("{}{by} 1", metric::POD_DELETIONS)), "{text}");
    }

    #[test]
    fn a_waiting_object_has_metrics_as_long_as_it_waits() {
        let metrics = Metrics::new().unwrap();
        let held = WaitTimes { held: Some(at(7)), ..WaitTimes::default() };
        metrics.waits(&key("1"), "web", held);
        metrics.waits(&key("2"), "api", held);
        let line = |name| format!("{}{{name=\"{name}\",namespace=\"shop\"}} 7\n", metric::HOLD_START);
        let text = metrics.render().unwrap();
        assert!(text.contains(&line("web")) && text.contains(&line("api")), "{text}");
        assert!(text.contains(&format!("{} 2\n", metric::HOLDS)));
        metrics.waits(&key("1"), "web", WaitTimes::default());
        metrics.forget(|other| *other != key("2"));
        let text = metrics.render().unwrap();
        assert!(
            !text.contains(metric::HOLD_START) && text.contains(&format!("{} 0\n", metric::HOLDS)),
            "{text}"
        );
    }

    #[test]
    fn two_controllers_in_one_process_have_separate_metrics() {
        let (first, second) = (Metrics::new().unwrap(), Metrics::new().unwrap());
        first.pod_creations.inc();
        assert_eq!((first.pod_creations.get(), second.pod_creations.get()), (1, 0));
    }
}
