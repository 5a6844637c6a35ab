//! Decisions about the ReplicaSets of a plain Deployment. A stand-in for the Deployment controller sets their
//! sizes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use jiff::SignedDuration;
use ordereddeployment_api::PausePoint;
use ordereddeployment_api::names::annotation;
use ordereddeployment_planner::{
    Act, Decision, Failure, FailureKind, Pod, Point, Read, Set, Snapshot, decide_sets, is_of, pauses,
};
use ordereddeployment_sorter::Phase;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::model;
use crate::play::{histories, points_of};

/// The cluster of the other tests, where each decision is one about ReplicaSets.
#[derive(Clone)]
struct Cluster {
    model: model::Cluster,
    held_back: BTreeMap<Arc<str>, String>,
    live: bool,
}

impl Deref for Cluster {
    type Target = model::Cluster;

    fn deref(&self) -> &model::Cluster {
        &self.model
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut model::Cluster {
        &mut self.model
    }
}

impl Cluster {
    /// A Deployment of the template `v1`, with its ReplicaSet and that many ready pods, named `web-v1-0001`
    /// and so on.
    fn new(replicas: i32, strategy: &Value) -> Self {
        let model = model::Cluster::new(&json!({"replicas": replicas, "strategy": strategy}));
        let mut cluster = Self { model, held_back: BTreeMap::new(), live: true };
        cluster.roll_out("v1");
        cluster.play(&format!("size v1 {replicas}"));
        cluster
    }

    /// A user changes the template, and the Deployment controller creates its ReplicaSet.
    fn roll_out(&mut self, image: &str) {
        self.set_image(image);
        let name = format!("web-{image}");
        if self.sets.iter().any(|set| set.name == name) {
            return;
        }
        let set = Set {
            uid: format!("uid-of-{name}").into(),
            hash: name.clone(),
            name,
            revision: i64::try_from(self.sets.len()).unwrap() + 1,
            created: Some(self.now),
            replicas: 0,
            min_ready_seconds: 0,
            template: self.deployment.spec.template.without_hash(),
            equal_templates: Vec::new(),
            served: Some(0),
            desired_replicas: Some(self.deployment.spec.replicas),
            terminating: false,
        };
        self.sets.push(set);
    }

    fn set(&mut self, image: &str) -> &mut Set {
        let name = format!("web-{image}");
        self.sets.iter_mut().find(|set| set.name == name).unwrap()
    }

    fn snapshot(&self) -> Snapshot {
        let nodes = self.nodes.iter().map(|(name, node)| (Arc::clone(name), Some(node.clone()))).collect();
        Snapshot { live: self.live, nodes, ..self.observed() }
    }

    /// Applies one decision. Deleted pods are gone and created pods ready at once. Returns whether anything
    /// changed.
    fn step(&mut self) -> bool {
        match decide_sets(&self.snapshot()) {
            Decision::Read(Read::Live) => {
                self.live = true;
                true
            }
            Decision::Read(read) => panic!("{read:?}"),
            Decision::Record(record) => {
                if let Some(paused) = pauses(&self.status(), &record.status) {
                    self.deployment.spec.paused = paused;
                }
                assert!(self.store(&record.status), "a record changes nothing: {:?}", record.status);
                true
            }
            Decision::Act(act) => self.act(&act),
        }
    }

    fn act(&mut self, act: &Act) -> bool {
        self.held_back.clone_from(&act.held_back);
        for group in &act.deletes {
            let names = group.targets.iter().map(|target| (target.name().to_owned(), group.purpose));
            self.deleted.extend(names);
        }
        let done = self.simulated.carry_out(act, |_, _| Ok(()));
        self.pods.retain(|pod| !pod.terminating);
        let now = self.now;
        for (at, pod) in self.pods.iter_mut().enumerate().filter(|(_, pod)| !pod.facts.ready) {
            pod.facts.ready = true;
            pod.facts.ready_since = Some(now);
            pod.facts.phase = Phase::Running;
            pod.facts.node = Some(format!("n{}", at % 2).as_str().into());
        }
        !act.is_idle() || done.changed
    }

