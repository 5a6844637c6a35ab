//! The contract's rules, written anew: what no act may ever do, whatever was observed.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use ordereddeployment_api::{
    ConditionStatus, Hold, OrderedDeploymentStatus, PausePoint, PodReplacementPolicy, StrategyType,
    UnavailablePods, names::condition, names::reason,
};
use ordereddeployment_planner::{
    Act, Hindrance, Observed, Pod, Point, Proof, Purpose, Record, SetChange, Target, node_rules,
};
use ordereddeployment_sorter::{Context, Placed, Ranks, order};

/// The active pods of an observation, in the order, with what the rules ask of each.
struct View<'a> {
    observed: &'a Observed,
    desired: i64,
    floor: i64,
    ceiling: i64,
    pods: Vec<(&'a Pod, Placed, bool, bool)>,
}

impl<'a> View<'a> {
    fn of(observed: &'a Observed) -> Self {
        let spec = &observed.deployment.spec;
        let active: Vec<_> = observed.pods.iter().filter(|pod| !pod.terminating && !pod.finished).collect();
        let facts: Vec<_> = active.iter().map(|pod| pod.facts.clone()).collect();
        let ranks = Ranks::of(&facts);
        let rules = spec.deletion_order.as_ref().map(node_rules).unwrap_or_default();
        let ctx = Context { now: Some(observed.now), rules: &rules, nodes: &observed.nodes, ranks: &ranks };
        let pods = order(&facts, &ctx)
            .into_iter()
            .map(|placed| {
                let pod = active[placed.index];
                let set = observed.sets.iter().find(|set| set.uid == pod.set).unwrap();
                let updated = is_current(observed, set);
                let min_ready = if updated { spec.min_ready_seconds } else { set.min_ready_seconds };
                let since = pod.facts.ready_since.filter(|_| pod.facts.ready);
                let ready_for = |since| observed.now.duration_since(since);
                let available = since
                    .is_some_and(|since| ready_for(since) >= SignedDuration::from_secs(min_ready.into()));
                (pod, placed, updated, available)
            })
            .collect();
        let desired = i64::from(spec.replicas);
        let ceiling = if desired == 0 { 0 } else { desired + spec.max_surge() };
        Self { observed, desired, floor: desired - spec.max_unavailable(), ceiling, pods }
    }

    fn old(&self) -> impl Iterator<Item = &(&'a Pod, Placed, bool, bool)> {
        self.pods.iter().filter(|(_, _, updated, _)| !updated)
    }

    fn place(&self, uid: &str) -> usize {
        self.pods.iter().position(|(pod, ..)| *pod.facts.uid == *uid).unwrap()
    }

    fn status(&self) -> OrderedDeploymentStatus {
        self.observed.deployment.status.clone().unwrap_or_default()
    }

    /// The barrier: its place among the old pods, on which side, and whether its hold was stored ahead of the DELETE.
    fn barrier(&self) -> Option<(usize, PausePoint, bool)> {
        let status = self.status();
        let old: Vec<_> = self.old().collect();
        let begun = status.hold.as_ref().filter(|hold| has_begun(hold));
        // Once its pod is gone the rollout is about to be held: until then nothing may go.
        if begun.is_some_and(|hold| old.iter().all(|(pod, ..)| *pod.facts.uid != *hold.pod_uid)) {
            return Some((0, PausePoint::Before, false));
        }
        old.iter().enumerate().find_map(|(at, (pod, ..))| {
            let begun = begun.is_some_and(|hold| *hold.pod_uid == *pod.facts.uid);
            let mut passed = status.passed.iter().flatten();
            let passed = passed.any(|passed| passed.pod_uid == "*" || *passed.pod_uid == *pod.facts.uid);
            match pod.point {
                Point::At { side: PausePoint::Before, .. } if !passed => {
                    Some((at, PausePoint::Before, begun))
                }
                _ if begun => Some((at, PausePoint::After, true)),
                Point::At { side, .. } if !passed && at + 1 < old.len() => Some((at, side, false)),
                _ => None,
            }
        })
    }

