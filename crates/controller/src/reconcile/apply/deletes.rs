//! Deletes or evicts pods, each only as it was when the decision was made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use ordereddeployment_api::PodDeletion;
use ordereddeployment_api::names::reason;
use ordereddeployment_planner::{DeleteGroup, EventType, FailureKind, Pod, Purpose, Target};
use tokio::time::Instant;

use super::refusals::explain;
use super::{Interrupt, MOST, worst};
use crate::cache::entry::{Entry, PodEntry};
use crate::client::error::RequestError;
use crate::client::requests::{ObjectVersion, Requests};
use crate::reconcile::reconciler::Reconciler;

/// How often a delete is tried again with a fresh version, where the pod is the same in all that counts.
const RETRIES: usize = 5;

/// How many deletes are sent before the object is looked at again: a webhook may take its time for each.
const AT_ONCE: usize = 100;

/// How long one act evicts: each eviction is a request of its own.
const EVICTING: Duration = Duration::from_secs(3);

/// What an act deletes.
struct Batch {
    /// The pods as they were when it was decided.
    decided: BTreeMap<Arc<str>, Arc<PodEntry>>,
    /// How many more it may delete.
    left: usize,
    /// Until when it evicts.
    until: Instant,
}

/// How old the pods are that remain: their mean time of creation, if there are any.
struct Ages(Option<Timestamp>);

impl Ages {
    fn of_rest(known: &[Arc<PodEntry>], going: &BTreeSet<&str>) -> Self {
        let stays = |entry: &&Arc<PodEntry>| !entry.pod.terminating && !going.contains(&**entry.uid());
        let created: Vec<i64> = known
            .iter()
            .filter(stays)
            .filter_map(|entry| entry.pod.facts.created.map(Timestamp::as_second))
            .collect();
        let count = i64::try_from(created.len()).unwrap_or(i64::MAX);
        let mean = created.iter().sum::<i64>().checked_div(count);
        Self(mean.and_then(|mean| Timestamp::from_second(mean).ok()))
    }

    /// The age of that pod by theirs.
    fn of(&self, pod: &Pod, now: Timestamp) -> Option<f64> {
        let age = |since: Timestamp| now.duration_since(since).as_secs_f64();
        let (own, theirs) = (age(pod.facts.created?), age(self.0?));
        (own >= 0.0 && theirs > 0.0).then(|| own / theirs)
    }
}

/// What became of one delete.
#[derive(Debug)]
enum Outcome {
    /// Accepted: it terminates.
    Terminating,
    /// Accepted: it is gone at once.
    Deleted,
    /// It was gone before.
    Gone,
    /// It is another than the decision was made about.
    Changed(Option<Box<PodEntry>>),
    /// Refused, or failed; the verb.
    Failed(&'static str, RequestError),
}

impl Reconciler<'_> {
    /// Deletes one group after the other, as long as the watch shows what was decided on.
    /// `decided` are the pods as they were when it was decided.
    pub(super) async fn delete_groups(
        &mut self,
        groups: &[DeleteGroup],
        decided: Vec<Arc<PodEntry>>,
    ) -> Result<(), Interrupt> {
        let decided = decided.into_iter().map(|entry| (Arc::clone(entry.uid()), entry)).collect();
        let mut batch = Batch { decided, left: MOST, until: Instant::now() + EVICTING };
        for (place, group) in groups.iter().enumerate() {
            if batch.left < group.targets.len() {
                return Err(Interrupt::Unfinished);
            }
            batch.left -= group.targets.len();
            self.still_decided(&batch, groups[place..].iter().flat_map(|group| &group.targets))?;
            self.delete_group(group, &batch).await?;
        }
        Ok(())
    }

