//! The metrics of the controller, as it exposes them.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use kube::{Client, Config};

/// What the controller logs before the address of its metrics.
pub const LOGGED: &str = "metrics and health on http://";

/// The address in that line of the log.
pub fn address(line: &str) -> Result<SocketAddr> {
    let address = line.split_once(LOGGED).context("no address of metrics")?.1.trim();
    address.parse().with_context(|| format!("{address} is no address"))
}

/// Reads all metrics.
pub async fn read(address: SocketAddr) -> Result<String> {
    let mut config = Config::new(format!("http://{address}").parse()?);
    config.default_retry = false;
    let request = http::Request::get("/metrics").body(Vec::new())?;
    Client::try_from(config)?.request_text(request).await.context("no metrics are served")
}

/// The value of a metric, given with its labels.
pub fn value(text: &str, metric: &str) -> Result<f64> {
    let found = text.lines().find_map(|line| line.strip_prefix(metric)?.strip_prefix(' '));
    Ok(found.with_context(|| format!("there is no metric {metric}"))?.parse()?)
}

/// The buckets of a histogram: upper bounds, and how many values were not larger.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram(Vec<(f64, f64)>);

impl Histogram {
    /// A histogram without labels.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let prefix = format!("{name}_bucket{{le=\"");
        let buckets = text.lines().filter_map(|line| line.strip_prefix(&prefix)).map(|rest| {
            let (bound, count) = rest.split_once("\"} ").context("an unexpected format of metrics")?;
            Ok((bound.parse()?, count.parse()?))
        });
        let buckets = buckets.collect::<Result<Vec<_>>>()?;
        anyhow::ensure!(!buckets.is_empty(), "there is no histogram {name}");
        Ok(Self(buckets))
    }

    /// What was counted since that earlier state.
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.0.iter().zip(&earlier.0);
        Self(pairs.map(|((bound, now), (_, before))| (*bound, now - before)).collect())
    }

    /// A quantile, interpolated within its bucket as Prometheus' `histogram_quantile` does; `None` if nothing was counted.
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let all = self.0.last()?.1;
        let rank = quantile * all;
        let place = self.0.iter().position(|(_, count)| *count >= rank).filter(|_| all > 0.0)?;
        let (lower, below) = place.checked_sub(1).map_or((0.0, 0.0), |place| self.0[place]);
        let (upper, count) = self.0[place];
        // The last bucket has no upper bound.
        Some(if upper.is_finite() {
            lower + (upper - lower) * (rank - below) / (count - below)
        } else {
            lower
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Histogram, LOGGED, address, value};

    const TEXT: &str = "# TYPE wait_seconds histogram\n\
        wait_seconds_bucket{le=\"0.001\"} 10\n\
        wait_seconds_bucket{le=\"0.002\"} 30\n\
        wait_seconds_bucket{le=\"+Inf\"} 40\n\
        wait_seconds_sum 1\n\
        wait_seconds_count 40\n";

    fn quantile(histogram: &Histogram, quantile: f64) -> f64 {
        histogram.quantile(quantile).unwrap() * 1000.0
    }

    #[test]
    fn quantiles_lie_within_their_bucket() {
        let histogram = Histogram::parse(TEXT, "wait_seconds").unwrap();
        assert!((quantile(&histogram, 0.5) - 1.5).abs() < 1e-9);
        assert!((quantile(&histogram, 0.125) - 0.5).abs() < 1e-9);
        assert!((quantile(&histogram, 0.99) - 2.0).abs() < 1e-9, "the largest bound that is known");
        assert!(Histogram::parse(TEXT, "wait").is_err());
    }

    #[test]
    fn a_metric_is_found_by_its_name_and_labels() {
        let text = "sync_seconds{resource=\"nodes\"} 1\nsync_seconds{resource=\"pods\"} 2.5\n";
        assert!((value(text, "sync_seconds{resource=\"pods\"}").unwrap() - 2.5).abs() < 1e-9);
        assert!(value(text, "sync_seconds{resource=\"po").is_err());
    }

    #[test]
    fn the_address_is_that_of_the_log() {
        let line = format!("INFO {LOGGED}127.0.0.1:8080");
        assert_eq!(address(&line).unwrap().port(), 8080);
    }

    #[test]
    fn earlier_values_can_be_left_out() {
        let now = Histogram::parse(TEXT, "wait_seconds").unwrap();
        let before = Histogram(vec![(0.001, 10.0), (0.002, 10.0), (f64::INFINITY, 10.0)]);
        let since = now.since(&before);
        assert!((quantile(&since, 0.25) - 1.375).abs() < 1e-9);
        assert_eq!(now.since(&now).quantile(0.5), None);
    }
}
