//! The conditions at several points of a rollout: they equal those of a Deployment, which runs the same steps
//! on a real server.

use kube::api::{Api, DynamicObject};
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
    fn new(cluster: &'a TestCluster, version: &str, kind: &'static str) -> Self {
        Self { cluster, kind, api: cluster.objects(version, kind) }
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
                && said("Progressing", progressing)
        };
        let what = format!("{point}: {counts:?}, {available:?}, {progressing:?}");
        self.cluster.until_object(self.api.clone(), "web", &what, wanted).await.unwrap();
    }

    async fn live(&self) {
        self.says("at rest", [3, 3, 3], ENOUGH, DONE).await;
        let pods = self.cluster.names().await.unwrap();
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
}

pub(super) async fn conditions_and_their_reasons_are_those_of_a_deployment(cluster: TestCluster) {
    cluster.apply(&json!({"replicas": 3})).await.unwrap();
    Subject::new(&cluster, "ordereddeployment.io/v1alpha1", "OrderedDeployment").live().await;
}

#[cfg(feature = "real-servers")]
pub(super) async fn a_deployment_has_the_same_conditions(cluster: TestCluster) {
    cluster.apply_plain(&json!({"replicas": 3})).await.unwrap();
    Subject::new(&cluster, "apps/v1", "Deployment").live().await;
}
