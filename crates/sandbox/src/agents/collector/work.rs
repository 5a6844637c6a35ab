//! Processes the items of a queue: uncached reads, then one write after the other. Decisions use what was just read.
//! Only dependents come from the graph.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::graph::{Coordinates, FOREGROUND, Node, ORPHAN};
use super::monitors::{Kind, Resource};
use super::queue::{Task, Uid};
use super::settings::Collector;
use super::shared::{Shared, lock};

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
    shared: Arc<Mutex<Shared>>,
    settings: watch::Receiver<Collector>,
    /// When the last write was sent.
    last: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

impl Worker {
    pub(super) fn new(
        client: Client,
        shared: Arc<Mutex<Shared>>,
        settings: watch::Receiver<Collector>,
    ) -> Self {
        Self { client, shared, settings, last: Arc::default() }
    }

    /// Releases the dependents of an owner with one patch each, then removes the finalizer of the owner.
    pub(super) async fn orphan(&self, uid: &Uid) -> Result<(), Error> {
        let (owner, dependents) = {
            let shared = lock(&self.shared);
            let Some(owner) = shared.graph.node(uid) else { return Ok(()) };
            (owner, shared.graph.dependents(uid))
        };
        let released =
            join_all(dependents.iter().map(|one| self.drop_owners(one, std::slice::from_ref(uid))));
        released.await.into_iter().collect::<Result<(), Error>>()?;
        self.remove_finalizer(&owner, ORPHAN).await
    }

    /// Deletes an object that no owner keeps. An object that waits for its dependents is released when none is left.
    pub(super) async fn attempt_to_delete(&self, uid: &Uid) -> Result<(), Error> {
        let Some(node) = lock(&self.shared).graph.node(uid) else { return Ok(()) };
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
        let dependents = lock(&self.shared).graph.dependents(uid);
        if !owners.waiting.is_empty() && !dependents.is_empty() {
            if dependents.iter().any(Node::waits) {
                // The references may form a cycle in which each object waits for the other.
                self.unblock(&node).await?;
            }
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
        let mut blocking = lock(&self.shared).graph.dependents(&node.uid);
        blocking.retain(|dependent| dependent.is_blocking(&node.uid));
        if blocking.is_empty() {
            return self.remove_finalizer(node, FOREGROUND).await;
        }
        let mut shared = lock(&self.shared);
        for dependent in blocking.iter().filter(|dependent| !dependent.waits()) {
            shared.queue(Task::Delete).add(dependent.uid.clone());
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

    /// The current owner, from an uncached read; `None` if it does not exist in the namespace of the object. A namespaced owner of
    /// another namespace is absent.
    async fn owner(&self, of: &Node, reference: &OwnerReference) -> Result<Option<Node>, Error> {
        self.report_foreign_owner(of, reference).await;
        let kind: Kind = (reference.api_version.clone(), reference.kind.clone());
        let (resource, absent) = {
            let shared = lock(&self.shared);
            let named = |namespace: &str| shared.graph.is_absent(&Coordinates::of(reference, namespace));
            (shared.graph.resource(&kind), named(&of.namespace) || named(""))
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
        let owner = owner.filter(|owner| owner.uid == reference.uid);
        if owner.is_none() {
            lock(&self.shared).graph.set_absent(Coordinates::of(reference, namespace));
        }
        Ok(owner)
    }

    /// Publishes one event if the watches have shown the owner in another namespace.
    async fn report_foreign_owner(&self, of: &Node, reference: &OwnerReference) {
        let known = lock(&self.shared).graph.node(&reference.uid).map(|owner| owner.namespace);
        if known.is_none_or(|namespace| namespace.is_empty() || namespace == of.namespace) {
            return;
        }
        let (version, kind) = of.resource.kind();
        let namespace = if of.namespace.is_empty() { "default" } else { &of.namespace };
        let OwnerReference { api_version, kind: owner_kind, name, uid, .. } = reference;
        let message = format!(
            "ownerRef [{api_version}/{owner_kind}, namespace: {ns}, name: {name}, uid: {uid}] does not exist in namespace {ns:?}",
            ns = of.namespace
        );
        let event = json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{}.{uid}", of.name), "namespace": namespace},
            "involvedObject": {
                "apiVersion": version, "kind": kind, "namespace": of.namespace, "name": of.name, "uid": of.uid,
            },
            "type": "Warning", "reason": "OwnerRefInvalidNamespace", "message": message,
            "source": {"component": "garbage-collector-controller"},
        });
        let Ok(event) = serde_json::from_value::<Event>(event) else { return };
        // It may exist. The collection does not depend on events.
        let _ = Api::namespaced(self.client.clone(), namespace).create(&PostParams::default(), &event).await;
    }

    /// Removes an object that does not exist, even if the watches have not shown its deletion.
    fn forget(&self, uid: &str) {
        let mut shared = lock(&self.shared);
        let wanted = shared.graph.remove(uid);
        shared.enqueue(wanted);
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

    /// Removes the references to these owners.
    async fn drop_owners(&self, node: &Node, owners: &[Uid]) -> Result<(), Error> {
        let references: Vec<Value> =
            owners.iter().map(|uid| json!({"$patch": "delete", "uid": uid})).collect();
        self.change_owners(node, &references, |known| known.retain(|one| !owners.contains(&one.uid))).await
    }

    /// Sets all owner references to not block the deletion of the owner.
    async fn unblock(&self, node: &Node) -> Result<(), Error> {
        let mut owners = node.owners.clone();
        let unblock = |owners: &mut Vec<OwnerReference>| {
            for owner in owners {
                owner.block_owner_deletion = Some(false);
            }
        };
        unblock(&mut owners);
        let references: Vec<Value> = owners.iter().map(|owner| json!(owner)).collect();
        self.change_owners(node, &references, unblock).await
    }

    /// Patches the owner references: with a strategic merge patch, or with the whole list from the graph if the server
    /// does not support that.
    async fn change_owners(
        &self,
        node: &Node,
        references: &[Value],
        change: impl Fn(&mut Vec<OwnerReference>),
    ) -> Result<(), Error> {
        let api = self.api(&node.resource, &node.namespace);
        let patch = json!({"metadata": {"uid": node.uid, "ownerReferences": references}});
        self.turn().await;
        let mut answer =
            api.patch_metadata(&node.name, &PatchParams::default(), &Patch::Strategic(patch)).await;
        if matches!(&answer, Err(kube::Error::Api(status)) if status.code == 415) {
            let known = lock(&self.shared).graph.node(&node.uid).unwrap_or_else(|| node.clone());
            let mut owners = known.owners;
            change(&mut owners);
            let patch = json!({"metadata": {
                "uid": node.uid, "resourceVersion": known.version, "ownerReferences": owners,
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
