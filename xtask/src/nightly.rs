//! `cargo xtask nightly`: what takes too long for every change, in parts of at most an hour on two cores.
//! Each part writes its result to the page about reliability.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{capture, run_seen, top};

/// The page whose table has one row for each part.
const PAGE: &str = "docs/reliability.md";

/// Tasks of this program, and into how many parts each is split.
const TASKS: [(&str, usize); 7] = [
    ("faults --runs 100000", 2),
    ("explore", 4),
    ("mutants", 4),
    ("mutants --generated", 2),
    ("real --moments 50", 1),
    ("specs", 1),
    ("image-check", 1),
];

/// A part, as the arguments of this program.
fn parts() -> Vec<String> {
    let of = |(task, count): (&str, usize)| match count {
        1 => vec![task.to_owned()],
        _ => (1..=count).map(|part| format!("{task} --part {part} {count}")).collect(),
    };
    TASKS.into_iter().flat_map(of).collect()
}

/// `cargo xtask nightly [NUMBER]`: runs that part, or all of them one after the other.
pub(crate) fn run(number: Option<&str>) -> Result<()> {
    let parts = parts();
    let chosen = match number {
        None => parts.as_slice(),
        Some(text) => {
            let part = text.parse().ok().and_then(|number: usize| parts.get(number.checked_sub(1)?));
            let names = || parts.iter().enumerate().map(|(at, part)| format!("\n  {}  {part}", at + 1));
            let part =
                part.with_context(|| format!("no part {text}; there are{}", names().collect::<String>()))?;
            std::slice::from_ref(part)
        }
    };
    for part in chosen {
        let figures = play(part)?;
        let date = capture(Command::new("date").args(["--utc", "+%Y-%m-%d"]))?;
        let page = top().join(PAGE);
        let text = fs::read_to_string(&page).with_context(|| format!("cannot read {PAGE}"))?;
        let text = with_row(&text, part, date.trim(), &figures)?;
        fs::write(&page, text).with_context(|| format!("cannot write {PAGE}"))?;
    }
    Ok(())
}

/// Runs a part with its output shown, and returns the last line of it.
fn play(part: &str) -> Result<String> {
    println!("cargo xtask {part}");
    let own = std::env::current_exe().context("cannot find this program")?;
    let mut last = String::new();
    let status = run_seen(Command::new(own).args(part.split(' ')), |line| line.clone_into(&mut last))?;
    if !status.success() {
        bail!("`cargo xtask {part}` failed ({status}); {PAGE} keeps its last result");
    }
    Ok(last)
}

/// The page with the result of a part in its row.
fn with_row(page: &str, part: &str, date: &str, figures: &str) -> Result<String> {
    let start = format!("| `cargo xtask {part}` |");
    ensure!(page.contains(&start), "{PAGE} has no row for `cargo xtask {part}`");
    let row = format!("{start} {date} | {figures} |");
    let lines = page.lines().map(|line| if line.starts_with(&start) { row.as_str() } else { line });
    Ok(lines.flat_map(|line| [line, "\n"]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_has_its_row_on_the_page() {
        let page = fs::read_to_string(top().join(PAGE)).unwrap();
        for part in parts() {
            let page = with_row(&page, &part, "2000-01-01", "12 passed").unwrap();
            assert!(page.contains(&format!("| `cargo xtask {part}` | 2000-01-01 | 12 passed |\n")));
        }
        assert!(with_row(&page, "no-task", "", "").unwrap_err().to_string().contains("no row"));
    }

    #[test]
    fn the_workflow_runs_each_part() {
        let workflow = fs::read_to_string(top().join(".github/workflows/nightly.yaml")).unwrap();
        let numbers: Vec<String> = (1..=parts().len()).map(|number| number.to_string()).collect();
        assert!(workflow.contains(&format!("part: [{}]\n", numbers.join(", "))), "{numbers:?}");
    }
}
