//! Adoptions on a cluster in memory, interrupted after every write, and with pods lost at the worst moments.

mod builtin;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use ordereddeployment_api::names::annotation;
use ordereddeployment_controller::{Clock, Names};
use ordereddeployment_sandbox::{Clock as SandboxClock, Config};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::seen::{Kind, controller, is_observed, is_terminating, number};
use super::{Attempts, Hands, MOST_ATTEMPTS, Takeover, Way};
use crate::embedded::Embedded;

/// More looks than anything takes.
const LOOKS: usize = 2000;
const PODS: usize = 4;

/// The template in the words of its manifest.
fn words() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}})
}

struct Cluster {
    embedded: Embedded,
    client: Client,
    builtin: JoinHandle<()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.builtin.abort();
    }
}

impl Cluster {
    async fn start() -> Self {
        let base = "2030-01-01T00:00:00Z".parse().unwrap();
        let config = Config { clock: SandboxClock::simulated(base), ..Config::default() };
        let mut embedded = Embedded::start(config).await.unwrap();
        embedded.control(Clock::simulated(base), Names::seeded(1)).unwrap();
        let client = embedded.sandbox.connect("kubectl-ordered").unwrap();
        let builtin = tokio::spawn(builtin::run(embedded.sandbox.connect(builtin::AGENT).unwrap()));
        Self { embedded, client, builtin }
    }

    /// With the Deployment `web` and its pods.
    async fn with_deployment() -> Self {
        Self::with_template(words()).await
    }

