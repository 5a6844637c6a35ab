//! The metrics of the controller. Each instance has its own registry, so that several can live in one process.
//!
//! Metrics that client-go or controller-runtime define have the same names here.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use ordereddeployment_api::names::CONTROLLER;
use ordereddeployment_sorter::Rule;
use ordereddeployment_wire::NamespacedUid;
use prometheus::core::Collector;
use prometheus::{
    Encoder, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
    TextEncoder, exponential_buckets,
};

use crate::Error;

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
    registry: Registry,
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
    pub(crate) events_dropped: IntCounter,
    watch_failures: IntCounterVec,
    watch_contact: GaugeVec,
    watch_sync: GaugeVec,
    pub(crate) watch_lag: Histogram,
    pub(crate) event_to_request: Histogram,
    pub(crate) is_leader: IntGauge,
    pub(crate) stands_aside: IntGauge,
    pub(crate) foreign_statuses: IntCounter,
    pub(crate) queue_depth: IntGauge,
    pub(crate) queue_wait: Histogram,
    pub(crate) requests: IntCounterVec,
    pub(crate) limiter_wait: Histogram,
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
    /// Events that were dropped, since there were too many.
    pub const EVENTS_DROPPED: &str = "ordereddeployment_events_dropped_total";
    /// Failures of watches, by resource; each is retried.
    pub const WATCH_FAILURES: &str = "ordereddeployment_watch_failures_total";
    /// When data last arrived on a watch, by resource, in seconds since 1970. If nothing changes, the API server sends a
    /// bookmark about once a minute.
    pub const WATCH_CONTACT: &str = "ordereddeployment_watch_last_contact_timestamp_seconds";
    /// When a watch last completed a list, by resource, in seconds since 1970.
    pub const WATCH_SYNC: &str = "ordereddeployment_watch_last_sync_timestamp_seconds";
    /// The time from the answer to an own write until the controller saw it in the watch, in seconds.
    pub const WATCH_LAG: &str = "ordereddeployment_watch_lag_seconds";
    /// The time from an event of a watch to the first request of the reconciliation that it causes, in seconds.
    pub const EVENT_TO_REQUEST: &str = "ordereddeployment_event_to_request_seconds";
    /// 1 while this process is the leader, or runs without leader election; 0 on a standby.
    pub const LEADS: &str = "leader_election_master_status";
    /// 1 while the controller of `ReplicaSets` does nothing, because kube-controller-manager's is alive or may be.
    pub const STANDS_ASIDE: &str = "ordereddeployment_replicaset_stands_aside";
    /// Statuses of `ReplicaSets` that another client has written.
    pub const FOREIGN_STATUSES: &str = "ordereddeployment_replicaset_foreign_statuses_total";
    /// Deployments that wait to be reconciled.
    pub const QUEUE_DEPTH: &str = "workqueue_depth";
    /// How long they wait, in seconds.
    pub const QUEUE_WAIT: &str = "workqueue_queue_duration_seconds";
    /// Requests to the API server, by method and code (`<error>`: there was no answer).
    pub const REQUESTS: &str = "rest_client_requests_total";
    /// How long requests wait for the limits (`--kube-api-qps` and others), in seconds.
    pub const LIMITER_WAIT: &str = "rest_client_rate_limiter_duration_seconds";
    /// Deletion costs written or removed on pods of plain Deployments.
    pub const NODE_COST_WRITES: &str = "ordereddeployment_node_cost_writes_total";
    /// 1 while the rules for deletion costs are malformed and the previous ones are in force.
    pub const NODE_COST_CONFIG_INVALID: &str = "ordereddeployment_node_cost_config_invalid";
}

/// Registers a collector.
fn kept<C: Collector + Clone + 'static>(
    registry: &Registry,
    collector: prometheus::Result<C>,
) -> Result<C, Error> {
    let collector = collector?;
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}

