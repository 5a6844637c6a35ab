//! What the last word of a command line can be, from the command definitions alone. Pure functions.

use clap::{Arg, ArgAction, Command};

use crate::client::ConnectArgs;

/// What the last word can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Completion {
    /// One of these.
    Words(Vec<String>),
    /// A name from the cluster or the kubeconfig.
    Cluster(Resource),
    /// A file.
    Files,
    /// No candidates.
    Nothing,
}

/// Names that come from the cluster or the kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Deployments,
    /// OrderedDeployments with a rollout in progress.
    Rolling,
    /// OrderedDeployments whose rollout was aborted.
    Aborted,
    /// Deployments, and OrderedDeployments for `--back`.
    Adoptable,
    Pods,
    Containers,
    Holds,
    Revisions,
    Namespaces,
    Contexts,
    Clusters,
    Users,
}

/// What the last word can be, and the prefix to keep, such as `--output=`.
pub(crate) fn completion(definition: &Command, words: &[String]) -> (Completion, String) {
    let (current, before) =
        words.split_last().map_or(("", [].as_slice()), |(last, rest)| (last.as_str(), rest));
    let mut command = definition;
    let mut positionals = 0;
    let mut open: Option<&Arg> = None;
    for word in before {
        if open.take().is_some() {
            continue;
        }
        if word.starts_with('-') {
            open = if word.contains('=') { None } else { flag(command, word).filter(|arg| takes_value(arg)) };
        } else if let Some(inner) = command.find_subcommand(word).filter(|_| positionals == 0) {
            command = inner;
        } else {
            positionals += 1;
        }
    }
    if let Some(arg) = open {
        return (value(arg, command), String::new());
    }
    if let Some((name, _)) = current.split_once('=').filter(|_| current.starts_with('-')) {
        let found = flag(command, name).filter(|arg| takes_value(arg));
        return (found.map_or(Completion::Nothing, |arg| value(arg, command)), format!("{name}="));
    }
    if current.starts_with('-') {
        let long = |arg: &&Arg| arg.get_long().is_some();
        let shown = |arg: &&Arg| !arg.is_hide_set() || current.len() > 2;
        let flags = command.get_arguments().filter(long).filter(shown).filter_map(Arg::get_long);
        return (
            Completion::Words(flags.map(|long| format!("--{long}")).chain(["--help".to_owned()]).collect()),
            String::new(),
        );
    }
    if command.has_subcommands() {
        let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
        return (Completion::Words(shown.map(|inner| inner.get_name().to_owned()).collect()), String::new());
    }
    // A repeated argument takes all remaining words.
    let arguments: Vec<&Arg> = command.get_positionals().collect();
    let last = arguments.last().filter(|arg| matches!(arg.get_action(), ArgAction::Append));
    let found = arguments.get(positionals).or(last);
    // Keep the kind before a name: `od/web`.
    let kind = current.rsplit_once('/').map_or(String::new(), |(kind, _)| format!("{kind}/"));
    (found.map_or(Completion::Nothing, |arg| value(arg, command)), kind)
}

fn flag<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let long = word.strip_prefix("--");
    let short = word.strip_prefix('-').and_then(|rest| rest.chars().next());
    command.get_arguments().find(|arg| match long {
        Some(long) => arg.get_long() == Some(long),
        // `-nshop` contains its value.
        None => word.chars().count() == 2 && short.is_some() && arg.get_short() == short,
    })
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_action().takes_values() && !arg.is_require_equals_set()
}

fn value(arg: &Arg, command: &Command) -> Completion {
    let values = arg.get_possible_values();
    if !values.is_empty() {
        return Completion::Words(values.iter().map(|value| value.get_name().to_owned()).collect());
    }
    let of = Completion::Cluster;
    match (arg.get_id().as_str(), command.get_name()) {
        ("namespace", _) => of(Resource::Namespaces),
        ("context", _) => of(Resource::Contexts),
        ("cluster", _) => of(Resource::Clusters),
        ("user", _) => of(Resource::Users),
        ("hold", _) => of(Resource::Holds),
        ("revision" | "to_revision", _) => of(Resource::Revisions),
        ("pods", _) => of(Resource::Pods),
        ("images", _) => of(Resource::Containers),
        ("name", "abort") => of(Resource::Rolling),
        ("name", "retry") => of(Resource::Aborted),
        ("name", "adopt") => of(Resource::Adoptable),
        ("name", _) | ("all", "unmark") => of(Resource::Deployments),
        (
            "kubeconfig"
            | "file"
            | "files"
            | "out"
            | "certificate_authority"
            | "client_certificate"
            | "client_key",
            _,
        ) => Completion::Files,
        _ => Completion::Nothing,
    }
}

/// The flags for a cluster among the words, with their values.
pub(super) fn cluster_flags(words: &[String]) -> Vec<String> {
    let command = <ConnectArgs as clap::Args>::augment_args(Command::new(""));
    let mut kept = Vec::new();
    let mut rest = words.split_last().map_or([].as_slice(), |(_, before)| before).iter();
    while let Some(word) = rest.next() {
        let name = word.split('=').next().unwrap_or_default();
        let Some(arg) = flag(&command, name).filter(|_| word.starts_with('-')) else { continue };
        kept.push(word.clone());
        if !word.contains('=') && takes_value(arg) {
            kept.extend(rest.next().cloned());
        }
    }
    kept
}

/// The name of the OrderedDeployment among the words.
pub(super) fn deployment(definition: &Command, words: &[String]) -> Option<String> {
    let mut command = definition;
    let mut skip = false;
    for word in words.split_last()?.1 {
        if std::mem::take(&mut skip) {
            continue;
        }
        if word.starts_with('-') {
            skip = !word.contains('=') && flag(command, word).is_some_and(takes_value);
        } else if let Some(inner) = command.find_subcommand(word) {
            command = inner;
        } else {
            return crate::client::object_name(word).ok();
        }
    }
    None
}
