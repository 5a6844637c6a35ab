//! The behavior of a Deployment, row by row as in `docs/parity.md`: tested here for an OrderedDeployment and,
//! if possible, for a Deployment next to it. Rows with a separate test file are not repeated here.

use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};
use ordereddeployment_api::names::{annotation, reason};
use scenarios::{Setting, TestCluster, image_of, side_by_side};
use serde_json::{Value, json};

#[test]
fn every_documented_scenario_exists() {
    let table = include_str!("../../../../docs/parity.md");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let source = |file: &str| {
        let (flat, parts) = (folder.join(file).with_extension("rs"), folder.join(file));
        let parts = fs::read_dir(parts).into_iter().flatten().map(|entry| entry.unwrap().path());
        parts.chain([flat]).filter_map(|path| fs::read_to_string(path).ok()).collect::<String>()
    };
    let (mut text, mut found) = (String::new(), 0);
    for word in table.split('`').skip(1).step_by(2) {
        if folder.join(word).with_extension("rs").exists() || folder.join(word).is_dir() {
            text = source(word);
        } else if word.matches('_').count() > 2 {
            assert!(text.contains(&format!("async fn {word}(")), "{word} is not in the file named before it");
            found += 1;
        }
    }
    assert!(found > 20, "{found}");
}

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

async fn conditions_and_their_reasons_are_those_of_a_deployment(cluster: TestCluster) {
    cluster.apply(&json!({"replicas": 3})).await.unwrap();
    Subject::new(&cluster, "ordereddeployment.io/v1alpha1", "OrderedDeployment").live().await;
}

#[cfg(feature = "real-servers")]
async fn a_deployment_has_the_same_conditions(cluster: TestCluster) {
    cluster.apply_plain(&json!({"replicas": 3})).await.unwrap();
    Subject::new(&cluster, "apps/v1", "Deployment").live().await;
}

/// The pods as the server has them: the types here do not have all fields.
async fn raw_pods(cluster: &TestCluster) -> Vec<Value> {
    let list = cluster.kubectl.run(&["get", "pods", "-o", "json"]).await.unwrap();
    let mut list: Value = serde_json::from_str(&list).unwrap();
    serde_json::from_value(list["items"].take()).unwrap()
}

/// Fields that Kubernetes 1.36 has and 1.20 drops from pods. A resize in place changes a pod, and no
/// template.
async fn fields_of_newer_servers_start_no_second_rollout(cluster: TestCluster) {
    let spec = json!({
        "containers": [{"name": "web", "image": "web:1", "resources": {"requests": {"cpu": "10m"}}}],
        "hostUsers": false,
        "resources": {"requests": {"cpu": "20m"}},
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}}, "matchLabelKeys": ["pod-template-hash"],
        }],
    });
    let fields = ["/spec/hostUsers", "/spec/resources", "/spec/topologySpreadConstraints/0/matchLabelKeys"];
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": spec});
    cluster.deployed(&json!({"replicas": 2, "template": template})).await.unwrap();
    match cluster.control_plane() {
        Some(plane) if plane.minor() >= 36 => {
            for pod in raw_pods(&cluster).await {
                for field in fields {
                    assert_eq!(pod.pointer(field), template.pointer(field), "{field}");
                }
                let resources = |cpu: &str| json!([{"name": "web", "resources": {"requests": {"cpu": cpu}}}]);
                let name = pod["metadata"]["name"].as_str().unwrap();
                // A kubelet that can resize reports what a container has.
                for (subresource, change) in [
                    ("--subresource=status", json!({"status": {"containerStatuses": resources("10m")}})),
                    ("--subresource=resize", json!({"spec": {"containers": resources("15m")}})),
                ] {
                    let patch = ["patch", "pod", name, subresource, "-p", &change.to_string()];
                    cluster.kubectl.run(&patch).await.unwrap();
                }
            }
        }
        Some(_) => cluster.until_event(reason::UNKNOWN_FIELDS).await.unwrap(),
        // The sandbox stores all fields.
        None => {}
    }
    cluster.scale(3).await.unwrap();
    cluster.complete("web", 3).await.unwrap();
    let object = cluster.deployments().get("web").await.unwrap();
    let sets = cluster.sets();
    let sets = sets.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(sets.len(), 1, "one template, one set");
    for field in fields {
        assert_eq!(object.spec.template.value().pointer(field), template.pointer(field));
        assert_eq!(sets[0].spec.template.value().pointer(field), template.pointer(field));
    }
    assert_eq!(object.status.unwrap().rollout.unwrap().revision, 1);
    assert_eq!(cluster.created().await.unwrap(), 3);
    assert_eq!(cluster.deleted().await.unwrap(), Vec::<String>::new());
}

/// A step, and the revisions of the sets after it, by image.
type Step = (&'static str, &'static [(&'static str, &'static str)]);

/// The steps for either kind.
const WALK: [Step; 5] = [
    ("web:2", &[("1", "web:1"), ("2", "web:2")]),
    ("web:3", &[("1", "web:1"), ("2", "web:2"), ("3", "web:3")]),
    ("undo", &[("1", "web:1"), ("3", "web:3"), ("4", "web:2")]),
    ("undo to 1", &[("3", "web:3"), ("4", "web:2"), ("5", "web:1")]),
    // The previous revision has the second largest number.
    ("undo", &[("3", "web:3"), ("5", "web:1"), ("6", "web:2")]),
];