    /// How many old pods the rollout may delete before anything is stored.
    fn may_go(&self) -> usize {
        match self.barrier() {
            None => usize::MAX,
            Some((at, PausePoint::After, true)) => at + 1,
            Some((at, ..)) => at,
        }
    }

    /// B, where there is a barrier.
    fn behind(&self) -> Option<i64> {
        let (at, side, _) = self.barrier()?;
        let behind = self.old().count() - at - usize::from(side == PausePoint::After);
        Some(i64::try_from(behind).unwrap())
    }

    fn updated(&self) -> i64 {
        i64::try_from(self.pods.iter().filter(|(_, _, updated, _)| *updated).count()).unwrap()
    }

    fn available(&self) -> i64 {
        i64::try_from(self.pods.iter().filter(|(.., available)| *available).count()).unwrap()
    }

    fn wanted(&self) -> i64 {
        (self.desired - self.behind().unwrap_or(0)).max(0)
    }

    /// Active old and available updated pods.
    fn reliable(&self) -> i64 {
        let reliable = self.pods.iter().filter(|(_, _, updated, available)| !updated || *available);
        i64::try_from(reliable.count()).unwrap()
    }

    fn all_updated_available(&self) -> bool {
        self.pods.iter().all(|(_, _, updated, available)| !updated || *available)
    }

    /// Whether the only way on were unavailable pods out of turn.
    fn is_blocked(&self) -> bool {
        let nothing_to_create = self.is_full() || self.updated() >= self.wanted() || self.cannot_create();
        let head = self.old().next();
        nothing_to_create
            && head.is_some_and(|(.., available)| *available)
            && self.available() - 1 < self.floor
    }

    /// Whether creates have been refused, or have waited for a back-off, for ten seconds.
    fn cannot_create(&self) -> bool {
        let long = |since| self.observed.now.duration_since(since) >= SignedDuration::from_secs(10);
        let refused = self.observed.failure.as_ref().filter(|failure| failure.what == Hindrance::Create);
        let mut failed = self.observed.pods.iter().filter_map(|pod| pod.failed.as_ref());
        refused.is_some_and(|failure| long(failure.since)) || failed.any(|failed| long(failed.seen))
    }

    fn is_full(&self) -> bool {
        i64::try_from(self.pods.len()).unwrap() >= self.ceiling
    }
}

fn has_begun(hold: &Hold) -> bool {
    hold.point == PausePoint::After && hold.deleted == Some(false)
}

fn is_current(observed: &Observed, set: &ordereddeployment_planner::Set) -> bool {
    ordereddeployment_planner::is_of(set, &observed.deployment.spec.template)
}

