//! Live reads: read the object, its sets and its pods past the cache, record them, and adopt orphans.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use ordereddeployment_api::LabelSelector;
use ordereddeployment_kubernetes::{Decoded, RequestError};
use ordereddeployment_planner::Source;
use ordereddeployment_wire::NamespacedUid;

use crate::cache::entry::{Entry, PodEntry, SetEntry, version_of};
use crate::cache::expectations::{Expectations, Fact, MinVersions};
use crate::cache::index::Index;
use crate::error::Error;
use crate::objects::{SetObject, single_set};
use crate::reconcile::observation::Observation;
use crate::reconcile::reconciler::Reconciler;
use crate::reconcile::state::live::{LiveRead, LiveReadReason};
use ordereddeployment_wire::{NodeView, PodView};

/// How many lists of pods one live read asks for.
const SELECTORS: usize = 4;

/// The result of a live read of the object itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiveObject {
    /// The object exists.
    Present,
    /// The object is being deleted.
    Terminating,
    /// The object is not found.
    NotFound,
}

impl Reconciler<'_> {
    /// Reads the object, its sets and its pods past the cache, the pods last: an annotation that was written
    /// before the last change of the object is in them. Of an object that is gone or terminates, nothing is
    /// adopted.
    pub(crate) async fn read_live(&mut self, due: LiveReadReason) -> Result<LiveObject, Error> {
        tracing::debug!(reason = due.label(), "reading live");
        self.ctx.metrics.live_reads.with_label_values(&[due.label()]).inc();
        let began = self.ctx.clock.now();
        let (pods, sets) = (self.state.pods.dates(), self.state.sets.dates());
        // Counted before the read: a list that completes meanwhile makes the next live read due.
        let (sets_gone, pods_gone, lists) = {
            let cache = self.ctx.cache();
            (cache.sets.gone, cache.pods.gone, cache.lists)
        };
        let known = self.observe();
        let min_versions = (
            self.state.sets.min_versions(&known.sets, sets_gone),
            self.state.pods.min_versions(&known.pods, pods_gone),
        );
        let found = self.read_object().await?;
        if found != LiveObject::Present {
            return Ok(found);
        }
        // The adoptions below record again which objects cannot be adopted.
        self.state.claims.unadopted.clear();
        let generation = self.state.generation();
        let selector = self.state.deployment.spec.selector.clone();
        let (found, sets_listed) =
            self.read_sets(&selector, generation, &known.sets, &min_versions.0).await?;
        if found != LiveObject::Present {
            return Ok(found);
        }
        let (found, pods_listed) = self.read_pods(&selector, generation, &min_versions.1).await?;
        if found != LiveObject::Present {
            return Ok(found);
        }
        {
            let (cache, now) = (self.ctx.cache(), self.ctx.clock.now());
            self.state.pods.confirm(&pods, began, &cache.pods, now);
            self.state.sets.confirm(&sets, began, &cache.sets, now);
        }
        self.state.live.done(LiveRead { generation, lists, versions: (sets_listed, pods_listed) });
        if std::mem::take(&mut self.raced) {
            self.state.live.ask(LiveReadReason::Conflict);
        }
        self.live = true;
        Ok(LiveObject::Present)
    }

    /// Reads the object itself past the cache.
    pub(crate) async fn read_object(&mut self) -> Result<LiveObject, Error> {
        let found = self.requests.deployment(&self.namespace, &self.name).await;
        let found = found.map_err(Error::to("read the OrderedDeployment"))?;
        let Some(mut found) = found.filter(|found| NamespacedUid::of(&found.metadata) == self.key) else {
            return Ok(LiveObject::NotFound);
        };
        found.spec.template.share_equal(&self.state.deployment.spec.template);
        // The sets of a plain Deployment keep their sizes until the garbage collector deletes them too.
        let terminates = self.ctx.owns_sets && found.metadata.deletion_timestamp.is_some();
        self.state.writes.created = 0;
        let shown = self.ctx.cached(&self.name, &self.key);
        self.state.read(Arc::new(found), shown.as_deref());
        Ok(if terminates { LiveObject::Terminating } else { LiveObject::Present })
    }

    /// Reads the object again before listed orphans are adopted: the garbage collector orphans what an object
    /// owns only after that object has a deletionTimestamp, which a later read shows.
    async fn read_before_adoption(&mut self, generation: i64) -> Result<(LiveObject, bool), Error> {
        let found = self.read_object().await?;
        // A newer spec may match other objects: the next live read, which is due then, adopts them.
        Ok((found, found == LiveObject::Present && self.state.generation() == generation))
    }

    /// Checks what the watch shows now, between two adoptions: many adoptions take a long time.
    fn still_adopts(&mut self, generation: i64) -> bool {
        self.refresh() && self.state.generation() == generation
    }

    /// Records the wait that the answer to a list asks for: other objects may wait for the same list.
    fn heed<T>(&self, listed: Result<T, RequestError>) -> Result<T, RequestError> {
        listed.inspect_err(|error| self.requests.heed(error))
    }

    async fn read_sets(
        &mut self,
        selector: &LabelSelector,
        generation: i64,
        known: &[Arc<SetEntry>],
        min_versions: &MinVersions,
    ) -> Result<(LiveObject, u64), Error> {
        let mut sets = Vec::new();
        let mut version = 0;
        // A ReplicaSet without a Deployment is known: it is read below.
        if single_set(&self.name).is_none() {
            let listed = self.worker.free_during(self.ctx.live_sets.list(&self.namespace, selector)).await;
            let listed = self.heed(listed).map_err(Error::to("list the sets"))?;
            version = listed.1;
            for set in listed.0 {
                if matches!(&*set, Decoded::Undecodable(set, _) if !is_controlled_by(&set.metadata,
                self.key.uid()))
                {
                    // A decision needs all own sets, decoded. Others are skipped.
                    continue;
                }
                sets.push(Arc::unwrap_or_clone(set).whole().map_err(Error::to("list the sets"))?);
            }
        }
        let mut adopts = sets.iter().any(|set| self.may_adopt(&set.metadata));
        if adopts {
            let found;
            (found, adopts) = self.read_before_adoption(generation).await?;
            if found != LiveObject::Present {
                return Ok((found, version));
            }
        }
        let mut found = Vec::new();
        for set in sets {
            adopts = adopts && self.still_adopts(generation);
            let adopted = if adopts {
                let claim = self.adopt_set(&set).await;
                self.record_claim(claim)
            } else {
                None
            };
            found.extend(adopted.or_else(|| SetEntry::of(set)));
        }
        for entry in unlisted(known, &found) {
            let fact = set_fact(&entry, self.read_set(&entry).await?);
            let now = self.ctx.clock.now();
            if let Fact::Is(entry) = &fact {
                rewind(&mut self.state.sets, &mut self.ctx.cache().sets, min_versions, &**entry, now);
            }
            self.state.sets.record(fact, now);
        }
        let now = self.ctx.clock.now();
        for entry in &found {
            rewind(&mut self.state.sets, &mut self.ctx.cache().sets, min_versions, entry, now);
        }
        learn(&mut self.state.sets, known, found, |owner| *owner == self.key, now);
        Ok((LiveObject::Present, version))
    }

    async fn read_pods(
        &mut self,
        selector: &LabelSelector,
        generation: i64,
        min_versions: &MinVersions,
    ) -> Result<(LiveObject, u64), Error> {
        let Observation { sets, pods: known } = self.observe();
        let mut listed = BTreeMap::new();
        let mut version = 0;
        let others = sets.iter().map(|set| &set.object.spec.selector);
        for selector in selectors(selector, others) {
            let list = self.worker.free_during(self.ctx.live_pods.list(&self.namespace, &selector)).await;
            let (pods, at) = self.heed(list).map_err(Error::to("list the pods"))?;
            version = at.max(version);
            // A pod that several lists show is that of the last one.
            listed.extend(pods.into_iter().map(|pod| (pod.metadata.uid.clone(), pod)));
        }
        let mut found = Vec::new();
        let mut orphans = Vec::new();
        for pod in listed.values() {
            if let Some(entry) = PodEntry::of(self.ctx.family, pod) {
                found.push(entry);
            } else if let Some(set) = self.adopter_of(pod, &sets) {
                orphans.push((pod, set));
            }
        }
        if !orphans.is_empty() {
            let (read, adopts) = self.read_before_adoption(generation).await?;
            if read != LiveObject::Present {
                return Ok((read, version));
            }
            let adopters: BTreeMap<&NamespacedUid, &Arc<SetEntry>> =
                orphans.iter().map(|(_, set)| (set.key(), *set)).collect();
            let mut existing = BTreeMap::new();
            for (key, set) in adopters.into_iter().filter(|_| adopts) {
                if let Some(fresh) = self.read_adopter(set).await? {
                    existing.insert(key.clone(), fresh);
                }
            }
            for (pod, set) in orphans {
                let Some(set) = existing.get(set.key()) else { continue };
                if !self.still_adopts(generation) {
                    break;
                }
                let claim = self.adopt_pod(pod, set).await;
                found.extend(self.record_claim(claim));
            }
        }
        // Own pods that do not match the selector any more, and pods that are gone.
        for entry in unlisted(&known, &found) {
            let fact = self.pod_fact(&entry, self.read_pod(&entry).await?);
            let now = self.ctx.clock.now();
            if let Fact::Is(entry) = &fact {
                rewind(&mut self.state.pods, &mut self.ctx.cache().pods, min_versions, &**entry, now);
            }
            self.state.pods.record(fact, now);
        }
        let now = self.ctx.clock.now();
        for entry in &found {
            rewind(&mut self.state.pods, &mut self.ctx.cache().pods, min_versions, entry, now);
        }
        let owners: BTreeSet<&NamespacedUid> = sets.iter().map(|set| set.key()).collect();
        let is_ours = |owner: &NamespacedUid| owners.contains(owner);
        learn(&mut self.state.pods, &known, found, is_ours, now);
        Ok((LiveObject::Present, version))
    }

    /// Reads a set again before it adopts listed pods; `None` if it is gone or terminating.
    async fn read_adopter(&mut self, set: &SetEntry) -> Result<Option<Arc<SetEntry>>, Error> {
        let fact = set_fact(set, self.read_set(set).await?);
        let stands = if let Fact::Is(stands) = &fact { Some(Arc::clone(stands)) } else { None };
        self.state.sets.record(fact, self.ctx.clock.now());
        Ok(stands.filter(|stands| !stands.is_terminating() && *stands.owner() == self.key))
    }

    /// Reads this set past the cache; `None` if it is gone.
    pub(crate) async fn read_set(&self, known: &SetEntry) -> Result<Option<SetObject>, Error> {
        let found = self.requests.set(&self.namespace, &known.set.name).await;
        let found = found.map_err(Error::to("read a set"))?;
        Ok(found.filter(|found| found.metadata.uid.as_deref() == Some(&**known.uid())))
    }

    /// The same for a pod.
    pub(crate) async fn read_pod(&self, known: &PodEntry) -> Result<Option<PodView>, Error> {
        let found = self.requests.get::<PodView>(Some(&self.namespace), &known.pod.name).await;
        let found = found.map_err(Error::to("read a pod"))?;
        Ok(found.filter(|found| found.metadata.uid.as_deref() == Some(&**known.uid())))
    }

    /// What a read of that pod found.
    pub(crate) fn pod_fact(&self, known: &PodEntry, found: Option<PodView>) -> Fact<PodEntry> {
        let found = found.map(|found| (version_of(&found), PodEntry::of(self.ctx.family, &found)));
        Fact::read(known.key(), found)
    }

    /// Reads these nodes live. A node that is not found is recorded as gone.
    pub(crate) async fn read_nodes(&mut self, names: &BTreeSet<Arc<str>>) -> Result<(), Error> {
        for name in names {
            let node = self.requests.get::<NodeView>(None, name).await.map_err(Error::to("read a node"))?;
            self.state.nodes.insert(Arc::clone(name), node.map(|node| node.facts()));
        }
        Ok(())
    }

    /// Reads whether these migration sources still exist; when none does, everything is read live.
    pub(crate) async fn read_sources(&mut self, sources: &BTreeSet<Source>) -> Result<(), Error> {
        for source in sources {
            let there = self
                .requests
                .is_there(&self.namespace, source)
                .await
                .map_err(Error::to("read the migration source"))?;
            self.state.sources.insert(source.clone(), there);
        }
        // A migration can stay unfinished for days: this check runs every second and must stay cheap.
        if !self.state.sources.values().any(|there| *there) {
            self.state.live.ask(LiveReadReason::Asked);
        }
        Ok(())
    }
}

