//! The state in memory of one OrderedDeployment between reconciliations. All of it can be lost: after a restart it is read live.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use ordereddeployment_api::{OrderedDeployment, Template};
use ordereddeployment_kubernetes::backoff::{self, Pace};
use ordereddeployment_planner::{DryRun, Failure, FailureKind, Pod, Source};
use ordereddeployment_sorter::Nodes;
use ordereddeployment_wire::MalformedAnnotation;
use tokio::time::Instant;

use crate::cache::entry::{PodEntry, SetEntry, version_of};
use crate::cache::expectations::Expectations;
use crate::reconcile::compared::ComparisonRecord;

/// How long a refusal of a template is valid before the controller asks the API server again.
const BELIEVE_REFUSAL: Duration = Duration::from_secs(10);

/// Why a live read is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LiveReadReason {
    /// This process has not read the object yet.
    First,
    /// The spec changed.
    Generation,
    /// A user asked to resume, to abort or to retry the rollout.
    Resume,
    /// A watch listed again: events in between may be missing.
    Relist,
    /// The watch did not confirm an expectation in time.
    Expired,
    /// A write may or may not have been stored.
    Unknown,
    /// Another client wrote in between.
    Conflict,
    /// There is an orphan that matches.
    Orphan,
    /// The planner asked for it.
    Asked,
    /// The object could not be found or read before a large number of creates.
    Created,
    /// The watch shows an object that was gone at the last live read: it repeats what happened before.
    Replayed,
}

impl LiveReadReason {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Generation => "generation",
            Self::Resume => "resume",
            Self::Relist => "relist",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
            Self::Conflict => "conflict",
            Self::Orphan => "orphan",
            Self::Asked => "asked",
            Self::Created => "created",
            Self::Replayed => "replayed",
        }
    }

    /// Whether other clients can cause it as often as they like.
    pub(crate) fn is_by_others(self) -> bool {
        matches!(self, Self::Generation | Self::Resume | Self::Conflict | Self::Orphan | Self::Asked)
    }
}

/// Malformed annotations that were already warned of, so that each is warned of once: with the UID of their pod, or of the object
/// itself.
pub(crate) type Warned = BTreeSet<(Option<Arc<str>>, MalformedAnnotation)>;

/// The last live read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LiveRead {
    pub(crate) generation: i64,
    /// How many lists the watches had completed before it.
    pub(crate) lists: u64,
    /// The versions of its lists of sets and of pods.
    pub(crate) versions: (u64, u64),
}

/// The answer to a dry run of the current template, and how long it is valid.
#[derive(Debug)]
pub(crate) struct DryRunRecord {
    pub(crate) template: Template,
    pub(crate) dry_run: DryRun,
    /// `None`: as long as the template does not change.
    pub(crate) until: Option<Instant>,
    /// How many dry runs in a row had no answer.
    pub(crate) unanswered: u32,
}

/// An object that could not be adopted or released.
#[derive(Clone, Debug)]
pub(crate) struct Unclaimed {
    /// The UID of the set that adopts or releases it. `None`: the object is a set.
    pub(crate) set: Option<Arc<str>>,
    /// Why.
    pub(crate) message: String,
}

/// An eviction that the API server refused.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) uid: Arc<str>,
    /// The failure that is reported.
    pub(crate) failure: Failure,
    /// How many of the deployment's pods were ready then.
    pub(crate) ready: usize,
    /// How many refusals in a row.
    pub(crate) times: u32,
    /// The earliest time of the next attempt for the same pod.
    pub(crate) until: Instant,
}

