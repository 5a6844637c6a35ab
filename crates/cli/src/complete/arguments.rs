//! What the last word of a command line can be, from the command definitions alone. Pure functions.

use clap::{Arg, ArgAction, Command};

use crate::client::{HEADING, object_name};

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

/// A command line, up to its last word.
pub(super) struct Line<'a> {
    /// The innermost command.
    command: &'a Command,
    /// The words that are neither commands nor flags.
    positionals: Vec<&'a str>,
    /// The flag whose value the last word is.
    open: Option<&'a Arg>,
    /// The flags for a cluster, with their values.
    pub(super) cluster: Vec<&'a str>,
    /// The last word.
    current: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn of(definition: &'a Command, words: &'a [String]) -> Self {
        let (current, before) =
            words.split_last().map_or(("", [].as_slice()), |(last, rest)| (last.as_str(), rest));
        let mut line =
            Self { command: definition, positionals: Vec::new(), open: None, cluster: Vec::new(), current };
        for word in before {
            let of_cluster = |arg: &Arg| arg.get_help_heading() == Some(HEADING);
            if let Some(arg) = line.open.take() {
                line.cluster.extend(Some(word.as_str()).filter(|_| of_cluster(arg)));
            } else if let Some((name, is_alone)) = as_flag(word) {
                let arg = flag(line.command, name);
                line.cluster.extend(arg.filter(|arg| of_cluster(arg)).map(|_| word.as_str()));
                line.open = arg.filter(|arg| is_alone && takes_value(arg));
            } else if let Some(inner) =
                line.command.find_subcommand(word).filter(|_| line.positionals.is_empty())
            {
                line.command = inner;
            } else {
                line.positionals.push(word);
            }
        }
        line
    }

    /// The name of the OrderedDeployment among the words.
    pub(super) fn deployment(&self) -> Option<String> {
        self.positionals.first().and_then(|word| object_name(word).ok())
    }

    /// What the last word can be, and the prefix to keep, such as `--output=`.
    pub(super) fn completion(&self) -> (Completion, String) {
        let Self { command, current, .. } = *self;
        if let Some(arg) = self.open {
            return (value(arg, command), String::new());
        }
        if let Some((name, false)) = as_flag(current) {
            let found = flag(command, name).filter(|arg| takes_value(arg));
            return (found.map_or(Completion::Nothing, |arg| value(arg, command)), format!("{name}="));
        }
        if current.starts_with('-') {
            let shown = |arg: &&Arg| !arg.is_hide_set() || current.len() > 2;
            let flags = command.get_arguments().filter(shown).filter_map(Arg::get_long);
            let flags = flags.map(|long| format!("--{long}")).chain(["--help".to_owned()]);
            return (Completion::Words(flags.collect()), String::new());
        }
        if command.has_subcommands() {
            let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
            let names = shown.map(|inner| inner.get_name().to_owned());
            return (Completion::Words(names.collect()), String::new());
        }
        // A repeated argument takes all remaining words.
        let arguments: Vec<&Arg> = command.get_positionals().collect();
        let last = arguments.last().filter(|arg| matches!(arg.get_action(), ArgAction::Append));
        let found = arguments.get(self.positionals.len()).or(last);
        // Keep the kind before a name: `od/web`.
        let kind = current.rsplit_once('/').map_or(String::new(), |(kind, _)| format!("{kind}/"));
        (found.map_or(Completion::Nothing, |arg| value(arg, command)), kind)
    }
}

/// The name of a flag, and whether its value is not part of the word.
fn as_flag(word: &str) -> Option<(&str, bool)> {
    let name = word.split('=').next().filter(|_| word.starts_with('-'))?;
    Some((name, name.len() == word.len()))
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

/// The arguments that are files.
const FILES: [&str; 7] =
    ["kubeconfig", "file", "files", "out", "certificate_authority", "client_certificate", "client_key"];

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
        (id, _) if FILES.contains(&id) => Completion::Files,
        _ => Completion::Nothing,
    }
}