/// Checks what is stored against what was stored before: how a hold may begin, change and end.
pub(crate) fn check_record(observed: &Observed, record: &Record) {
    let view = View::of(observed);
    let (before, after) = (view.status(), &record.status);
    let hash = |status: &OrderedDeploymentStatus| {
        status.rollout.as_ref().map(|rollout| rollout.template_hash.clone())
    };
    let revision =
        |status: &OrderedDeploymentStatus| status.rollout.as_ref().map_or(0, |rollout| rollout.revision);
    if revision(after) != revision(&before) {
        let cleared = (&after.hold, &after.passed, &after.resume_requested) == (&None, &None, &None);
        assert!(cleared, "a new rollout begins with a clear status, in one write");
        assert_ne!(hash(&before), hash(after));
        return;
    }
    if before.collision_count != after.collision_count {
        assert_eq!(
            (&before.hold, &before.passed),
            (&after.hold, &after.passed),
            "another name is no other rollout"
        );
        return;
    }
    if let Some(requested) = before.resume_requested.as_deref().filter(|_| hash(&before) == hash(after)) {
        assert_eq!(after.resume_requested, None, "a request is answered at once");
        let (passed_before, passed) =
            (before.passed.clone().unwrap_or_default(), after.passed.clone().unwrap_or_default());
        let named = before.hold.as_ref().is_some_and(|hold| hold.id == requested);
        let all = requested == format!("*@{}", revision(&before));
        let blocked = before.blocked.as_ref().is_some_and(|blocked| {
            blocked.id == requested && blocked.since.0 + SignedDuration::from_secs(60) <= observed.now
        });
        if blocked && before.hold == after.hold {
            assert!(
                passed.len() == passed_before.len() + 1 && after.blocked.is_none(),
                "it passes that point"
            );
            return;
        }
        if !named && !all {
            assert_eq!((&before.hold, passed_before), (&after.hold, passed), "{requested} names nothing");
            return;
        }
    }
    match (&before.hold, &after.hold) {
        (Some(hold), None) => assert!(may_end(&view, hold), "a hold is sticky: {hold:?}"),
        (Some(hold), Some(next)) => {
            let timed = hold.until.is_some() && next.until.is_none();
            if !has_begun(next) && (has_begun(hold) || timed) {
                keeps_no_surge(next, &view);
            }
            if has_begun(hold)
                && next.deleted != Some(true)
                && (hold.point, &hold.id) != (next.point, &next.id)
            {
                // Its pod is there still, and another point, or another side of it, is reached first.
                begins(&view, next);
                return;
            }
            assert_eq!((&hold.id, &hold.pod_uid), (&next.id, &next.pod_uid), "one hold at a time");
            let there = view.pods.iter().any(|(pod, ..)| *pod.facts.uid == *hold.pod_uid);
            assert!(next.deleted != Some(true) || hold.deleted == Some(true) || !there, "it is still there");
            assert!(has_begun(hold) || timed || hold.sizes == next.sizes, "what is stored stays");
        }
        (None, Some(hold)) => {
            begins(&view, hold);
            keeps_no_surge(hold, &view);
        }
        (None, None) => {}
    }
}

fn may_end(view: &View<'_>, hold: &Hold) -> bool {
    let (before, observed) = (view.status(), view.observed);
    let requested = before.resume_requested.is_some();
    let over = !has_begun(hold) && hold.until.as_ref().is_some_and(|until| until.0 <= observed.now);
    let pod = view.pods.iter().find(|(pod, ..)| *pod.facts.uid == *hold.pod_uid);
    let unmarked = pod.is_some_and(|(pod, ..)| pod.point == Point::None);
    let none_left = view.desired > 0 && view.old().next().is_none();
    requested || (over && observed.live) || (unmarked && observed.live) || none_left
}

fn begins(view: &View<'_>, hold: &Hold) {
    let (at, side, _) = view.barrier().expect("a hold stands at a barrier");
    let old: Vec<_> = view.old().collect();
    assert_eq!((*hold.pod_uid).to_owned(), *old[at].0.facts.uid);
    let scaled = view.status().rollout.is_some_and(|rollout| {
        rollout.replicas != view.observed.deployment.spec.replicas || rollout.scaled_from.is_some()
    });
    if hold.point == PausePoint::Before && (scaled || view.desired == 0) {
        // Scaling would take the last pod with a point away.
        return;
    }
    assert_eq!(hold.point, side);
    assert_eq!(at, 0, "some are ahead");
}

/// A hold without a duration keeps no surge: its sizes add up to the replicas, or to the old pods where these are more.
fn keeps_no_surge(hold: &Hold, view: &View<'_>) {
    if hold.until.is_some()
        || has_begun(hold)
        || view.observed.deployment.spec.strategy.type_ == StrategyType::Recreate
    {
        return;
    }
    let old: i64 = hold
        .sizes
        .iter()
        .filter(|(hash, _)| !is_current_hash(view, hash))
        .map(|(_, size)| i64::from(*size))
        .sum();
    let sum: i64 = hold.sizes.values().map(|size| i64::from(*size)).sum();
    let scaled_for = view.status().rollout.map_or(view.desired, |rollout| i64::from(rollout.replicas));
    assert!(sum <= old.max(scaled_for), "surge is stored: {:?} for {scaled_for}", hold.sizes);
}

