//! Checks of the pages and of the width of lines.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::process::{top, tracked};

/// The most columns of a line of Rust or prose.
const COLUMNS: usize = 110;
/// The most words of all pages together, without the generated ones.
const WORDS: usize = 30_000;
const GENERATED: [&str; 3] = ["docs/api.md", "docs/cli.md", "docs/internals/benchmarks/results.md"];

/// Checks that links lead to files and headings, that pages named in code exist, that pages have not too many
/// words, and lines not too many columns. Returns how many files were checked.
pub(crate) fn check() -> Result<u32> {
    let names = tracked()?;
    // A file that is no text is an image.
    let text = |name| Some((name, fs::read_to_string(top().join(name)).ok()?));
    let texts: BTreeMap<&str, String> = names.iter().map(String::as_str).filter_map(text).collect();
    let pages: BTreeMap<&str, &str> =
        texts.iter().filter(|(name, _)| is_page(name)).map(|(name, text)| (*name, text.as_str())).collect();
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        pages.iter().map(|(name, text)| (*name, anchors(text))).collect();
    let mut wrong = Vec::new();
    for (name, text) in &texts {
        let found = if is_page(name) { links(name, text) } else { named_pages(text) };
        for (line, link) in found {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            if !top().join(file).exists() {
                wrong.push(format!("{name}:{line}: there is no file {file}"));
            } else if !anchor.is_empty() && anchors.get(file).is_some_and(|known| !known.contains(anchor)) {
                wrong.push(format!("{name}:{line}: {file} has no heading #{anchor}"));
            }
        }
        if !GENERATED.contains(name) {
            wrong.extend(long_lines(name, text));
        }
    }
    let counted = pages.iter().filter(|(name, _)| !GENERATED.contains(name));
    let words: usize = counted.map(|(_, text)| text.split_whitespace().count()).sum();
    if words > WORDS {
        wrong.push(format!("the pages have {words} words; at most {WORDS} fit"));
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    u32::try_from(texts.len()).context("too many files")
}

fn is_page(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "md")
}

/// The lines of a page outside of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((number + 1, line))
    })
}

/// The links of a page to files, as paths from the top, with their lines.
fn links(page: &str, text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for part in line.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            if target.contains(':') {
                continue;
            }
            let mut path: Vec<&str> = page.split('/').collect();
            if !file.is_empty() {
                path.pop();
            }
            for step in file.split('/').filter(|step| !step.is_empty()) {
                match step {
                    ".." => drop(path.pop()),
                    _ => path.push(step),
                }
            }
            let anchor = if anchor.is_empty() { String::new() } else { format!("#{anchor}") };
            found.push((number, path.join("/") + &anchor));
        }
    }
    found
}

/// The pages that a file names, such as `docs/api.md#conditions`, with their lines.
fn named_pages(text: &str) -> Vec<(usize, String)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '#');
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for (start, _) in line.match_indices("docs/") {
            let name: String = line[start..].chars().take_while(|c| is_part(*c)).collect();
            if is_page(name.split('#').next().unwrap_or_default()) {
                found.push((number + 1, name));
            }
        }
    }
    found
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let anchor = heading.chars().filter(kept).collect::<String>().replace(' ', "-");
        let count = (1..).map(|count| format!("{anchor}-{count}"));
        let free = std::iter::once(anchor.clone()).chain(count).find(|anchor| !anchors.contains(anchor));
        anchors.extend(free);
    }
    anchors
}

/// Lines of Rust and prose that are too long and could be shorter. A table, a link and a literal without a
/// space cannot.
fn long_lines(name: &str, text: &str) -> Vec<String> {
    let is_long = |line: &str| line.chars().count() > COLUMNS;
    let can_break = |line: &str| !line.split_whitespace().any(|word| word.len() > 38);
    let extension = Path::new(name).extension().and_then(|it| it.to_str()).unwrap_or_default();
    let lines: Vec<(usize, &str)> = match extension {
        "rs" => text.lines().enumerate().map(|(number, line)| (number + 1, line)).collect(),
        "md" => prose(text)
            .filter(|(_, line)| !line.trim_start().starts_with(['|', '<']) && !line.contains("]("))
            .collect(),
        _ => Vec::new(),
    };
    let long = lines.into_iter().filter(|(_, line)| is_long(line) && (extension == "md" || can_break(line)));
    long.map(|(number, _)| format!("{name}:{number}: longer than {COLUMNS} columns")).collect()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process::capture;

    #[test]
    fn the_readme_lists_every_page() {
        let readme = fs::read_to_string(top().join("README.md")).unwrap();
        let tables: String = readme.lines().filter(|line| line.starts_with('|')).collect();
        let entries = fs::read_dir(top().join("docs")).unwrap();
        let pages = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|it| it == "md"));
        let names = pages.map(|path| path.file_name().unwrap().to_string_lossy().into_owned());
        let missing: Vec<String> =
            names.filter(|name| !tables.contains(&format!("](docs/{name})"))).collect();
        assert_eq!(missing, [""; 0], "the README's tables do not list these");
    }

    #[test]
    fn every_test_and_case_that_the_page_about_reliability_names_exists() {
        let page = fs::read_to_string(top().join("docs/reliability.md")).unwrap();
        let names = page.split('`').skip(1).step_by(2).filter(|word| word.matches('_').count() > 2);
        let git = |arguments: &[&str]| capture(Command::new("git").current_dir(top()).args(arguments));
        let is_there = |name: &str| {
            git(&["grep", "-lw", name, "--", "*.rs"]).is_ok()
                || git(&["ls-files", &format!("*{name}")]).is_ok_and(|found| !found.is_empty())
        };
        let missing: Vec<&str> = names.filter(|name| !is_there(name)).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn links_are_paths_from_the_top() {
        let page =
            "[a](../x/y.md#z) and [b](#here)\n```\n[c](no.md)\n```\n[d](https://example.com) [e](f.md)";
        let found = [(1, "x/y.md#z"), (1, "d/in/p.md#here"), (5, "d/in/f.md")];
        let found = found.map(|(line, link)| (line, link.to_owned()));
        assert_eq!(links("d/in/p.md", &page.replace("../x", "../../x")), found);
    }

    #[test]
    fn headings_are_anchors() {
        let found = anchors("# A `b`, c\n## d\n## D\n```\n# no\n```\n");
        assert_eq!(found, ["a-b-c", "d", "d-1"].map(str::to_owned).into());
    }
}
