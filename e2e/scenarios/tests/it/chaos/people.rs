//! What people do during a rollout, at random moments: edits, scaling, requests that are late or wrong, lost
//! pods, and a killed controller. Whatever they do, a release gets past a pause point only by its resume.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::EvictParams;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::annotation::PAUSE_POINT;
use rand::RngExt;
use rand::seq::IndexedRandom;
use scenarios::{Commit, TestCluster, image_of, is_complete, is_held_with};
use serde_json::{Value, json};

use super::{Trial, setting};

/// A rollout pauses with one updated pod.
fn canary() -> Value {
    json!([{"name": "canary", "afterUpdated": 1}])
}

/// Numbers that decrease: the API server does not check that.
fn invalid() -> Value {
    json!([{"name": "canary", "afterUpdated": 1}, {"name": "b", "afterUpdated": 3}, {"name": "c",
        "afterUpdated": 2}])
}

/// What somebody does to `web` or to a pod of it.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Scale(i32),
    SetImage,
    SetImageTwice,
    Back,
    Pause,
    Surge(i32, i32),
    Break,
    Mend,
    Delete,
    Evict,
    Mark,
    Unmark,
    LateResume,
    WrongResume,
    Abort,
    Retry,
    AbortAndRetry,
}

const DEEDS: [Deed; 23] = [
    Deed::Scale(0),
    Deed::Scale(1),
    Deed::Scale(2),
    Deed::Scale(4),
    Deed::Scale(8),
    Deed::SetImage,
    Deed::SetImageTwice,
    Deed::Back,
    Deed::Pause,
    Deed::Surge(1, 0),
    Deed::Surge(0, 1),
    Deed::Surge(2, 2),
    Deed::Break,
    Deed::Mend,
    Deed::Delete,
    Deed::Evict,
    Deed::Mark,
    Deed::Unmark,
    Deed::LateResume,
    Deed::WrongResume,
    Deed::Abort,
    Deed::Retry,
    Deed::AbortAndRetry,
];

/// The images.
struct Images {
    last: usize,
    /// Those that somebody has let past the canary.
    resumed: BTreeSet<String>,
    served: String,
    /// Those that somebody has set in this rollout.
    set: BTreeSet<String>,
    /// Somebody went back in this rollout. Then no point may be ahead, and a template that is new at 0
    /// replicas has nothing to replace.
    is_back: bool,
}

impl Images {
    fn next(&mut self) -> String {
        self.last += 1;
        format!("web:{}", self.last)
    }

    /// The next image that somebody sets at this number of replicas.
    fn edited(&mut self, replicas: i32) -> String {
        let image = self.next();
        self.set.insert(image.clone());
        if replicas == 0 && self.is_back {
            self.resumed.insert(image.clone());
        }
        image
    }
}