    /// Decides until nothing is left to do.
    fn rest(&mut self) {
        for _ in 0..1000 {
            self.now += SignedDuration::from_secs(1);
            if !self.step() {
                return;
            }
        }
        panic!("the decisions do not end");
    }

    /// The pods of that image.
    fn names(&self, image: &str) -> Vec<String> {
        self.active().filter(|pod| self.image(pod) == image).map(|pod| pod.name.clone()).collect()
    }

    /// The deleted pods, in order.
    fn gone(&self) -> Vec<String> {
        self.deleted.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The pod that got a pause point last.
    fn marked(&self) -> String {
        self.marked.last().unwrap().clone()
    }

    /// The Deployment controller after a change of `replicas`, for these sizes of its sets.
    fn scale(&mut self, replicas: i32, sizes: &[(&str, i32)]) {
        self.edit(|spec| spec.replicas = replicas);
        for (image, size) in sizes {
            let set = self.set(image);
            (set.replicas, set.desired_replicas) = (*size, Some(replicas));
        }
    }

    /// Plays a history, with the lines and the pods of `play.rs`. `size v1 6` is the Deployment controller's,
    /// and `scale 5 v1 3` is after a change of `replicas`; `image v2` makes a set, and `template v2` does
    /// not.
    #[track_caller]
    fn play(&mut self, history: &str) -> &mut Self {
        for line in history.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (deeds, facts) = line.split_once("=>").unwrap_or((line, ""));
            let deeds: Vec<&str> = deeds.split(',').map(str::trim).filter(|deed| !deed.is_empty()).collect();
            for deed in &deeds {
                self.deed(deed);
            }
            if deeds.last().is_some_and(|deed| !["step", "unseen"].contains(deed)) {
                self.rest();
            }
            for fact in facts.split_whitespace() {
                assert!(self.is(fact), "{line}: it is not {fact}: {:?} {:?}", self.gone(), self.status());
            }
        }
        self
    }

    fn deed(&mut self, deed: &str) {
        match *deed.split(' ').collect::<Vec<_>>() {
            ["size", image, size] => self.set(image).replicas = size.parse().unwrap(),
            ["scale", replicas, ref sizes @ ..] => {
                let sizes = sizes.chunks(2).map(|pair| (pair[0], pair[1].parse().unwrap()));
                self.scale(replicas.parse().unwrap(), &sizes.collect::<Vec<_>>());
            }
            ["image", image] => self.roll_out(image),
            ["template", image] => self.set_image(image),
            ["resume"] => self.edit(|spec| spec.paused = false),
            ["lose", "last"] => _ = self.pods.pop(),
            ["step"] => _ = self.step(),
            ["rest"] => {}
            _ => assert!(self.model.deed(deed), "no deed: {deed}"),
        }
    }

    fn is(&self, fact: &str) -> bool {
        let at = |side| self.status().hold.is_some_and(|hold| hold.point == side);
        match fact {
            "paused" => self.deployment.spec.paused,
            "unpaused" => !self.deployment.spec.paused,
            "held=before" => self.model.is("held=mark") && at(PausePoint::Before),
            "held=after" => self.model.is("held=mark") && at(PausePoint::After),
            fact => self.model.is(fact),
        }
    }

    fn message(&self) -> &str {
        self.held_back.values().next().unwrap()
    }
}

fn rolling() -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})
}

/// Pods with descending priorities.
fn prioritized(replicas: i32, strategy: &Value) -> Cluster {
    let mut cluster = Cluster::new(replicas, strategy);
    cluster.prioritize(&(0..replicas).map(|place| 100 - place).collect::<Vec<_>>());
    cluster
}

fn recreate() -> Cluster {
    prioritized(4, &json!({"type": "Recreate"}))
}

/// A rollout of ten pods with descending priorities, with one new pod and room for one old pod less.
fn rollout() -> Cluster {
    let mut cluster = prioritized(10, &rolling());
    cluster.roll_out("v2");
    cluster
}

