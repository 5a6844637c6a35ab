//! Completion for shells and kubectl, from the command definitions and from the cluster.
//!
//! The output is that of kubectl's `__complete`: one candidate per line, then a directive. It never fails and
//! never writes.

mod arguments;
mod cluster;
mod scripts;

use std::time::Duration;

use clap::FromArgMatches;

use crate::client::ConnectArgs;
use arguments::{Completion, Line, Resource};
pub(crate) use scripts::{Shell, script};

/// The timeout for requests to the cluster: the user has pressed Tab and waits.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Directives of cobra: complete files, complete no files, and complete no files without a space after the
/// word.
const FILES: u8 = 0;
const NO_FILES: u8 = 4;
const NO_SPACE: u8 = 6;

/// Prints the candidates for the last of these words of a command line with that definition. The first word
/// is the one after `kubectl ordered`.
pub(crate) fn print(definition: &clap::Command, words: &[String]) {
    let (lines, directive) = answer(definition, words);
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    // A failure to print cannot be reported anywhere.
    let _ = crate::terminal::escape::print(format_args!("{text}:{directive}\n"));
}

fn answer(definition: &clap::Command, words: &[String]) -> (Vec<String>, u8) {
    let line = Line::of(definition, words);
    let (expected, prefix) = line.completion();
    let current = words.last().map_or("", String::as_str);
    let typed = current.strip_prefix(prefix.as_str()).unwrap_or(current);
    let (found, directive) = match expected {
        Completion::Files => (Vec::new(), FILES),
        Completion::Nothing => (Vec::new(), NO_FILES),
        Completion::Words(found) => (found, NO_FILES),
        Completion::Cluster(Resource::Containers) => (from_cluster(&line, Resource::Containers), NO_SPACE),
        Completion::Cluster(resource) => (from_cluster(&line, resource), NO_FILES),
    };
    (offered(found, &prefix, typed), directive)
}

/// The candidates that begin with the typed text, sorted. Shells insert a candidate as it is: one with other
/// characters could run a command at Enter, and other users choose the names in a cluster.
fn offered(found: Vec<String>, prefix: &str, typed: &str) -> Vec<String> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "._:/=@*-".contains(c);
    let mut offered: Vec<String> = found
        .into_iter()
        .filter(|candidate| candidate.starts_with(typed) && candidate.chars().all(is_safe))
        .map(|candidate| format!("{prefix}{candidate}"))
        .collect();
    offered.sort();
    offered.dedup();
    offered
}

/// Candidates from the cluster; none if it does not answer.
fn from_cluster(line: &Line<'_>, resource: Resource) -> Vec<String> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    // A timeout must be created inside the runtime.
    let found = runtime.block_on(async {
        let candidates = cluster::candidates(connect(&line.cluster), line.deployment(), resource);
        tokio::time::timeout(TIMEOUT, candidates).await
    });
    found.ok().and_then(Result::ok).unwrap_or_default()
}

/// The values of these flags for a cluster.
fn connect(flags: &[&str]) -> ConnectArgs {
    let command = clap::Command::new("flags").ignore_errors(true).no_binary_name(true);
    let matches = <ConnectArgs as clap::Args>::augment_args(command).try_get_matches_from(flags);
    matches.ok().and_then(|matches| ConnectArgs::from_arg_matches(&matches).ok()).unwrap_or_default()
}

/// Completes these words without a cluster.
#[cfg(test)]
pub(crate) fn completes(definition: &clap::Command, words: &[String]) {
    drop(Line::of(definition, words).completion());
}

#[cfg(test)]
mod tests;
