//! The results and their page: a table of the medians.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;

use crate::contender::Contender;

/// What one run of one contender gave.
pub enum Outcome {
    /// What was measured, with the titles of the page.
    Kept(Vec<(&'static str, f64)>),
    /// It broke a promise: this one.
    Broken(String),
}

/// The results of a row.
#[derive(Default)]
pub struct Measured {
    pub question: &'static str,
    /// All values by title and contender, in the order of the rounds.
    pub values: BTreeMap<&'static str, BTreeMap<Contender, Vec<f64>>>,
    /// The promises that were broken. Such a run has no values.
    pub broken: Vec<String>,
}

impl Measured {
    /// Adds a run.
    pub fn add(&mut self, contender: Contender, outcome: Outcome) {
        match outcome {
            Outcome::Kept(values) => {
                for (title, value) in values {
                    self.values.entry(title).or_default().entry(contender).or_default().push(value);
                }
            }
            Outcome::Broken(promise) => self.broken.push(format!("{contender} broke a promise: {promise}")),
        }
    }
}

/// The page of these rows. `how` says how they were measured.
pub fn page(rows: &[Measured], how: &str) -> Result<String> {
    let mut text = format!(
        "# Results\n\nThis page is generated. [README.md](README.md) says what the rows are and what they do \
         not say.\n\nEach value is the median of all rounds, with the smallest and the largest in \
         parentheses. The columns `to …` divide the first value by the other one.\n\n{how}\n\n",
    );
    let others = [Contender::BuiltIn, Contender::Null];
    let empty = " |".repeat(Contender::ALL.len() + others.len());
    let headings = Contender::ALL.iter().map(ToString::to_string);
    let headings: Vec<_> = headings.chain(others.iter().map(|other| format!("to {other}"))).collect();
    writeln!(text, "| | {} |", headings.join(" | "))?;
    writeln!(text, "|---|{}", "---|".repeat(headings.len()))?;
    for row in rows {
        writeln!(text, "| **{}** |{empty}", row.question)?;
        for (title, values) in &row.values {
            let median = |contender| values.get(&contender).and_then(|all| median(all));
            write!(text, "| {title} |")?;
            for contender in Contender::ALL {
                let cell = values.get(&contender).map_or_else(|| "–".to_owned(), |all| range(all));
                write!(text, " {cell} |")?;
            }
            for other in others {
                let both = median(Contender::Ours).zip(median(other)).filter(|(_, other)| *other > 0.0);
                let ratio = both.map(|(ours, other)| format!("{} ×", number(ours / other)));
                write!(text, " {} |", ratio.unwrap_or_else(|| "–".to_owned()))?;
            }
            writeln!(text)?;
        }
        for broken in &row.broken {
            writeln!(text, "| no result: {broken} |{empty}")?;
        }
    }
    Ok(text)
}

fn range(values: &[f64]) -> String {
    let median = median(values).map_or_else(|| "–".to_owned(), number);
    let least = number(values.iter().copied().fold(f64::INFINITY, f64::min));
    let most = number(values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    if least == most { median } else { format!("{median} ({least}–{most})") }
}

/// The value in the middle, or between the two in the middle.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

/// With about three digits.
fn number(value: f64) -> String {
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
mod tests {
    use super::{Measured, Outcome, page, range};
    use crate::contender::Contender;

    #[test]
    fn the_table_has_medians_ranges_ratios_and_broken_promises() {
        let mut row = Measured { question: "Strict rollout", ..Measured::default() };
        row.add(Contender::Ours, Outcome::Kept(vec![("pods/s", 50.0)]));
        for rate in [20.0, 30.0, 25.0] {
            row.add(Contender::BuiltIn, Outcome::Kept(vec![("pods/s", rate)]));
        }
        row.add(Contender::Null, Outcome::Broken("99 pods were available".to_owned()));
        let page = page(&[row], "Measured by nobody.").unwrap();
        for line in [
            "\n\nMeasured by nobody.\n\n| | OrderedDeployment |",
            "| **Strict rollout** | | | | | |\n",
            "| pods/s | 50.0 | 25.0 (20.0–30.0) | – | 2.00 × | – |\n",
            "| no result: null driver broke a promise: 99 pods were available | | | | | |\n",
        ] {
            assert!(page.contains(line), "{line}{page}");
        }
        assert_eq!(range(&[5.0]), "5.00");
        assert_eq!(range(&[150.4, 2.0, 30.0]), "30.0 (2.00–150)");
    }
}