histories! {
    // The Deployment controller fills the paused Deployment up; deleted pods do not come back, but a user
    // scales it up. It has not made the set smaller again when the hold ends.
    under_recreate_a_pause_point_holds_before_the_new_set_exists:
        recreate() => "
            mark before #2, template v2, size v1 0 => deleted=2 held=before
            size v1 4 => v1=2
            scale 6 v1 6 => v1=6
            lose last, lose last, unseen => v1=4
            resume => v1=4 unpaused
            size v1 0 => v1=0";
    // The Deployment controller fills the paused Deployment up with its newest set. At the end of the hold
    // the old pods go first.
    under_recreate_no_new_pod_runs_beside_old_ones_in_a_pause:
        recreate() => "
            mark before #2, image v2, size v1 0 => held=before
            size v2 4 => v1=2 v2=0
            resume, step
            step => v1=0 v2=0
            rest => v2=4";
    a_point_waits_for_the_set_of_a_newer_template:
        rollout() => "
            mark before #1, size v1 7, pause => v1=9
            template v3
            resume => v1=9 free
            image v3 => v1=9 held=before";
    // A scale-down is no rollout.
    a_point_on_a_pod_of_the_newest_set_waits_for_the_next_rollout:
        prioritized(4, &rolling()) => "
            mark before #0, size v1 3 => deleted=1 free
            mark before #0, image v2, size v1 2 => held=before";
    // The Deployment controller had not seen `spec.paused` yet.
    a_size_that_was_ordered_just_before_the_pause_waits_too:
        rollout() => "
            mark before #2, size v1 6
            size v1 4 => v1=8
            scale 8 v1 3 => v1=7";
    without_replicas_no_pod_waits:
        rollout() => "
            mark before #2, size v1 6
            scale 0 v1 0 v2 0 => v1=0 v2=0 free unpaused";
    a_hold_outlives_its_pod_and_the_lost_pod_is_replaced:
        rollout() => "
            mark before #2, size v1 9
            size v1 8
            size v1 7 => held=before
            lose marked => held=before v1=7
            lose v1 => paused v1=7";
    // A paused Deployment gets no set for another template.
    a_hotfix_during_a_hold_ends_it:
        rollout() => "
            mark before #0, size v1 9 => held=before paused
            template v3 => free unpaused";
    passed_points_pause_the_next_rollout_again:
        rollout() => "
            mark before #0, size v1 9
            resume, size v1 10 => deleted=0 free
            image v3, size v1 9 => held=before";
    // Nothing is created for a set that is being deleted.
    scaling_down_with_a_new_template_whose_set_does_not_exist_yet_pauses_nothing:
        prioritized(4, &rolling()) => "mark before #0, template v9, scale 2 v1 2 => v1=2 free";
    pods_are_created_when_the_deletes_of_other_sets_have_made_room:
        rollout() => "
            size v1 6, size v2 5, step => v1=6 v2=1
            step => v1=6 v2=5";
}

/// The decision when a request of that kind was refused.
fn after_a_failure(cluster: &Cluster, what: FailureKind) -> Decision {
    let mut snapshot = cluster.snapshot();
    let message = "refused".to_owned();
    snapshot.failure = Some(Failure { what, message, since: snapshot.now });
    decide_sets(&snapshot)
}

#[test]
fn a_delete_that_is_refused_keeps_no_pod_of_another_set_away() {
    let mut cluster = rollout();
    cluster.play("size v1 6, size v2 5\n size v1 4, size v2 7, unseen");
    let Decision::Act(act) = after_a_failure(&cluster, FailureKind::Delete) else { panic!("no act") };
    assert_eq!(act.creates.iter().map(|create| create.count).sum::<usize>(), 2);
}