fn is_current_hash(view: &View<'_>, hash: &str) -> bool {
    let set = view.observed.sets.iter().find(|set| set.hash == hash);
    set.map_or_else(
        || view.status().rollout.is_some_and(|rollout| rollout.template_hash == hash),
        |set| is_current(view.observed, set),
    )
}

/// Who waits is told one thing: done, going on, or in need of somebody.
fn is_one_thing(act: &Act) {
    let holds =
        |type_: &&str| act.status.condition(type_).is_some_and(|found| found.status == ConditionStatus::True);
    let said: Vec<_> =
        [condition::COMPLETE, condition::RECONCILING, condition::STALLED].into_iter().filter(holds).collect();
    assert_eq!(said.len(), 1, "{said:?}");
    for type_ in condition::ALWAYS {
        assert!(act.status.condition(type_).is_some(), "{type_} is missing");
    }
}

/// Checks an act against what it was decided on.
pub(crate) fn check(observed: &Observed, act: &Act) {
    is_one_thing(act);
    if !ordereddeployment_api::validate(&observed.deployment.spec).is_empty() {
        assert!(act.is_idle(), "an invalid spec moves nothing");
        return;
    }
    let view = View::of(observed);
    let status = observed.deployment.status.clone().unwrap_or_default();
    let hold = status.hold.as_ref();
    let held = hold.is_some_and(|hold| !has_begun(hold));
    let paused = observed.deployment.spec.paused;
    let rollout: Vec<&Target> = targets(act, Purpose::Rollout);
    let scale: Vec<&Target> = targets(act, Purpose::Scale);
    groups(act);
    ceiling(&view, act, held || paused);
    replacements_wait(&view, act, held || paused);
    sizes(&view, act);
    if held || paused {
        assert!(rollout.is_empty(), "no rollout deletion while held or paused");
    }
    floors(&view, &rollout, &scale);
    in_order(&view, &rollout);
    proof(&view, &rollout);
    barrier(&view, &rollout);
    left_to_the_collector(&view, act);
    gates_go_last(&view, &scale);
    blocked(&view, act);
    let rolls = view.old().next().is_some();
    if held || paused {
        keeps(&view, &scale);
    } else if rolls && spec_rolls(observed) {
        creates(&view, act);
    }
    // A pause in a rollout keeps the share of an older set even while none of its pods is there: no plain scale-down then.
    let usable = observed.sets.iter().filter(|set| !set.terminating && !is_current(observed, set));
    let share = |hash: &str| {
        status.pause.as_ref().and_then(|pause| pause.sizes.get(hash)).is_some_and(|size| *size > 0)
    };
    let keeps_old = paused && usable.into_iter().any(|set| share(&set.hash));
    let collected = observed.sets.iter().any(|set| set.terminating);
    if !rolls && !held && !keeps_old && !scale.is_empty() && !collected {
        let first: Vec<_> = view.pods.iter().take(scale.len()).map(|(pod, ..)| &pod.name).collect();
        let taken: Vec<_> = scale.iter().map(|target| &target.name).collect();
        assert_eq!(first, taken, "a scale-down outside a rollout takes the first of the order");
        assert_eq!(scale.len(), view.pods.len() - usize::try_from(view.desired).unwrap());
    }
}

