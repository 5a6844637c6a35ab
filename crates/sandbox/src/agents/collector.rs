//! The garbage collector: deletes dependents of absent owners and handles the finalizers `orphan` and
//! `foregroundDeletion`.
//!
//! It decides like the garbage collector of kube-controller-manager: an object that the watches show with an
//! owner that is absent or waits for its dependents is checked against the current state. It reads the store
//! instead of watches, as it was [`Collector::lag`] ago. Each write is a separate request of a client, with
//! the version that was read, so other clients can act between the decision and the write, and between two
//! writes. It never creates objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures::future::join_all;
use futures::{StreamExt, stream};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions, PropagationPolicy,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep, timeout_at};

use super::RETRY;
use crate::object;
use crate::resource::{Origin, ResourceInfo};
use crate::server::{Server, State, storage};
use crate::store::Key;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// The delay after a change, so that one pass handles a burst of changes.
const PAUSE: Duration = Duration::from_millis(2);
/// How many objects are in process at a time.
const WORKERS: usize = 20;
/// How often to retry the removal of a finalizer after a conflict.
const TRIES: usize = 5;

/// The settings of the garbage collector. With the default it works without delay. They can change while it
/// runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collector {
    /// The minimum time between two of its writes, like the rate limit of its client.
    pub pace: Duration,
    /// How late it sees a change.
    pub lag: Duration,
    /// Whether it is suspended: it reads nothing and sends no requests.
    pub frozen: bool,
}

/// An object in one version.
#[derive(Clone)]
struct Node {
    info: Arc<ResourceInfo>,
    key: Key,
    object: Arc<Value>,
}

impl Node {
    fn uid(&self) -> &str {
        object::uid(&self.object)
    }

    fn has(&self, finalizer: &str) -> bool {
        object::finalizers(&self.object).iter().any(|one| one == finalizer)
    }

    /// Whether the object waits for the garbage collector to remove this finalizer.
    fn waits_for(&self, finalizer: &str) -> bool {
        object::terminating(&self.object) && self.has(finalizer)
    }

    fn is_blocking(&self, owner: &str) -> bool {
        let owners = object::owners(&self.object).iter();
        owners.filter(|one| one["uid"] == owner).any(|one| one["blockOwnerDeletion"] == true)
    }
}

/// The objects as the garbage collector sees them.
#[derive(Default)]
struct View {
    nodes: BTreeMap<String, Node>,
    /// The UIDs of the dependents, by the UID of their owner.
    dependents: BTreeMap<String, Vec<String>>,
    /// The UIDs of owners that were there, and are no more.
    gone: BTreeSet<String>,
    /// When it sees a further change that has already happened.
    next: Option<Instant>,
}

impl View {
    fn of(state: &State, lag: Duration) -> Self {
        let (mut view, now) = (Self::default(), Instant::now());
        for (resource, collection) in state.store.collections() {
            // Events have no dependents and expire.
            let Some(info) = state.registry.iter().find(|info| storage(info) == *resource) else { continue };
            if info.is_builtin("", "Event") {
                continue;
            }
            let later = collection.history.iter().find(|event| event.at + lag > now);
            view.next = view.next.into_iter().chain(later.map(|event| event.at + lag)).min();
            // After a compaction it sees the current state, like a watch that starts again.
            let past = later.and_then(|event| state.store.at_version(resource, event.version - 1));
            for (key, object) in past.as_ref().unwrap_or(&collection.objects) {
                let node = Node { info: Arc::clone(info), key: key.clone(), object: Arc::clone(object) };
                let uid = node.uid().to_owned();
                for owner in object::owners(object) {
                    let owner = owner["uid"].as_str().unwrap_or_default().to_owned();
                    view.dependents.entry(owner).or_default().push(uid.clone());
                }
                view.nodes.insert(uid, node);
            }
        }
        view
    }

    fn dependents(&self, uid: &str) -> Vec<Node> {
        let dependents = self.dependents.get(uid).into_iter().flatten();
        dependents.filter_map(|uid| self.nodes.get(uid)).cloned().collect()
    }

    /// Whether an owner of the object is unknown, differs from the reference, or waits for its dependents.
    fn is_suspicious(&self, node: &Node) -> bool {
        object::owners(&node.object).iter().any(|reference| {
            let known = reference["uid"].as_str().and_then(|uid| self.nodes.get(uid));
            known.is_none_or(|owner| {
                let elsewhere = !owner.key.0.is_empty() && owner.key.0 != node.key.0;
                let differs = reference["kind"] != *owner.info.kind || reference["name"] != *owner.key.1;
                elsewhere || differs || owner.waits_for(FOREGROUND)
            })
        })
    }
}

/// What is to do with one object.
enum Action {
    /// Release these dependents with one patch each, then remove the finalizer of the owner. The dependents
    /// are not read again.
    Orphan(Node, Vec<Node>),
    /// Remove the finalizer of an object whose last blocking dependent is gone.
    Finish(Node),
    /// Remove the references to these owners.
    Release(Node, Vec<String>),
    Delete(Node, PropagationPolicy),
}

