//! Discovers the resources and watches each of them, metadata only. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::{Stream, StreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Api, Client};
use kube_runtime::watcher::Event;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{AbortHandle, JoinSet};

use crate::agents::{RETRY, burst, watch};

/// The resource that is not in the graph: its objects have no dependents and expire.
const IGNORED: (&str, &str) = ("", "events");

/// `apiVersion` and `kind`.
pub(super) type Kind = (String, String);

/// A resource in one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resource {
    pub(super) api: ApiResource,
    pub(super) namespaced: bool,
    /// Whether its objects are in the graph: this is the preferred version, and the resource supports list,
    /// watch and delete.
    pub(super) monitored: bool,
}

impl Resource {
    pub(super) fn kind(&self) -> Kind {
        (self.api.api_version.clone(), self.api.kind.clone())
    }
}

/// All resources of a server, by kind.
pub(super) type Resources = BTreeMap<Kind, Arc<Resource>>;

/// A message of the monitors.
pub(super) enum MonitorMessage {
    /// The current resources of the server.
    Resources(Resources),
    /// An event of a watch.
    Event(Arc<Resource>, Box<Event<PartialObjectMeta<DynamicObject>>>),
}

/// Watches all resources until the task ends. A new CustomResourceDefinition takes effect immediately.
pub(super) async fn run(client: Client, tell: UnboundedSender<MonitorMessage>) {
    let mut definitions = metadata(&client, &ApiResource::erase::<CustomResourceDefinition>(&()));
    let mut watches = JoinSet::new();
    let mut by_kind: BTreeMap<Kind, AbortHandle> = BTreeMap::new();
    while burst(&mut definitions, std::time::Duration::MAX).await.is_some() {
        let resources = loop {
            match discover(&client).await {
                Ok(resources) => break resources,
                Err(error) => {
                    tracing::debug!(%error, "cannot discover resources");
                    tokio::time::sleep(RETRY).await;
                }
            }
        };
        let wanted: BTreeSet<Kind> =
            resources.values().filter(|one| one.monitored).map(|one| one.kind()).collect();
        by_kind.retain(|kind, watch| {
            let stays = wanted.contains(kind);
            if !stays {
                watch.abort();
            }
            stays
        });
        let fresh: Vec<Arc<Resource>> = resources
            .iter()
            .filter(|(kind, one)| one.monitored && !by_kind.contains_key(*kind))
            .map(|(_, one)| Arc::clone(one))
            .collect();
        if tell.send(MonitorMessage::Resources(resources)).is_err() {
            return;
        }
        for resource in fresh {
            let kind = resource.kind();
            let events = metadata(&client, &resource.api);
            by_kind.insert(kind, watches.spawn(forward(resource, events, tell.clone())));
        }
    }
}

fn metadata(
    client: &Client,
    resource: &ApiResource,
) -> impl Stream<Item = Event<PartialObjectMeta<DynamicObject>>> + Send + Unpin + use<> {
    watch(Api::<PartialObjectMeta<DynamicObject>>::all_with(client.clone(), resource))
}

async fn forward(
    resource: Arc<Resource>,
    mut events: impl Stream<Item = Event<PartialObjectMeta<DynamicObject>>> + Unpin,
    tell: UnboundedSender<MonitorMessage>,
) {
    while let Some(event) = events.next().await {
        if tell.send(MonitorMessage::Event(Arc::clone(&resource), Box::new(event))).is_err() {
            return;
        }
    }
}

async fn discover(client: &Client) -> Result<Resources, kube::Error> {
    let discovery = Discovery::new(client.clone()).run().await?;
    let mut resources = Resources::new();
    for group in discovery.groups_alphabetical() {
        let preferred = group.preferred_version_or_latest();
        for version in group.versions() {
            for (api, capabilities) in group.versioned_resources(version) {
                let can = |verb| capabilities.supports_operation(verb);
                let ignored = IGNORED == (api.group.as_str(), api.plural.as_str());
                let resource = Resource {
                    namespaced: capabilities.scope == Scope::Namespaced,
                    monitored: version == preferred
                        && !ignored
                        && [verbs::LIST, verbs::WATCH, verbs::DELETE].into_iter().all(can),
                    api,
                };
                resources.insert(resource.kind(), Arc::new(resource));
            }
        }
    }
    Ok(resources)
}