/// Waits until the sets of this kind have the revisions of the step in this annotation.
async fn until_numbered(cluster: &TestCluster, (version, kind): (&str, &str), key: &str, step: Step) {
    let are_those = |sets: &[DynamicObject]| {
        let mut found: Vec<_> = sets
            .iter()
            .map(|set| {
                let image = set.data.pointer("/spec/template/spec/containers/0/image");
                (set.annotations()[key].as_str(), image.and_then(Value::as_str).unwrap())
            })
            .collect();
        found.sort_unstable();
        found == step.1
    };
    let sets = cluster.objects(version, kind);
    cluster.until_all(sets, &format!("as after {}", step.0), are_those).await.unwrap();
}

async fn undo_and_revision_numbers_are_those_of_a_deployment(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    cluster.deployed(&json!({"replicas": 2})).await.unwrap();
    for (step, expected) in WALK {
        let image = format!("web={step}");
        let command = match step {
            "undo" => vec!["undo", "web"],
            "undo to 1" => vec!["undo", "web", "--to-revision", "1"],
            _ => vec!["set", "image", "web", image.as_str()],
        };
        plugin.ok(&command).await.unwrap();
        let object = cluster.complete("web", 2).await.unwrap();
        let newest = expected.last().unwrap();
        assert_eq!(object.status.unwrap().rollout.unwrap().revision.to_string(), newest.0, "{step}");
        assert_eq!(cluster.pods_of_image(newest.1).await.unwrap().len(), 2, "{step}");
        let sets = ("ordereddeployment.io/v1alpha1", "OrderedReplicaSet");
        until_numbered(&cluster, sets, annotation::REVISION, (step, expected)).await;
    }
    let history = plugin.ok(&["history", "web"]).await.unwrap();
    assert!(["3", "5", "6"].iter().all(|number| history.contains(number)), "{history}");
    plugin.fails(1, &["undo", "web", "--to-revision", "4"]).await.unwrap();
}

/// The same steps with `kubectl rollout undo`.
#[cfg(feature = "real-servers")]
async fn a_deployment_numbers_its_revisions_the_same(cluster: TestCluster) {
    cluster.apply_plain(&json!({"replicas": 2})).await.unwrap();
    for (step, expected) in WALK {
        let image = format!("web={step}");
        let command = match step {
            "undo" => vec!["rollout", "undo", "deployment/web"],
            "undo to 1" => vec!["rollout", "undo", "deployment/web", "--to-revision=1"],
            _ => vec!["set", "image", "deployment/web", image.as_str()],
        };
        cluster.kubectl.run(&command).await.unwrap();
        let sets = ("apps/v1", "ReplicaSet");
        until_numbered(&cluster, sets, "deployment.kubernetes.io/revision", (step, expected)).await;
        cluster.rolled_out("web").await.unwrap();
    }
}

/// The object that is scaled during a rollout that cannot complete.
fn eight() -> Value {
    json!({"replicas": 8, "strategy": {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 2}}})
}

/// Scales a rollout that cannot complete to 8, to 12 and to 5 replicas. With 12 there are these old and new
/// pods.
async fn scaled_while_stuck(cluster: &TestCluster, object: &str, (old, new): (usize, usize)) {
    // First two old pods are deleted, up to the ceiling of ten pods. Then there is room for fourteen, and for
    // seven.
    for (replicas, old, new) in [(8, 6, 4), (12, old, new), (5, 3, 4)] {
        cluster.kubectl.run(&["scale", object, &format!("--replicas={replicas}")]).await.unwrap();
        let split = |pods: &[Pod]| {
            let active = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
            let (now_new, now_old): (Vec<_>, Vec<_>) = active.partition(|pod| image_of(pod) == "web:broken");
            (now_old.len(), now_new.len()) == (old, new)
        };
        let what = format!("{old} old pods and {new} new ones of {replicas}");
        cluster.until_pods(&what, split).await.unwrap();
    }
}

async fn a_stuck_rollout_is_scaled_in_proportion(cluster: TestCluster) {
    cluster.deployed(&eight()).await.unwrap();
    cluster.set_image("web:broken").await.unwrap();
    scaled_while_stuck(&cluster, "od/web", (6, 8)).await;
}

/// A Deployment makes old pods, too, when it grows.
#[cfg(feature = "real-servers")]
async fn a_deployment_is_scaled_the_same(cluster: TestCluster) {
    cluster.apply_plain(&eight()).await.unwrap();
    cluster.kubectl.run(&["set", "image", "deployment/web", "web=web:broken"]).await.unwrap();
    scaled_while_stuck(&cluster, "deployment/web", (8, 6)).await;
}

side_by_side!(
    Setting::default();
    a_stuck_rollout_is_scaled_in_proportion,
    conditions_and_their_reasons_are_those_of_a_deployment,
    fields_of_newer_servers_start_no_second_rollout,
    undo_and_revision_numbers_are_those_of_a_deployment;
    only on a real server:
    a_deployment_has_the_same_conditions,
    a_deployment_is_scaled_the_same,
    a_deployment_numbers_its_revisions_the_same,
);