/// The owners of an object, by state.
#[derive(Default)]
struct Owners {
    /// Whether an owner exists and keeps the object.
    solid: bool,
    /// Owners that do not exist.
    absent: Vec<String>,
    /// Owners that wait for the deletion of their dependents.
    waiting: Vec<String>,
}

/// What the state requires for an object of the view.
fn decide(state: &State, view: &View, seen: &Node) -> Option<Action> {
    let uid = seen.uid();
    let held = [ORPHAN, FOREGROUND].into_iter().find(|finalizer| seen.waits_for(finalizer));
    if held.is_none() && (object::terminating(&seen.object) || !view.is_suspicious(seen)) {
        return None;
    }
    let node = current(state, &seen.info, &seen.key).filter(|node| node.uid() == uid)?;
    if let Some(finalizer) = held.filter(|finalizer| node.has(finalizer)) {
        let dependents = view.dependents(uid);
        return match finalizer {
            ORPHAN => Some(Action::Orphan(node, dependents)),
            _ if dependents.iter().any(|one| one.is_blocking(uid)) => None,
            _ => Some(Action::Finish(node)),
        };
    }
    if object::terminating(&node.object) {
        return None;
    }
    let owners = classify(state, view, &node)?;
    let unwanted = [owners.absent, owners.waiting.clone()].concat();
    if unwanted.is_empty() {
        return None;
    }
    if owners.solid {
        return Some(Action::Release(node, unwanted));
    }
    // Otherwise the finalizers of the object determine the propagation policy.
    let waits = !owners.waiting.is_empty() && view.dependents.contains_key(uid);
    let policy = match &node {
        _ if waits => PropagationPolicy::Foreground,
        node if node.has(ORPHAN) => PropagationPolicy::Orphan,
        node if node.has(FOREGROUND) => PropagationPolicy::Foreground,
        _ => PropagationPolicy::Background,
    };
    Some(Action::Delete(node, policy))
}

fn current(state: &State, info: &Arc<ResourceInfo>, key: &Key) -> Option<Node> {
    let object = state.store.get(&storage(info), key)?;
    Some(Node { info: Arc::clone(info), key: key.clone(), object: Arc::clone(object) })
}

/// The current owners; `None` if the kind of one is unknown, or if the object is cluster-scoped and the owner
/// is not: then it stays as it is. A namespaced owner of another namespace is absent.
fn classify(state: &State, view: &View, node: &Node) -> Option<Owners> {
    let mut owners = Owners::default();
    for reference in object::owners(&node.object) {
        let text = |key: &str| reference[key].as_str().unwrap_or_default().to_owned();
        if view.gone.contains(&text("uid")) {
            owners.absent.push(text("uid"));
            continue;
        }
        let info = state
            .registry
            .iter()
            .find(|info| info.api_version() == text("apiVersion") && info.kind == text("kind"))?;
        if info.namespaced && node.key.0.is_empty() {
            return None;
        }
        let namespace = if info.namespaced { node.key.0.clone() } else { String::new() };
        let owner = current(state, info, &(namespace, text("name")));
        match owner.filter(|owner| owner.uid() == text("uid")) {
            None => owners.absent.push(text("uid")),
            Some(owner) if owner.waits_for(FOREGROUND) => owners.waiting.push(text("uid")),
            Some(_) => owners.solid = true,
        }
    }
    Some(owners)
}

/// Runs until the task ends. The settings may change at any time.
pub(crate) async fn run(server: Arc<Server>, client: Client, mut settings: Receiver<Collector>) {
    let worker = Worker { server, client, settings: settings.clone(), last: tokio::sync::Mutex::default() };
    let work = worker.collect();
    tokio::pin!(work);
    // A frozen collector makes no progress, not even with a request that it has sent.
    while settings.wait_for(|settings| !settings.frozen).await.is_ok() {
        tokio::select! {
            biased;
            frozen = settings.wait_for(|settings| settings.frozen) => {
                if frozen.is_err() { return }
            }
            () = &mut work => return,
        }
    }
}

struct Worker {
    server: Arc<Server>,
    client: Client,
    settings: Receiver<Collector>,
    /// When the last write was sent.
    last: tokio::sync::Mutex<Option<Instant>>,
}

