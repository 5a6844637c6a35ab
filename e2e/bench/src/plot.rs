//! The plots: a bar for each contender with its median, and a dot for each round.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::contender::Contender;
use crate::results::{Metric, Results, median, number};

/// One plot: the answer to one question.
pub struct Plot {
    /// The name of its file.
    pub name: &'static str,
    title: &'static str,
    /// The bars that stand together, from left to right.
    groups: &'static [Group],
}

/// One value of one row: a label, the name of the row, and the value.
type Group = (&'static str, &'static str, Metric);

/// All plots.
pub const PLOTS: &[Plot] = &[
    Plot {
        name: "strict",
        title: "Rate of a strict rollout, pods/s (more is better)",
        groups: &[
            ("100 pods", "strict-100", Metric::PodsPerSecond),
            ("400 pods", "strict-400", Metric::PodsPerSecond),
            ("1,600 pods", "strict-1600", Metric::PodsPerSecond),
            ("ready after 0.2 s", "strict-100-slow", Metric::PodsPerSecond),
        ],
    },
    Plot {
        name: "bulk",
        title: "Rate of a bulk rollout and of a first creation, pods/s (more is better)",
        groups: &[
            ("rollout of 1,000 pods", "bulk-1000", Metric::PodsPerSecond),
            ("creation of 400 pods", "creation-400", Metric::PodsPerSecond),
        ],
    },
    Plot {
        name: "requests",
        title: "Requests for each pod of a rollout (fewer is better)",
        groups: &[
            ("strict, 400 pods", "strict-400", Metric::RequestsPerPod),
            ("bulk, 1,000 pods", "bulk-1000", Metric::RequestsPerPod),
        ],
    },
    Plot {
        name: "latency",
        title: "From an event to the request that answers it, ms (less is better)",
        groups: &[
            ("ready, median", "latency", Metric::LatencyP50),
            ("ready, p99", "latency", Metric::LatencyP99),
            ("resume, median", "latency", Metric::ResumeP50),
            ("resume, p99", "latency", Metric::ResumeP99),
        ],
    },
    Plot {
        name: "cpu",
        title: "CPU time for 400 creates and 200 deletes, s (less is better)",
        groups: &[
            ("beside 10,000 pods", "beside-10k", Metric::CpuSeconds),
            ("beside 50,000 pods", "beside-50k", Metric::CpuSeconds),
        ],
    },
    Plot {
        name: "memory-10k",
        title: "Memory beside 10,000 other pods, MiB (less is better)",
        groups: &[
            ("at rest", "memory-10k", Metric::RestMib),
            ("after churn", "memory-10k", Metric::ChurnMib),
            ("relist, peak", "memory-10k", Metric::RelistMib),
        ],
    },
    Plot {
        name: "memory-50k",
        title: "Memory beside 50,000 other pods, MiB (less is better)",
        groups: &[
            ("at rest", "memory-50k", Metric::RestMib),
            ("after churn", "memory-50k", Metric::ChurnMib),
            ("relist, peak", "memory-50k", Metric::RelistMib),
        ],
    },
    Plot {
        name: "memory-own",
        title: "Memory with 10,000 pods of its own, MiB (less is better)",
        groups: &[
            ("at rest", "memory-own-10k", Metric::RestMib),
            ("after churn", "memory-own-10k", Metric::ChurnMib),
            ("relist, peak", "memory-own-10k", Metric::RelistMib),
        ],
    },
    Plot {
        name: "storm",
        title: "1,000 objects of 10 pods updated at once, s (less is better)",
        groups: &[("time", "storm", Metric::Seconds), ("CPU time", "storm", Metric::CpuSeconds)],
    },
    Plot {
        name: "takeover",
        title: "Time until the first write, s (less is better)",
        groups: &[
            ("start beside 50,000 pods", "restart-50k", Metric::Seconds),
            ("the leader was killed", "failover", Metric::Seconds),
        ],
    },
    Plot {
        name: "rest",
        title: "CPU of 10,000 objects at rest, % of a core (less is better)",
        groups: &[("10 minutes", "rest", Metric::CpuPercent)],
    },
];

const SIZE: (u32, u32) = (720, 360);
const LABEL: (&str, i32) = ("sans-serif", 13);

/// Blue, orange and gray: they differ for color-blind readers too.
fn color(contender: Contender) -> RGBColor {
    match contender {
        Contender::Ours => RGBColor(0, 114, 178),
        Contender::BuiltIn => RGBColor(230, 159, 0),
        Contender::Null => RGBColor(150, 150, 150),
        Contender::Plain => RGBColor(0, 158, 115),
        Contender::BuiltInSets => RGBColor(213, 94, 0),
    }
}

/// The plot as SVG, with the groups that were measured; `None` if there is none.
pub fn draw(plot: &Plot, results: &Results) -> Result<Option<String>> {
    let groups: Vec<_> = plot
        .groups
        .iter()
        .filter_map(|(label, row, metric)| Some((*label, results.row(row)?.values.get(metric)?)))
        .collect();
    let largest =
        groups.iter().flat_map(|(_, values)| values.values().flatten()).copied().fold(0.0, f64::max);
    if largest <= 0.0 {
        return Ok(None);
    }
    let contenders: Vec<Contender> = Contender::ALL
        .into_iter()
        .filter(|contender| groups.iter().any(|(_, values)| values.contains_key(contender)))
        .collect();
    let mut picture = String::new();
    draw_on(&mut picture, plot.title, &groups, &contenders, largest)
        .map_err(|error| anyhow!("cannot draw {}: {error}", plot.name))?;
    Ok(Some(picture))
}