/// What holds even where somebody wrote the status: he may have the rollout stand still, or say which points are passed.
pub(crate) fn check_whatever_is_stored(observed: &Observed, act: &Act) {
    is_one_thing(act);
    let view = View::of(observed);
    let rollout: Vec<&Target> = targets(act, Purpose::Rollout);
    groups(act);
    let created: usize = act.creates.iter().map(|create| create.count).sum();
    let after = i64::try_from(view.pods.len() + created).unwrap();
    assert!(created == 0 || after <= view.ceiling.max(2 * view.desired), "{after} of {} pods", view.desired);
    sizes(&view, act);
    floors(&view, &rollout, &targets(act, Purpose::Scale));
    in_order(&view, &rollout);
    proof(&view, &rollout);
    barrier(&view, &rollout);
}

fn barrier(view: &View<'_>, rollout: &[&Target]) {
    let old: Vec<_> = view.old().map(|(pod, ..)| &pod.facts.uid).collect();
    for target in rollout {
        let place = old.iter().position(|uid| **uid == target.uid).unwrap();
        assert!(place < view.may_go(), "{} is at or past the barrier", target.name);
    }
}

fn spec_rolls(observed: &Observed) -> bool {
    let spec = &observed.deployment.spec;
    spec.replicas > 0 && spec.strategy.type_ == StrategyType::RollingUpdate
}

/// Pods of a set that is being deleted are the garbage collector's.
fn left_to_the_collector(view: &View<'_>, act: &Act) {
    for target in act.deletes.iter().flat_map(|group| &group.targets) {
        let (pod, ..) = view.pods[view.place(&target.uid)];
        let set = view.observed.sets.iter().find(|set| set.uid == pod.set).unwrap();
        assert!(!set.terminating, "{} is of a set that is being deleted", target.name);
    }
}

/// Scaling takes an old pod with a pause point that is not passed only where no other old pod can go, and never the last one
/// while the rollout is not held.
fn gates_go_last(view: &View<'_>, scale: &[&Target]) {
    let status = view.status();
    let goes = |pod: &Pod| scale.iter().any(|target| target.uid == pod.facts.uid);
    let collected = |pod: &Pod| view.observed.sets.iter().any(|set| set.uid == pod.set && set.terminating);
    let is_held = |pod: &Pod| status.hold.as_ref().is_some_and(|hold| *hold.pod_uid == *pod.facts.uid);
    let gates = |pod: &Pod| {
        matches!(pod.point, Point::At { .. }) && !status.has_passed(&pod.facts.uid) || is_held(pod)
    };
    let old: Vec<&Pod> = view.old().map(|(pod, ..)| *pod).filter(|pod| !collected(pod)).collect();
    let gone: Vec<_> = old.iter().filter(|pod| gates(pod) && goes(pod)).collect();
    if gone.is_empty() {
        return;
    }
    assert!(old.iter().all(|pod| gates(pod) || goes(pod)), "a pod with a point goes before one without");
    let held = status.hold.as_ref().is_some_and(|hold| !has_begun(hold));
    let left = old.iter().any(|pod| gates(pod) && !goes(pod));
    // With nothing behind it, a point `after` holds nothing.
    assert!(held || left || view.barrier().is_none(), "scaling takes the last point away");
    if old.iter().any(|pod| is_held(pod) && goes(pod)) {
        assert!(old.iter().all(|pod| goes(pod)), "the held pod goes last");
    }
}

/// Blocked is said after a minute, and only where it is so.
fn blocked(view: &View<'_>, act: &Act) {
    let stalled = act.status.condition(condition::STALLED);
    let says = stalled.is_some_and(|found| found.reason == reason::BLOCKED);
    let Some(blocked) = &act.status.blocked else {
        assert!(!says, "blocked at nothing");
        return;
    };
    let (at, ..) = view.barrier().expect("it is blocked at a barrier");
    let old: Vec<_> = view.old().collect();
    assert!(blocked.id.starts_with(&old[at].0.name));
    assert!(view.all_updated_available() && view.available() - 1 < view.floor && old[0].3);
    assert!(old[at..].iter().any(|(.., available)| !available));
    let since = blocked.since.0;
    assert!(since <= view.observed.now);
    assert_eq!(says, view.observed.now.duration_since(since) >= SignedDuration::from_secs(60));
}