impl Worker {
    async fn collect(&self) {
        let mut changes = self.state().store.changes.subscribe();
        let (mut settings, mut owners) = (self.settings.clone(), BTreeSet::new());
        loop {
            sleep(PAUSE).await;
            changes.mark_unchanged();
            let lag = settings.borrow_and_update().lag;
            let (actions, next) = {
                let state = self.state();
                let mut view = View::of(&state, lag);
                let (there, gone) =
                    view.dependents.keys().cloned().partition(|uid| view.nodes.contains_key(uid));
                view.gone = &gone & &owners;
                owners = &view.gone | &there;
                let actions = view.nodes.values().filter_map(|node| decide(&state, &view, node));
                (actions.collect::<Vec<Action>>(), view.next)
            };
            let results = stream::iter(actions).map(|action| self.act(action)).buffer_unordered(WORKERS);
            let failed = results.filter(|result| std::future::ready(result.is_err())).count().await > 0;
            let retry = failed.then(|| Instant::now() + RETRY);
            let wake = retry.into_iter().chain(next).min();
            tokio::select! {
                event = changes.changed() => if event.is_err() { return },
                event = settings.changed() => if event.is_err() { return },
                () = until(wake) => {}
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.server.state()
    }

    async fn act(&self, action: Action) -> Result<(), kube::Error> {
        let result = match action {
            Action::Orphan(owner, dependents) => self.orphan(&owner, &dependents).await,
            Action::Finish(node) => self.remove_finalizer(&node, FOREGROUND).await,
            Action::Release(node, owners) => self.release(&node, &owners).await,
            Action::Delete(node, policy) => self.delete(&node, policy).await,
        };
        unless_gone(result).inspect_err(|error| tracing::debug!(%error, "cannot collect garbage"))
    }

    async fn orphan(&self, owner: &Node, dependents: &[Node]) -> Result<(), kube::Error> {
        let owners = [owner.uid().to_owned()];
        let released = join_all(dependents.iter().map(|one| self.release(one, &owners))).await;
        released.into_iter().try_for_each(unless_gone)?;
        self.remove_finalizer(owner, ORPHAN).await
    }

    async fn delete(&self, node: &Node, policy: PropagationPolicy) -> Result<(), kube::Error> {
        let version = object::resource_version(&node.object).to_owned();
        let only_this = Preconditions { uid: Some(node.uid().to_owned()), resource_version: Some(version) };
        let options = DeleteParams { propagation_policy: Some(policy), ..DeleteParams::default() };
        self.turn().await;
        self.api(node).delete(&node.key.1, &options.preconditions(only_this)).await.map(drop)
    }

    /// Removes the references to these owners. For a custom resource, which has no strategic merge patch, the
    /// remaining references are sent, as the garbage collector sees them now.
    async fn release(&self, node: &Node, owners: &[String]) -> Result<(), kube::Error> {
        self.turn().await;
        if node.info.origin == Origin::Builtin {
            let gone: Vec<Value> = owners.iter().map(|uid| json!({"$patch": "delete", "uid": uid})).collect();
            let patch = json!({"metadata": {"uid": node.uid(), "ownerReferences": gone}});
            return self.patch(node, &Patch::Strategic(patch)).await;
        }
        let lag = self.settings.borrow().lag;
        let seen = View::of(&self.state(), lag).nodes.remove(node.uid());
        let object = &seen.as_ref().unwrap_or(node).object;
        let mut kept = object::owners(object).to_vec();
        kept.retain(|owner| owner["uid"].as_str().is_none_or(|uid| owners.iter().all(|gone| gone != uid)));
        let version = object::resource_version(object);
        let patch =
            json!({"metadata": {"uid": node.uid(), "resourceVersion": version, "ownerReferences": kept}});
        self.patch(node, &Patch::Merge(patch)).await
    }

    async fn remove_finalizer(&self, node: &Node, finalizer: &str) -> Result<(), kube::Error> {
        let mut tries = 0;
        loop {
            self.turn().await;
            let live = current(&self.state(), &node.info, &node.key);
            let is_same = |live: &Node| live.uid() == node.uid() && live.has(finalizer);
            let Some(live) = live.filter(is_same) else { return Ok(()) };
            let mut kept = object::finalizers(&live.object);
            kept.retain(|one| one != finalizer);
            let version = object::resource_version(&live.object);
            let patch = json!({"metadata": {"resourceVersion": version, "finalizers": kept}});
            tries += 1;
            match self.patch(node, &Patch::Merge(patch)).await {
                Err(kube::Error::Api(status)) if status.code == 409 && tries < TRIES => {}
                other => return other,
            }
        }
    }

    async fn patch(&self, node: &Node, patch: &Patch<Value>) -> Result<(), kube::Error> {
        self.api(node).patch_metadata(&node.key.1, &PatchParams::default(), patch).await.map(drop)
    }

    fn api(&self, node: &Node) -> Api<DynamicObject> {
        let info = &node.info;
        let resource = ApiResource {
            group: info.group.clone(),
            version: info.version.clone(),
            api_version: info.api_version(),
            kind: info.kind.clone(),
            plural: info.plural.clone(),
        };
        if info.namespaced {
            Api::namespaced_with(self.client.clone(), &node.key.0, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }

    /// Waits for the turn of a write. Writes are in the order of their calls.
    async fn turn(&self) {
        let mut settings = self.settings.clone();
        let mut last = self.last.lock().await;
        while let Some(sent) = *last {
            let due = sent + settings.borrow_and_update().pace;
            // The pace may change meanwhile.
            if due <= Instant::now() || matches!(timeout_at(due, settings.changed()).await, Ok(Err(_))) {
                break;
            }
        }
        *last = Some(Instant::now());
    }
}

/// An object that does not exist any more needs nothing.
fn unless_gone(result: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other,
    }
}

/// Waits until this time, or forever without one.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