impl Trial {
    async fn act(&mut self, deed: Deed, images: &mut Images) {
        let cluster = self.cluster.clone();
        let object = cluster.deployments().get("web").await.unwrap();
        let revision = object.status.and_then(|status| status.rollout).map_or(0, |rollout| rollout.revision);
        let replicas = object.spec.replicas;
        let patch = async |spec: Value| cluster.patch(&json!({"spec": spec})).await.unwrap();
        images.is_back |= matches!(deed, Deed::Back | Deed::Abort | Deed::AbortAndRetry);
        match deed {
            Deed::Scale(replicas) => cluster.scale(replicas).await.unwrap(),
            Deed::SetImage => cluster.set_image(&images.edited(replicas)).await.unwrap(),
            Deed::SetImageTwice => {
                cluster.set_image(&images.edited(replicas)).await.unwrap();
                cluster.set_image(&images.edited(replicas)).await.unwrap();
            }
            Deed::Back => cluster.set_image(&images.served).await.unwrap(),
            Deed::Pause => patch(json!({"paused": !object.spec.paused})).await,
            Deed::Surge(surge, unavailable) => {
                let bounds = json!({"maxSurge": surge, "maxUnavailable": unavailable});
                patch(json!({"strategy": {"rollingUpdate": bounds}})).await;
            }
            Deed::Break => patch(json!({"strategy": {"pausePoints": invalid()}})).await,
            Deed::Mend => patch(json!({"strategy": {"pausePoints": canary()}})).await,
            Deed::LateResume => {
                cluster.request_resume(&format!("canary@{}", revision - 1)).await.unwrap();
            }
            Deed::WrongResume => {
                cluster.request_resume(&format!("canary@{revision}.2")).await.unwrap();
            }
            Deed::Abort => cluster.patch_status(&json!({"abortRequested": revision})).await.unwrap(),
            Deed::Retry => cluster.patch_status(&json!({"retryRequested": revision})).await.unwrap(),
            Deed::AbortAndRetry => {
                cluster
                    .patch_status(&json!({"abortRequested": revision, "retryRequested": revision}))
                    .await
                    .unwrap();
            }
            Deed::Delete | Deed::Evict | Deed::Mark | Deed::Unmark => {
                let pods = cluster.names().await.unwrap();
                let Some(pod) = pods.choose(&mut self.dice) else { return };
                // The controller can have deleted it since.
                drop(match deed {
                    Deed::Delete => cluster.lose(pod).await,
                    Deed::Evict => {
                        let evicted = cluster.api::<Pod>().evict(pod, &EvictParams::default()).await;
                        evicted.map(drop).map_err(Into::into)
                    }
                    Deed::Mark => cluster.pause_at(pod, "before").await,
                    _ => cluster.annotate(pod, &format!("{PAUSE_POINT}-")).await,
                });
            }
        }
    }

    /// Does something while a write of the controller is stopped, or after a while without one.
    async fn meddle(&mut self, deed: Deed, images: &mut Images) {
        let mut trap = self.trap();
        let moment = Duration::from_millis(self.dice.random_range(10..400));
        let is_trapped = tokio::time::timeout(moment, trap.reached()).await.is_ok();
        println!("{:.1?}: {deed:?}{}", self.start.elapsed(), if is_trapped { " at a write" } else { "" });
        self.act(deed, images).await;
        self.strikes += 1;
        if is_trapped && self.dice.random_bool(0.75) {
            trap.release();
        }
    }
}

/// The most active pods at any time of each image that nobody has resumed. Since that version, no pod is made
/// of a retired image.
fn most(commits: &[Commit], since: u64, images: &Images) -> BTreeMap<String, usize> {
    let mut active: BTreeMap<&str, String> = BTreeMap::new();
    let mut most = BTreeMap::new();
    let mut known = BTreeSet::new();
    for commit in commits.iter().filter(|commit| commit.plural == "pods") {
        let is_new = known.insert(&commit.name) && commit.version > since;
        let pod: Option<Pod> = commit.object.clone().map(|pod| serde_json::from_value(pod).unwrap());
        let image =
            pod.filter(|pod| pod.metadata.deletion_timestamp.is_none()).map(|pod| image_of(&pod).to_owned());
        let is_retired = |image: &String| images.resumed.contains(image) && *image != images.served;
        if let Some(image) = image.as_ref().filter(|image| is_new && !images.set.contains(*image)) {
            assert!(!is_retired(image), "{} is made of {image}, which was retired", commit.name);
        }
        match image.filter(|image| !images.resumed.contains(image)) {
            Some(image) => {
                active.insert(&commit.name, image.clone());
                let there = active.values().filter(|other| **other == image).count();
                let known = most.entry(image).or_default();
                *known = there.max(*known);
            }
            None => {
                active.remove(commit.name.as_str());
            }
        }
    }
    most
}

