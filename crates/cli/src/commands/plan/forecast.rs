//! Computes a plan: a preview of the observed state with a change, under assumptions about times and nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use ordereddeployment_api::OrderedDeploymentSpec;
use ordereddeployment_placement as placement;
use ordereddeployment_preview::{Assumptions, Preview, preview};
use ordereddeployment_wire::{NamespacedUid, PodView};

use super::compare::compare;
use super::spec_change::{SpecChange, refuse_invalid};
use super::{duration, idle_points};
use crate::client::explain::explain;
use crate::view::state::ObservedState;

/// What a plan guarantees.
pub(super) const GUARANTEE: &str =
    "the order by priority and the pause points; within one priority, the order is the current one";

/// The default if the current pods give no ready time.
const READY_AFTER: Duration = Duration::from_secs(10);
const GONE_AFTER: Duration = Duration::from_secs(5);
const RESUMED_AFTER: Duration = Duration::from_secs(60);

/// The assumptions from the flags.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct AssumptionFlags {
    /// Assume that new pods are ready after this time [default: the time that the current pods took]
    #[arg(long = "ready-after", value_name = "DURATION", value_parser = duration)]
    pub(super) ready: Option<Duration>,
    /// Assume that deleted pods are removed after this time [default: 5s]
    #[arg(long = "gone-after", value_name = "DURATION", value_parser = duration)]
    pub(super) gone: Option<Duration>,
    /// Assume that each pause is resumed after this time [default: 1m]
    #[arg(long = "resumed-after", value_name = "DURATION", value_parser = duration)]
    pub(super) resumed: Option<Duration>,
}

pub(super) struct Plan {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) is_rest: bool,
    pub(super) spec: OrderedDeploymentSpec,
    pub(super) preview: Preview,
    pub(super) assumptions: Assumptions,
    /// Whether `ready_after` is the time that the current pods took.
    pub(super) ready_after_learned: bool,
    pub(super) notes: Vec<String>,
    pub(super) next: Option<String>,
}

pub(super) async fn plan(
    client: &Client,
    state: &ObservedState,
    change: &SpecChange,
    given: AssumptionFlags,
) -> Result<Plan> {
    let mut notes = Vec::new();
    let mut snapshot = state.observed();
    let deployment = change.apply(&snapshot.deployment)?;
    refuse_invalid(&deployment.spec)?;
    let name = deployment.name_any();
    let namespace = deployment.namespace().unwrap_or_default();
    snapshot.deployment = deployment.into();
    snapshot.comparison = compare(client, &snapshot, &mut notes).await?;
    let learned = ready_after(state);
    let placed_on = nodes(client, &mut notes).await?;
    let assumptions = Assumptions {
        ready_after: given.ready.or(learned).unwrap_or(READY_AFTER),
        gone_after: given.gone.unwrap_or(GONE_AFTER),
        resumed_after: given.resumed.unwrap_or(RESUMED_AFTER),
        others: match &placed_on {
            None => BTreeMap::new(),
            Some(_) => others(client, state, &mut notes).await?,
        },
        nodes: placed_on,
    };
    for (name, facts) in &state.nodes {
        snapshot.nodes.insert(name.as_str().into(), Some(facts.facts()));
    }
    // That of a large rollout takes a while, and the threads of the runtime answer requests.
    let computed = tokio::task::spawn_blocking(move || {
        let preview = preview(&snapshot, &assumptions);
        (snapshot, assumptions, preview)
    });
    let (snapshot, assumptions, preview) = computed.await.context("cannot compute the plan")?;
    notes.extend(idle_points::notes(&snapshot, &preview));
    Ok(Plan {
        name,
        namespace,
        is_rest: *change == SpecChange::default(),
        spec: snapshot.deployment.spec.clone(),
        preview,
        assumptions,
        ready_after_learned: given.ready.is_none() && learned.is_some(),
        notes,
        next: None,
    })
}

/// The median time that the current pods took from creation to Ready, in whole seconds.
fn ready_after(state: &ObservedState) -> Option<Duration> {
    let pods = state.observed().pods;
    let mut took: Vec<i64> = pods
        .iter()
        .filter_map(|pod| Some(pod.facts.ready_since?.duration_since(pod.facts.created?).as_secs()))
        .filter(|seconds| (0..3600).contains(seconds))
        .collect();
    took.sort_unstable();
    took.get(took.len() / 2).and_then(|seconds| u64::try_from(*seconds).ok()).map(Duration::from_secs)
}

/// The nodes; `None` and a message if they may not be read.
async fn nodes(
    client: &Client,
    messages: &mut Vec<String>,
) -> Result<Option<BTreeMap<String, placement::Node>>> {
    match Api::<Node>::all(client.clone()).list(&ListParams::default()).await {
        Ok(found) => {
            Ok(Some(found.iter().map(|node| (node.name_any(), placement::Node::of(node))).collect()))
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            messages.push(format!(
                "nodes cannot be read, so the plan assumes that each new pod finds a node with room: {}",
                status.message
            ));
            Ok(None)
        }
        Err(error) => Err(explain(error, "cannot list the nodes")),
    }
}

/// The number of pods of other owners on each node.
async fn others(
    client: &Client,
    state: &ObservedState,
    notes: &mut Vec<String>,
) -> Result<BTreeMap<String, usize>> {
    let own: BTreeSet<NamespacedUid> =
        state.pods.iter().map(|pod| NamespacedUid::of(&pod.metadata)).collect();
    let mut load: BTreeMap<String, usize> = BTreeMap::new();
    let pods = match Api::<PodView>::all(client.clone()).list(&ListParams::default()).await {
        Ok(pods) => pods.items,
        Err(kube::Error::Api(status)) if status.code == 403 => {
            notes.push(format!(
                "pods of other namespaces cannot be read and are not counted: {}",
                status.message
            ));
            Vec::new()
        }
        Err(error) => return Err(explain(error, "cannot list the pods of all namespaces")),
    };
    for pod in &pods {
        let is_own = own.contains(&NamespacedUid::of(&pod.metadata));
        if let Some(node) = pod.node().filter(|_| !is_own && !pod.has_ended()) {
            *load.entry(node.to_owned()).or_default() += 1;
        }
    }
    Ok(load)
}
