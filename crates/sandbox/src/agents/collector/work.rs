//! Processes the items of a queue: uncached reads, then one write after the other. Decisions use what was
//! just read. Only dependents come from the graph.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::graph::{FOREGROUND, Graph, Node, ORPHAN, lock};
use super::monitors::{Kind, Resource};
use super::queue::{Task, Uid};
use super::settings::Collector;

/// How often to retry the removal of a finalizer after a conflict.
const TRIES: usize = 5;

/// Why an item failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The server does not serve the resource, but may do so later.
    #[error("no resource has the kind {kind} in version {version}")]
    FindResource { version: String, kind: String },
    /// A reference that the API server cannot resolve. The object stays as it is.
    #[error("a cluster-scoped object refers to a namespaced owner")]
    NamespacedOwner,
    /// A request failed.
    #[error(transparent)]
    Request(#[from] kube::Error),
}

/// The owners of an item, by state.
#[derive(Default)]
struct Owners {
    /// The number of owners that exist and keep the item.
    solid: usize,
    /// Owners that do not exist.
    absent: Vec<Uid>,
    /// Owners that wait for the deletion of their dependents.
    waiting: Vec<Uid>,
}

/// Processes items.
#[derive(Clone)]
pub(super) struct Worker {
    client: Client,
    graph: Arc<Mutex<Graph>>,
    settings: watch::Receiver<Collector>,
    /// When the last write was sent.
    last: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

impl Worker {
    pub(super) fn new(
        client: Client,
        graph: Arc<Mutex<Graph>>,
        settings: watch::Receiver<Collector>,
    ) -> Self {
        Self { client, graph, settings, last: Arc::default() }
    }

    /// Releases the dependents of an owner with one patch each, then removes the finalizer of the owner.
    pub(super) async fn orphan(&self, uid: &Uid) -> Result<(), Error> {
        let (owner, dependents) = {
            let graph = lock(&self.graph);
            let Some(owner) = graph.node(uid) else { return Ok(()) };
            (owner, graph.dependents(uid))
        };
        let released =
            join_all(dependents.iter().map(|one| self.drop_owners(one, std::slice::from_ref(uid))));
        released.await.into_iter().collect::<Result<(), Error>>()?;
        self.remove_finalizer(&owner, ORPHAN).await
    }

    /// Deletes an object that no owner keeps. An object that waits for its dependents is released when none
    /// is left.
    pub(super) async fn attempt_to_delete(&self, uid: &Uid) -> Result<(), Error> {
        let Some(node) = lock(&self.graph).node(uid) else { return Ok(()) };
        if node.terminating && !node.waits() {
            return Ok(());
        }
        let Some(live) = self.read(&node.resource, &node.namespace, &node.name).await? else {
            self.forget(uid);
            return Ok(());
        };
        if live.uid != node.uid {
            self.forget(uid);
            return Ok(());
        }
        if node.waits() {
            return self.advance(&node).await;
        }
        let owners = match self.classify(&live).await {
            Err(Error::NamespacedOwner) => return Ok(()),
            owners => owners?,
        };
        if live.owners.is_empty() || owners.absent.is_empty() && owners.waiting.is_empty() {
            return Ok(());
        }
        if owners.solid > 0 {
            let others: Vec<Uid> = owners.absent.into_iter().chain(owners.waiting).collect();
            return self.drop_owners(&node, &others).await;
        }
        let dependents = lock(&self.graph).dependents(uid);
        if !owners.waiting.is_empty() && !dependents.is_empty() {
            return self.delete(&live, PropagationPolicy::Foreground).await;
        }
        // The finalizers of the object determine the propagation policy.
        let policy = match &live {
            live if live.has(ORPHAN) => PropagationPolicy::Orphan,
            live if live.has(FOREGROUND) => PropagationPolicy::Foreground,
            _ => PropagationPolicy::Background,
        };
        self.delete(&live, policy).await
    }

    /// Processes an object that waits for its dependents.
    async fn advance(&self, node: &Node) -> Result<(), Error> {
        let mut blocking = lock(&self.graph).dependents(&node.uid);
        blocking.retain(|dependent| dependent.is_blocking(&node.uid));
        if blocking.is_empty() {
            return self.remove_finalizer(node, FOREGROUND).await;
        }
        let mut graph = lock(&self.graph);
        for dependent in blocking.iter().filter(|dependent| !dependent.waits()) {
            graph.queue(Task::Delete).add(dependent.uid.clone());
        }
        Ok(())
    }

    async fn classify(&self, live: &Node) -> Result<Owners, Error> {
        let mut owners = Owners::default();
        for reference in &live.owners {
            match self.owner(live, reference).await? {
                None => owners.absent.push(reference.uid.clone()),
                Some(owner) if owner.waits() => owners.waiting.push(reference.uid.clone()),
                Some(_) => owners.solid += 1,
            }
        }
        Ok(owners)
    }