    /// Whether the object and these pods, which are to go, are in the watch's view what the decision was made of.
    fn still_decided<'t>(
        &mut self,
        batch: &Batch,
        targets: impl Iterator<Item = &'t Target>,
    ) -> Result<(), Interrupt> {
        self.check_still_wanted()?;
        let cache = self.ctx.cache();
        let changed = targets.take(batch.left + 1).any(|target| {
            let (Some(decided), Some(shown)) = (batch.decided.get(&target.uid), cache.pods.get(&target.uid))
            else {
                return false;
            };
            let (decided_on, now) = (&decided.pod, &shown.pod);
            shown.version() > decided.version()
                && (decided_on.facts.priority, &decided_on.point) != (now.facts.priority, &now.point)
        });
        if changed { Err(Interrupt::DecideAgain) } else { Ok(()) }
    }

    async fn delete_group(&mut self, group: &DeleteGroup, batch: &Batch) -> Result<(), Interrupt> {
        let known = self.pods(&self.sets());
        let entries: Vec<Option<&Arc<PodEntry>>> = group
            .targets
            .iter()
            .map(|target| known.iter().find(|entry| *entry.uid() == target.uid))
            .collect();
        let going: BTreeSet<&str> = group.targets.iter().map(|target| &*target.uid).collect();
        let ages = Ages::of_rest(&known, &going);
        // A budget can refuse an unavailable pod for ever.
        let evict = self.state.deployment.spec.pod_deletion == PodDeletion::Evict;
        let (evicted, deleted): (Vec<_>, Vec<_>) =
            group.targets.iter().zip(entries).partition(|(target, _)| evict && target.available);
        let mut halt = None;
        let mut deleted = deleted.into_iter().peekable();
        while deleted.peek().is_some() && halt.is_none() {
            let part: Vec<_> = deleted.by_ref().take(AT_ONCE).collect();
            self.still_decided(batch, part.iter().map(|(target, _)| *target))?;
            let outcomes = join_all(part.iter().map(|(target, _)| {
                let decided = batch.decided.get(&target.uid);
                delete(&self.requests, &self.namespace, target, decided, group.purpose, false)
            }))
            .await;
            for ((target, entry), outcome) in part.into_iter().zip(outcomes) {
                if let Err(stop) = self.note(target, entry, group.purpose, outcome, &ages) {
                    worst(&mut halt, stop);
                }
            }
        }
        // One by one: what one eviction takes of a budget, the next would be refused for.
        let ready = known.iter().filter(|entry| entry.pod.facts.ready && !entry.pod.terminating).count();
        for (target, entry) in evicted {
            if halt.is_some() {
                break;
            }
            if Instant::now() >= batch.until {
                // Others want their turn, and who must go may be another by now.
                return Err(Interrupt::Unfinished);
            }
            self.still_decided(batch, std::iter::once(target))?;
            halt = self.evict(target, entry, batch, group.purpose, ready, &ages).await.err();
        }
        halt.map_or(Ok(()), Err)
    }

    /// Evicts a pod, unless it is known that this is refused.
    async fn evict(
        &mut self,
        target: &Target,
        entry: Option<&Arc<PodEntry>>,
        batch: &Batch,
        purpose: Purpose,
        ready: usize,
        ages: &Ages,
    ) -> Result<(), Interrupt> {
        if let Some(failure) = self.state.refusal(&target.uid, ready, Instant::now()) {
            return Err(Interrupt::Failed(failure.clone()));
        }
        let decided = batch.decided.get(&target.uid);
        let outcome = delete(&self.requests, &self.namespace, target, decided, purpose, true).await;
        let refusal = match &outcome {
            Outcome::Failed(_, error) => error.refusal(),
            _ => None,
        };
        let Some(refusal) = refusal else {
            if matches!(outcome, Outcome::Terminating | Outcome::Deleted | Outcome::Gone) {
                self.state.refused = None;
                self.state.succeeded(FailureKind::Evict);
                self.state.succeeded(FailureKind::EvictAmbiguous);
            }
            return self.note(target, entry, purpose, outcome, ages);
        };
        let labels = entry.map(|entry| entry.labels.clone()).unwrap_or_default();
        let (what, message) = explain(&self.requests, &self.namespace, &target.name, &labels, refusal).await;
        self.ctx.metrics.write_failed("evict");
        self.warn(what.reason(), message.clone());
        let failure = self.state.failed(what, message, self.ctx.clock.now());
        self.state.refuse(&target.uid, ready, Instant::now(), failure.clone());
        Err(Interrupt::Failed(failure))
    }

    fn note(
        &mut self,
        target: &Target,
        entry: Option<&Arc<PodEntry>>,
        purpose: Purpose,
        outcome: Outcome,
        ages: &Ages,
    ) -> Result<(), Interrupt> {
        let now = self.ctx.clock.now();
        match outcome {
            Outcome::Terminating | Outcome::Deleted => {
                self.state.succeeded(FailureKind::Delete);
                match entry {
                    Some(entry) if matches!(outcome, Outcome::Terminating) => {
                        self.state.pods.terminating(entry, now);
                    }
                    _ => self.state.pods.gone(&target.uid, now),
                }
                self.ctx.metrics.deleted(word(purpose), target.why.as_ref().map(|why| why.rule));
                if let Some(ratio) = entry.and_then(|entry| ages.of(&entry.pod, now)) {
                    self.ctx.metrics.deletion_age_ratio.observe(ratio);
                }
                let why = target.why.as_ref().map_or_else(|| "the last one".to_owned(), ToString::to_string);
                let message = format!("Deleted pod {} for the {} ({why})", target.name, word(purpose));
                let deployment = &self.state.deployment;
                self.ctx.events.publish_message(
                    deployment,
                    EventType::Normal,
                    reason::SUCCESSFUL_DELETE,
                    message,
                );
                Ok(())
            }
            Outcome::Gone => {
                self.state.pods.gone(&target.uid, now);
                Ok(())
            }
            Outcome::Changed(fresh) => {
                match fresh {
                    Some(fresh) => self.state.pods.present(*fresh, now),
                    // Nobody's now: the watch tells, or the next live read.
                    None => self.state.live_read = Some(crate::reconcile::state::LiveReadReason::Conflict),
                }
                Err(Interrupt::DecideAgain)
            }
            Outcome::Failed(verb, error) => {
                let doing =
                    format!("{} pod {}", if verb == "evict" { "evicting" } else { "deleting" }, target.name);
                Err(self.failed(FailureKind::Delete, verb, &doing, &error, error.to_string()))
            }
        }
    }
}

