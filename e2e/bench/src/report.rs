//! The report: a JSON file with all values, and a table of the medians.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::contender::Contender;
use crate::results::{Results, number};

/// The file that later runs are merged into.
pub const VALUES: &str = "results.json";

/// Writes all files of the report.
pub fn write(folder: &Path, results: &Results) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    write(VALUES, &(serde_json::to_string_pretty(results)? + "\n"))?;
    write("results.md", &page(results)?)
}

fn page(results: &Results) -> Result<String> {
    let mut text = String::from(
        "# Results\n\nThis page is generated. [README.md](README.md) says what the rows are and what they do \
         not say.\n\nEach value is the median of all rounds, with the smallest and the largest in \
         parentheses. The columns `to …` divide the first value by the other one.\n\n",
    );
    let others = [Contender::BuiltIn, Contender::Null];
    let empty = " |".repeat(Contender::ALL.len() + others.len());
    let headings = Contender::ALL.iter().map(ToString::to_string);
    let headings: Vec<_> = headings.chain(others.iter().map(|other| format!("to {other}"))).collect();
    writeln!(text, "| | {} |", headings.join(" | "))?;
    writeln!(text, "|---|{}", "---|".repeat(headings.len()))?;
    for row in &results.rows {
        writeln!(text, "| **{}** |{empty}", row.question)?;
        for (metric, values) in &row.values {
            let cell = |contender| values.get(&contender).map_or_else(|| "–".to_owned(), |all| range(all));
            let median = |contender| row.median(*metric, contender);
            write!(text, "| {} |", metric.title())?;
            for contender in Contender::ALL {
                write!(text, " {} |", cell(contender))?;
            }
            for other in others {
                write!(text, " {} |", to(median, other))?;
            }
            writeln!(text)?;
        }
        for (contender, promises) in &row.broken {
            for promise in promises {
                writeln!(text, "| no result: {contender} broke a promise: {promise} |{empty}")?;
            }
        }
    }
    text.push_str(&commands(results)?);
    Ok(text)
}

/// Which command measured which rows.
fn commands(results: &Results) -> Result<String> {
    let mut by_how: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for row in &results.rows {
        by_how.entry(&row.how).or_default().push(&row.name);
    }
    let mut text = String::from(
        "\n## Commands\n\n| command | rounds | Kubernetes | machine | rows |\n|---|---|---|---|---|\n",
    );
    for (how, rows) in by_how {
        let names = rows.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        writeln!(
            text,
            "| `{}` | {} | {} | {} | {names} |",
            how.command, how.rounds, how.kubernetes, how.machine
        )?;
    }
    Ok(text)
}

/// The value of this project, divided by that of another contender.
fn to(value: impl Fn(Contender) -> Option<f64>, other: Contender) -> String {
    let both = value(Contender::Ours).zip(value(other)).filter(|(_, other)| *other > 0.0);
    both.map_or_else(|| "–".to_owned(), |(ours, other)| format!("{} ×", number(ours / other)))
}

fn range(values: &[f64]) -> String {
    let median = crate::results::median(values).map_or_else(|| "–".to_owned(), number);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (least, most) = (number(least), number(most));
    if least == most { median } else { format!("{median} ({least}–{most})") }
}

#[cfg(test)]
mod tests {
    use super::{page, range};
    use crate::contender::Contender;
    use crate::results::tests::measured;
    use crate::results::{Metric, Outcome, Results, Values};

    fn results() -> Results {
        let mut small = measured("strict-100", 50.0);
        for rate in [20.0, 30.0, 25.0] {
            let values = Values::from([(Metric::PodsPerSecond, rate)]);
            small.add(Contender::BuiltIn, Outcome::Kept(values));
        }
        let mut large = measured("strict-1600", 45.0);
        large.add(Contender::Null, Outcome::Broken("99 pods were available".to_owned()));
        Results { rows: vec![small, large] }
    }

    #[test]
    fn the_table_has_medians_ranges_ratios_and_broken_promises() {
        let page = page(&results()).unwrap();
        for line in [
            "| pods/s | 50.0 | 25.0 (20.0–30.0) | – | 2.00 × | – |\n",
            "| no result: null driver broke a promise: 99 pods were available | | | | | |\n",
            "| `cargo xtask bench` | 3 | v1.20.2 | 2 threads | `strict-100`, `strict-1600` |\n",
        ] {
            assert!(page.contains(line), "{line}{page}");
        }
    }

    #[test]
    fn a_single_round_has_no_range() {
        assert_eq!(range(&[5.0]), "5.00");
        assert_eq!(range(&[150.4, 2.0, 30.0]), "30.0 (2.00–150)");
    }
}