fn ages(registry: &Registry) -> Result<Histogram, Error> {
    let help = "The age of a deleted pod by the mean age of those that remain.";
    let opts = HistogramOpts::new(metric::DELETION_AGE_RATIO, help);
    kept(registry, Histogram::with_opts(opts.buckets(exponential_buckets(0.125, 2.0, 7)?)))
}

fn event_to_request(registry: &Registry) -> Result<Histogram, Error> {
    let help = "The time from an event of a watch to the first request that it causes.";
    let opts = HistogramOpts::new(metric::EVENT_TO_REQUEST, help);
    kept(registry, Histogram::with_opts(opts.buckets(exponential_buckets(0.000_125, 2.0, 14)?)))
}

impl Metrics {
    /// New metrics, all 0.
    pub fn new() -> Result<Self, Error> {
        let registry = &Registry::new();
        let count = |name, help| kept(registry, IntCounter::new(name, help));
        let count_by =
            |name, help, labels: &[&str]| kept(registry, IntCounterVec::new(Opts::new(name, help), labels));
        let gauge = |name, help| kept(registry, IntGauge::new(name, help));
        let gauge_by =
            |name, help, labels: &[&str]| kept(registry, GaugeVec::new(Opts::new(name, help), labels));
        let times = |name, help| kept(registry, Histogram::with_opts(HistogramOpts::new(name, help)));
        let fine = |common_opts: Opts| {
            let buckets = exponential_buckets(0.001, 4.0, 9)?;
            kept(registry, Histogram::with_opts(HistogramOpts { common_opts, buckets }))
        };
        let object = ["namespace", "name"];
        // Metrics of client-go have a label with the controller's name.
        let of_this = |name: &str, help: &str| Opts::new(name, help).const_label("name", CONTROLLER);
        let own_gauge = |name, help| kept(registry, IntGauge::with_opts(of_this(name, help)));
        let metrics = Self {
            reconciles: count_by(metric::RECONCILES, "Passes over a deployment.", &["result"])?,
            reconcile_duration: times(
                metric::RECONCILE_DURATION,
                "How long the reconciliation of an OrderedDeployment takes.",
            )?,
            pod_deletions: count_by(metric::POD_DELETIONS, "Pods deleted or evicted.", &["purpose", "rule"])?,
            deletion_age_ratio: ages(registry)?,
            pod_creations: count(metric::POD_CREATIONS, "Pods created.")?,
            write_failures: count_by(metric::WRITE_FAILURES, "Writes that failed.", &["verb"])?,
            live_reads: count_by(
                metric::LIVE_READS,
                "Reads of a deployment and its pods past the cache.",
                &["reason"],
            )?,
            holds: gauge(metric::HOLDS, "Deployments paused at a pause point now.")?,
            hold_start: gauge_by(
                metric::HOLD_START,
                "Since when a deployment is paused at a pause point.",
                &object,
            )?,
            blocked_start: gauge_by(
                metric::BLOCKED_START,
                "Since when the next pod may not go, since too few others are available.",
                &object,
            )?,
            eviction_refused_start: gauge_by(
                metric::EVICTION_REFUSED_START,
                "Since when a disruption budget refuses the evictions of a deployment.",
                &object,
            )?,
            resumes: count_by(metric::RESUMES, "Resumes of held rollouts.", &["result"])?,
            malformed_annotations: count(metric::MALFORMED_ANNOTATIONS, "Malformed annotations warned of.")?,
            events_dropped: count(
                metric::EVENTS_DROPPED,
                "Events that were not published, since too many were.",
            )?,
            watch_failures: count_by(metric::WATCH_FAILURES, "Watches that failed.", &["resource"])?,
            watch_contact: gauge_by(
                metric::WATCH_CONTACT,
                "When the API server was last heard of on a watch.",
                &["resource"],
            )?,
            watch_sync: gauge_by(
                metric::WATCH_SYNC,
                "When a watch last showed a whole list.",
                &["resource"],
            )?,
            watch_lag: fine(Opts::new(
                metric::WATCH_LAG,
                "How long after the answer to an own write it was noticed that the watch shows it.",
            ))?,
            event_to_request: event_to_request(registry)?,
            is_leader: own_gauge(
                metric::LEADS,
                "Whether this process is the leader, or runs without leader election.",
            )?,
            stands_aside: gauge(
                metric::STANDS_ASIDE,
                "Whether the controller of ReplicaSets waits because kube-controller-manager's is alive, or may be.",
            )?,
            foreign_statuses: count(metric::FOREIGN_STATUSES, "ReplicaSets reported by another client.")?,
            queue_depth: own_gauge(metric::QUEUE_DEPTH, "Deployments that wait to be reconciled.")?,
            queue_wait: fine(of_this(metric::QUEUE_WAIT, "How long deployments wait to be reconciled."))?,
            requests: kept(
                registry,
                IntCounterVec::new(
                    of_this(metric::REQUESTS, "Requests to the API server."),
                    &["method", "code"],
                ),
            )?,
            limiter_wait: fine(of_this(
                metric::LIMITER_WAIT,
                "How long requests wait for the client's limits.",
            ))?,
            node_cost_writes: count(metric::NODE_COST_WRITES, "Deletion costs written or taken back.")?,
            node_cost_config_invalid: gauge(
                metric::NODE_COST_CONFIG_INVALID,
                "Whether the rules for deletion costs are malformed.",
            )?,
            registry: registry.clone(),
            waiting: Arc::default(),
        };
        metrics.begin_at_zero();
        Ok(metrics)
    }