type Values = std::collections::BTreeMap<Contender, Vec<f64>>;

fn draw_on(
    picture: &mut String,
    title: &str,
    groups: &[(&str, &Values)],
    contenders: &[Contender],
    largest: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(picture, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let (top, area) = area.split_vertically(60);
    draw_legend(&top, title, contenders)?;
    // Each group has a width of 1.
    let right = f64::from(u32::try_from(groups.len())?);
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .margin_top(0)
        .x_label_area_size(28)
        .y_label_area_size(48)
        // Above the bars there is room for their values.
        .build_cartesian_2d(0.0..right, 0.0..largest * 1.1)?;
    let digits = usize::from(largest < 5.0);
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_labels(6)
        .y_label_style(LABEL)
        .light_line_style(TRANSPARENT)
        .y_label_formatter(&|value| format!("{value:.digits$}"))
        .draw()?;
    let text = |vertical| LABEL.into_font().color(&BLACK).pos(Pos::new(HPos::Center, vertical));
    let lefts = || (0..).map(f64::from).zip(groups);
    chart.draw_series(lefts().map(|(left, (label, _))| {
        let below = Text::new((*label).to_owned(), (0, 10), text(VPos::Top));
        EmptyElement::at((left + 0.5, 0.0)) + below
    }))?;
    let bars = f64::from(u32::try_from(contenders.len())?);
    let width = (0.8 / bars).min(0.25);
    for (bar, contender) in (0..).map(f64::from).zip(contenders) {
        let color = color(*contender);
        let offset = 0.5 + width * (bar - bars / 2.0);
        let shown: Vec<(f64, &Vec<f64>)> =
            lefts().filter_map(|(left, (_, values))| Some((left + offset, values.get(contender)?))).collect();
        chart.draw_series(shown.iter().map(|(left, rounds)| {
            let height = median(rounds).unwrap_or_default();
            Rectangle::new([(left + 0.02, 0.0), (left + width - 0.02, height)], color.filled())
        }))?;
        chart.draw_series(shown.iter().map(|(left, rounds)| {
            let top = rounds.iter().copied().fold(0.0, f64::max);
            let value =
                Text::new(median(rounds).map(number).unwrap_or_default(), (0, -6), text(VPos::Bottom));
            EmptyElement::at((left + width / 2.0, top)) + value
        }))?;
        // A single round is the bar.
        let dots = shown.iter().filter(|(_, rounds)| rounds.len() > 1);
        chart.draw_series(dots.flat_map(|(left, rounds)| {
            rounds
                .iter()
                .map(move |value| Circle::new((left + width / 2.0, *value), 3, BLACK.stroke_width(1)))
        }))?;
    }
    area.present()?;
    Ok(())
}

/// The title, and below it the color of each contender.
fn draw_legend(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    contenders: &[Contender],
) -> Result<(), Box<dyn std::error::Error>> {
    let text = |size, horizontal| {
        let style = TextStyle::from(("sans-serif", size)).color(&BLACK);
        style.pos(Pos::new(horizontal, VPos::Center))
    };
    let center = i32::try_from(SIZE.0)? / 2;
    area.draw(&Text::new(title, (center, 20), text(18, HPos::Center)))?;
    let width = 160;
    let mut left = center - width * i32::try_from(contenders.len())? / 2;
    for contender in contenders {
        area.draw(&Rectangle::new([(left + 10, 38), (left + 22, 48)], color(*contender).filled()))?;
        area.draw(&Text::new(contender.to_string(), (left + 28, 43), text(13, HPos::Left)))?;
        left += width;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{PLOTS, draw};
    use crate::contender::Contender;
    use crate::results::tests::measured;
    use crate::results::{Metric, Outcome, Results, Values};
    use crate::rows::rows;

    #[test]
    fn every_plot_shows_rows_that_exist() {
        let names: BTreeSet<String> = rows().into_iter().map(|row| row.name).collect();
        for plot in PLOTS {
            for (_, row, _) in plot.groups {
                assert!(names.contains(*row), "{}: {row}", plot.name);
            }
        }
    }

    #[test]
    fn a_plot_shows_what_was_measured_so_far() {
        assert!(draw(&PLOTS[0], &Results::default()).unwrap().is_none());
        let mut row = measured("strict-400", 50.0);
        let values = Values::from([(Metric::PodsPerSecond, 25.0)]);
        row.add(Contender::BuiltIn, Outcome::Kept(values));
        let picture = draw(&PLOTS[0], &Results { rows: vec![row] }).unwrap().unwrap();
        for (text, is_shown) in
            [("400 pods", true), ("Deployment", true), ("100 pods", false), ("null driver", false)]
        {
            assert_eq!(picture.contains(text), is_shown, "{text}");
        }
    }
}