/// Held or paused: within a set the first of the order go, and one stays old. A hold without a duration takes the surge, unavailable
/// pods first.
fn keeps(view: &View<'_>, scale: &[&Target]) {
    let stays = |pod: &Pod| scale.iter().all(|target| target.uid != pod.facts.uid);
    let status = view.status();
    let untimed = status.hold.as_ref().is_some_and(|hold| !has_begun(hold) && hold.until.is_none());
    let untimed = untimed && spec_rolls(view.observed);
    for set in &view.observed.sets {
        let updated = is_current(view.observed, set);
        if updated && untimed {
            continue;
        }
        let gates = |pod: &Pod| {
            let held = status.hold.as_ref().is_some_and(|hold| *hold.pod_uid == *pod.facts.uid);
            held || matches!(pod.point, Point::At { .. }) && !status.has_passed(&pod.facts.uid)
        };
        let of_set = view.pods.iter().map(|(pod, ..)| *pod);
        let of_set = of_set.filter(|pod| pod.set == set.uid && (updated || !gates(pod)));
        let mut stayed = of_set.skip_while(|pod| !stays(pod));
        assert!(stayed.all(stays), "within a set the first of the order go");
    }
    if let (true, Some(hold)) = (untimed, &status.hold)
        && i64::from(hold.replicas) == view.desired
        && view.updated() <= view.desired
    {
        let gone =
            view.pods.iter().filter(|(pod, _, updated, available)| *updated && *available && !stays(pod));
        let gone = i64::try_from(gone.count()).unwrap();
        assert!(gone == 0 || view.available() - gone >= view.floor, "surge goes within the floor");
        let left = view.pods.iter().any(|(pod, _, updated, available)| *updated && !*available && stays(pod));
        assert!(gone == 0 || !left, "unavailable surge goes first");
    }
    if let (None, Some(pause)) = (&status.hold, &status.pause)
        && i64::from(pause.replicas) == view.desired
    {
        for updated in [false, true] {
            let of = |set: &&ordereddeployment_planner::Set| is_current(view.observed, set) == updated;
            let share: i32 =
                view.observed.sets.iter().filter(of).filter_map(|set| pause.sizes.get(&set.hash)).sum();
            let active = view.pods.iter().filter(|(_, _, is, _)| *is == updated).count();
            let left = view.pods.iter().filter(|(pod, _, is, _)| *is == updated && stays(pod)).count();
            let share = usize::try_from(share).unwrap().min(usize::try_from(view.desired).unwrap());
            assert!(left >= active.min(share), "a pause keeps its sizes");
        }
    }
    let old = view.old().count();
    // A pause may have begun under another template, by which others were old.
    if status.hold.is_some()
        && view.desired > 0
        && old > 0
        && view.observed.sets.iter().all(|set| !set.terminating)
    {
        assert!(view.old().any(|(pod, ..)| stays(pod)), "none of {old} stays old");
    }
}

/// What a running rolling update may create.
fn creates(view: &View<'_>, act: &Act) {
    let observed = view.observed;
    let current = observed
        .sets
        .iter()
        .filter(|set| !set.terminating && is_current(observed, set))
        .min_by_key(|set| (set.created, &set.name));
    let is_new = |hash: &str| {
        current.map_or_else(
            || observed.sets.iter().all(|set| set.terminating || set.hash != hash),
            |set| set.hash == hash,
        )
    };
    let sum = |new: bool| -> i64 {
        let creates = act.creates.iter().filter(|create| is_new(&create.hash) == new);
        creates.map(|create| i64::try_from(create.count).unwrap()).sum()
    };
    assert!(sum(true) == 0 || view.updated() + sum(true) <= view.wanted(), "D − B updated pods are wanted");
    let rollout = view.status().rollout;
    let scaled = rollout.as_ref().map_or(0, |rollout| rollout.replicas);
    if rollout.is_some_and(|rollout| rollout.scaled_from.is_some())
        && scaled == observed.deployment.spec.replicas
    {
        // D came back before its change was carried out: each set gets back what it had.
    } else if scaled == observed.deployment.spec.replicas {
        assert!(sum(false) == 0 || view.reliable() + sum(false) <= view.floor, "lost pods come back updated");
    } else if scaled > observed.deployment.spec.replicas {
        assert_eq!(act.creates, [], "a smaller D never creates a pod");
    }
}