#[test]
fn a_set_without_an_owner_has_no_ranks() {
    let goes = |change: fn(&mut Cluster)| {
        let mut cluster = Cluster::new(3, &rolling());
        let since = cluster.pod(0).facts.ready_since;
        for (place, node) in [(0, "n0"), (1, "n1"), (2, "n1")] {
            let facts = &mut cluster.pod(place).facts;
            (facts.node, facts.ready_since, facts.created) = (Some(node.into()), since, since);
            facts.restarts = i32::from(place == 0);
        }
        change(&mut cluster);
        let deployment = &mut cluster.deployment;
        deployment.metadata.uid = Some("uid-of-web-v1".to_owned());
        cluster.set("v1").replicas = 2;
        let alone = cluster.pod(0).name.clone();
        cluster.rest();
        cluster.gone() == [alone]
    };
    assert!(goes(|_| ()), "the pod that was restarted");
    let owned = |cluster: &mut Cluster| {
        let owner =
            json!({"apiVersion": "x/v1", "kind": "Rollout", "name": "x", "uid": "x", "controller": true});
        let metadata = &mut cluster.deployment.metadata;
        metadata.owner_references = Some(vec![serde_json::from_value(owner).unwrap()]);
    };
    assert!(!goes(owned), "a pod on the full node");
}

#[test]
fn a_pause_point_pauses_the_deployment_before_its_pod() {
    let mut cluster = rollout();
    let first = cluster.names("v1");
    cluster.play("mark before #2, size v2 2, size v1 6 => held=before paused");
    assert_eq!(cluster.gone(), first[..2]);
    let message = "2 pods beyond the size of the set wait: the rollout is paused at web-v1-";
    assert!(cluster.message().starts_with(message), "{}", cluster.message());
    // What the Deployment controller had ordered goes. A passed point pauses no more.
    cluster.play("resume => free unpaused");
    assert_eq!(cluster.gone(), first[..4]);
    assert!(cluster.held_back.is_empty());
    cluster.play("size v1 0 => v1=0");
}

#[test]
fn at_the_floor_an_unavailable_old_pod_goes_before_an_available_one_of_a_higher_priority() {
    // The Deployment controller takes the unavailable pod away first, as it expects. Never past a pause
    // point.
    for (marks, gone, pace) in [("unseen", 7, "step"), ("mark before #3, unseen", 0, "rest")] {
        let mut cluster = prioritized(10, &json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}));
        let first = cluster.pod(gone).name.clone();
        cluster.play(marks).play(&format!("unready #7, image v2, size v1 9, {pace}"));
        assert_eq!(cluster.gone(), [first]);
    }
}

#[test]
fn an_undo_begins_another_rollout_whatever_state_it_brings_back() {
    let mut cluster = rollout();
    cluster.play("mark before #0, size v1 9\n resume, size v1 10, unseen");
    cluster.rest();
    // Undone to v1, and back to v2: kubectl restores the annotations that v2 had.
    cluster.set("v2").revision = 4;
    cluster.play("size v1 9 => held=before");
}

#[test]
fn a_point_waits_for_the_revision_of_a_template_that_comes_back() {
    let mut cluster = rollout();
    cluster.play("size v2 2, size v1 8\n image v3, size v1 6, unseen");
    let before = cluster.deleted.len();
    // Back to v2. The Deployment controller has not seen it yet.
    cluster.play("image v2, mark before #1 => free");
    assert_eq!(cluster.deleted.len() - before, 1);
    assert!(cluster.message().contains("is ahead"));
    // A revision that is no number is never replaced.
    for revision in [4, -1] {
        let mut cluster = cluster.clone();
        cluster.deleted.clear();
        cluster.set("v2").revision = revision;
        cluster.play("rest => held=before deleted=0");
    }
}

#[test]
fn lost_pods_are_replaced_before_a_pause_is_stored() {
    let mut cluster = rollout();
    cluster.play("mark before #0, size v1 9, size v2 2, unseen");
    let Decision::Act(act) = decide_sets(&cluster.snapshot()) else { panic!("no act") };
    assert_eq!((act.creates.len(), act.deletes.len()), (1, 0));
    cluster.step();
    assert!(matches!(decide_sets(&cluster.snapshot()), Decision::Record(_)));
    // Creates that are refused do not keep the pause away.
    cluster.set("v2").replicas = 3;
    assert!(matches!(after_a_failure(&cluster, FailureKind::Create), Decision::Record(_)));
}

