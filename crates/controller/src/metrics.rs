//! What the controller counts. Each instance has a registry of its own, so that several can live in one process.

use prometheus::{
    Encoder, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

use crate::Error;

/// The metrics of one controller.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Registry,
    pub(crate) reconciles: IntCounterVec,
    pub(crate) reconcile_duration: Histogram,
    pub(crate) pod_deletions: IntCounterVec,
    pub(crate) pod_creations: IntCounter,
    pub(crate) write_failures: IntCounterVec,
    pub(crate) live_reads: IntCounterVec,
    pub(crate) holds: IntGauge,
    pub(crate) resumes: IntCounter,
    pub(crate) malformed_annotations: IntCounter,
    pub(crate) node_cost_writes: IntCounter,
    pub(crate) node_cost_config_invalid: IntGauge,
}

/// The names of the metrics, all with the prefix `ordereddeployment_`.
pub mod metric {
    /// Passes over a deployment, by result: `ok`, `failed` (a write was refused) or `error` (a read was).
    pub const RECONCILES: &str = "ordereddeployment_reconciles_total";
    /// How long a pass takes, in seconds.
    pub const RECONCILE_DURATION: &str = "ordereddeployment_reconcile_duration_seconds";
    /// Pods deleted or evicted, by purpose: `rollout` or `scale`.
    pub const POD_DELETIONS: &str = "ordereddeployment_pod_deletions_total";
    /// Pods created.
    pub const POD_CREATIONS: &str = "ordereddeployment_pod_creations_total";
    /// Writes that failed, by verb: `create`, `update`, `delete`, `evict` or `status`.
    pub const WRITE_FAILURES: &str = "ordereddeployment_write_failures_total";
    /// Reads of a deployment and its pods past the cache, by what made them due.
    pub const LIVE_READS: &str = "ordereddeployment_live_reads_total";
    /// Deployments held at a pause point now.
    pub const HOLDS: &str = "ordereddeployment_holds";
    /// Holds that ended.
    pub const RESUMES: &str = "ordereddeployment_resumes_total";
    /// Malformed annotations warned of.
    pub const MALFORMED_ANNOTATIONS: &str = "ordereddeployment_malformed_annotations_total";
    /// Deletion costs written or taken back on pods of plain Deployments.
    pub const NODE_COST_WRITES: &str = "ordereddeployment_node_cost_writes_total";
    /// 1 while the rules for deletion costs are malformed and those before are in force.
    pub const NODE_COST_CONFIG_INVALID: &str = "ordereddeployment_node_cost_config_invalid";
}

impl Metrics {
    /// New metrics, all 0.
    pub fn new() -> Result<Self, Error> {
        let by = |name, help, label| IntCounterVec::new(Opts::new(name, help), &[label]);
        let metrics = Self {
            registry: Registry::new(),
            reconciles: by(metric::RECONCILES, "Passes over a deployment.", "result")?,
            reconcile_duration: Histogram::with_opts(HistogramOpts::new(
                metric::RECONCILE_DURATION,
                "How long a pass over a deployment takes.",
            ))?,
            pod_deletions: by(metric::POD_DELETIONS, "Pods deleted or evicted.", "purpose")?,
            pod_creations: IntCounter::new(metric::POD_CREATIONS, "Pods created.")?,
            write_failures: by(metric::WRITE_FAILURES, "Writes that failed.", "verb")?,
            live_reads: by(
                metric::LIVE_READS,
                "Reads of a deployment and its pods past the cache.",
                "reason",
            )?,
            holds: IntGauge::new(metric::HOLDS, "Deployments held at a pause point now.")?,
            resumes: IntCounter::new(metric::RESUMES, "Holds that ended.")?,
            malformed_annotations: IntCounter::new(
                metric::MALFORMED_ANNOTATIONS,
                "Malformed annotations warned of.",
            )?,
            node_cost_writes: IntCounter::new(
                metric::NODE_COST_WRITES,
                "Deletion costs written or taken back.",
            )?,
            node_cost_config_invalid: IntGauge::new(
                metric::NODE_COST_CONFIG_INVALID,
                "Whether the rules for deletion costs are malformed.",
            )?,
        };
        let registry = &metrics.registry;
        registry.register(Box::new(metrics.reconciles.clone()))?;
        registry.register(Box::new(metrics.reconcile_duration.clone()))?;
        registry.register(Box::new(metrics.pod_deletions.clone()))?;
        registry.register(Box::new(metrics.pod_creations.clone()))?;
        registry.register(Box::new(metrics.write_failures.clone()))?;
        registry.register(Box::new(metrics.live_reads.clone()))?;
        registry.register(Box::new(metrics.holds.clone()))?;
        registry.register(Box::new(metrics.resumes.clone()))?;
        registry.register(Box::new(metrics.malformed_annotations.clone()))?;
        registry.register(Box::new(metrics.node_cost_writes.clone()))?;
        registry.register(Box::new(metrics.node_cost_config_invalid.clone()))?;
        Ok(metrics)
    }

    /// All of them in Prometheus' text format.
    pub fn render(&self) -> Result<String, Error> {
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    pub(crate) fn write_failed(&self, verb: &str) {
        self.write_failures.with_label_values(&[verb]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::{Metrics, metric};

    #[test]
    fn every_metric_is_rendered_under_its_name() {
        let metrics = Metrics::new().unwrap();
        metrics.pod_deletions.with_label_values(&["rollout"]).inc();
        metrics.reconciles.with_label_values(&["ok"]).inc();
        metrics.live_reads.with_label_values(&["first"]).inc();
        metrics.write_failed("create");
        let text = metrics.render().unwrap();
        for name in [
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
        assert!(text.contains(&format!("{}{{purpose=\"rollout\"}} 1", metric::POD_DELETIONS)));
    }

    #[test]
    fn two_controllers_in_one_process_count_apart() {
        let (first, second) = (Metrics::new().unwrap(), Metrics::new().unwrap());
        first.pod_creations.inc();
        assert_eq!((first.pod_creations.get(), second.pod_creations.get()), (1, 0));
    }
}