    /// The same with that template, though its manifest says less.
    async fn with_template(template: Value) -> Self {
        let cluster = Self::start().await;
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration":
                    json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": words()}}).to_string()}},
            "spec": {"replicas": PODS, "selector": {"matchLabels": {"app": "web"}}, "template": template},
        });
        cluster.create(Kind::Deployment, object).await;
        cluster.until("the Deployment has its pods", async |cluster| cluster.ready().await == PODS).await;
        cluster
    }

    async fn create(&self, kind: Kind, object: Value) {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        kind.api(&self.client, "default").create(&PostParams::default(), &object).await.unwrap();
    }

    async fn patch(&self, kind: Kind, patch: Value) {
        let api = kind.api(&self.client, "default");
        api.patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn list(&self, kind: Kind) -> Vec<DynamicObject> {
        kind.api(&self.client, "default").list(&ListParams::default()).await.unwrap().items
    }

    async fn get(&self, kind: Kind) -> Option<DynamicObject> {
        kind.api(&self.client, "default").get_opt("web").await.unwrap()
    }

    async fn pods(&self) -> BTreeSet<String> {
        let pods = self.list(Kind::Pod).await;
        pods.iter().filter(|pod| !is_terminating(pod)).map(|pod| pod.uid().unwrap()).collect()
    }

    async fn ready(&self) -> usize {
        let is_ready = |pod: &&DynamicObject| {
            let conditions = pod.data.pointer("/status/conditions").and_then(Value::as_array);
            conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        self.list(Kind::Pod).await.iter().filter(|pod| !is_terminating(pod)).filter(is_ready).count()
    }

    async fn lose(&self, index: usize) {
        let pod = self.list(Kind::Pod).await[index].name_any();
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        drop(Kind::Pod.api(&self.client, "default").delete(&pod, &now).await.unwrap());
    }

    async fn until(&self, what: &str, reached: impl AsyncFn(&Self) -> bool) {
        for _ in 0..LOOKS {
            if reached(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("waited in vain until {what}");
    }

    fn takeover(&self, way: Way) -> Takeover<'_> {
        Takeover {
            client: &self.client,
            namespace: "default",
            name: "web",
            way,
            patience: Some(Duration::from_secs(120)),
            template: None,
        }
    }

    async fn run(&self, way: Way, left: Option<usize>) -> (Result<()>, usize) {
        self.go(&self.takeover(way), left).await
    }

    async fn go(&self, takeover: &Takeover<'_>, left: Option<usize>) -> (Result<()>, usize) {
        let mut hands = Hands { left, done: 0 };
        let done = takeover.run(&mut hands, |_| Ok(())).await;
        (done, hands.done)
    }

    async fn adopt(&self) {
        self.run(Way::Forward, None).await.0.unwrap();
    }

    async fn give_back(&self) {
        self.run(Way::Back, None).await.0.unwrap();
    }

    /// Pods created or deleted by anybody but this test, so far.
    fn turnover(&self) -> Vec<String> {
        let requests = self.embedded.sandbox.requests();
        let counts = requests.iter().filter(|record| {
            record.plural == "pods"
                && record.code < 300
                && matches!(record.verb, "create" | "delete" | "deletecollection")
                && record.subresource.is_none()
                && !record.path.contains("dryRun")
                && !record.user_agent.starts_with("sandbox-kubelet")
                && record.user_agent != "kubectl-ordered"
        });
        counts.map(|record| format!("{} {} {}", record.user_agent, record.verb, record.path)).collect()
    }

    /// Only the one kind is left, and every pod is its own.
    async fn is_whole(&self, way: Way) {
        let (kind, gone, gone_sets, owner) = match way {
            Way::Forward => {
                (Kind::OrderedDeployment, Kind::Deployment, Kind::ReplicaSet, "OrderedReplicaSet")
            }
            Way::Back => (Kind::Deployment, Kind::OrderedDeployment, Kind::OrderedReplicaSet, "ReplicaSet"),
        };
        let object = self.get(kind).await.unwrap();
        let mut objects = self.list(Kind::ReplicaSet).await;
        objects.extend(self.list(Kind::OrderedReplicaSet).await);
        for object in objects.iter().chain([&object]) {
            let mut keys = object.annotations().keys().chain(object.labels().keys());
            let is_mark =
                |key: &&String| key.starts_with("ordereddeployment.io/") && *key != annotation::REVISION;
            assert_eq!(keys.find(is_mark), None, "a mark is left on {}", object.name_any());
        }
        assert!(object.data.pointer("/spec/paused").is_none_or(|paused| paused == false));
        assert_eq!(self.list(gone).await.len(), 0);
        assert_eq!(self.list(gone_sets).await.len(), 0);
        for pod in self.list(Kind::Pod).await {
            assert_eq!(controller(&pod).unwrap().kind, owner);
        }
    }

    /// Whoever owns the pods now replaces one that is lost.
    async fn heals(&self) {
        self.lose(0).await;
        self.until("a lost pod is replaced", async |cluster| cluster.ready().await == PODS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_taken_over_rolled_out_and_given_back_with_no_pod_made_or_lost() {
    let cluster = Cluster::with_deployment().await;
    let (pods, before) = (cluster.pods().await, cluster.turnover());
    cluster.adopt().await;
    assert_eq!((cluster.pods().await, cluster.turnover()), (pods.clone(), before.clone()));
    cluster.is_whole(Way::Forward).await;
    let applied = cluster.get(Kind::OrderedDeployment).await.unwrap();
    let applied = &applied.annotations()["kubectl.kubernetes.io/last-applied-configuration"];
    assert!(applied.contains("\"kind\":\"OrderedDeployment\""), "{applied}");
    let set = &cluster.list(Kind::OrderedReplicaSet).await[0];
    assert_eq!(set.annotations()["ordereddeployment.io/revision"], "1");

    cluster.give_back().await;
    assert_eq!((cluster.pods().await, cluster.turnover()), (pods.clone(), before));
    cluster.is_whole(Way::Back).await;
    cluster.heals().await;

    cluster.adopt().await;
    cluster.is_whole(Way::Forward).await;
    cluster.heals().await;
    let template = json!({"spec": {"containers": [{"name": "web", "image": "web:2"}]}});
    cluster.patch(Kind::OrderedDeployment, json!({"spec": {"template": template}})).await;
    cluster
        .until("the rollout is complete", async |cluster| {
            let object = cluster.get(Kind::OrderedDeployment).await.unwrap();
            is_observed(&object)
                && number(&object, "/status/updatedReplicas") == 4
                && number(&object, "/status/replicas") == 4
                && number(&object, "/status/availableReplicas") == 4
        })
        .await;
    assert!(cluster.pods().await.is_disjoint(&pods));
    // Back with two revisions in the history.
    let (pods, before) = (cluster.pods().await, cluster.turnover());
    cluster.give_back().await;
    assert_eq!((cluster.pods().await, cluster.turnover()), (pods, before));
    cluster.is_whole(Way::Back).await;
    assert_eq!(cluster.list(Kind::ReplicaSet).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_second_run_finds_nothing_to_do() {
    let cluster = Cluster::with_deployment().await;
    cluster.adopt().await;
    assert_eq!(cluster.run(Way::Forward, Some(0)).await.1, 0);
    cluster.give_back().await;
    assert_eq!(cluster.run(Way::Back, Some(0)).await.1, 0);
}

#[test]
fn whoever_undoes_a_step_again_and_again_is_not_fought_for_ever() {
    let (one, other) = (vec!["patch a".to_owned()], vec!["patch b".to_owned()]);
    let mut attempts = Attempts::default();
    for words in [&one, &other, &one] {
        for _ in 0..MOST_ATTEMPTS {
            attempts.count("web", words.clone()).unwrap();
        }
    }
    let error = attempts.count("web", one).unwrap_err().to_string();
    assert!(error.contains("again and again: patch a"), "{error}");
}

/// How many writes it takes, when nobody interrupts.
async fn writes(way: Way) -> usize {
    let cluster = at(way).await;
    let (done, writes) = cluster.run(way, None).await;
    done.unwrap();
    writes
}

/// Where that way begins.
async fn at(way: Way) -> Cluster {
    let cluster = Cluster::with_deployment().await;
    if way == Way::Back {
        cluster.adopt().await;
    }
    cluster
}

async fn interrupted_after_each_write_it_goes_on_and_no_pod_is_made_or_lost(way: Way) {
    for left in 0..writes(way).await {
        let cluster = at(way).await;
        let (pods, before) = (cluster.pods().await, cluster.turnover());
        assert!(cluster.run(way, Some(left)).await.0.is_err(), "{left}");
        // Long enough for everybody to do what they would.
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!((cluster.pods().await, cluster.turnover()), (pods.clone(), before.clone()), "{left}");
        let (done, _) = cluster.run(way, None).await;
        done.unwrap_or_else(|error| panic!("{left}: {error:?}"));
        assert_eq!((cluster.pods().await, cluster.turnover()), (pods, before), "{left}");
        cluster.is_whole(way).await;
        cluster.heals().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_adoption_interrupted_after_each_write_goes_on_and_no_pod_is_made_or_lost() {
    interrupted_after_each_write_it_goes_on_and_no_pod_is_made_or_lost(Way::Forward).await;
}

#[tokio::test(start_paused = true)]
async fn a_return_interrupted_after_each_write_goes_on_and_no_pod_is_made_or_lost() {
    interrupted_after_each_write_it_goes_on_and_no_pod_is_made_or_lost(Way::Back).await;
}

/// A pod is lost right after each write, and the run goes on at once; in the end there are as many as there should be.
async fn pods_lost_after_each_write_are_replaced_in_the_end(way: Way) {
    for left in 1..writes(way).await {
        let cluster = at(way).await;
        assert!(cluster.run(way, Some(left)).await.0.is_err(), "{left}");
        cluster.lose(left % PODS).await;
        let (done, _) = cluster.run(way, None).await;
        done.unwrap_or_else(|error| panic!("{left}: {error:?}"));
        cluster.until("the lost pod is replaced", async |cluster| cluster.ready().await == PODS).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(cluster.pods().await.len(), PODS, "{left}");
        cluster.is_whole(way).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_lost_after_any_write_of_an_adoption_is_replaced_in_the_end() {
    pods_lost_after_each_write_are_replaced_in_the_end(Way::Forward).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_lost_after_any_write_of_a_return_is_replaced_in_the_end() {
    pods_lost_after_each_write_are_replaced_in_the_end(Way::Back).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_pod_is_replaced_although_whoever_adopts_has_died_after_any_write() {
    for left in 1..writes(Way::Forward).await {
        let cluster = at(Way::Forward).await;
        assert!(cluster.run(Way::Forward, Some(left)).await.0.is_err(), "{left}");
        cluster.heals().await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(cluster.pods().await.len(), PODS, "{left}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_scaled_in_the_middle_is_taken_over_as_it_is_then() {
    let cluster = Cluster::with_deployment().await;
    // Up to where only the Deployment's deletion is left.
    assert!(cluster.run(Way::Forward, Some(2)).await.0.is_err());
    cluster.patch(Kind::Deployment, json!({"spec": {"replicas": 6}})).await;
    cluster.adopt().await;
    assert_eq!(number(&cluster.get(Kind::OrderedDeployment).await.unwrap(), "/spec/replicas"), 6);
    cluster.until("there are six", async |cluster| cluster.ready().await == 6).await;
    cluster.is_whole(Way::Forward).await;
}

#[tokio::test(start_paused = true)]
async fn an_adoption_begun_is_taken_back_while_the_deployment_is_there() {
    for left in [1, 2] {
        let cluster = Cluster::with_deployment().await;
        let (pods, before) = (cluster.pods().await, cluster.turnover());
        assert!(cluster.run(Way::Forward, Some(left)).await.0.is_err());
        cluster.give_back().await;
        cluster.is_whole(Way::Back).await;
        assert_eq!((cluster.pods().await, cluster.turnover()), (pods, before));
        cluster.heals().await;
    }
}

async fn refused(cluster: &Cluster, way: Way, because: &str) {
    let (done, writes) = cluster.run(way, None).await;
    let error = done.unwrap_err().to_string();
    assert!(error.contains(because) && error.contains("hint: "), "{error}");
    assert_eq!(writes, 0, "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_taken_over_now_is_refused_before_anything_is_touched() {
    let cluster = Cluster::start().await;
    refused(&cluster, Way::Forward, "there is no Deployment web").await;
    refused(&cluster, Way::Back, "there is no OrderedDeployment web").await;

    let cluster = Cluster::with_deployment().await;
    cluster.patch(Kind::Deployment, json!({"metadata": {"finalizers": ["example.com/keep"]}})).await;
    refused(&cluster, Way::Forward, "has the finalizer example.com/keep").await;
    let owner = json!({"apiVersion": "example.com/v1", "kind": "App", "name": "shop", "uid": "u", "controller": true});
    let metadata = json!({"finalizers": null, "ownerReferences": [owner]});
    cluster.patch(Kind::Deployment, json!({"metadata": metadata})).await;
    refused(&cluster, Way::Forward, "belongs to App shop").await;

    let cluster = Cluster::with_deployment().await;
    let template = json!({"spec": {"containers": [{"name": "web", "image": "web:2"}]}});
    cluster.patch(Kind::Deployment, json!({"spec": {"paused": true, "template": template}})).await;
    refused(&cluster, Way::Forward, "in the middle of a rollout").await;

    let cluster = Cluster::with_deployment().await;
    cluster.adopt().await;
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    cluster.patch(Kind::OrderedDeployment, finalizers(json!(["example.com/keep"]))).await;
    refused(&cluster, Way::Back, "has the finalizer example.com/keep").await;
    cluster.patch(Kind::OrderedDeployment, finalizers(Value::Null)).await;
    cluster
        .create(
            Kind::Deployment,
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
                "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "other"}},
                         "template": {"metadata": {"labels": {"app": "other"}},
                                      "spec": {"containers": [{"name": "web", "image": "web:1"}]}}},
            }),
        )
        .await;
    refused(&cluster, Way::Forward, "takes over from nothing").await;
    refused(&cluster, Way::Back, "there is a Deployment web already").await;
}

#[tokio::test(start_paused = true)]
async fn a_template_changed_in_the_middle_of_a_return_is_told_and_once_put_back_it_goes_on() {
    let cluster = at(Way::Back).await;
    let (pods, before) = (cluster.pods().await, cluster.turnover());
    // The ReplicaSet is made, and the controller told to do nothing.
    assert!(cluster.run(Way::Back, Some(2)).await.0.is_err());
    let image = |image: &str| {
        let template = json!({"spec": {"containers": [{"name": "web", "image": image}]}});
        json!({"spec": {"template": template}})
    };
    cluster.patch(Kind::OrderedDeployment, image("web:2")).await;
    refused(&cluster, Way::Back, "was changed while it is being handed back").await;
    cluster.patch(Kind::OrderedDeployment, image("web:1")).await;
    cluster.give_back().await;
    cluster.is_whole(Way::Back).await;
    assert_eq!((cluster.pods().await, cluster.turnover()), (pods, before));
}

#[tokio::test(start_paused = true)]
async fn a_rollout_under_way_is_not_given_back() {
    let cluster = at(Way::Back).await;
    let template = json!({"spec": {"containers": [{"name": "web", "image": "broken:2"}]}});
    cluster.patch(Kind::OrderedDeployment, json!({"spec": {"template": template}})).await;
    cluster
        .until("a new pod is there, and an old one", async |cluster| {
            let object = cluster.get(Kind::OrderedDeployment).await.unwrap();
            let updated = number(&object, "/status/updatedReplicas");
            is_observed(&object) && (1..number(&object, "/status/replicas")).contains(&updated)
        })
        .await;
    refused(&cluster, Way::Back, "in the middle of a rollout").await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_stays_paused_both_ways() {
    let cluster = Cluster::with_deployment().await;
    cluster.patch(Kind::Deployment, json!({"spec": {"paused": true}})).await;
    let pods = cluster.pods().await;
    cluster.adopt().await;
    let is_paused = async |kind| super::seen::is_paused(&cluster.get(kind).await.unwrap());
    assert!(is_paused(Kind::OrderedDeployment).await);
    cluster
        .until("it is complete", async |cluster| {
            let object = cluster.get(Kind::OrderedDeployment).await.unwrap();
            number(&object, "/status/updatedReplicas") == 4
        })
        .await;
    cluster.give_back().await;
    assert!(is_paused(Kind::Deployment).await);
    assert_eq!(cluster.pods().await, pods);
}

/// The template of the OrderedDeployment, and of the only set.
async fn templates(cluster: &Cluster) -> (Value, Value) {
    let object = cluster.get(Kind::OrderedDeployment).await.unwrap();
    let mut set = cluster.list(Kind::OrderedReplicaSet).await.remove(0).data["spec"]["template"].take();
    set["metadata"]["labels"].as_object_mut().unwrap().remove("pod-template-hash").unwrap();
    (object.data["spec"]["template"].clone(), set)
}

#[tokio::test(start_paused = true)]
async fn the_new_object_has_the_words_of_its_manifest_so_that_applying_that_starts_no_rollout() {
    let cluster = Cluster::with_deployment().await;
    let live = cluster.get(Kind::Deployment).await.unwrap().data["spec"]["template"].clone();
    assert_ne!(live, words(), "the server fills in defaults");
    assert_eq!(cluster.takeover(Way::Forward).notes().await.unwrap(), Vec::<String>::new());
    cluster.adopt().await;
    assert_eq!(templates(&cluster).await, (words(), words()));
    let (pods, before) = (cluster.pods().await, cluster.turnover());
    cluster.patch(Kind::OrderedDeployment, json!({"spec": {"template": words()}})).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((cluster.pods().await, cluster.turnover()), (pods, before));
}

#[tokio::test(start_paused = true)]
async fn what_others_have_added_to_a_manifests_template_stays() {
    let mut restarted = words();
    restarted["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/restartedAt": "now"});
    let cluster = Cluster::with_template(restarted.clone()).await;
    assert_eq!(cluster.takeover(Way::Forward).notes().await.unwrap(), Vec::<String>::new());
    cluster.adopt().await;
    let (pods, before) = (cluster.pods().await, cluster.turnover());
    cluster.patch(Kind::OrderedDeployment, json!({"spec": {"template": words()}})).await;
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!((cluster.pods().await, cluster.turnover()), (pods, before));
    let (template, set) = templates(&cluster).await;
    assert_eq!(template["metadata"], restarted["metadata"]);
    assert_eq!(template["spec"]["containers"], words()["spec"]["containers"]);
    assert_eq!(template, set);
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_is_not_what_runs_is_told_and_not_used() {
    let cluster = Cluster::with_deployment().await;
    let live = cluster.get(Kind::Deployment).await.unwrap().data["spec"]["template"].clone();
    let mut other = words();
    other["spec"]["containers"][0]["image"] = "web:0".into();
    let takeover = Takeover { template: Some(other), ..cluster.takeover(Way::Forward) };
    let notes = takeover.notes().await.unwrap();
    assert!(
        matches!(&*notes, [note] if note.contains("template.spec.containers[0].image differs")),
        "{notes:?}"
    );
    let (pods, before) = (cluster.pods().await, cluster.turnover());
    cluster.go(&takeover, None).await.0.unwrap();
    assert_eq!(templates(&cluster).await, (live.clone(), live));
    assert_eq!((cluster.pods().await, cluster.turnover()), (pods, before));
}

#[tokio::test(start_paused = true)]
async fn a_set_made_in_other_words_by_an_earlier_run_is_made_again() {
    let cluster = Cluster::with_deployment().await;
    let (pods, before) = (cluster.pods().await, cluster.turnover());
    assert!(cluster.run(Way::Forward, Some(2)).await.0.is_err());
    assert_eq!(templates(&cluster).await, (words(), words()));
    // The Deployment is another now, and so is what is said of it.
    cluster.patch(Kind::Deployment, json!({"spec": {"minReadySeconds": 1}})).await;
    let live = cluster.get(Kind::Deployment).await.unwrap().data["spec"]["template"].clone();
    let takeover = Takeover { template: Some(live.clone()), ..cluster.takeover(Way::Forward) };
    cluster.go(&takeover, None).await.0.unwrap();
    assert_eq!(templates(&cluster).await, (live.clone(), live));
    assert_eq!((cluster.pods().await, cluster.turnover()), (pods, before));
    cluster.is_whole(Way::Forward).await;
}