/// Nothing is deleted for a template that is not known to work.
fn proof(view: &View<'_>, rollout: &[&Target]) {
    let observed = view.observed;
    let current = observed.sets.iter().filter(|set| is_current(observed, set));
    let created =
        current.flat_map(|set| observed.pods.iter().filter(|pod| pod.set == set.uid)).next().is_some();
    assert!(rollout.is_empty() || created || observed.proof == Proof::Accepted, "the template is not proven");
}

fn targets(act: &Act, purpose: Purpose) -> Vec<&Target> {
    act.deletes.iter().filter(|group| group.purpose == purpose).flat_map(|group| &group.targets).collect()
}

fn groups(act: &Act) {
    for group in &act.deletes {
        assert!((1..=16).contains(&group.targets.len()));
        assert!(group.targets.iter().all(|target| target.priority == group.targets[0].priority));
    }
}

/// Each pod that failed young keeps one replacement waiting, twice as long as the failure that it follows.
fn replacements_wait(view: &View<'_>, act: &Act, kept: bool) {
    const MOST: i64 = 300;
    let Observed { now, pods, sets, .. } = view.observed;
    for create in &act.creates {
        let Some(set) = sets.iter().find(|set| set.hash == create.hash && !set.terminating) else { continue };
        let mut failures: Vec<(i64, i64, i64)> = pods
            .iter()
            .filter(|pod| pod.set == set.uid && !pod.terminating)
            .filter_map(|pod| Some((pod.facts.created?.as_second(), pod.failed.as_ref()?.at.as_second(), 1)))
            .filter(|(created, at, _)| at - created < 600)
            .collect();
        failures.sort_unstable();
        for index in 0..failures.len() {
            let created = failures[index].0;
            let before = failures[..index].iter().filter(|(_, at, _)| (1..600).contains(&(created - at)));
            failures[index].2 = before.map(|(.., wait)| (wait * 2).min(MOST)).max().unwrap_or(1);
        }
        let until = |(_, at, wait): &(i64, i64, i64)| jiff::Timestamp::from_second(at + wait).unwrap();
        let waiting = failures.iter().filter(|failure| until(failure) > *now).count();
        let room = view.ceiling - i64::try_from(view.pods.len()).unwrap();
        let asked = i64::try_from(create.count + waiting).unwrap();
        assert!(kept || asked <= room, "{} created although {waiting} have to wait", create.count);
    }
}

fn ceiling(view: &View<'_>, act: &Act, kept: bool) {
    let created: usize = act.creates.iter().map(|create| create.count).sum();
    if created == 0 {
        return;
    }
    let spec = &view.observed.deployment.spec;
    let terminating = view.observed.pods.iter().filter(|pod| pod.terminating && !pod.finished).count();
    let waits = spec.pod_replacement_policy == PodReplacementPolicy::TerminationComplete;
    let present = view.pods.len() + if waits { terminating } else { 0 };
    let after = i64::try_from(present + created).unwrap();
    assert!(view.desired > 0, "D = 0 allows no pod");
    // What a hold or a pause stored may include surge pods of a larger maxSurge.
    assert!(kept || after <= view.ceiling, "{after} pods exceed the ceiling of {}", view.ceiling);
    if spec.strategy.type_ == StrategyType::Recreate && !kept {
        assert!(view.old().next().is_none(), "under Recreate creation starts when no old pod is left");
    }
}

