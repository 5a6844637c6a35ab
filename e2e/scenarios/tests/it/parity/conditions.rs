//! The conditions at several points of a rollout: they equal those of a Deployment, which runs the same steps
//! on a real server.

use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use scenarios::TestCluster;
use serde_json::{Value, json};

/// Status and reason.
type Said = (&'static str, &'static str);

const ENOUGH: Said = ("True", "MinimumReplicasAvailable");
const TOO_FEW: Said = ("False", "MinimumReplicasUnavailable");
const DONE: Said = ("True", "NewReplicaSetAvailable");
const UNDER_WAY: Said = ("True", "ReplicaSetUpdated");
const LATE: Said = ("False", "ProgressDeadlineExceeded");
const PAUSED: Said = ("Unknown", "DeploymentPaused");

/// The object `web` of either kind.
struct Subject<'a> {
    cluster: &'a TestCluster,
    kind: &'static str,
    api: Api<DynamicObject>,
}

impl<'a> Subject<'a> {
    fn new(cluster: &'a TestCluster, group: &str, version: &str, kind: &'static str) -> Self {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Self {
            cluster,
            kind,
            api: Api::namespaced_with(cluster.client.clone(), &cluster.namespace, &resource),
        }
    }

    async fn patch(&self, spec: Value) {
        let patch = json!({"spec": spec}).to_string();
        let kubectl = &self.cluster.kubectl;
        kubectl.run(&["patch", self.kind, "web", "--type=merge", "-p", &patch]).await.unwrap();
    }

    async fn set_image(&self, image: &str) {
        let containers = json!([{"name": "web", "image": image}]);
        self.patch(json!({"template": {"spec": {"containers": containers}}})).await;
    }

    /// Waits for the point with these numbers of pods, updated pods and available pods, then for these
    /// conditions.
    async fn says(&self, point: &str, counts: [i64; 3], available: Said, progressing: Said) {
        self.says_one_of(point, counts, available, &[progressing]).await;
    }

    async fn says_one_of(&self, point: &str, counts: [i64; 3], available: Said, progressing: &[Said]) {
        let wanted = |object: &DynamicObject| {
            let status = &object.data["status"];
            let found = ["replicas", "updatedReplicas", "availableReplicas"]
                .map(|field| status[field].as_i64().unwrap_or_default());
            let said = |type_: &str, (holds, reason): Said| {
                let mut conditions = status["conditions"].as_array().into_iter().flatten();
                conditions
                    .any(|one| one["type"] == type_ && one["status"] == holds && one["reason"] == reason)
            };
            status["observedGeneration"].as_i64() == object.metadata.generation
                && found == counts
                && said("Available", available)
                && progressing.iter().any(|one| said("Progressing", *one))
        };
        let what = format!("{point}: {counts:?}, {available:?}, {progressing:?}");
        self.cluster.until_object(self.api.clone(), "web", &what, wanted).await.unwrap();
    }

    async fn live(&self) {
        let pods: Vec<_> = self.pods().await;
        self.says("at rest", [3, 3, 3], ENOUGH, DONE).await;
        for pod in &pods[..2] {
            self.cluster.set_ready(pod, false).await.unwrap();
        }
        // Without a rollout the progress deadline does not apply.
        self.says("with two unready pods", [3, 3, 1], TOO_FEW, DONE).await;
        for pod in &pods[..2] {
            self.cluster.set_ready(pod, true).await.unwrap();
        }
        self.says("ready again", [3, 3, 3], ENOUGH, DONE).await;
        self.set_image("web:broken").await;
        self.says("in a rollout that is stuck", [4, 2, 2], ENOUGH, UNDER_WAY).await;
        self.patch(json!({"progressDeadlineSeconds": 1})).await;
        self.says("late", [4, 2, 2], ENOUGH, LATE).await;
        self.set_image("web:1").await;
        self.says("back", [3, 3, 3], ENOUGH, DONE).await;
        self.patch(json!({"paused": true})).await;
        self.says("paused", [3, 3, 3], ENOUGH, PAUSED).await;
        self.set_image("web:2").await;
        self.patch(json!({"replicas": 5})).await;
        self.says("scaled while paused", [5, 0, 5], ENOUGH, PAUSED).await;
        self.patch(json!({"paused": false})).await;
        self.says("resumed", [5, 5, 5], ENOUGH, DONE).await;
        self.patch(json!({"replicas": 0})).await;
        self.says("scaled to zero", [0, 0, 0], ENOUGH, DONE).await;
        self.patch(json!({"replicas": 2})).await;
        self.says("and back", [2, 2, 2], ENOUGH, DONE).await;
    }

    /// With Recreate there are no pods for a while, and all are expected. The deadline may not pass if the
    /// rollout may be missed.
    async fn live_under_recreate(&self, under_way: &[Said], late: &[Said]) {
        self.says("at rest", [3, 3, 3], ENOUGH, DONE).await;
        self.set_image("web:broken").await;
        self.says_one_of("all new and none ready", [3, 3, 0], TOO_FEW, under_way).await;
        self.patch(json!({"progressDeadlineSeconds": 1})).await;
        self.says_one_of("late", [3, 3, 0], TOO_FEW, late).await;
        self.set_image("web:1").await;
        self.says("back", [3, 3, 3], ENOUGH, DONE).await;
    }

