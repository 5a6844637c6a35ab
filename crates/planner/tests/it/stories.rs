//! Short histories with a known end: each tells one rule of pause points. Beside each is what happened before there was that rule.

use ordereddeployment_api::names::condition;
use ordereddeployment_api::{ConditionStatus, PausePoint};
use ordereddeployment_planner::Point;
use serde_json::{Value, json};

use crate::model::Cluster;

/// A rolling update, with all pods ready. The pods are of the image `v1`.
fn rolling(replicas: i32, surge: i32, unavailable: i32) -> Story {
    let bounds = json!({"maxSurge": surge, "maxUnavailable": unavailable});
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": bounds, "pausePoints": []});
    Story::of(replicas, &strategy)
}

/// The same with Recreate.
fn recreate(replicas: i32) -> Story {
    Story::of(replicas, &json!({"type": "Recreate", "pausePoints": []}))
}

struct Story {
    cluster: Cluster,
    image: u32,
}

impl Story {
    fn of(replicas: i32, strategy: &Value) -> Self {
        let cluster = Cluster::running(&json!({"replicas": replicas, "strategy": strategy}));
        Self { cluster, image: 1 }
    }

    fn settle(mut self) -> Self {
        self.cluster.settle();
        self
    }

    fn steps(mut self, number: usize) -> Self {
        for _ in 0..number {
            self.cluster.step();
        }
        self
    }

    /// Decides, one pod at a time, until so many pods were made in all.
    fn until_made(mut self, number: usize) -> Self {
        self.cluster.breaks_after = Some(1);
        while self.cluster.made < number {
            self.cluster.step();
        }
        self.cluster.breaks_after = None;
        self
    }

    fn image(mut self) -> Self {
        self.image += 1;
        self.cluster.set_image(&format!("v{}", self.image));
        self
    }

    /// A new image whose pods never become ready.
    fn bad(mut self) -> Self {
        self.image += 1;
        let image = format!("v{}", self.image);
        self.cluster.broken.insert(image.clone());
        self.cluster.set_image(&image);
        self
    }

    fn scale(mut self, replicas: i32) -> Self {
        self.cluster.edit(|spec| spec.replicas = replicas);
        self
    }

    fn point(mut self, name: &str, kind: &str, value: impl Into<Value>) -> Self {
        let point = json!({"name": name, kind: value.into()});
        self.cluster.edit(|spec| {
            let point = serde_json::from_value(point).unwrap();
            spec.strategy.pause_points.get_or_insert_default().push(point);
        });
        self
    }

    fn canary(self, name: &str, number: i32) -> Self {
        self.point(name, "afterUpdated", number)
    }

    fn change(mut self, name: &str, number: i32) -> Self {
        self.cluster.edit(|spec| {
            let points = spec.strategy.pause_points.iter_mut().flatten();
            for point in points.filter(|point| point.name == name) {
                point.after_updated = serde_json::from_value(json!(number)).unwrap();
            }
        });
        self
    }

    fn resume(mut self) -> Self {
        let id = self.cluster.status().hold.map(|hold| hold.id).or_else(|| self.cluster.stands_at());
        self.cluster.request_resume(&id.expect("it is held, or it waits"));
        self.settle()
    }

    fn abort(mut self) -> Self {
        let revision = self.cluster.status().rollout.unwrap().revision;
        self.cluster.request_abort(revision);
        self.settle()
    }

    fn paused(mut self, paused: bool) -> Self {
        self.cluster.edit(|spec| spec.paused = paused);
        self
    }

    fn strategy(mut self, strategy: &Value) -> Self {
        self.cluster.edit(|spec| {
            let points = spec.strategy.pause_points.take();
            spec.strategy = serde_json::from_value(strategy.clone()).unwrap();
            spec.strategy.pause_points = points;
        });
        self
    }

    /// Marks the old pod at that place of the present order.
    fn mark(mut self, at: usize, side: PausePoint) -> (Self, String) {
        let order = ordereddeployment_planner::rollout_order(&self.cluster.observed());
        let name = order.places[at].name.clone();
        let pod = self.cluster.pods.iter_mut().find(|pod| pod.name == name).unwrap();
        pod.point = Point::At { side, duration: Ok(None) };
        (self, name)
    }

    fn prioritize(mut self, priority: i32) -> Self {
        for pod in &mut self.cluster.pods {
            pod.facts.priority = Some(priority);
        }
        self
    }