/// The state of one OrderedDeployment.
#[derive(Debug)]
pub(crate) struct ObjectState {
    /// The latest known version.
    pub(crate) deployment: Arc<OrderedDeployment>,
    /// The version that the watch showed when a live read proved that the API server went back in time: it is ignored.
    pub(crate) void: Option<String>,
    pub(crate) pods: Expectations<PodEntry>,
    pub(crate) sets: Expectations<SetEntry>,
    pub(crate) failure: Option<Failure>,
    /// Since when writes of each kind have failed without a success in between.
    pub(crate) failing_since: BTreeMap<FailureKind, Timestamp>,
    /// The last refused eviction, until one is accepted.
    pub(crate) refused: Option<Refused>,
    /// Whether budgets may have been counted with older sizes of the sets, or with those between two writes.
    pub(crate) recount_due: bool,
    /// Whether the sizes of several sets were written since budgets were last counted.
    pub(crate) recount_at_rest: bool,
    pub(crate) known_points: BTreeMap<Arc<str>, String>,
    pub(crate) taken_names: BTreeSet<String>,
    /// Nodes read live in this reconciliation.
    pub(crate) nodes: Nodes,
    /// The migration sources as read in this reconciliation: whether each still exists.
    pub(crate) sources: BTreeMap<Source, bool>,
    /// When each failed pod was first seen as failed, by UID; the time of the failure if that was before the first
    /// reconciliation. `None` before the first reconciliation.
    pub(crate) failures_seen: Option<BTreeMap<Arc<str>, Timestamp>>,
    /// Matching orphans that the last live read could not adopt.
    pub(crate) unadopted: BTreeMap<String, Unclaimed>,
    /// Objects that no longer match and could not be released.
    pub(crate) unreleased: BTreeMap<String, Unclaimed>,
    /// UIDs of owners whose last create came back changed, so that the object is not theirs, and the message: a set for its
    /// pods, the deployment for its sets. A dry run precedes the next create until it comes back unchanged.
    pub(crate) altered_creates: BTreeMap<Arc<str>, String>,
    /// Fields of the status that the API server does not store.
    pub(crate) unstored: Vec<String>,
    /// For a plain Deployment: the generations of its sets when it was last read before a delete.
    pub(crate) confirmed_sets: BTreeMap<Arc<str>, i64>,
    /// A requested live read.
    pub(crate) live_read: Option<LiveReadReason>,
    pub(crate) last_live: Option<LiveRead>,
    /// How often it is read live because of changes by others.
    pub(crate) pace: Pace,
    /// How many pods and sets were created since the object was last read live.
    pub(crate) created: usize,
    /// The size of the next batch of creates: more than 1 while the creates of a decision go on.
    pub(crate) next_batch: usize,
    pub(crate) dry_run: Option<DryRunRecord>,
    pub(crate) template_comparison: Option<ComparisonRecord>,
    /// When the status was last reported.
    pub(crate) reported: Option<Instant>,
    /// When the status of a set was last written.
    pub(crate) sets_reported: Option<Instant>,
    /// When the sizes of the sets of a running rollout were last written.
    pub(crate) published: Option<Instant>,
    /// When they must be written next, if they lag.
    pub(crate) publishes_at: Option<Instant>,
    /// Failures in a row.
    pub(crate) failures: u32,
    /// The last error of these, which is logged once.
    pub(crate) error: Option<String>,
    /// The end of the wait that a `Retry-After` answer asked for.
    pub(crate) not_before: Option<Instant>,
    pub(crate) warned: Warned,
}

impl ObjectState {
    pub(crate) fn new(deployment: Arc<OrderedDeployment>) -> Self {
        let is_held = deployment.status.as_ref().is_some_and(|status| status.hold.is_some());
        Self {
            deployment,
            void: None,
            pods: Expectations::default(),
            sets: Expectations::default(),
            failure: None,
            failing_since: BTreeMap::new(),
            refused: None,
            // What was written before this process started is not known.
            recount_due: true,
            // A pause can last for days, and its sizes may have been written just before the last process ended.
            recount_at_rest: is_held,
            known_points: BTreeMap::new(),
            taken_names: BTreeSet::new(),
            nodes: Nodes::new(),
            sources: BTreeMap::new(),
            failures_seen: None,
            unadopted: BTreeMap::new(),
            unreleased: BTreeMap::new(),
            altered_creates: BTreeMap::new(),
            unstored: Vec::new(),
            confirmed_sets: BTreeMap::new(),
            live_read: None,
            last_live: None,
            pace: Pace::default(),
            created: 0,
            next_batch: 1,
            dry_run: None,
            template_comparison: None,
            reported: None,
            sets_reported: None,
            published: None,
            publishes_at: None,
            failures: 0,
            error: None,
            not_before: None,
            warned: Warned::new(),
        }
    }