async fn delete(
    requests: &Requests,
    namespace: &str,
    target: &Target,
    decided: Option<&Arc<PodEntry>>,
    purpose: Purpose,
    evict: bool,
) -> Outcome {
    let verb = if evict { "evict" } else { "delete" };
    let mut version = target.resource_version.clone();
    for attempt in 0.. {
        let object = ObjectVersion { namespace, name: &target.name, uid: &target.uid, version: &version };
        let answer = if evict {
            requests.evict_pod(&object, purpose).await.map(|()| false)
        } else {
            requests.delete_pod(&object, purpose).await
        };
        let error = match answer {
            Ok(true) => return Outcome::Deleted,
            Ok(false) => return Outcome::Terminating,
            Err(error) if error.says_gone(&target.name) => return Outcome::Gone,
            Err(error) => error,
        };
        if !error.is_conflict() {
            return Outcome::Failed(verb, error);
        }
        let fresh = match requests.pod(namespace, &target.name).await {
            Ok(fresh) => fresh.filter(|pod| pod.metadata.uid.as_deref() == Some(&*target.uid)),
            Err(error) => return Outcome::Failed("delete", error),
        };
        let Some(fresh) = fresh else { return Outcome::Gone };
        let entry = PodEntry::of(&fresh);
        // One with other labels may have to be released instead.
        let is_same = matches!((decided, &entry), (Some(decided), Some(entry))
            if decided.labels == entry.labels && counts_as_same(&decided.pod, &entry.pod));
        match entry {
            Some(entry) if is_same && attempt < RETRIES => version = entry.pod.resource_version,
            // It is not the pod: a webhook, say, refuses with this code.
            Some(_) if is_same => return Outcome::Failed(verb, error),
            entry => return Outcome::Changed(entry.map(Box::new)),
        }
    }
    Outcome::Changed(None)
}

/// Whether a delete that was decided for the one is right for the other: same UID, priority, pause keys, owner, node and
/// availability.
fn counts_as_same(decided: &Pod, fresh: &Pod) -> bool {
    let (one, other) = (&decided.facts, &fresh.facts);
    one.uid == other.uid
        && one.priority == other.priority
        && decided.point == fresh.point
        && decided.set == fresh.set
        && one.node == other.node
        // Time alone makes a ready pod available, and never the other way round.
        && (one.ready, one.ready_since) == (other.ready, other.ready_since)
        && (decided.terminating, decided.finished) == (fresh.terminating, fresh.finished)
}

fn word(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Rollout => "rollout",
        Purpose::Scale => "scale",
    }
}

#[cfg(test)]
mod tests {
    use ordereddeployment_api::PausePoint;
    use ordereddeployment_planner::{Pod, Point};

    use super::counts_as_same;
    use crate::testing::pod;

    #[test]
    fn a_delete_is_tried_again_only_where_nothing_that_counts_has_changed() {
        let decided = pod("a", 1).pod;
        let unchanged: [fn(&mut Pod); 3] = [
            |pod| pod.resource_version = "2".into(),
            |pod| pod.facts.restarts = 3,
            |pod| pod.facts.cost = Some(1),
        ];
        for change in unchanged {
            let mut fresh = decided.clone();
            change(&mut fresh);
            assert!(counts_as_same(&decided, &fresh), "{fresh:?}");
        }
        let changed: [fn(&mut Pod); 8] = [
            |pod| pod.facts.uid = "b".into(),
            |pod| pod.facts.priority = Some(1),
            |pod| pod.point = Point::At { side: PausePoint::Before, duration: Ok(None) },
            |pod| pod.point = Point::Malformed,
            |pod| pod.set = "s2".into(),
            |pod| pod.facts.node = Some("n1".into()),
            |pod| pod.facts.ready = true,
            |pod| pod.terminating = true,
        ];
        for change in changed {
            let mut fresh = decided.clone();
            change(&mut fresh);
            assert!(!counts_as_same(&decided, &fresh), "{fresh:?}");
        }
    }
}