    /// The nodes of so many old or updated pods are lost.
    fn lose(mut self, old: bool, number: usize) -> Self {
        let current = self.cluster.deployment.spec.template.clone();
        let is_old = |cluster: &Cluster, set: &str| {
            let set = cluster.sets.iter().find(|one| *one.uid == *set).unwrap();
            !ordereddeployment_planner::is_of(set, &current)
        };
        let lost: Vec<_> = self
            .cluster
            .active()
            .filter(|pod| is_old(&self.cluster, &pod.set) == old)
            .map(|pod| pod.facts.uid.clone())
            .take(number)
            .collect();
        self.cluster.pods.retain(|pod| !lost.contains(&pod.facts.uid));
        self
    }

    /// The updated and the old pods.
    fn sizes(&self) -> (usize, usize) {
        let own = self.cluster.status().aborted.map(|aborted| aborted.template_hash);
        let template = self.cluster.deployment.spec.template.clone();
        let is_updated = |set: &ordereddeployment_planner::Set| match &own {
            Some(hash) => set.hash == *hash,
            None => ordereddeployment_planner::is_of(set, &template),
        };
        let updated = self
            .cluster
            .active()
            .filter(|pod| is_updated(self.cluster.sets.iter().find(|set| set.uid == pod.set).unwrap()));
        let updated = updated.count();
        (updated, self.cluster.active().count() - updated)
    }

    #[track_caller]
    fn has(self, updated: usize, old: usize) -> Self {
        assert_eq!(self.sizes(), (updated, old), "{:#?}", self.cluster.status());
        self
    }

    #[track_caller]
    fn held(self, name: &str, updated: usize, old: usize) -> Self {
        let status = self.cluster.status();
        let id = status.hold.as_ref().map(|hold| hold.id.rsplit_once('@').unwrap().0.to_owned());
        assert_eq!(id.as_deref(), Some(name), "{status:#?}");
        assert!(!self.cluster.is_complete());
        self.has(updated, old)
    }

    #[track_caller]
    fn waits(self, name: &str, updated: usize, old: usize) -> Self {
        assert_eq!(self.cluster.status().hold, None);
        let at = self.cluster.stands_at().unwrap_or_default();
        assert!(at.starts_with(&format!("{name}@")), "{:#?}", self.cluster.status());
        self.has(updated, old)
    }

    #[track_caller]
    fn stands(self, updated: usize, old: usize) -> Self {
        assert_eq!(self.cluster.status().hold, None, "{:#?}", self.cluster.status());
        assert!(!self.cluster.is_complete(), "{:#?}", self.cluster.status());
        self.has(updated, old)
    }

    #[track_caller]
    fn complete(self, replicas: usize) -> Self {
        assert!(self.cluster.is_complete(), "{:#?}", self.cluster.status());
        self.has(replicas, 0)
    }

    /// No pod is of these images.
    #[track_caller]
    fn none_of(self, images: &[u32]) -> Self {
        for image in images {
            assert_eq!(self.cluster.of_image(&format!("v{image}")), 0, "v{image}");
        }
        self
    }

    /// So many pods were made in all.
    #[track_caller]
    fn made(self, number: usize) -> Self {
        assert_eq!(self.cluster.made, number);
        self
    }

    #[track_caller]
    fn served(self, images: &[u32]) -> Self {
        let mut sets: Vec<_> =
            self.cluster.sets.iter().filter(|set| set.served.is_some_and(|served| served > 0)).collect();
        sets.sort_by_key(|set| set.served);
        let found: Vec<_> = sets.iter().map(|set| self.cluster.image_of(set)).collect();
        let expected: Vec<_> = images.iter().map(|image| format!("v{image}")).collect();
        assert_eq!(found, expected);
        self
    }
}

#[test]
fn a_correction_of_a_bad_canary_gets_its_canary_and_the_bad_one_goes() {
    for unavailable in [0, 1] {
        let story = rolling(6, 1, unavailable).prioritize(5).canary("a", 1).bad().settle();
        let story = if unavailable == 0 { story.stands(1, 6) } else { story };
        story.image().settle().held("a", 1, 5).none_of(&[2]);
    }
}

#[test]
fn an_image_and_a_larger_number_of_replicas_together_make_no_old_pod_that_was_not_there() {
    rolling(10, 1, 1).scale(30).image().settle().complete(30).made(40);
    rolling(1, 1, 0).scale(2).image().settle().complete(2).made(3);
    rolling(10, 1, 1).scale(30).bad().until_made(11).lose(true, 4).settle().stands(22, 9);
}

