//! Completion, for shells and for kubectl: what could come next, from the definitions of the commands and from the cluster.
//!
//! It answers as kubectl's own `__complete` does: a candidate a line, then a directive. It never fails and never writes.

mod cluster;
mod scripts;
mod words;

use std::time::Duration;

use clap::FromArgMatches;

use crate::client::ConnectArgs;
pub(crate) use scripts::{Shell, script};
pub(crate) use words::{Wanted, wanted};

/// How long a cluster may take to answer somebody who has pressed Tab.
const PATIENCE: Duration = Duration::from_secs(3);
/// cobra's directives: the shell completes files; or it does not; or it does not, and adds no blank either.
const FILES: u8 = 0;
const NO_FILES: u8 = 4;
const NO_BLANK: u8 = 6;

/// Prints what could be the last of these words. The first is the one behind `kubectl ordered`.
pub(crate) fn print(words: &[String]) {
    let (lines, directive) = answer(words);
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    // Nobody is left to tell where this fails.
    let _ = crate::escape::print(format_args!("{text}:{directive}\n"));
}

fn answer(words: &[String]) -> (Vec<String>, u8) {
    let definition = crate::command();
    let (wanted, prefix) = wanted(&definition, words);
    let current = words.last().map_or("", String::as_str);
    let typed = current.strip_prefix(prefix.as_str()).unwrap_or(current);
    let (found, directive) = match wanted {
        Wanted::Files => return (Vec::new(), FILES),
        Wanted::Nothing => return (Vec::new(), NO_FILES),
        Wanted::Words(found) => (found, NO_FILES),
        Wanted::Cluster(what) => {
            let directive = if what == words::Thing::Containers { NO_BLANK } else { NO_FILES };
            (ask(words, what), directive)
        }
    };
    let mut fitting: Vec<String> = found
        .into_iter()
        .filter(|candidate| candidate.starts_with(typed))
        .map(|candidate| format!("{prefix}{candidate}"))
        .collect();
    fitting.sort();
    fitting.dedup();
    (fitting, directive)
}

/// Asks the cluster that the words speak of; nothing where it does not answer.
fn ask(words: &[String], what: words::Thing) -> Vec<String> {
    let connect = connect(words);
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    // The clock of a time limit is the runtime's.
    let found = runtime
        .block_on(async { tokio::time::timeout(PATIENCE, cluster::candidates(connect, words, what)).await });
    found.ok().and_then(Result::ok).unwrap_or_default()
}

/// The flags for the cluster among the words, whatever else is there.
fn connect(words: &[String]) -> ConnectArgs {
    let command = clap::Command::new("words").ignore_errors(true).no_binary_name(true);
    let command = <ConnectArgs as clap::Args>::augment_args(command)
        .arg(clap::Arg::new("rest").num_args(0..).allow_hyphen_values(false));
    let known = words::cluster_flags(words);
    let matches = command.try_get_matches_from(known);
    matches.ok().and_then(|matches| ConnectArgs::from_arg_matches(&matches).ok()).unwrap_or_default()
}

#[cfg(test)]
#[path = "complete/tests.rs"]
mod tests;