    /// Updates the object from the watch, unless a later version is known. Of the same version, what is known stays: for a moment
    /// after an update of a CRD, watches lack fields that a live read has.
    pub(crate) fn refresh(&mut self, shown: Arc<OrderedDeployment>) {
        if self.void.is_some() && self.void == shown.metadata.resource_version {
            return;
        }
        let (newer, known) = (version_of(&*shown), version_of(&*self.deployment));
        // Equal ones share their memory.
        let is_equal = || !Arc::ptr_eq(&shown, &self.deployment) && *shown == *self.deployment;
        if newer > known || newer == known && is_equal() {
            self.deployment = shown;
        }
    }

    /// Updates the object from a live read that began after the last known version. An older version proves that the API
    /// server went back in time: the live read is valid, and the version that the watch still `shows` is ignored.
    pub(crate) fn read(&mut self, found: Arc<OrderedDeployment>, shows: Option<&OrderedDeployment>) {
        let version = version_of(&*found);
        if version >= version_of(&*self.deployment) {
            self.deployment = found;
            return;
        }
        tracing::warn!(
            version,
            "the API server shows an older version than before: it was restored from a backup"
        );
        let void = shows.filter(|shown| version_of(*shown) > version);
        self.void = void.and_then(|shown| shown.metadata.resource_version.clone());
        self.deployment = found;
    }

    /// Sets in these pods the time at which each failure was first seen; for failures before the first reconciliation, the
    /// time of the failure. If the clock was set back, a time in the future becomes the current time.
    pub(crate) fn date_failures(&mut self, pods: &mut [Arc<Pod>], now: Timestamp) {
        let before = self.failures_seen.take();
        let mut seen = BTreeMap::new();
        for pod in pods {
            let Some(failed) = &pod.failed else { continue };
            let first = match &before {
                Some(before) => before.get(&pod.facts.uid).copied().unwrap_or(now),
                None => failed.at,
            };
            let first = first.min(now);
            seen.insert(Arc::clone(&pod.facts.uid), first);
            if failed.seen != first
                && let Some(failed) = &mut Arc::make_mut(pod).failed
            {
                failed.seen = first;
            }
        }
        self.failures_seen = Some(seen);
    }

    pub(crate) fn generation(&self) -> i64 {
        self.deployment.metadata.generation.unwrap_or(0)
    }

    /// Why a live read is due, if it is. `lists`: how many lists the watches have completed.
    pub(crate) fn live_read_reason(&self, lists: u64) -> Option<LiveReadReason> {
        let Some(last) = self.last_live else { return Some(LiveReadReason::First) };
        if let Some(due) = self.live_read {
            return Some(due);
        }
        if last.generation != self.generation() {
            return Some(LiveReadReason::Generation);
        }
        (last.lists != lists).then_some(LiveReadReason::Relist)
    }

    /// Why adopting or releasing fails for these sets, if it does. `None` stands for objects that are sets.
    pub(crate) fn unclaimed(&self, of: impl Fn(Option<&Arc<str>>) -> bool) -> Option<String> {
        let all = self.unadopted.values().chain(self.unreleased.values());
        let mut all = all.filter(|unclaimed| of(unclaimed.set.as_ref()));
        let first = all.next()?.message.clone();
        let more = match all.count() {
            0 => String::new(),
            others => format!(" (and {others} more)"),
        };
        Some(first + &more)
    }

    /// The UIDs of the sets for which a pod could not be adopted or released.
    pub(crate) fn unclaimed_sets(&self) -> BTreeSet<Arc<str>> {
        let all = self.unadopted.values().chain(self.unreleased.values());
        all.filter_map(|unclaimed| unclaimed.set.clone()).collect()
    }

