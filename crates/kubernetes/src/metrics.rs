//! The metrics of requests, watches, the queue and leader election, with the names of client-go.
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

    /// A histogram of times between milliseconds and a minute.
    pub fn times(&self, opts: Opts) -> Result<Histogram> {
        self.exponential(opts, 0.001, 4.0, 9)
    }

    /// All metrics in Prometheus' text format.
    pub fn render(&self) -> Result<String> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.0.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Declares a struct of metrics, and the function that makes them in a registry.
#[macro_export]
macro_rules! metrics {
    (
        $(#[$about:meta])*
        $visible:vis struct $metrics:ident, $made:vis fn $make:ident($registry:ident) {
            $($(#[$about_field:meta])* $field_visible:vis $field:ident: $type:ty = $new:expr,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug)]
        $visible struct $metrics {
            $($(#[$about_field])* $field_visible $field: $type,)*
        }

        impl $metrics {
            /// New metrics in this registry, all 0.
            $made fn $make($registry: &$crate::Collectors) -> prometheus::Result<Self> {
                Ok(Self { $($field: $new,)* })
            }
        }
    };
}

/// Metrics of client-go have a label with the controller's name.
fn named(name: &str, help: &str) -> Opts {
    Opts::new(name, help).const_label("name", CONTROLLER)
}

// Timestamps are in seconds since 1970. The code `<error>` of a request: there was no answer.
metrics! {
    /// The metrics of a client of the API server and of a controller's queue.
    pub struct ClientMetrics, pub fn new(registry) {
        pub(crate) requests: IntCounterVec = registry.keep(IntCounterVec::new(
            named("rest_client_requests_total", "Requests to the API server."),
            &["method", "code"],
        ))?,
        pub(crate) limiter_wait: Histogram = registry.times(named(
            "rest_client_rate_limiter_duration_seconds",
            "How long requests wait for the client's limits.",
        ))?,
        pub(crate) event_to_request: Histogram = registry.exponential(
            Opts::new(
                "ordereddeployment_event_to_request_seconds",
                "The time from an event of a watch to the first request that it causes.",
            ),
            0.000_125, 2.0, 14,
        )?,
        pub(crate) events_dropped: IntCounter = registry.counter(
            "ordereddeployment_events_dropped_total",
            "Events that were not published, since too many were.",
        )?,
        pub(crate) queue_depth: IntGauge = registry.keep(IntGauge::with_opts(named(
            "workqueue_depth",
            "Deployments that wait to be reconciled.",
        )))?,
        pub(crate) queue_wait: Histogram = registry.times(named(
            "workqueue_queue_duration_seconds",
            "How long deployments wait to be reconciled.",
        ))?,
        watch_failures: IntCounterVec = registry.counter_by(
            "ordereddeployment_watch_failures_total",
            "Watches that failed.",
            &["resource"],
        )?,
        // If nothing changes, the API server sends a bookmark about once a minute.
        watch_contact: GaugeVec = registry.gauge_by(
            "ordereddeployment_watch_last_contact_timestamp_seconds",
            "When the API server was last heard of on a watch.",
            &["resource"],
        )?,
        watch_sync: GaugeVec = registry.gauge_by(
            "ordereddeployment_watch_last_sync_timestamp_seconds",
            "When a watch last showed a whole list.",
            &["resource"],
        )?,
        /// Whether this process leads.
        pub is_leader: IntGauge = registry.keep(IntGauge::with_opts(named(
            "leader_election_master_status",
            "Whether this process is the leader, or runs without leader election.",
        )))?,
    }
}

impl ClientMetrics {
    /// Sets the failures of these watches to 0 so that the first one is an increase.
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