#[test]
fn with_a_point_ahead_a_larger_number_of_replicas_makes_old_pods() {
    rolling(10, 1, 1).canary("a", 1).scale(30).image().settle().held("a", 1, 29);
}

#[test]
fn a_resume_passes_the_one_point_that_it_names() {
    let story = rolling(6, 1, 0).canary("a", 2).canary("b", 2).image().settle().held("a", 2, 4);
    story.resume().held("b", 2, 4).resume().complete(6);
}

#[test]
fn a_place_is_first_seen_when_the_rollout_has_an_old_pod() {
    let story = rolling(3, 1, 1).canary("a", 1).point("b", "beforePriority", 0);
    let story = story.image().lose(true, 3).settle().held("b", 0, 3);
    story.resume().held("a", 1, 2).resume().complete(3);
}

#[test]
fn one_replica_has_an_old_pod_beside_its_canary() {
    rolling(1, 1, 0).canary("a", 2).image().settle().held("a", 1, 1).resume().complete(1);
}

#[test]
fn one_replica_without_a_surge_waits_until_there_are_two_or_a_resume() {
    let waits = || rolling(1, 0, 1).canary("a", 1).image().settle().waits("a", 0, 1);
    waits().scale(2).settle().held("a", 1, 1);
    waits().resume().complete(1);
}

#[test]
fn a_bad_template_first_seen_without_replicas_has_not_served_and_an_abort_goes_back() {
    let story = rolling(3, 1, 0).canary("a", 1).scale(0).settle().bad().settle().complete(0);
    let story = story.scale(3).settle().stands(3, 0).served(&[1]);
    story.abort().complete_after_abort(3).none_of(&[2]);
}

impl Story {
    #[track_caller]
    fn complete_after_abort(self, replicas: usize) -> Self {
        let status = self.cluster.status();
        assert!(status.aborted.is_some(), "{status:#?}");
        let complete = status.condition(condition::COMPLETE).unwrap();
        assert_eq!(complete.status, ConditionStatus::False);
        self.has(replicas, 0)
    }
}

#[test]
fn a_good_template_has_served_once_enough_pods_are_available() {
    let story = rolling(3, 1, 0).canary("a", 1).scale(0).settle().image().settle().scale(3);
    story.settle().served(&[1, 2]).complete(3);
}

#[test]
fn an_image_and_no_replicas_together_keep_the_points_ahead() {
    let story = rolling(6, 1, 1).canary("a", 1).scale(0).image().settle().stands(0, 0);
    story.scale(6).settle().held("a", 1, 5);
}

#[test]
fn a_suspension_keeps_a_mark_through_a_new_template() {
    let (story, pod) = rolling(6, 1, 0).mark(3, PausePoint::Before);
    let story = story.image().settle().held(&pod, 3, 3).scale(0).settle().stands_suspended();
    story.image().settle().stands_suspended().scale(6).settle().held(&pod, 3, 3);
}

impl Story {
    #[track_caller]
    fn stands_suspended(self) -> Self {
        assert!(!self.cluster.is_complete(), "{:#?}", self.cluster.status());
        self.has(0, 0)
    }
}

#[test]
fn scaling_in_a_hold_leaves_one_pod_where_one_was_and_the_held_pod_goes_last() {
    let (story, pod) = rolling(10, 1, 0).mark(1, PausePoint::Before);
    let story = story.image().settle().held(&pod, 1, 9).scale(2).settle().held(&pod, 1, 1);
    assert!(story.cluster.active().any(|one| one.name == pod));
}

#[test]
fn a_number_raised_in_a_hold_counts_once_it_is_passed() {
    rolling(6, 1, 0).canary("a", 2).image().settle().change("a", 4).settle().held("a", 2, 4);
}

#[test]
fn a_mark_outlives_its_pod() {
    let (story, pod) = rolling(6, 1, 0).mark(3, PausePoint::Before);
    story.image().steps(4).lose(true, 6).settle().held(&pod, 3, 3);
}

#[test]
fn a_paused_rollout_in_a_hold_stands_at_the_limit_of_the_hold() {
    let story = rolling(6, 1, 1).canary("a", 2).image().settle().paused(true).settle();
    let story = story.lose(false, 1).resume().stands(2, 4);
    story.paused(false).settle().complete(6);
}

#[test]
fn who_is_alone_for_a_moment_with_a_point_ahead_has_not_served() {
    let story = rolling(6, 1, 4).canary("a", 2).image().settle().lose(true, 6).steps(1).served(&[1]);
    story.image().settle().abort().none_of(&[2, 3]);
}