    /// Why the last decision could not be applied, or the next one must not be. A failed adoption or release comes first.
    pub(crate) fn failure(&mut self, now: Timestamp) -> Option<Failure> {
        if let Some(message) = self.unclaimed(|_| true) {
            Some(self.failed(FailureKind::Claim, message, now))
        } else {
            self.succeeded(FailureKind::Claim);
            self.failure.clone()
        }
    }

    /// Records that a write of that kind failed.
    pub(crate) fn failed(&mut self, what: FailureKind, message: String, now: Timestamp) -> Failure {
        let since = self.failing_since.entry(what).or_insert(now);
        // If the clock was set back, the time starts again.
        *since = now.min(*since);
        Failure { what, message, since: *since }
    }

    /// Records that a write of that kind succeeded.
    pub(crate) fn succeeded(&mut self, what: FailureKind) {
        self.failing_since.remove(&what);
    }

    /// The known answer to an eviction of that pod: the API server refused it recently, and no other pod has become ready
    /// since, which is what a budget waits for.
    pub(crate) fn refusal(&self, uid: &str, ready: usize, now: Instant) -> Option<&Failure> {
        let refused = self.refused.as_ref()?;
        let stands = *refused.uid == *uid && refused.ready == ready && now < refused.until;
        stands.then_some(&refused.failure)
    }

    /// Records a refused eviction.
    pub(crate) fn refuse(&mut self, uid: &Arc<str>, ready: usize, now: Instant, failure: Failure) {
        let before = self.refused.take().filter(|before| before.ready == ready);
        let times = before.map_or(0, |before| before.times).saturating_add(1);
        let until = now + backoff::after_refusal(times);
        self.refused = Some(Refused { uid: Arc::clone(uid), failure, ready, times, until });
    }

    /// Records the answer to a dry run of the current template. Only an acceptance stays valid: a cluster administrator may
    /// have changed what refused the template, and a dry run without an answer is repeated with backoff.
    pub(crate) fn record_dry_run(&mut self, dry_run: DryRun, now: Instant) {
        let template = self.deployment.spec.template.clone();
        let before = self.dry_run.take().filter(|before| before.template.same_as(&template));
        let unanswered = match &dry_run {
            DryRun::NoAnswer(_) => before.map_or(0, |before| before.unanswered).saturating_add(1),
            _ => 0,
        };
        let believed = match &dry_run {
            DryRun::Refused(_) => Some(BELIEVE_REFUSAL),
            DryRun::NoAnswer(_) => Some(backoff::after_refusal(unanswered)),
            DryRun::Accepted | DryRun::Unknown => None,
        };
        let until = believed.map(|believed| now + believed);
        self.dry_run = Some(DryRunRecord { template, dry_run, until, unanswered });
    }

    /// The known dry-run result of the current template.
    pub(crate) fn dry_run(&self, now: Instant) -> DryRun {
        self.dry_run_record(now).map_or(DryRun::Unknown, |record| record.dry_run.clone())
    }

    /// When a dry run without an answer is repeated.
    pub(crate) fn asks_again(&self, now: Instant) -> Option<Duration> {
        let record =
            self.dry_run_record(now).filter(|record| matches!(record.dry_run, DryRun::NoAnswer(_)))?;
        record.until.map(|until| until.saturating_duration_since(now))
    }