/// What a read of that set found.
pub(crate) fn set_fact(known: &SetEntry, found: Option<SetObject>) -> Fact<SetEntry> {
    Fact::read(known.key(), found.map(|found| (version_of(&found), SetEntry::of(found))))
}

/// The selectors of the lists that show all pods of these sets: the deployment's, and those of sets that may
/// select other pods. A ReplicaSet that a user made for a Deployment may. Too many are one list of all.
fn selectors<'s>(
    deployment: &LabelSelector,
    sets: impl Iterator<Item = &'s LabelSelector>,
) -> Vec<LabelSelector> {
    let mut selectors = vec![deployment.clone()];
    for set in sets.filter(|set| !set.includes(deployment)) {
        if !selectors.contains(set) {
            selectors.push(set.clone());
        }
        if selectors.len() > SELECTORS {
            return vec![LabelSelector::default()];
        }
    }
    selectors
}

fn is_controlled_by(metadata: &ObjectMeta, uid: &str) -> bool {
    let owners = metadata.owner_references.iter().flatten();
    owners.filter(|owner| owner.controller == Some(true)).any(|owner| owner.uid == uid)
}

/// If a live read shows a version that it could not show by what was known when it began, the API server went
/// back in time, and the live read replaces what was known.
fn rewind<E: Entry + Clone>(
    expectations: &mut Expectations<E>,
    index: &mut Index<E>,
    min_versions: &MinVersions,
    entry: &E,
    now: Timestamp,
) {
    if min_versions.is_older(entry, index) {
        expectations.rewind(entry.clone(), now);
        index.rewind(entry.clone(), now);
    }
}