#[test]
fn scaling_goes_on_while_paused_and_the_held_pod_goes_last() {
    let mut cluster = rollout();
    let old = cluster.names("v1");
    // 10 → 5: the Deployment controller halves the sets. Two old pods still wait, and the held pod is passed
    // over.
    cluster.play(
        "mark before #2, size v2 2, size v1 6 => v1=8 v2=2
         scale 5 v1 3 v2 1 => v1=5 v2=1",
    );
    assert!(cluster.names("v1").contains(&cluster.marked()));
    assert_eq!(cluster.gone()[2..5], old[3..6]);
    cluster.play("scale 5 v1 1 => v1=3 held=before");
    assert!(cluster.names("v1").contains(&cluster.marked()));
    // Growing creates nothing as long as the pods that wait are enough.
    cluster.play("scale 7 v1 3 v2 4 => v1=3 v2=4");
}

#[test]
fn a_duration_ends_the_pause_and_a_removed_annotation_too() {
    for end in ["wait 61, rest", "unmark #0"] {
        let mut cluster = rollout();
        cluster.play("mark before #0 for 60, size v1 9 => paused");
        cluster.live = false;
        cluster.play(end).play("=> unpaused deleted=1");
        assert!(cluster.live, "read live before a hold ends by itself");
    }
}

#[test]
fn a_point_follows_the_edited_side_of_its_pod() {
    let mut cluster = rollout();
    cluster.play("mark before #0, size v1 9 => held=before\n scale 4 v1 3 => deleted=6");
    assert!(!cluster.gone().contains(&cluster.marked()), "{:?}", cluster.deleted);
    cluster.play("resume");
    assert_eq!(cluster.gone().last(), Some(&cluster.marked()));
    // After the pod: it goes, and the rollout pauses.
    let mut cluster = rollout();
    cluster.play("mark before #0, step\n mark after #0, size v1 8 => held=after");
    assert_eq!(cluster.gone(), [cluster.marked()]);
}

#[test]
fn a_deployment_that_a_user_paused_waits_at_the_point_without_a_hold() {
    let mut cluster = rollout();
    cluster.play("mark before #1, size v1 7, pause => deleted=1 free");
    let message = cluster.message();
    assert!(message.contains("the Deployment is paused, and pause point"), "{message}");
    cluster.play("resume => held=before paused");
}

#[test]
fn declared_points_pause_before_a_priority_and_before_nodes() {
    for (point, ahead) in
        [("rest before priority 97", 3), ("pool before pool n1", 1), ("pools between pool", 1)]
    {
        let mut strategy = rolling();
        strategy["pausePoints"] = points_of(point);
        let mut cluster = prioritized(10, &strategy);
        cluster.play("image v2, size v1 5 => paused");
        assert_eq!(cluster.deleted.len(), ahead, "{point}");
        cluster.play("resume");
        assert!(ahead < 3 || cluster.of_image("v1") == 5, "{point}");
    }
}

#[test]
fn declared_points_that_cannot_be_used_pause_the_rollout_until_they_are_corrected_or_resumed() {
    let annotate = |cluster: &mut Cluster, text: &str| {
        let deployment = &mut cluster.deployment;
        let annotations = deployment.metadata.annotations.get_or_insert_default();
        annotations.insert(annotation::PAUSE_POINTS.to_owned(), text.to_owned());
    };
    for text in ["[{", r#"[{"name": "a", "beforePriority": 1}, {"name": "a", "beforePriority": 0}]"#] {
        let mut resumed = rollout();
        annotate(&mut resumed, text);
        resumed.play("size v1 7 => v1=10 paused");
        assert_eq!(resumed.status().hold.unwrap().id, "pausePoints@2");
        // Care goes on: what is lost comes back, and scaling is carried out.
        resumed.play("lose last, size v1 10 => v1=10\n size v1 7, unseen");
        let mut corrected = resumed.clone();
        annotate(&mut corrected, "[]");
        corrected.play("rest => v1=7 free unpaused");
        resumed.play("resume => v1=7 free unpaused");
    }
}