#[test]
fn scaling_through_0_and_1_in_a_hold_restores_the_sizes() {
    let story = rolling(4, 1, 0).canary("a", 2).image().settle().held("a", 2, 4 - 2);
    let story = story.scale(1).settle().scale(4).settle().held("a", 2, 2);
    story.scale(0).settle().stands_suspended().scale(1).settle().scale(4).settle().held("a", 2, 2);
}

#[test]
fn an_autoscaler_in_a_hold_at_a_number_keeps_the_share() {
    let story = rolling(20, 1, 1).canary("a", 6).image().settle().held("a", 6, 14);
    let story = story.scale(8).settle().held("a", 2, 6).scale(40).settle().held("a", 6, 34);
    story.scale(20).settle().held("a", 6, 14);
}

#[test]
fn a_smaller_max_unavailable_in_a_rollout_makes_no_old_pod() {
    let smaller = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    rolling(6, 0, 1).image().steps(4).strategy(&smaller).settle().complete(6).made(12);
}

#[test]
fn two_quick_edits_and_an_abort_go_back_to_what_served() {
    let story = rolling(10, 1, 1).canary("canary", 1).image().steps(3).image().settle();
    story.held("canary", 1, 9).abort().none_of(&[2, 3]).complete_after_abort(10);
}

#[test]
fn a_rollout_is_held_at_the_first_point_when_an_autoscaler_doubles_the_replicas() {
    let points =
        |story: Story| story.point("half", "afterUpdated", "50%").point("most", "afterUpdated", "75%");
    let story = points(rolling(4, 1, 1)).image().settle().held("half", 2, 2).scale(8).settle();
    story.held("half", 4, 4).resume().held("most", 6, 2).resume().complete(8);
}

#[test]
fn a_canary_is_not_passed_by_scaling_through_1_or_0() {
    let story = || rolling(4, 1, 1).canary("canary", 1);
    story().scale(1).settle().image().settle().scale(4).settle().held("canary", 1, 3);
    story().image().scale(0).settle().scale(1).settle().scale(4).settle().held("canary", 1, 3);
}

#[test]
fn no_replicas_and_then_a_pause_keep_the_canary_and_the_old_set() {
    let story = rolling(4, 1, 1).canary("canary", 1);
    let mut story = story.image().settle().held("canary", 1, 3);
    story.cluster.edit(|spec| spec.revision_history_limit = 0);
    let story = story.scale(0).settle().paused(true).settle().stands_suspended();
    assert_eq!(story.cluster.sets.len(), 2);
    story.paused(false).scale(4).settle().held("canary", 1, 3);
}

#[test]
fn no_replicas_and_then_fewer_than_before_keep_the_canary() {
    let story = rolling(6, 1, 1).canary("canary", 2).image().settle().held("canary", 2, 4);
    story.scale(0).settle().scale(3).settle().held("canary", 1, 2);
}

#[test]
fn old_pods_that_are_all_lost_come_back_with_a_point_ahead() {
    let story = rolling(4, 1, 1).canary("canary", 1).image().settle().held("canary", 1, 3);
    let story = story.lose(true, 3).scale(0).settle().scale(4).settle().held("canary", 1, 3);
    story.resume().complete(4);
}

#[test]
fn an_abort_wins_over_a_stale_retry() {
    let mut story = rolling(4, 1, 1).canary("canary", 1).image().settle().held("canary", 1, 3);
    let revision = story.cluster.status().rollout.unwrap().revision;
    story.cluster.request_abort(revision);
    story.cluster.request_retry(revision);
    story.cluster.request_resume(&format!("canary@{revision}"));
    story.settle().complete_after_abort(4).none_of(&[2]);
}

#[test]
fn recreate_keeps_what_the_point_keeps() {
    let (story, pod) = recreate(6).mark(2, PausePoint::Before);
    story.image().settle().held(&pod, 0, 4).resume().complete(6);
}

#[test]
fn recreate_makes_no_old_pod_beside_an_updated_one() {
    let (story, pod) = rolling(6, 1, 0).mark(2, PausePoint::Before);
    let story = story.image().settle().held(&pod, 2, 4);
    story.strategy(&json!({"type": "Recreate"})).lose(true, 2).settle().held(&pod, 2, 2);
}