    /// With a quota of two pods for three replicas; then of three.
    async fn live_with_a_quota(&self) {
        self.says("short of a pod", [2, 2, 2], ENOUGH, UNDER_WAY).await;
        let failure = |object: &DynamicObject| {
            let conditions = object.data["status"]["conditions"].as_array();
            conditions.into_iter().flatten().find(|one| one["type"] == "ReplicaFailure").cloned()
        };
        let words = "exceeded quota: pods, requested: pods=1, used: pods=2, limited: pods=2";
        let reports = |object: &DynamicObject| {
            failure(object).is_some_and(|one| {
                let message = one["message"].as_str().unwrap_or_default();
                (&one["status"], &one["reason"]) == (&json!("True"), &json!("FailedCreate"))
                    && message.contains("is forbidden")
                    && message.contains(words)
            })
        };
        self.cluster.until_object(self.api.clone(), "web", words, reports).await.unwrap();
        self.cluster.set_quota(3).await.unwrap();
        self.says("complete", [3, 3, 3], ENOUGH, DONE).await;
        let gone = |object: &DynamicObject| failure(object).is_none();
        self.cluster.until_object(self.api.clone(), "web", "without a failure", gone).await.unwrap();
    }

    /// The differences: a pause after the deadline has passed, and a deadline that never passes.
    async fn live_where_it_differs(&self, paused_late: Said, without_deadline: Option<Said>) {
        self.says("at rest", [3, 3, 3], ENOUGH, DONE).await;
        self.set_image("web:broken").await;
        self.patch(json!({"progressDeadlineSeconds": 1})).await;
        self.says("late", [4, 2, 2], ENOUGH, LATE).await;
        self.patch(json!({"paused": true})).await;
        self.says("paused when late", [4, 2, 2], ENOUGH, paused_late).await;
        self.patch(json!({"paused": false})).await;
        self.set_image("web:1").await;
        self.says("back", [3, 3, 3], ENOUGH, DONE).await;
        self.patch(json!({"progressDeadlineSeconds": i32::MAX})).await;
        let wanted = |object: &DynamicObject| {
            let conditions = object.data["status"]["conditions"].as_array().into_iter().flatten();
            let mut progressing = conditions.filter(|one| one["type"] == "Progressing");
            let said = progressing.next().map(|one| (one["status"].as_str(), one["reason"].as_str()));
            object.data["status"]["observedGeneration"].as_i64() == object.metadata.generation
                && said == without_deadline.map(|(holds, reason)| (Some(holds), Some(reason)))
        };
        self.cluster.until_object(self.api.clone(), "web", "without a deadline", wanted).await.unwrap();
    }

    async fn pods(&self) -> Vec<String> {
        let pods = self.cluster.until_pods("three", |pods| pods.len() == 3).await.unwrap();
        pods.into_iter().filter_map(|pod| pod.metadata.name).collect()
    }
}

fn ours(cluster: &TestCluster) -> Subject<'_> {
    Subject::new(cluster, "ordereddeployment.io", "v1alpha1", "OrderedDeployment")
}

pub(super) async fn conditions_and_their_reasons_are_those_of_a_deployment(cluster: TestCluster) {
    cluster.apply(&json!({"replicas": 3})).await.unwrap();
    ours(&cluster).live().await;
}

pub(super) async fn conditions_under_recreate_are_those_of_a_deployment(cluster: TestCluster) {
    cluster.apply(&json!({"replicas": 3, "strategy": {"type": "Recreate"}})).await.unwrap();
    ours(&cluster).live_under_recreate(&[UNDER_WAY], &[LATE]).await;
}

pub(super) async fn an_exceeded_quota_has_the_conditions_of_a_deployment(cluster: TestCluster) {
    cluster.set_quota(2).await.unwrap();
    cluster.apply(&json!({"replicas": 3})).await.unwrap();
    ours(&cluster).live_with_a_quota().await;
}

pub(super) async fn a_pause_after_the_deadline_and_an_infinite_deadline_are_reported(cluster: TestCluster) {
    cluster.apply(&json!({"replicas": 3})).await.unwrap();
    ours(&cluster).live_where_it_differs(PAUSED, Some(DONE)).await;
}

/// A Deployment with three pods.
#[cfg(feature = "real-servers")]
async fn theirs<'a>(cluster: &'a TestCluster, strategy: &Value) -> Subject<'a> {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "strategy": strategy,
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    });
    cluster.kubectl.run_with(&["apply", "-f", "-"], &deployment.to_string()).await.unwrap();
    Subject::new(cluster, "apps", "v1", "Deployment")
}

#[cfg(feature = "real-servers")]
fn rolling() -> Value {
    json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})
}

#[cfg(feature = "real-servers")]
pub(super) async fn a_deployment_has_the_same_conditions(cluster: TestCluster) {
    theirs(&cluster, &rolling()).await.live().await;
}

/// It sometimes misses the rollout: all pods are updated before it reconciles again.
#[cfg(feature = "real-servers")]
pub(super) async fn a_deployment_has_the_same_conditions_with_recreate(cluster: TestCluster) {
    let deployment = theirs(&cluster, &json!({"type": "Recreate"})).await;
    deployment.live_under_recreate(&[UNDER_WAY, DONE], &[LATE, DONE]).await;
}

#[cfg(feature = "real-servers")]
pub(super) async fn a_deployment_has_the_same_conditions_with_a_quota(cluster: TestCluster) {
    cluster.set_quota(2).await.unwrap();
    theirs(&cluster, &rolling()).await.live_with_a_quota().await;
}

#[cfg(feature = "real-servers")]
pub(super) async fn a_deployment_differs_as_documented(cluster: TestCluster) {
    theirs(&cluster, &rolling()).await.live_where_it_differs(LATE, None).await;
}