    /// The current owner, from an uncached read; `None` if it does not exist in the namespace of the object.
    /// A namespaced owner of another namespace is absent.
    async fn owner(&self, of: &Node, reference: &OwnerReference) -> Result<Option<Node>, Error> {
        let kind: Kind = (reference.api_version.clone(), reference.kind.clone());
        let (resource, absent) = {
            let graph = lock(&self.graph);
            (graph.resource(&kind), graph.is_absent(&reference.uid))
        };
        if absent {
            return Ok(None);
        }
        let resource = resource.ok_or(Error::FindResource { version: kind.0, kind: kind.1 })?;
        if resource.namespaced && of.namespace.is_empty() {
            return Err(Error::NamespacedOwner);
        }
        let namespace = if resource.namespaced { of.namespace.as_str() } else { "" };
        let owner = self.read(&resource, namespace, &reference.name).await?;
        Ok(owner.filter(|owner| owner.uid == reference.uid))
    }

    /// Removes an object that does not exist, even if the watches have not shown its deletion.
    fn forget(&self, uid: &str) {
        lock(&self.graph).remove(uid);
    }

    fn api(&self, resource: &Resource, namespace: &str) -> Api<DynamicObject> {
        let client = self.client.clone();
        if resource.namespaced {
            Api::namespaced_with(client, namespace, &resource.api)
        } else {
            Api::all_with(client, &resource.api)
        }
    }

    async fn read(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Node>, Error> {
        let found = self.api(resource, namespace).get_metadata_opt(name).await?;
        Ok(found.map(|found| Node::of(resource, found.metadata)))
    }

    async fn delete(&self, live: &Node, policy: PropagationPolicy) -> Result<(), Error> {
        let only_this =
            Preconditions { uid: Some(live.uid.clone()), resource_version: Some(live.version.clone()) };
        let options = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        self.turn().await;
        let api = self.api(&live.resource, &live.namespace);
        match api.delete(&live.name, &options.preconditions(only_this)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.forget(&live.uid);
                Ok(())
            }
            other => other.map(drop).map_err(Error::from),
        }
    }

    /// Removes the references to these owners: with a strategic merge patch, or with the whole list from the
    /// graph if the server does not support that.
    async fn drop_owners(&self, node: &Node, owners: &[Uid]) -> Result<(), Error> {
        let api = self.api(&node.resource, &node.namespace);
        let gone: Vec<Value> = owners.iter().map(|uid| json!({"$patch": "delete", "uid": uid})).collect();
        let patch = json!({"metadata": {"uid": node.uid, "ownerReferences": gone}});
        self.turn().await;
        let mut answer =
            api.patch_metadata(&node.name, &PatchParams::default(), &Patch::Strategic(patch)).await;
        if matches!(&answer, Err(kube::Error::Api(status)) if status.code == 415) {
            let mut known = lock(&self.graph).node(&node.uid).unwrap_or_else(|| node.clone());
            known.owners.retain(|owner| !owners.contains(&owner.uid));
            let patch = json!({"metadata": {
                "uid": node.uid, "resourceVersion": known.version, "ownerReferences": known.owners,
            }});
            answer = api.patch_metadata(&node.name, &PatchParams::default(), &Patch::Merge(patch)).await;
        }
        match answer {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(drop).map_err(Error::from),
        }
    }

    async fn remove_finalizer(&self, node: &Node, finalizer: &str) -> Result<(), Error> {
        for left in (0..TRIES).rev() {
            let live = self.read(&node.resource, &node.namespace, &node.name).await?;
            let Some(live) = live.filter(|live| live.uid == node.uid && live.has(finalizer)) else {
                return Ok(());
            };
            let kept: Vec<&String> = live.finalizers.iter().filter(|one| *one != finalizer).collect();
            let patch = json!({"metadata": {"resourceVersion": live.version, "finalizers": kept}});
            self.turn().await;
            let api = self.api(&node.resource, &node.namespace);
            match api.patch_metadata(&node.name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Err(kube::Error::Api(status)) if status.code == 409 && left > 0 => {}
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                other => return other.map(drop).map_err(Error::from),
            }
        }
        Ok(())
    }

    /// Waits for the turn of a write. Writes are in the order of their calls.
    async fn turn(&self) {
        let mut settings = self.settings.clone();
        let mut last = self.last.lock().await;
        loop {
            let pace = settings.borrow_and_update().pace;
            let at = last.map_or_else(Instant::now, |last| last + pace);
            if pace == Duration::ZERO || at <= Instant::now() {
                break;
            }
            tokio::select! {
                () = sleep_until(at) => {}
                changed = settings.changed() => {
                    if changed.is_err() { break }
                }
            }
        }
        *last = Some(Instant::now());
    }
}
