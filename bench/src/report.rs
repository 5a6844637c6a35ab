//! The report: a table, a JSON file and a plot for each row.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::prelude::*;
use serde_json::json;

use crate::contender::Contender;
use crate::rows::{Measured, Metric};

const CONTENDERS: [Contender; 3] = [Contender::Ours, Contender::BuiltIn, Contender::Null];

/// Writes all files of the report.
pub fn write(folder: &Path, rows: &[Measured]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    };
    write("results.md", &table(rows)?)?;
    write(
        "results.json",
        &(serde_json::to_string_pretty(&json!({"machine": machine(), "rows": rows}))? + "\n"),
    )?;
    for row in rows {
        if let Some(values) = row.values.get(&Metric::PodsPerSecond) {
            plot(&folder.join(format!("{}.svg", row.name)), &row.question, values)?;
        }
    }
    Ok(())
}

/// The processor and the number of threads.
fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let threads = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{threads} threads of {}", model.map_or("an unknown processor", |(_, model)| model))
}

fn table(rows: &[Measured]) -> Result<String> {
    let mut text = format!("Medians, measured on {}.\n\n", machine());
    text.push_str(
        "| row | value | OrderedDeployment | Deployment | null driver | to Deployment | to null driver |\n",
    );
    text.push_str("|---|---|---|---|---|---|---|\n");
    for row in rows {
        for (metric, values) in &row.values {
            let of = |contender: &Contender| values.get(contender).and_then(|values| median(values));
            let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
            let ratio = |other: &Contender| {
                let ratio = of(&Contender::Ours).zip(of(other)).filter(|(_, other)| *other > 0.0);
                ratio.map_or_else(|| "–".to_owned(), |(ours, other)| format!("{:.2} ×", ours / other))
            };
            write!(text, "| {} | {} |", row.question, metric.title())?;
            for contender in CONTENDERS {
                write!(text, " {} |", shown(of(&contender)))?;
            }
            writeln!(text, " {} | {} |", ratio(&Contender::BuiltIn), ratio(&Contender::Null))?;
        }
    }
    Ok(text)
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

/// A bar for each contender, with a dot for each round.
fn plot(file: &Path, title: &str, values: &BTreeMap<Contender, Vec<f64>>) -> Result<()> {
    draw(file, title, values).map_err(|error| anyhow!("cannot draw {}: {error}", file.display()))
}

fn draw(
    file: &Path,
    title: &str,
    values: &BTreeMap<Contender, Vec<f64>>,
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(file, (640, 320)).into_drawing_area();
    area.fill(&WHITE)?;
    let largest = values.values().flatten().copied().fold(1.0, f64::max);
    let bars = i32::try_from(values.len())?;
    let mut chart = ChartBuilder::on(&area)
        .caption(format!("{title}: pods/s"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(28)
        .y_label_area_size(48)
        .build_cartesian_2d((0..bars).into_segmented(), 0.0..largest * 1.1)?;
    let names: Vec<String> = values.keys().map(ToString::to_string).collect();
    let name = |place: &SegmentValue<i32>| match place {
        SegmentValue::CenterOf(place) => {
            usize::try_from(*place).ok().and_then(|place| names.get(place)).cloned().unwrap_or_default()
        }
        _ => String::new(),
    };
    chart.configure_mesh().disable_x_mesh().x_label_formatter(&name).draw()?;
    for (place, rounds) in (0..).zip(values.values()) {
        let height = median(rounds).unwrap_or_default();
        let corners = [(SegmentValue::Exact(place), 0.0), (SegmentValue::Exact(place + 1), height)];
        let mut bar = Rectangle::new(corners, BLUE.mix(0.5).filled());
        bar.set_margin(0, 0, 30, 30);
        let dots = rounds
            .iter()
            .map(|value| Circle::new((SegmentValue::CenterOf(place), *value), 3, BLACK.filled()));
        chart.draw_series(std::iter::once(bar))?;
        chart.draw_series(dots)?;
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_of_an_even_number_of_rounds_lies_between_the_two_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