#[test]
fn points_in_a_wrong_order_stop_the_release_and_not_the_care() {
    let story = rolling(6, 1, 1).canary("a", 2).image().settle().held("a", 2, 4);
    let story = story.change("a", 3).canary("b", 1).settle().resume().settle();
    let story = story.stands(2, 4).lose(true, 1).settle().stands(2, 4).scale(9).settle().stands(2, 7);
    let status = story.cluster.status();
    let stalled = status.condition(condition::STALLED).unwrap();
    assert_eq!(stalled.reason, ordereddeployment_api::names::reason::INVALID_SPEC);
    assert!(stalled.message.contains("spec.strategy.pausePoints[1]"), "{}", stalled.message);
    story.change("b", 5).settle().held("b", 5, 4).resume().complete(9);
}

#[test]
fn an_invalid_list_takes_no_point_away() {
    let mut cluster = Cluster::running(&json!({
        "replicas": 3,
        "strategy": {"type": "RollingUpdate", "pausePoints": [{"name": "a", "beforePriority": 0}]},
    }));
    let edit = |cluster: &mut Cluster, points: Value| {
        cluster.edit(|spec| spec.strategy.pause_points = serde_json::from_value(points).unwrap());
        cluster.settle();
    };
    cluster.set_image("v2");
    cluster.settle();
    assert_eq!(cluster.status().hold.unwrap().id, "a@2");
    edit(&mut cluster, json!([{"name": "a", "afterUpdated": 2}, {"name": "b", "afterUpdated": 1}]));
    assert_eq!((cluster.of_image("v2"), cluster.status().hold.unwrap().id), (0, "a@2".to_owned()));
    edit(&mut cluster, json!([{"name": "a", "beforePriority": 0}]));
    assert_eq!((cluster.of_image("v2"), cluster.status().hold.unwrap().id), (0, "a@2".to_owned()));
    edit(&mut cluster, json!([{"name": "a", "afterUpdated": 2}]));
    assert_eq!((cluster.of_image("v2"), cluster.status().hold.unwrap().id), (2, "a@2.2".to_owned()));
}

#[test]
fn a_mark_behind_a_timed_hold_is_ahead_after_scaling_through_0() {
    let story = rolling(6, 1, 1).canary("a", 1);
    let (mut story, pod) = story.mark(2, PausePoint::Before);
    story.cluster.edit(|spec| {
        spec.strategy.pause_points.as_mut().unwrap()[0].duration = Some("60s".to_owned());
    });
    let story = story.image().settle().held("a", 1, 5).scale(0).settle().stands_suspended();
    let mut story = story.scale(6).settle().held("a", 1, 5);
    story.cluster.tick(100);
    story.settle().held(&pod, 2, 4).resume().complete(6);
}

#[test]
fn a_place_whose_pods_are_drained_still_holds_and_an_event_says_so() {
    let spec = json!({
        "replicas": 8,
        "strategy": {
            "type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1},
            "pausePoints": [{"name": "pool", "beforeNodes": {"matchLabels": {"pool": "n1"}}}],
        },
    });
    let mut cluster = Cluster::new(&spec);
    cluster.nodes.insert("n3".into(), ordereddeployment_sorter::NodeFacts::default());
    cluster.settle();
    for pod in &mut cluster.pods {
        let is_of_pool = pod.facts.node.as_deref() == Some("n1");
        pod.facts.priority = Some(if is_of_pool { 0 } else { 5 });
    }
    let behind = cluster.active().filter(|pod| pod.facts.node.as_deref() == Some("n1")).count();
    assert!(behind > 0);
    cluster.set_image("v2");
    cluster.step();
    cluster.step();
    cluster.pods.retain(|pod| pod.facts.node.as_deref() != Some("n1"));
    let story = Story { cluster, image: 2 }.settle().held("pool", 8 - behind, behind);
    let lost = ordereddeployment_api::names::reason::PAUSE_POINT_LOST;
    assert_eq!(story.cluster.count_events(lost), 1);
    story.resume().complete(8);
}

#[test]
fn a_rollout_at_0_is_not_aborted_by_the_deadline() {
    let mut story = rolling(4, 1, 1).canary("canary", 1);
    story.cluster.edit(|spec| {
        spec.progress_deadline_seconds = 60;
        spec.progress_deadline_action = ordereddeployment_api::ProgressDeadlineAction::Abort;
    });
    let mut story = story.bad().settle().scale(0).settle().stands_suspended();
    story.cluster.tick(1000);
    let mut story = story.settle().stands_suspended();
    assert_eq!(story.cluster.status().aborted, None);
    story.cluster.broken.clear();
    story.scale(4).settle().held("canary", 1, 3);
}