/// Records a live list: entries that are ours, and entries that were known as ours. Other objects that the
/// selector matches belong to other owners. `known` is ordered by UID, as an [`Observation`] has it.
fn learn<E: Entry>(
    expectations: &mut Expectations<E>,
    known: &[Arc<E>],
    listed: Vec<E>,
    is_ours: impl Fn(&NamespacedUid) -> bool,
    now: Timestamp,
) {
    for mut entry in listed {
        let at = known.binary_search_by(|known| known.key().cmp(entry.key()));
        let known = at.ok().and_then(|at| known.get(at));
        if let Some(known) = known {
            entry.share(known);
        }
        if is_ours(entry.owner()) || expectations.knows(entry.key()) || known.is_some() {
            expectations.present(entry, now);
        }
    }
}

/// The known entries that the live read did not list.
fn unlisted<E: Entry>(known: &[Arc<E>], found: &[E]) -> Vec<Arc<E>> {
    let found: BTreeSet<&NamespacedUid> = found.iter().map(Entry::key).collect();
    known.iter().filter(|entry| !found.contains(entry.key())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ordereddeployment_api::LabelSelector;

    use super::{SELECTORS, selectors};

    fn selector(app: &str) -> LabelSelector {
        let labels = BTreeMap::from([("app".to_owned(), app.to_owned())]);
        LabelSelector { match_labels: Some(labels), match_expressions: None }
    }

    #[test]
    fn many_sets_with_other_selectors_cause_one_list() {
        let deployment = selector("web");
        let lists = |sets: &[LabelSelector]| selectors(&deployment, sets.iter());
        assert_eq!(lists(&[selector("web"), selector("web")]), [selector("web")]);
        assert_eq!(lists(&[selector("a"), selector("a")]), [selector("web"), selector("a")]);
        let many: Vec<_> = (0..SELECTORS).map(|number| selector(&number.to_string())).collect();
        assert_eq!(lists(&many[1..]).len(), SELECTORS);
        assert_eq!(lists(&many), [LabelSelector::default()], "everything in the namespace");
    }
}
