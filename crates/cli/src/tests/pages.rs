//! The commands that pages and messages show: each one is valid.
#![allow(clippy::unwrap_used, reason = "a test fails if its setup fails")]

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

const PLUGIN: &str = "kubectl ordered";

/// The pages, the notes of the chart and the code that prints messages.
fn files() -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![top.join("README.md"), top.join("CONTRIBUTING.md")];
    let mut folders = vec![top.join("docs"), top.join("charts"), top.join("crates")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|it| ["md", "txt", "yaml", "rs"].iter().any(|end| it == *end))
            {
                found.push(path);
            }
        }
    }
    // Tests show invalid lines too.
    found.retain(|path| !path.iter().any(|part| part == "tests" || part == "tests.rs"));
    found
}

/// What follows the plugin's name in commands, up to what ends them in a shell or an example, and whether a
/// sentence names it: others begin a line.
fn lines(text: &str) -> Vec<(String, bool)> {
    let text = text.replace("\\\n", " ");
    let mut found = Vec::new();
    for (at, name) in text.match_indices(PLUGIN) {
        let (before, rest) = (&text[..at], &text[at + name.len()..]);
        let is_named = before.ends_with('`');
        if !is_named && !before.rsplit('\n').next().is_some_and(|start| start.trim().is_empty()) {
            continue;
        }
        let line = rest.split(['\n', '`', '|', '&', '>', ';', '#', '"', '$']).next().unwrap_or_default();
        let line = if is_named { line } else { line.trim().split("  ").next().unwrap_or_default() };
        if rest.starts_with(' ') {
            found.push((line.split_whitespace().collect::<Vec<_>>().join(" "), is_named));
        }
    }
    found.retain(|(line, _)| !line.is_empty());
    found
}

/// A word of a line with a value for what the reader or the message fills in: `POD`, `N`, `{name}`.
fn filled_in(word: &str) -> String {
    // Flags follow the last word of a message: `web{flags}`.
    let (word, is_filled) = word.split_once('{').map_or((word, false), |(before, _)| (before, true));
    match word.trim_end_matches("...") {
        "N" => "1".to_owned(),
        "" if is_filled => "1".to_owned(),
        word => word.replace('\'', "").replace("POD", "web").replace("NAME", "web"),
    }
}

/// Why the parser refuses a line; a line of a sentence may leave out what the reader adds.
fn refused(line: &str, is_named: bool) -> Option<String> {
    let words = line.split(' ').map(filled_in).filter(|word| !word.is_empty());
    let parsed = super::parse(std::iter::once(PLUGIN.to_owned()).chain(words).map(Into::into));
    let error = parsed.err()?;
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            if is_named =>
        {
            None
        }
        _ => error.to_string().lines().next().map(str::to_owned),
    }
}

#[test]
fn every_command_of_a_page_or_a_message_is_valid() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for file in files() {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for (line, is_named) in lines(&text) {
            count += 1;
            if let Some(error) = refused(&line, is_named) {
                wrong.push(format!("{}: {line}: {error}", file.display()));
            }
        }
    }
    assert!(count > 200, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