/// The published sizes sum up to D, and between two writes to no less than before or after.
fn sizes(view: &View<'_>, act: &Act) {
    let mut sizes: BTreeMap<String, i32> = view
        .observed
        .sets
        .iter()
        .filter(|set| !set.terminating)
        .map(|set| (set.uid.to_string(), set.replicas))
        .collect();
    if view.observed.sets.iter().any(|set| set.terminating) {
        return;
    }
    let sum = |sizes: &BTreeMap<String, i32>| sizes.values().map(|size| i64::from(*size)).sum::<i64>();
    let least = sum(&sizes).min(view.desired);
    for change in &act.sets {
        match change {
            SetChange::Create { replicas, .. } => {
                sizes.insert("new".into(), *replicas);
            }
            SetChange::Update { uid, replicas: Some(replicas), .. } => {
                sizes.insert(uid.to_string(), *replicas);
            }
            SetChange::Update { .. } => {}
            SetChange::Equal { .. } => {
                let alone = act.sets.len() == 1 && act.creates.is_empty() && act.deletes.is_empty();
                assert!(alone, "an equality is stored before it is used");
                return;
            }
            SetChange::Delete { uid } => {
                assert_eq!(sizes.remove(&**uid), Some(0), "only empty sets are deleted");
            }
        }
        assert!(sum(&sizes) >= least, "sets that grow come first: {:?}", act.sets);
    }
    if !sizes.is_empty() {
        assert_eq!(sum(&sizes), view.desired, "{sizes:?}");
    }
}

fn floors(view: &View<'_>, rollout: &[&Target], scale: &[&Target]) {
    if rollout.is_empty() {
        return;
    }
    // Both kinds of deletions come of one decision: what scaling takes, the rollout cannot count on.
    let leaving = scale.iter().filter(|target| view.pods[view.place(&target.uid)].3).count();
    let leaving = i64::try_from(leaving).unwrap();
    let mut available = view.available() - leaving;
    let mut reliable = view.reliable() - leaving;
    for target in rollout {
        let (.., updated, is_available) = view.pods[view.place(&target.uid)];
        assert!(!updated, "a rollout deletes old pods");
        available -= i64::from(is_available);
        reliable -= 1;
        assert!(
            !is_available || available >= view.floor,
            "{} leaves {available} available pods",
            target.name
        );
        assert!(reliable >= view.floor, "{} leaves {reliable} pods to rely on", target.name);
    }
}

/// Nothing goes while an old pod ahead of it stays, but for unavailable pods that pass available ones (`WhenBlocked`).
fn in_order(view: &View<'_>, rollout: &[&Target]) {
    let mode = view.observed.deployment.spec.deletion_order.clone().unwrap_or_default().unavailable_pods;
    let places: Vec<_> = rollout.iter().map(|target| view.place(&target.uid)).collect();
    assert!(places.is_sorted(), "deletions follow the order");
    for place in &places {
        for (ahead, (pod, _, updated, available)) in view.pods[..*place].iter().enumerate() {
            if *updated || places.contains(&ahead) {
                continue;
            }
            let passes = mode == UnavailablePods::WhenBlocked && *available && !view.pods[*place].3;
            assert!(passes, "{} stays behind although it goes first", pod.name);
            let status = view.status();
            let overdue = status
                .condition(condition::PROGRESSING)
                .is_some_and(|found| found.reason == reason::PROGRESS_DEADLINE_EXCEEDED);
            assert!(
                view.is_blocked() && (overdue || view.all_updated_available()),
                "out of turn without need"
            );
            let barrier = view.barrier().map(|(at, ..)| view.old().nth(at).unwrap());
            let past = barrier.is_some_and(|(pod, ..)| view.place(&pod.facts.uid) <= *place);
            assert!(!past, "out of turn at or past the barrier");
        }
    }
}