    fn dry_run_record(&self, now: Instant) -> Option<&DryRunRecord> {
        let record = self.dry_run.as_ref()?;
        let believed = record.until.is_none_or(|until| now < until);
        (believed && record.template.same_as(&self.deployment.spec.template)).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use ordereddeployment_api::OrderedDeployment;
    use serde_json::json;

    use super::{
        Arc, BELIEVE_REFUSAL, DryRun, Duration, Failure, FailureKind, Instant, LiveRead, LiveReadReason,
        ObjectState, Timestamp,
    };

    fn deployment(version: u64, generation: i64, image: &str) -> Arc<OrderedDeployment> {
        let object = json!({
            "metadata": {"name": "web", "uid": "d", "resourceVersion": version.to_string(), "generation": generation},
            "spec": {"selector": {}, "template": {"spec": {"image": image}}},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_lagging_watch_does_not_bring_an_older_version_back() {
        let mut state = ObjectState::new(deployment(9, 1, "a"));
        state.refresh(deployment(7, 1, "a"));
        assert_eq!(state.deployment.metadata.resource_version.as_deref(), Some("9"));
        state.refresh(deployment(10, 2, "a"));
        assert_eq!(state.generation(), 2);
    }

    #[test]
    fn a_watch_with_an_older_schema_does_not_replace_the_same_version_read_live() {
        let mut state = ObjectState::new(deployment(9, 1, "a"));
        state.read(deployment(9, 1, "b"), None);
        state.refresh(deployment(9, 1, "a"));
        assert_eq!(state.deployment, deployment(9, 1, "b"));
        let equal = deployment(9, 1, "b");
        state.refresh(Arc::clone(&equal));
        assert!(Arc::ptr_eq(&state.deployment, &equal));
    }

    #[test]
    fn an_older_version_read_live_replaces_what_the_watch_shows() {
        let mut state = ObjectState::new(deployment(9, 3, "b"));
        let shown = deployment(9, 3, "b");
        state.read(deployment(5, 2, "a"), Some(&shown));
        assert_eq!(state.generation(), 2);
        state.refresh(Arc::clone(&shown));
        assert_eq!(state.generation(), 2);
        // Later versions are accepted, also when they pass the ignored one.
        state.refresh(deployment(6, 3, "c"));
        state.refresh(deployment(10, 4, "d"));
        assert_eq!(state.generation(), 4);
        state.read(deployment(11, 5, "e"), None);
        assert_eq!(state.generation(), 5);
    }

    #[test]
    fn a_live_read_is_due_at_first_for_a_new_generation_after_a_relist_and_when_asked() {
        let mut state = ObjectState::new(deployment(1, 1, "a"));
        assert_eq!(state.live_read_reason(3), Some(LiveReadReason::First));
        state.last_live = Some(LiveRead { generation: 1, lists: 3, versions: (1, 1) });
        assert_eq!(state.live_read_reason(3), None);
        assert_eq!(state.live_read_reason(4), Some(LiveReadReason::Relist));
        state.live_read = Some(LiveReadReason::Unknown);
        assert_eq!(state.live_read_reason(3), Some(LiveReadReason::Unknown));
        state.live_read = None;
        state.refresh(deployment(2, 2, "a"));
        assert_eq!(state.live_read_reason(3), Some(LiveReadReason::Generation));
    }

    #[test]
    fn a_refused_eviction_is_retried_after_a_wait_or_once_other_pods_are_ready() {
        let mut state = ObjectState::new(deployment(1, 1, "a"));
        let (uid, now) = (Arc::<str>::from("p"), Instant::now());
        let failure =
            Failure { what: FailureKind::Evict, message: "no".into(), since: Timestamp::UNIX_EPOCH };
        assert_eq!(state.refusal(&uid, 3, now), None);
        state.refuse(&uid, 3, now, failure.clone());
        assert_eq!(state.refusal(&uid, 3, now), Some(&failure));
        assert_eq!(state.refusal("another", 3, now), None);
        assert_eq!(state.refusal(&uid, 4, now), None);
        let wait = |state: &ObjectState| state.refused.as_ref().unwrap().until - now;
        let first = wait(&state);
        assert_eq!(state.refusal(&uid, 3, now + first), None);
        state.refuse(&uid, 3, now, failure.clone());
        assert_eq!(wait(&state), 2 * first);
        // A budget that follows the pods starts with the first wait again.
        state.refuse(&uid, 4, now, failure);
        assert_eq!(wait(&state), first);
    }

    #[test]
    fn a_row_of_failures_begins_at_the_first_one_after_a_success_of_the_same_kind() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut state = ObjectState::new(deployment(1, 1, "a"));
        let mut since = |what, second| state.failed(what, "no".into(), at(second)).since.as_second();
        assert_eq!((since(FailureKind::Create, 10), since(FailureKind::Delete, 12)), (10, 12));
        assert_eq!((since(FailureKind::Create, 15), since(FailureKind::Delete, 16)), (10, 12));
        state.succeeded(FailureKind::Create);
        let mut since = |what, second| state.failed(what, "no".into(), at(second)).since.as_second();
        assert_eq!((since(FailureKind::Create, 20), since(FailureKind::Delete, 21)), (20, 12));
        // The clock was set back.
        assert_eq!(since(FailureKind::Create, 5), 5);
    }

    #[test]
    fn an_accepted_template_stays_accepted_and_a_refused_one_is_tried_again() {
        let mut state = ObjectState::new(deployment(1, 1, "a"));
        let now = Instant::now();
        let later = now + Duration::from_secs(3600);
        assert_eq!(state.dry_run(now), DryRun::Unknown);
        state.record_dry_run(DryRun::Accepted, now);
        assert_eq!(state.dry_run(later), DryRun::Accepted);
        state.record_dry_run(DryRun::Refused("no".into()), now);
        assert_eq!(state.dry_run(now), DryRun::Refused("no".into()));
        assert_eq!(state.dry_run(now + BELIEVE_REFUSAL), DryRun::Unknown);
        state.record_dry_run(DryRun::Accepted, now);
        state.refresh(deployment(2, 2, "b"));
        assert_eq!(state.dry_run(now), DryRun::Unknown);
    }

    #[test]
    fn a_dry_run_without_an_answer_is_repeated_with_backoff() {
        let mut state = ObjectState::new(deployment(1, 1, "a"));
        let now = Instant::now();
        let wait = |state: &mut ObjectState| {
            state.record_dry_run(DryRun::NoAnswer("503".into()), now);
            state.asks_again(now).unwrap()
        };
        let first = wait(&mut state);
        assert_eq!(state.dry_run(now), DryRun::NoAnswer("503".into()));
        assert_eq!(state.dry_run(now + first), DryRun::Unknown);
        assert_eq!(wait(&mut state), 2 * first);
        state.record_dry_run(DryRun::Accepted, now);
        assert_eq!(state.asks_again(now), None);
        assert_eq!(wait(&mut state), first);
    }

    #[test]
    fn a_failure_is_dated_when_it_is_seen_even_if_the_clock_jumps() {
        use crate::testing::pod;
        use ordereddeployment_planner::Failed;
        let at = |second| Timestamp::from_second(second).unwrap();
        let failed = |uid: &str, at: Timestamp| {
            let mut pod = pod(uid, 1).pod;
            let word = |text: &str| Arc::from(text);
            let failed = Failed { at, seen: at, reason: word("Evicted"), message: word("") };
            Arc::make_mut(&mut pod).failed = Some(Box::new(failed));
            pod
        };
        let mut state = ObjectState::new(deployment(1, 1, "web:1"));
        let mut look = |uids: &[(&str, i64)], now: i64| -> Vec<i64> {
            let mut pods: Vec<_> = uids.iter().map(|(uid, second)| failed(uid, at(*second))).collect();
            state.date_failures(&mut pods, at(now));
            pods.iter().map(|pod| pod.failed.as_ref().unwrap().seen.as_second()).collect()
        };
        // A clock that is far ahead: a failure before the first look has its own time, a failure from now on the current time.
        assert_eq!(look(&[("a", 10)], 9000), [10]);
        assert_eq!(look(&[("a", 10), ("b", 12)], 9002), [10, 9002]);
        assert_eq!(look(&[("a", 10), ("b", 12)], 9003), [10, 9002]);
        // The clock is correct again.
        assert_eq!(look(&[("b", 12)], 15), [15]);
        assert_eq!(look(&[("b", 12)], 16), [15]);
    }
}
