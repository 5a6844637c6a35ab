//! Completion of `kubectl ordered`. kubectl runs this program for it, under the name
//! `kubectl_complete-ordered`.
//!
//! The output is that of kubectl's `__complete`: one candidate per line, then a directive. It never fails and
//! never writes.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use clap::builder::ValueHint;
use clap::{Arg, ArgMatches, Command};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, complete};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use kube::core::ObjectList;
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedDeploymentStatus;
use ordereddeployment_wire::{Family, PodView};

use crate::client::reader::revisions;
use crate::client::{ConnectArgs, Connection, innermost, object_name};
use crate::view::phase::blocked;

/// The timeout for requests to the cluster: the user has pressed Tab and waits.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Directives of cobra: complete files, complete none, and complete none without a space after the word.
const FILES: u8 = 0;
const NO_FILES: u8 = 4;
const NO_SPACE: u8 = 6;
/// The candidate that stands for the files that the shell finds. No other begins with a blank.
const ANY_FILE: &str = " file";

/// Names that come from the cluster or the kubeconfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Deployments,
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

pub(crate) type Names = Arc<dyn Fn(Resource) -> Vec<String> + Send + Sync>;

fn line(words: &[String]) -> Vec<OsString> {
    std::iter::once("kubectl-ordered").chain(words.iter().map(String::as_str)).map(Into::into).collect()
}

/// Prints the candidates for the last of these words, of which the first one follows `kubectl ordered`.
pub(crate) fn print(definition: &Command, words: &[String]) {
    let (known, before) = (definition.clone(), words.to_vec());
    let names: Names = Arc::new(move |resource| from_cluster(&known, &before, resource));
    let (lines, directive) = answer(definition, words, &names);
    let text: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
    // A failure to print cannot be reported anywhere.
    let _ = crate::terminal::escape::print(format_args!("{text}:{directive}\n"));
}

/// The candidates for the last word, and the directive.
pub(crate) fn answer(definition: &Command, words: &[String], names: &Names) -> (Vec<String>, u8) {
    let mut words = words.to_vec();
    words.retain(|word| !needs_equals(definition, word));
    let mut known = with_names(definition.clone(), names);
    let found = complete(&mut known, line(&words), words.len(), None).unwrap_or_default();
    let mut found: Vec<_> = found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect();
    if found.iter().any(|one| one.ends_with(ANY_FILE)) {
        return (Vec::new(), FILES);
    }
    if before(definition, &words).is_none_or(|matches| matches.subcommand_name().is_none()) {
        with_names_for_aliases(definition, &words, &mut found);
    }
    let offered = offered(found, words.last().map_or("", String::as_str));
    let directive = if offered.iter().any(|one| one.ends_with('=')) { NO_SPACE } else { NO_FILES };
    (offered, directive)
}

/// Whether this is a flag whose value must follow a `=`: the next word is no value of it.
fn needs_equals(command: &Command, word: &str) -> bool {
    let Some(long) = word.strip_prefix("--") else { return false };
    let is_it = |arg: &Arg| arg.is_require_equals_set() && arg.get_long() == Some(long);
    command.get_arguments().any(is_it) || command.get_subcommands().any(|inner| needs_equals(inner, word))
}

/// What the words before the last one say, as far as they are valid.
fn before(definition: &Command, words: &[String]) -> Option<ArgMatches> {
    let (_, before) = words.split_last()?;
    definition.clone().ignore_errors(true).try_get_matches_from(line(before)).ok()
}

/// The engine offers one of the names and aliases of a command, the first one. Offers the name if it fits.
fn with_names_for_aliases(definition: &Command, words: &[String], found: &mut [String]) {
    let typed = words.last().map_or("", String::as_str);
    for one in found {
        let is_alias = |command: &&Command| command.get_all_aliases().any(|alias| alias == one.as_str());
        let name = definition.get_subcommands().find(is_alias).map(Command::get_name);
        if let Some(name) = name.filter(|name| name.starts_with(typed)) {
            name.clone_into(one);
        }
    }
}

/// The definition, in which arguments for names have those as candidates.
fn with_names(command: Command, names: &Names) -> Command {
    let name = command.get_name().to_owned();
    let command = command.mut_args(|arg| {
        let is_file = arg.get_value_hint() == ValueHint::AnyPath;
        match resource(arg.get_id().as_str(), &name) {
            Some(resource) => with_candidates(arg, resource, names),
            None if is_file => {
                arg.add(ArgValueCompleter::new(|_: &OsStr| vec![CompletionCandidate::new(ANY_FILE)]))
            }
            None => arg,
        }
    });
    command.mut_subcommands(|inner| with_names(inner, names))
}

fn with_candidates(arg: Arg, resource: Resource, names: &Names) -> Arg {
    let (names, is_positional) = (Arc::clone(names), arg.is_positional());
    arg.add(ArgValueCompleter::new(move |typed: &OsStr| {
        let typed = typed.to_string_lossy();
        // A flag can be where a name can be. It needs no request.
        if is_positional && typed.starts_with('-') {
            return Vec::new();
        }
        // Keep the kind before a name: `od/web`.
        let kind = typed.rfind('/').filter(|_| is_positional).map_or("", |slash| &typed[..=slash]);
        names(resource).iter().map(|name| CompletionCandidate::new(format!("{kind}{name}"))).collect()
    }))
}

