//! Adoptions on a cluster in memory, with an interruption or a lost pod after every write.

mod builtin;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt};
use ordereddeployment_api::names::annotation;
use ordereddeployment_kubernetes::{Clock, Names};
use ordereddeployment_sandbox::{Clock as SandboxClock, Config};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::objects::{Kind, conditions, controller, is_observed, is_terminating, number};
use super::{Adoption, Executor, To};
use crate::embedded::Embedded;

/// A number of polls that no wait reaches.
const MAX_POLLS: usize = 2000;
const PODS: usize = 4;

/// The template of the manifest, without defaults.
fn manifest_template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web",
        "image": "web:1"}]}})
}

/// A patch of the template.
fn image(image: &str) -> Value {
    let template = json!({"spec": {"containers": [{"name": "web", "image": image}]}});
    json!({"spec": {"template": template}})
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
        embedded.start_controller(Clock::simulated(base), Names::seeded(1), Duration::ZERO).unwrap();
        let client = embedded.sandbox.connect("kubectl-ordered").unwrap();
        let builtin = tokio::spawn(builtin::run(embedded.sandbox.connect(builtin::AGENT).unwrap()));
        Self { embedded, client, builtin }
    }

    /// Starts a cluster with the Deployment `web` and its pods.
    async fn with_deployment() -> Self {
        Self::with_template(manifest_template()).await
    }

    /// The same with that template; the last applied configuration has [`manifest_template`].
    async fn with_template(template: Value) -> Self {
        let cluster = Self::start().await;
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration":
                    json!({"apiVersion": "apps/v1", "kind": "Deployment",
                        "spec": {"template": manifest_template()}}).to_string()}},
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
            conditions(pod).any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        self.list(Kind::Pod).await.iter().filter(|pod| !is_terminating(pod)).filter(is_ready).count()
    }

    async fn lose(&self, index: usize) {
        let pod = self.list(Kind::Pod).await[index].name_any();
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        drop(Kind::Pod.api(&self.client, "default").delete(&pod, &now).await.unwrap());
    }

    async fn until(&self, what: &str, reached: impl AsyncFn(&Self) -> bool) {
        for _ in 0..MAX_POLLS {
            if reached(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("timed out waiting until {what}");
    }

    fn adoption(&self, to: To) -> Adoption<'_> {
        Adoption {
            client: &self.client,
            namespace: "default",
            name: "web",
            to,
            timeout: Some(Duration::from_secs(120)),
            template: None,
        }
    }

    async fn run(&self, to: To, left: Option<usize>) -> (Result<()>, usize) {
        self.go(&self.adoption(to), left).await
    }

    async fn go(&self, adoption: &Adoption<'_>, left: Option<usize>) -> (Result<()>, usize) {
        let mut executor = Executor { left, done: 0 };
        let done = adoption.run(&mut executor, |_| Ok(())).await;
        (done, executor.done)
    }

    async fn adopt(&self) {
        self.run(To::Ordereddeployment, None).await.0.unwrap();
    }

    async fn hand_back(&self) {
        self.run(To::Deployment, None).await.0.unwrap();
    }

    /// What stays as it is while no pod is created or deleted.
    async fn kept(&self) -> (BTreeSet<String>, Vec<String>) {
        (self.pods().await, self.turnover())
    }

    /// Pods that other clients than this test have created or deleted.
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

    /// Asserts that only objects of the new kind exist and that they control every pod.
    async fn assert_complete(&self, to: To) {
        let (kind, gone, gone_sets, owner) = match to {
            To::Ordereddeployment => {
                (Kind::OrderedDeployment, Kind::Deployment, Kind::ReplicaSet, "OrderedReplicaSet")
            }
            To::Deployment => {
                (Kind::Deployment, Kind::OrderedDeployment, Kind::OrderedReplicaSet, "ReplicaSet")
            }
        };
        let object = self.get(kind).await.unwrap();
        let mut objects = self.list(Kind::ReplicaSet).await;
        objects.extend(self.list(Kind::OrderedReplicaSet).await);
        for object in objects.iter().chain([&object]) {
            let mut keys = object.annotations().keys().chain(object.labels().keys());
            let is_own = |key: &str| {
                key == annotation::REVISION || (key == annotation::SERVED && to == To::Ordereddeployment)
            };
            let is_mark = |key: &&String| key.starts_with("ordereddeployment.io/") && !is_own(key);
            assert_eq!(
                keys.find(is_mark),
                None,
                "{} has an annotation or label of the adoption",
                object.name_any()
            );
        }
        assert!(object.data.pointer("/spec/paused").is_none_or(|paused| paused == false));
        assert_eq!(self.list(gone).await.len(), 0);
        assert_eq!(self.list(gone_sets).await.len(), 0);
        for pod in self.list(Kind::Pod).await {
            assert_eq!(controller(&pod).unwrap().kind, owner);
        }
    }

    /// Asserts that the new owner of the pods replaces a lost one.
    async fn assert_replaces_lost_pod(&self) {
        self.lose(0).await;
        self.until("a lost pod is replaced", async |cluster| cluster.ready().await == PODS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_adopted_rolled_out_and_handed_back_without_creating_or_deleting_pods() {
    let cluster = Cluster::with_deployment().await;
    let before = cluster.kept().await;
    cluster.adopt().await;
    assert_eq!(cluster.kept().await, before);
    assert_eq!(cluster.run(To::Ordereddeployment, Some(0)).await.1, 0, "nothing is left to do");
    cluster.assert_complete(To::Ordereddeployment).await;
    let applied = cluster.get(Kind::OrderedDeployment).await.unwrap();
    let applied = &applied.annotations()["kubectl.kubernetes.io/last-applied-configuration"];
    assert!(applied.contains("\"kind\":\"OrderedDeployment\""), "{applied}");
    let set = &cluster.list(Kind::OrderedReplicaSet).await[0];
    assert_eq!(set.annotations()["ordereddeployment.io/revision"], "1");

    cluster.hand_back().await;
    assert_eq!(cluster.kept().await, before);
    assert_eq!(cluster.run(To::Deployment, Some(0)).await.1, 0, "nothing is left to do");
    cluster.assert_complete(To::Deployment).await;
    cluster.assert_replaces_lost_pod().await;

    cluster.adopt().await;
    cluster.assert_complete(To::Ordereddeployment).await;
    cluster.assert_replaces_lost_pod().await;
    cluster.patch(Kind::OrderedDeployment, image("web:2")).await;
    cluster
        .until("the rollout is complete", async |cluster| {
            let object = cluster.get(Kind::OrderedDeployment).await.unwrap();
            is_observed(&object)
                && number(&object, "/status/updatedReplicas") == 4
                && number(&object, "/status/replicas") == 4
                && number(&object, "/status/availableReplicas") == 4
        })
        .await;
    assert!(cluster.pods().await.is_disjoint(&before.0));
    // Hand back with two revisions in the history.
    let before = cluster.kept().await;
    cluster.hand_back().await;
    assert_eq!(cluster.kept().await, before);
    cluster.assert_complete(To::Deployment).await;
    assert_eq!(cluster.list(Kind::ReplicaSet).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_wait_without_the_controller_times_out() {
    let mut cluster = Cluster::with_deployment().await;
    cluster.embedded.stop().await.unwrap();
    let error = cluster.run(To::Ordereddeployment, None).await.0.unwrap_err().to_string();
    assert!(error.starts_with("web: timed out waiting for the controller to adopt"), "{error}");
    assert!(error.contains("continue with `kubectl ordered adopt web`"), "{error}");
}

/// Both directions, each with every number of writes before an interruption.
async fn each_write() -> Vec<(To, usize)> {
    let mut all = Vec::new();
    for to in [To::Ordereddeployment, To::Deployment] {
        let (done, writes) = cluster_for(to).await.run(to, None).await;
        done.unwrap();
        all.extend((0..writes).map(|left| (to, left)));
    }
    all
}

/// A cluster at the start of that direction.
async fn cluster_for(to: To) -> Cluster {
    let cluster = Cluster::with_deployment().await;
    if to == To::Deployment {
        cluster.adopt().await;
    }
    cluster
}

#[tokio::test(start_paused = true)]
async fn an_adoption_interrupted_after_each_write_continues_and_keeps_the_pods() {
    for (to, left) in each_write().await {
        let cluster = cluster_for(to).await;
        let before = cluster.kept().await;
        assert!(cluster.run(to, Some(left)).await.0.is_err(), "{to:?} {left}");
        // Give all controllers time to act.
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(cluster.kept().await, before, "{to:?} {left}");
        let (done, _) = cluster.run(to, None).await;
        done.unwrap_or_else(|error| panic!("{to:?} {left}: {error:?}"));
        assert_eq!(cluster.kept().await, before, "{to:?} {left}");
        cluster.assert_complete(to).await;
        cluster.assert_replaces_lost_pod().await;
    }
}

/// In the end the number of pods is correct.
#[tokio::test(start_paused = true)]
async fn a_pod_lost_after_any_write_is_replaced() {
    for (to, left) in each_write().await.into_iter().filter(|(_, left)| *left > 0) {
        let cluster = cluster_for(to).await;
        assert!(cluster.run(to, Some(left)).await.0.is_err(), "{to:?} {left}");
        cluster.lose(left % PODS).await;
        let (done, _) = cluster.run(to, None).await;
        done.unwrap_or_else(|error| panic!("{to:?} {left}: {error:?}"));
        cluster.until("the lost pod is replaced", async |cluster| cluster.ready().await == PODS).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(cluster.pods().await.len(), PODS, "{to:?} {left}");
        cluster.assert_complete(to).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deployment_scaled_during_an_adoption_keeps_the_new_size() {
    let cluster = Cluster::with_deployment().await;
    // The next write deletes the Deployment.
    assert!(cluster.run(To::Ordereddeployment, Some(2)).await.0.is_err());
    cluster.patch(Kind::Deployment, json!({"spec": {"replicas": 6}})).await;
    cluster.adopt().await;
    assert_eq!(number(&cluster.get(Kind::OrderedDeployment).await.unwrap(), "/spec/replicas"), 6);
    cluster.until("there are six", async |cluster| cluster.ready().await == 6).await;
    cluster.assert_complete(To::Ordereddeployment).await;
}

#[tokio::test(start_paused = true)]
async fn an_adoption_is_undone_while_the_deployment_exists() {
    for left in [1, 2] {
        let cluster = Cluster::with_deployment().await;
        let before = cluster.kept().await;
        assert!(cluster.run(To::Ordereddeployment, Some(left)).await.0.is_err());
        cluster.hand_back().await;
        cluster.assert_complete(To::Deployment).await;
        assert_eq!(cluster.kept().await, before);
        cluster.assert_replaces_lost_pod().await;
    }
}

async fn refused(cluster: &Cluster, to: To, because: &str) {
    let (done, writes) = cluster.run(to, None).await;
    let error = done.unwrap_err().to_string();
    assert!(error.contains(because) && error.contains("hint: "), "{error}");
    assert_eq!(writes, 0, "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_adoption_that_is_not_possible_is_refused_before_the_first_write() {
    let cluster = Cluster::start().await;
    refused(&cluster, To::Ordereddeployment, "Deployment web not found").await;
    refused(&cluster, To::Deployment, "OrderedDeployment web not found").await;

    let cluster = Cluster::with_deployment().await;
    cluster.patch(Kind::Deployment, json!({"metadata": {"finalizers": ["example.com/keep"]}})).await;
    refused(&cluster, To::Ordereddeployment, "has the finalizer example.com/keep").await;
    let owner = json!({"apiVersion": "example.com/v1", "kind": "App", "name": "shop", "uid": "u",
        "controller": true});
    let metadata = json!({"finalizers": null, "ownerReferences": [owner]});
    cluster.patch(Kind::Deployment, json!({"metadata": metadata})).await;
    refused(&cluster, To::Ordereddeployment, "is controlled by App shop").await;

    let cluster = Cluster::with_deployment().await;
    cluster.patch(Kind::Deployment, json!({"spec": {"paused": true}})).await;
    cluster.patch(Kind::Deployment, image("web:2")).await;
    refused(&cluster, To::Ordereddeployment, "is in progress").await;

    let cluster = Cluster::with_deployment().await;
    cluster.adopt().await;
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    cluster.patch(Kind::OrderedDeployment, finalizers(json!(["example.com/keep"]))).await;
    refused(&cluster, To::Deployment, "has the finalizer example.com/keep").await;
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
    refused(&cluster, To::Ordereddeployment, "both exist").await;
    refused(&cluster, To::Deployment, "Deployment web already exists").await;
}

#[tokio::test(start_paused = true)]
async fn a_template_changed_during_a_hand_back_is_an_error_until_it_is_restored() {
    let cluster = cluster_for(To::Deployment).await;
    let before = cluster.kept().await;
    // The ReplicaSet exists, and the annotation that stops the controller is written.
    assert!(cluster.run(To::Deployment, Some(2)).await.0.is_err());
    cluster.patch(Kind::OrderedDeployment, image("web:2")).await;
    refused(&cluster, To::Deployment, "was changed while it is being handed back").await;
    cluster.patch(Kind::OrderedDeployment, image("web:1")).await;
    cluster.hand_back().await;
    cluster.assert_complete(To::Deployment).await;
    assert_eq!(cluster.kept().await, before);
}

#[tokio::test(start_paused = true)]
async fn a_hand_back_is_refused_during_a_rollout() {
    let cluster = cluster_for(To::Deployment).await;
    cluster.patch(Kind::OrderedDeployment, image("broken:2")).await;
    cluster
        .until("a new pod is there, and an old one", async |cluster| {
            let object = cluster.get(Kind::OrderedDeployment).await.unwrap();
            let updated = number(&object, "/status/updatedReplicas");
            is_observed(&object) && (1..number(&object, "/status/replicas")).contains(&updated)
        })
        .await;
    refused(&cluster, To::Deployment, "is in progress").await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_deployment_stays_paused_in_both_directions() {
    let cluster = Cluster::with_deployment().await;
    cluster.patch(Kind::Deployment, json!({"spec": {"paused": true}})).await;
    let pods = cluster.pods().await;
    cluster.adopt().await;
    let is_paused = async |kind| super::objects::is_paused(&cluster.get(kind).await.unwrap());
    assert!(is_paused(Kind::OrderedDeployment).await);
    cluster
        .until("it is complete", async |cluster| {
            let object = cluster.get(Kind::OrderedDeployment).await.unwrap();
            number(&object, "/status/updatedReplicas") == 4
        })
        .await;
    cluster.hand_back().await;
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

/// Fields that other clients have added stay.
#[tokio::test(start_paused = true)]
async fn the_new_object_has_the_template_of_its_manifest_so_that_an_apply_starts_no_rollout() {
    let mut restarted = manifest_template();
    restarted["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/restartedAt": "now"});
    for given in [manifest_template(), restarted] {
        let cluster = Cluster::with_template(given.clone()).await;
        let live = cluster.get(Kind::Deployment).await.unwrap().data["spec"]["template"].clone();
        assert_ne!(live, given, "the API server sets defaults");
        assert_eq!(cluster.adoption(To::Ordereddeployment).notes().await.unwrap(), Vec::<String>::new());
        cluster.adopt().await;
        let before = (cluster.kept().await, templates(&cluster).await);
        cluster.patch(Kind::OrderedDeployment, json!({"spec": {"template": manifest_template()}})).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!((cluster.kept().await, templates(&cluster).await), before);
        let (template, set) = before.1;
        assert_eq!(template["metadata"], given["metadata"]);
        assert_eq!(template["spec"]["containers"], manifest_template()["spec"]["containers"]);
        assert!(template == set && (template == given || given != manifest_template()), "{template}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_differs_from_the_live_template_is_noted_and_not_used() {
    let cluster = Cluster::with_deployment().await;
    let live = cluster.get(Kind::Deployment).await.unwrap().data["spec"]["template"].clone();
    let mut other = manifest_template();
    other["spec"]["containers"][0]["image"] = "web:0".into();
    let adoption = Adoption { template: Some(other), ..cluster.adoption(To::Ordereddeployment) };
    let notes = adoption.notes().await.unwrap();
    assert!(
        matches!(&*notes, [note] if note.contains("template.spec.containers.0.image differs")),
        "{notes:?}"
    );
    let before = cluster.kept().await;
    cluster.go(&adoption, None).await.0.unwrap();
    assert_eq!(templates(&cluster).await, (live.clone(), live));
    assert_eq!(cluster.kept().await, before);
}

#[tokio::test(start_paused = true)]
async fn a_set_with_another_form_of_the_template_is_created_again() {
    let cluster = Cluster::with_deployment().await;
    let before = cluster.kept().await;
    assert!(cluster.run(To::Ordereddeployment, Some(2)).await.0.is_err());
    assert_eq!(templates(&cluster).await, (manifest_template(), manifest_template()));
    // The Deployment changes, and so does the given template.
    cluster.patch(Kind::Deployment, json!({"spec": {"minReadySeconds": 1}})).await;
    let live = cluster.get(Kind::Deployment).await.unwrap().data["spec"]["template"].clone();
    let adoption = Adoption { template: Some(live.clone()), ..cluster.adoption(To::Ordereddeployment) };
    cluster.go(&adoption, None).await.0.unwrap();
    assert_eq!(templates(&cluster).await, (live.clone(), live));
    assert_eq!(cluster.kept().await, before);
    cluster.assert_complete(To::Ordereddeployment).await;
}