#[test]
fn a_deployment_that_is_being_deleted_pauses_nothing_and_keeps_its_sets() {
    let mut cluster = rollout();
    let now = cluster.now;
    cluster.deployment.metadata.deletion_timestamp = Some(now.into());
    cluster.play("mark before #0, size v1 8 => v1=8 free\n lose last => v1=8");
    cluster.set("v1").terminating = true;
    cluster.play("lose last => v1=7");
}

/// A deed, or a number of decisions. A scale-up or scale-down gives the size of each set.
fn happening() -> impl Strategy<Value = String> {
    prop_oneof![
        "size v[1-3] [0-8]",
        "scale [0-8]( [0-8]){3}",
        "(mark before|mark before|mark after|unmark) #1?[0-9]",
        "priority (-[12]|[0-2]) #1?[0-9]",
        "lose #1?[0-9]",
        "(resume|pause)",
        "image v[1-3]",
        "step [1-3]",
        "step [1-3]",
    ]
}

/// The rules of one decision, computed from the snapshot alone.
fn check(snapshot: &Snapshot, decision: &Decision) {
    let Decision::Act(act) = decision else { return };
    let status = snapshot.deployment.stored_status();
    let hold = status.hold.as_ref();
    let newest = snapshot.sets.iter().find(|set| set.template.same_as(&snapshot.deployment.spec.template));
    let deleted: BTreeSet<&str> =
        act.deletes.iter().flat_map(|group| &group.targets).map(|target| &**target.uid()).collect();
    let size = |set: &Set| usize::try_from(set.replicas).unwrap();
    let pods_of = |set: &Set| -> Vec<_> { snapshot.pods.iter().filter(|pod| pod.set == set.uid).collect() };
    let missing: usize = snapshot.sets.iter().map(|set| size(set).saturating_sub(pods_of(set).len())).sum();
    let created: usize = act.creates.iter().map(|create| create.count).sum();
    assert!(created <= missing.saturating_sub(deleted.len()), "pods are created before there is room");
    for set in &snapshot.sets {
        let (pods, size) = (pods_of(set), size(set));
        let (goes, stays): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| deleted.contains(&*pod.facts.uid));
        let gone = goes.len();
        assert!(gone <= pods.len().saturating_sub(size), "more pods go than the set has too many");
        let created: usize =
            act.creates.iter().filter(|create| create.hash == set.hash).map(|create| create.count).sum();
        assert!(pods.len() + created <= size.max(pods.len()), "more pods are created than the set misses");
        // Nothing stays that has a higher priority than a pod of the same set that goes, but for the held
        // pod.
        let priority = |pod: &&Arc<Pod>| {
            let is_held = hold.is_some_and(|hold| *hold.pod_uid == *pod.facts.uid);
            (!is_held).then(|| pod.facts.priority.unwrap_or(0))
        };
        let most = stays.into_iter().filter_map(priority).max();
        let least = goes.into_iter().filter_map(priority).min();
        if let (Some(most), Some(least)) = (most, least) {
            assert!(most <= least, "a pod of priority {least} goes before one of {most}");
        }
        let is_old = newest.is_some_and(|newest| newest.uid != set.uid);
        if is_old && hold.is_none() && snapshot.deployment.spec.replicas > 0 {
            let passes = |pod: &Pod| {
                let id = |time: &str| format!("{}@{}{time}", pod.name, set_revision(snapshot));
                ["", ".2", ".3", ".4"].iter().any(|time| status.passed_by(&id(time)).is_some())
            };
            let points = pods.iter().filter(|pod| matches!(pod.point, Point::At { .. }) && !passes(pod));
            for pod in points.filter(|pod| deleted.contains(&*pod.facts.uid)) {
                let is_after = matches!(pod.point, Point::At { side: PausePoint::After, .. });
                assert!(is_after, "a pod with a pause point goes without a hold");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_decision_keeps_the_order_the_sizes_and_the_pause_points(
        happenings in prop::collection::vec(happening(), 1..40),
        recreates in prop::bool::weighted(0.2),
        unclaimed in prop::option::weighted(0.1, 0..3usize),
    ) {
        let strategy = if recreates { json!({"type": "Recreate"}) } else { rolling() };
        let mut cluster = Cluster::new(5, &strategy);
        cluster.roll_out("v2");
        for happening in happenings {
            let words: Vec<&str> = happening.split(' ').collect();
            let has = |place: &str| {
                let place = place.strip_prefix('#').map(|place| place.parse::<usize>().unwrap());
                place.is_none_or(|place| place < cluster.pods.len())
            };
            match words[..] {
                ["step", steps] => for _ in 0..steps.parse::<usize>().unwrap() {
                    let mut snapshot = cluster.snapshot();
                    check(&snapshot, &decide_sets(&snapshot));
                    if let Some(set) = unclaimed.and_then(|set| snapshot.sets.get(set)) {
                        snapshot.unclaimed = [Arc::clone(&set.uid)].into();
                        check(&snapshot, &decide_sets(&snapshot));
                    }
                    cluster.step();
                },
                ["scale", replicas, ref sizes @ ..] => {
                    let size = |size: &str| if replicas == "0" { 0 } else { size.parse().unwrap() };
                    let images = ["v1", "v2", "v3"].into_iter().take(cluster.sets.len());
                    let sizes: Vec<_> = images.zip(sizes.iter().map(|text| size(text))).collect();
                    cluster.scale(replicas.parse().unwrap(), &sizes);
                }
                ["size", "v3", _] if cluster.sets.len() < 3 => {}
                [.., place] if !has(place) => {}
                _ => cluster.deed(&happening),
            }
        }
        // Without further interference the decisions end, and every set without a pause has its size.
        cluster.pods.iter_mut().for_each(|pod| pod.point = Point::None);
        for _ in 0..10 {
            cluster.deed("resume");
            cluster.rest();
        }
        for set in &cluster.sets {
            let pods = cluster.pods.iter().filter(|pod| pod.set == set.uid).count();
            let size = usize::try_from(set.replicas).unwrap();
            // Under Recreate no old pod is made, whatever size somebody gives to an old set.
            let is_old = !is_of(set, &cluster.deployment.spec.template);
            prop_assert!(pods == size || recreates && is_old && pods < size, "{} pods of {}", pods, size);
        }
    }
}

/// The revision of the rollout, as the status or the newest set says.
fn set_revision(snapshot: &Snapshot) -> i64 {
    let stored = snapshot.deployment.stored_status().rollout.as_ref().map(|rollout| rollout.revision);
    stored.unwrap_or_else(|| snapshot.sets.iter().map(|set| set.revision).max().unwrap_or(0))
}

#[test]
fn an_edited_duration_changes_the_end() {
    let mut cluster = rollout();
    let until = |cluster: &Cluster| {
        let hold = cluster.status().hold.unwrap();
        hold.until.map(|until| until.0.duration_since(hold.since.0).as_secs())
    };
    cluster.play("mark before #0, size v1 9");
    assert_eq!(until(&cluster), None);
    cluster.play("mark before #0 for 600");
    assert_eq!(until(&cluster), Some(600));
}

#[test]
fn ranks_count_the_pods_of_all_sets_of_the_owner() {
    let mut cluster = Cluster::new(2, &rolling());
    cluster.roll_out("v2");
    cluster.play("size v2 1");
    let since = cluster.pods[0].facts.ready_since;
    for (place, node) in [(0, "n0"), (1, "n1"), (2, "n1")] {
        let facts = &mut cluster.pods[place].facts;
        (facts.node, facts.ready_since, facts.created) = (Some(node.into()), since, since);
    }
    let on_the_full_node = cluster.pods[1].name.clone();
    cluster.play("size v1 1");
    assert_eq!(cluster.deleted.last().unwrap().0, on_the_full_node);
}