fn resource(argument: &str, command: &str) -> Option<Resource> {
    Some(match (argument, command) {
        ("namespace", _) => Resource::Namespaces,
        ("context", _) => Resource::Contexts,
        ("cluster", _) => Resource::Clusters,
        ("user", _) => Resource::Users,
        ("hold", _) => Resource::Holds,
        ("revision" | "to_revision", _) => Resource::Revisions,
        ("pods", _) => Resource::Pods,
        ("images", _) => Resource::Containers,
        ("name", "adopt") => Resource::Adoptable,
        ("name", _) | ("all", "unmark") => Resource::Deployments,
        _ => return None,
    })
}

/// The candidates that begin with the typed text, sorted. Shells insert a candidate as it is: one with other
/// characters could run a command at Enter, and other users choose the names in a cluster.
fn offered(found: Vec<String>, typed: &str) -> Vec<String> {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "._:/=@*-".contains(c);
    let mut offered = found;
    offered.retain(|one| one.starts_with(typed) && one.chars().all(is_safe));
    offered.retain(|one| typed.starts_with('-') || !one.starts_with('-'));
    offered.sort();
    offered.dedup();
    offered
}

/// Names from the cluster; none if it does not answer.
fn from_cluster(definition: &Command, words: &[String], resource: Resource) -> Vec<String> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let (connect, named) = parsed(definition, words).unwrap_or_default();
    // A timeout must be created inside the runtime.
    let found = runtime.block_on(async {
        tokio::time::timeout(TIMEOUT, candidates(&connect, named.as_deref(), resource)).await
    });
    found.ok().and_then(Result::ok).unwrap_or_default()
}

/// The flags for a cluster and the OrderedDeployment before the last of these words.
fn parsed(definition: &Command, words: &[String]) -> Option<(ConnectArgs, Option<String>)> {
    let matches = before(definition, words)?;
    let connect = ConnectArgs::of(&matches).ok()?;
    let mut names = innermost(&matches).try_get_raw("name").ok().flatten().into_iter().flatten();
    Some((connect, names.find_map(|name| object_name(name.to_str()?).ok())))
}

/// The names; `named` is the OrderedDeployment on the command line.
async fn candidates(connect: &ConnectArgs, named: Option<&str>, resource: Resource) -> Result<Vec<String>> {
    if !matches!(resource, Resource::Contexts | Resource::Clusters | Resource::Users) {
        return names_in(&connect.connect().await?, named, resource).await;
    }
    let found = match &connect.kubeconfig {
        Some(path) => Kubeconfig::read_from(path)?,
        None => Kubeconfig::read()?,
    };
    Ok(match resource {
        Resource::Contexts => found.contexts.into_iter().map(|named| named.name).collect(),
        Resource::Clusters => found.clusters.into_iter().map(|named| named.name).collect(),
        _ => found.auth_infos.into_iter().map(|named| named.name).collect(),
    })
}

/// The names in the cluster; `named` is the OrderedDeployment on the command line.
async fn names_in(connection: &Connection, named: Option<&str>, resource: Resource) -> Result<Vec<String>> {
    let Connection { client, namespace, .. } = connection;
    let (all, deployments) = (ListParams::default(), connection.deployments());
    match resource {
        Resource::Namespaces => Ok(names(&Api::<Namespace>::all(client.clone()).list(&all).await?).collect()),
        Resource::Deployments => Ok(names(&deployments.list(&all).await?).collect()),
        Resource::Adoptable => {
            let found = Api::<Deployment>::namespaced(client.clone(), namespace).list(&all).await?;
            let ours = deployments.list(&all).await?;
            Ok(names(&found).chain(names(&ours)).collect())
        }
        Resource::Pods => {
            let found = Api::<PodView>::namespaced(client.clone(), namespace).list(&all).await?;
            let ours = found.iter().filter(|pod| Family::Ordered.set_of(&pod.metadata).is_some());
            Ok(ours.map(ResourceExt::name_any).collect())
        }
        Resource::Contexts | Resource::Clusters | Resource::Users => Ok(Vec::new()),
        Resource::Containers | Resource::Holds | Resource::Revisions => {
            let Some(name) = named else { return Ok(Vec::new()) };
            let found = deployments.get(name).await?;
            if resource == Resource::Holds {
                return Ok(found.status.as_ref().map(holds).unwrap_or_default());
            }
            if resource == Resource::Revisions {
                let found = revisions(connection, &found).await?;
                return Ok(found.iter().map(|revision| revision.number.to_string()).collect());
            }
            let spec = &found.spec.template.value()["spec"];
            let lists = ["containers", "initContainers"].into_iter().filter_map(|list| spec[list].as_array());
            let containers = lists.flatten().filter_map(|container| container["name"].as_str());
            Ok(containers.map(|name| format!("{name}=")).collect())
        }
    }
}

fn names<K: kube::Resource + Clone>(found: &ObjectList<K>) -> impl Iterator<Item = String> {
    found.iter().map(ResourceExt::name_any)
}

/// The ids that a resume can name now: the hold, or the pause point at which the rollout is blocked.
fn holds(status: &OrderedDeploymentStatus) -> Vec<String> {
    let hold = status.hold.as_ref().map(|hold| hold.id.clone());
    hold.or_else(|| blocked(status).map(|(blocked, _)| blocked.id.clone())).into_iter().collect()
}

#[cfg(test)]
mod tests;