/// As it was before, with a new template: the rollout pauses at its canary and completes once that is
/// resumed.
async fn lets_it_rest(cluster: &TestCluster, image: &str) {
    for pod in cluster.names().await.unwrap() {
        // The controller can have deleted it since.
        let _ = cluster.annotate(&pod, &format!("{PAUSE_POINT}-")).await;
    }
    let bounds = json!({"maxSurge": 1, "maxUnavailable": 1});
    let containers = json!([{"name": "web", "image": image}]);
    let spec = json!({
        "replicas": 4, "paused": false, "strategy": {"rollingUpdate": bounds, "pausePoints": canary()},
        "template": {"spec": {"containers": containers}},
    });
    cluster.patch(&json!({"spec": spec})).await.unwrap();
    let is_held = |object: &OrderedDeployment| is_held_with(object, 1, 4) && is_at_canary(object);
    past_lost_marks(cluster, "held at its canary", is_held).await;
}

fn is_at_canary(object: &OrderedDeployment) -> bool {
    let hold = object.status.as_ref().and_then(|status| status.hold.as_ref());
    hold.is_some_and(|hold| hold.id.starts_with("canary@"))
}

/// Waits for that, and resumes the marks of pods that are gone: those that were ahead at 0 replicas stay
/// ahead of the next template.
async fn past_lost_marks(
    cluster: &TestCluster,
    what: &str,
    is_there: impl Fn(&OrderedDeployment) -> bool + Copy,
) {
    let mut resumed = BTreeSet::new();
    loop {
        let mark = |object: &OrderedDeployment| {
            let status = object.status.clone().unwrap_or_default();
            let is_current = status.observed_generation == object.metadata.generation;
            status.hold.filter(|_| is_current && !is_at_canary(object)).map(|hold| hold.id)
        };
        let is_new = |object: &OrderedDeployment| mark(object).is_some_and(|id| !resumed.contains(&id));
        let found = cluster.until("web", what, |object| is_there(object) || is_new(object)).await.unwrap();
        let Some(id) = mark(&found).filter(|_| !is_there(&found)) else { return };
        cluster.request_resume(&id).await.unwrap();
        resumed.insert(id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_past_a_canary_without_its_resume_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let mut trial = Trial::start(setting()).await;
    let cluster = trial.cluster.clone();
    let mut manager = Some(cluster.start_manager().unwrap());
    let strategy = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}, "pausePoints": canary()});
    cluster.deployed(&json!({"replicas": 4, "strategy": strategy})).await.unwrap();
    let first = "web:1".to_owned();
    let mut images = Images {
        last: 1,
        resumed: BTreeSet::from([first.clone()]),
        served: first,
        set: BTreeSet::new(),
        is_back: false,
    };
    for rollout in 0..crate::replicasets::moments() {
        let image = images.next();
        images.is_back = false;
        images.set = BTreeSet::from([image.clone()]);
        trial.history.read_on(&cluster).await.unwrap();
        let since = trial.history.read_until();
        println!("{:.1?}: rollout {rollout} to {image}", trial.start.elapsed());
        cluster.set_image(&image).await.unwrap();
        for _ in 0..trial.dice.random_range(1..=6) {
            let deed = *DEEDS.choose(&mut trial.dice).unwrap();
            trial.meddle(deed, &mut images).await;
            if trial.dice.random_bool(0.15) {
                manager.take().unwrap().kill().await.unwrap();
                println!("{:.1?}: the controller is killed", trial.start.elapsed());
                manager = Some(cluster.start_manager().unwrap());
            }
        }
        let last = images.next();
        lets_it_rest(&cluster, &last).await;
        trial.history.read_on(&cluster).await.unwrap();
        let most = most(&trial.history.commits, since, &images);
        let past: Vec<_> = most.iter().filter(|(_, pods)| **pods > 1).collect();
        for commit in trial.history.commits.iter().filter(|one| !past.is_empty() && one.version > since) {
            println!("{commit:?}");
        }
        assert!(past.is_empty(), "more than one pod of an image that nobody resumed: {past:?}");
        assert_eq!(most.get(&last), Some(&1));
        images.resumed.insert(last.clone());
        images.served = last;
        cluster.resume().await.unwrap();
        past_lost_marks(&cluster, "complete", |object| is_complete(object, 4)).await;
    }
    println!("{} deeds in {:.1?}", trial.strikes, trial.start.elapsed());
}
