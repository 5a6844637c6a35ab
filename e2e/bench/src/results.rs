//! The results: what was measured, by which command. A later run replaces its rows and keeps the others.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::contender::Contender;

/// A value that a row measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    PodsPerSecond,
    Seconds,
    RequestsPerPod,
    CpuPercent,
    RequestsPerMinute,
    RestMib,
}

impl Metric {
    /// As the report shows it.
    pub fn title(self) -> &'static str {
        match self {
            Self::PodsPerSecond => "pods/s",
            Self::Seconds => "time, s",
            Self::RequestsPerPod => "requests a pod",
            Self::CpuPercent => "CPU, % of a core",
            Self::RequestsPerMinute => "requests a minute",
            Self::RestMib => "RSS at rest, MiB",
        }
    }
}

/// The values of one run of one contender.
pub type Values = BTreeMap<Metric, f64>;

/// What one run of one contender gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Kept(Values),
    /// It broke a promise: this one.
    Broken(String),
}

/// How a row was measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct How {
    pub command: String,
    pub rounds: usize,
    pub kubernetes: String,
    pub machine: String,
}

/// The results of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub name: String,
    pub question: String,
    pub how: How,
    /// All values, in the order of the rounds.
    pub values: BTreeMap<Metric, BTreeMap<Contender, Vec<f64>>>,
    /// The promises that were broken. Such a run has no values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub broken: BTreeMap<Contender, Vec<String>>,
}

impl Measured {
    /// Adds a run.
    pub fn add(&mut self, contender: Contender, outcome: Outcome) {
        match outcome {
            Outcome::Kept(values) => {
                for (metric, value) in values {
                    // More digits mean nothing.
                    let value = (value * 1000.0).round() / 1000.0;
                    self.values.entry(metric).or_default().entry(contender).or_default().push(value);
                }
            }
            Outcome::Broken(promise) => self.broken.entry(contender).or_default().push(promise),
        }
    }

    /// The median of all rounds.
    pub fn median(&self, metric: Metric, contender: Contender) -> Option<f64> {
        median(self.values.get(&metric)?.get(&contender)?)
    }
}

/// The value in the middle, or between the two in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

/// All rows that were measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    pub rows: Vec<Measured>,
}

impl Results {
    /// The results of earlier runs; none if there is no file.
    pub fn read(file: &Path) -> Result<Self> {
        if !file.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_str(&text)
            .with_context(|| format!("cannot read {}: remove it, and measure all rows again", file.display()))
    }

    /// Adds a row, instead of an earlier result of the same row. `known` are the names of all rows in their
    /// order; results of other rows are dropped, since their question is not asked any more.
    pub fn put(&mut self, measured: Measured, known: &[&str]) {
        self.rows.retain(|row| row.name != measured.name);
        self.rows.push(measured);
        self.rows.retain(|row| known.contains(&row.name.as_str()));
        self.rows.sort_by_key(|row| known.iter().position(|name| *name == row.name));
    }
}

/// With about three digits.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// A number of pods or of requests.
#[allow(clippy::cast_precision_loss, reason = "these counts are small")]
pub fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
pub mod tests {
    use std::collections::BTreeMap;

    use super::{How, Measured, Metric, Outcome, Results, Values};
    use crate::contender::Contender;

    pub fn measured(name: &str, rate: f64) -> Measured {
        let how = How {
            command: "cargo xtask bench".to_owned(),
            rounds: 3,
            kubernetes: "v1.20.2".to_owned(),
            machine: "2 threads".to_owned(),
        };
        let (name, question) = (name.to_owned(), format!("What about {name}?"));
        let mut row = Measured { name, question, how, values: BTreeMap::new(), broken: BTreeMap::new() };
        row.add(Contender::Ours, Outcome::Kept(Values::from([(Metric::PodsPerSecond, rate)])));
        row
    }

    #[test]
    fn a_run_replaces_its_rows_and_keeps_the_others_in_order() {
        let known = ["a", "b", "c"];
        let mut results = Results::default();
        for (name, rate) in [("c", 1.0), ("a", 2.0), ("a", 3.0)] {
            results.put(measured(name, rate), &known);
        }
        let found: Vec<_> = results
            .rows
            .iter()
            .map(|row| (row.name.as_str(), row.median(Metric::PodsPerSecond, Contender::Ours)))
            .collect();
        assert_eq!(found, [("a", Some(3.0)), ("c", Some(1.0))]);
        results.put(measured("b", 4.0), &known[..2]);
        let names: Vec<_> = results.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["a", "b"], "the row c does not exist any more");
    }
}
