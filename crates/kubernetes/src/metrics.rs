//! The metrics of requests, watches, the queue and leader election, under the names that client-go and controller-runtime give them.
//!
//! Each instance has its own registry, so that several controllers can live in one process.

use jiff::Timestamp;
use ordereddeployment_api::names::CONTROLLER;
use prometheus::core::Collector;
use prometheus::{
    Encoder, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry, Result,
    TextEncoder, exponential_buckets,
};

/// A registry. Each metric that it creates is registered. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Collectors(Registry);

impl Collectors {
    fn keep<C: Collector + Clone + 'static>(&self, collector: Result<C>) -> Result<C> {
        let collector = collector?;
        self.0.register(Box::new(collector.clone()))?;
        Ok(collector)
    }

    /// A counter.
    pub fn counter(&self, name: &str, help: &str) -> Result<IntCounter> {
        self.keep(IntCounter::new(name, help))
    }

    /// A counter with labels.
    pub fn counter_by(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec> {
        self.keep(IntCounterVec::new(Opts::new(name, help), labels))
    }

    /// A gauge.
    pub fn gauge(&self, name: &str, help: &str) -> Result<IntGauge> {
        self.keep(IntGauge::new(name, help))
    }

    /// A gauge with labels.
    pub fn gauge_by(&self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec> {
        self.keep(GaugeVec::new(Opts::new(name, help), labels))
    }

    /// A histogram with Prometheus' own buckets.
    pub fn histogram(&self, name: &str, help: &str) -> Result<Histogram> {
        self.keep(Histogram::with_opts(HistogramOpts::new(name, help)))
    }

    /// A histogram with so many buckets, each `factor` times as large as the one before.
    pub fn exponential(&self, opts: Opts, start: f64, factor: f64, count: usize) -> Result<Histogram> {
        let buckets = exponential_buckets(start, factor, count)?;
        self.keep(Histogram::with_opts(HistogramOpts { common_opts: opts, buckets }))
    }

    /// All metrics in Prometheus' text format.
    pub fn render(&self) -> Result<String> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.0.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// The metrics of a client of the API server and of a controller's queue.
#[derive(Clone, Debug)]
pub struct ClientMetrics {
    pub(crate) requests: IntCounterVec,
    pub(crate) limiter_wait: Histogram,
    pub(crate) event_to_request: Histogram,
    pub(crate) events_dropped: IntCounter,
    pub(crate) queue_depth: IntGauge,
    pub(crate) queue_wait: Histogram,
    watch_failures: IntCounterVec,
    watch_contact: GaugeVec,
    watch_sync: GaugeVec,
    /// Whether this process leads.
    pub is_leader: IntGauge,
}

/// The names of the metrics.
pub mod metric {
    /// Events that were dropped, since there were too many.
    pub const EVENTS_DROPPED: &str = "ordereddeployment_events_dropped_total";
    /// Failures of watches, by resource; each is retried.
    pub const WATCH_FAILURES: &str = "ordereddeployment_watch_failures_total";
    /// When data last arrived on a watch, by resource, in seconds since 1970. If nothing changes, the API server sends a
    /// bookmark about once a minute.
    pub const WATCH_CONTACT: &str = "ordereddeployment_watch_last_contact_timestamp_seconds";
    /// When a watch last completed a list, by resource, in seconds since 1970.
    pub const WATCH_SYNC: &str = "ordereddeployment_watch_last_sync_timestamp_seconds";
    /// The time from an event of a watch to the first request of the reconciliation that it causes, in seconds.
    pub const EVENT_TO_REQUEST: &str = "ordereddeployment_event_to_request_seconds";
    /// 1 while this process is the leader, or runs without leader election; 0 on a standby.
    pub const LEADS: &str = "leader_election_master_status";
    /// Deployments that wait to be reconciled.
    pub const QUEUE_DEPTH: &str = "workqueue_depth";
    /// How long they wait, in seconds.
    pub const QUEUE_WAIT: &str = "workqueue_queue_duration_seconds";
    /// Requests to the API server, by method and code (`<error>`: there was no answer).
    pub const REQUESTS: &str = "rest_client_requests_total";
    /// How long requests wait for the limits (`--kube-api-qps` and others), in seconds.
    pub const LIMITER_WAIT: &str = "rest_client_rate_limiter_duration_seconds";
}

impl ClientMetrics {
    /// New metrics in this registry, all 0.
    pub fn new(collectors: &Collectors) -> Result<Self> {
        // Metrics of client-go have a label with the controller's name.
        let named = |name: &str, help: &str| Opts::new(name, help).const_label("name", CONTROLLER);
        let gauge = |name, help| collectors.keep(IntGauge::with_opts(named(name, help)));
        let times = |name, help| collectors.exponential(named(name, help), 0.001, 4.0, 9);
        let requests = named(metric::REQUESTS, "Requests to the API server.");
        let first = Opts::new(
            metric::EVENT_TO_REQUEST,
            "The time from an event of a watch to the first request that it causes.",
        );
        Ok(Self {
            requests: collectors.keep(IntCounterVec::new(requests, &["method", "code"]))?,
            limiter_wait: times(metric::LIMITER_WAIT, "How long requests wait for the client's limits.")?,
            event_to_request: collectors.exponential(first, 0.000_125, 2.0, 14)?,
            events_dropped: collectors
                .counter(metric::EVENTS_DROPPED, "Events that were not published, since too many were.")?,
            queue_depth: gauge(metric::QUEUE_DEPTH, "Deployments that wait to be reconciled.")?,
            queue_wait: times(metric::QUEUE_WAIT, "How long deployments wait to be reconciled.")?,
            watch_failures: collectors.counter_by(
                metric::WATCH_FAILURES,
                "Watches that failed.",
                &["resource"],
            )?,
            watch_contact: collectors.gauge_by(
                metric::WATCH_CONTACT,
                "When the API server was last heard of on a watch.",
                &["resource"],
            )?,
            watch_sync: collectors.gauge_by(
                metric::WATCH_SYNC,
                "When a watch last showed a whole list.",
                &["resource"],
            )?,
            is_leader: gauge(
                metric::LEADS,
                "Whether this process is the leader, or runs without leader election.",
            )?,
        })
    }

    /// Sets the failures of these watches to 0 instead of leaving them absent, so that the first one is an increase.
    pub fn begin_at_zero(&self, resources: &[&str]) {
        for resource in resources {
            let _ = self.watch_failures.with_label_values(&[resource]);
        }
    }

    /// A watch of that resource failed.
    pub fn watch_failed(&self, resource: &str) {
        self.watch_failures.with_label_values(&[resource]).inc();
    }

    /// Data arrived on the watch of that resource.
    pub(crate) fn heard(&self, resource: &str, now: Timestamp) {
        self.watch_contact.with_label_values(&[resource]).set(now.as_duration().as_secs_f64());
    }

    /// A watch completed a list.
    pub fn synced(&self, resource: &str, now: Timestamp) {
        self.watch_sync.with_label_values(&[resource]).set(now.as_duration().as_secs_f64());
    }
}

#[cfg(test)]
pub(crate) fn metrics() -> std::sync::Arc<ClientMetrics> {
    std::sync::Arc::new(ClientMetrics::new(&Collectors::default()).unwrap())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{ClientMetrics, Collectors, metric};

    #[test]
    fn every_metric_is_rendered_under_its_name() {
        let collectors = Collectors::default();
        let metrics = ClientMetrics::new(&collectors).unwrap();
        metrics.begin_at_zero(&["pods"]);
        metrics.heard("pods", Timestamp::UNIX_EPOCH);
        metrics.synced("pods", Timestamp::UNIX_EPOCH);
        metrics.requests.with_label_values(&["GET", "200"]).inc();
        let text = collectors.render().unwrap();
        for name in [
            metric::EVENTS_DROPPED,
            metric::WATCH_FAILURES,
            metric::WATCH_CONTACT,
            metric::WATCH_SYNC,
            metric::EVENT_TO_REQUEST,
            metric::LEADS,
            metric::QUEUE_DEPTH,
            metric::QUEUE_WAIT,
            metric::REQUESTS,
            metric::LIMITER_WAIT,
        ] {
            assert!(text.contains(&format!("# TYPE {name}")), "{name}");
        }
    }
}