    /// Sets counters to 0 instead of leaving them absent, so that the first event is an increase.
    fn begin_at_zero(&self) {
        let all: [(&IntCounterVec, &[&str]); 4] = [
            (&self.reconciles, &["ok", "failed", "error"]),
            (&self.write_failures, &["create", "update", "delete", "evict", "status"]),
            (&self.resumes, &["accepted", "ignored"]),
            (&self.watch_failures, &["ordereddeployments", "orderedreplicasets", "pods", "nodes"]),
        ];
        for (counter, values) in all {
            for value in values {
                let _ = counter.with_label_values(&[value]);
            }
        }
    }

    /// All metrics in Prometheus' text format.
    pub fn render(&self) -> Result<String, Error> {
        // The lock is held until all metrics are gathered: another scrape starts without these labels.
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.set_waiting(&waiting);
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    pub(crate) fn write_failed(&self, verb: &str) {
        self.write_failures.with_label_values(&[verb]).inc();
    }

    pub(crate) fn watch_failed(&self, resource: &str) {
        self.watch_failures.with_label_values(&[resource]).inc();
    }

    /// Data arrived on the watch of that resource.
    pub(crate) fn heard(&self, resource: &str, now: Timestamp) {
        self.watch_contact.with_label_values(&[resource]).set(seconds(now));
    }

    /// A watch completed a list.
    pub(crate) fn synced(&self, resource: &str, now: Timestamp) {
        self.watch_sync.with_label_values(&[resource]).set(seconds(now));
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
        metrics.watch_failed("pods");
        metrics.heard("pods", at(1));
        metrics.synced("pods", at(1));
        metrics.resumes.with_label_values(&["accepted"]).inc();
        metrics.requests.with_label_values(&["GET", "200"]).inc();
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
            metric::EVENTS_DROPPED,
            metric::WATCH_FAILURES,
            metric::WATCH_CONTACT,
            metric::WATCH_SYNC,
            metric::WATCH_LAG,
            metric::EVENT_TO_REQUEST,
            metric::LEADS,
            metric::QUEUE_DEPTH,
            metric::QUEUE_WAIT,
            metric::REQUESTS,
            metric::LIMITER_WAIT,
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
