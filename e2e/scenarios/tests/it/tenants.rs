//! Objects in the namespace of another tenant that claim to belong to an object of this one. The garbage collector, which would delete
//! them, does not run.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use scenarios::{Deletion, Manager, Server, Setting, TestCluster, is_ready};
use serde_json::{Value, json};

/// The kinds of one family.
struct Kinds {
    api_version: &'static str,
    deployment: &'static str,
    set: &'static str,
    built_in: &'static str,
    arguments: &'static [&'static str],
}

const ORDERED: Kinds = Kinds {
    api_version: "ordereddeployment.io/v1alpha1",
    deployment: "OrderedDeployment",
    set: "OrderedReplicaSet",
    built_in: "*,-garbagecollector",
    arguments: &[],
};

const PLAIN: Kinds = Kinds {
    api_version: "apps/v1",
    deployment: "Deployment",
    set: "ReplicaSet",
    built_in: "*,-replicaset,-garbagecollector",
    arguments: &["--controllers=replicaset", "--probe-namespace=default"],
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_owners_in_another_namespace_cost_no_pod_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    for kinds in [ORDERED, PLAIN] {
        forged_owners(&kinds).await;
    }
}

async fn forged_owners(kinds: &Kinds) {
    let setting = Setting { built_in_controllers: kinds.built_in.to_owned(), ..Setting::default() };
    let base = TestCluster::with(Server::Real, setting).await.unwrap();
    let (victim, attacker) = (base.apart("victim").await.unwrap(), base.apart("attacker").await.unwrap());
    let _manager: Manager = victim.start_manager_with(kinds.arguments).unwrap();
    apply(&victim, &object(kinds, kinds.deployment, "web", &json!({}), 4, "web:1")).await;
    let ready = |found: &[Pod]| found.len() == 4 && found.iter().all(is_ready);
    let pods = victim.until_pods("ready", ready).await.unwrap();
    for (pod, priority) in pods.iter().zip(1..) {
        victim.prioritise(&pod.name_any(), priority).await.unwrap();
    }
    forge(kinds, &victim, &attacker, &pods[0]).await;

    // A lost pod comes back, the object is scaled down, and a rollout replaces what is left.
    victim.kubectl.run(&["delete", "pod", &pods[0].name_any()]).await.unwrap();
    let lost = pods[0].name_any();
    let healed = |found: &[Pod]| ready(found) && found.iter().all(|pod| pod.name_any() != lost);
    victim.until_pods("healed", healed).await.unwrap();
    let patch = async |spec: Value| {
        let resource = format!("{}/web", kinds.deployment.to_lowercase());
        let patch = json!({"spec": spec}).to_string();
        victim.kubectl.run(&["patch", &resource, "--type=merge", "-p", &patch]).await.unwrap();
    };
    patch(json!({"replicas": 3})).await;
    victim.until_pods("three", |found| found.len() == 3).await.unwrap();
    let containers = json!([{"name": "main", "image": "web:2"}]);
    patch(json!({"template": {"spec": {"containers": containers}}})).await;
    let image = |pod: &Pod| pod.spec.as_ref().unwrap().containers[0].image.clone();
    let new = |found: &[Pod]| {
        found.len() == 3 && found.iter().all(|pod| is_ready(pod) && image(pod).as_deref() == Some("web:2"))
    };
    victim.until_pods("new", new).await.unwrap();

    let deleted = victim.deletions().await.unwrap();
    let ours: Vec<_> = deleted.into_iter().filter(Deletion::by_the_controller).map(|one| one.pod).collect();
    // The scale-down takes the first of the order, then the rollout the others in it; the pod that came back has no priority.
    let expected: Vec<_> = pods[1..].iter().rev().map(ResourceExt::name_any).collect();
    assert_eq!(ours[..3], expected, "{ours:?}");
    assert_eq!(ours.len(), 4);
    let requests = attacker.requests().await.unwrap();
    let there = |request: &&scenarios::Request| {
        request.by_the_controller() && request.namespace.as_deref() == Some("attacker")
    };
    let there: Vec<_> = requests.iter().filter(there).collect();
    assert!(there.is_empty(), "{there:#?}");
}

fn object(kinds: &Kinds, kind: &str, name: &str, metadata: &Value, replicas: i32, image: &str) -> Value {
    let labels = metadata.get("labels").cloned().unwrap_or_else(|| json!({"app": "web"}));
    let mut object = json!({
        "apiVersion": kinds.api_version, "kind": kind, "metadata": metadata,
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "main", "image": image}]},
            },
        },
    });
    object["metadata"]["name"] = json!(name);
    if kind == kinds.deployment {
        object["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    }
    object
}

async fn apply(cluster: &TestCluster, object: &Value) -> Value {
    let made =
        cluster.kubectl.run_with(&["create", "-o", "json", "-f", "-"], &object.to_string()).await.unwrap();
    serde_json::from_str(&made).unwrap()
}

/// Forged sets and pods: a set with the name of the victim's, one with another name, one that is being deleted, and pods of each of them
/// and of the victim's own set.
async fn forge(kinds: &Kinds, victim: &TestCluster, attacker: &TestCluster, pod: &Pod) {
    let web =
        victim.kubectl.run(&["get", &kinds.deployment.to_lowercase(), "web", "-o", "json"]).await.unwrap();
    let web: Value = serde_json::from_str(&web).unwrap();
    let owner = |kind: &str, name: &Value, uid: &Value| json!([{"apiVersion": kinds.api_version, "kind": kind, "name": name, "uid": uid, "controller": true}]);
    let (labels, set) = (json!(pod.labels()), &pod.owner_references()[0]);
    let mut owners = vec![owner(kinds.set, &json!(set.name), &json!(set.uid))];
    for (name, finalizers) in
        [(&*set.name, json!([])), ("a", json!([])), ("gone", json!(["example.com/stay"]))]
    {
        let metadata = json!({
            "labels": labels, "finalizers": finalizers,
            "ownerReferences": owner(kinds.deployment, &json!("web"), &web["metadata"]["uid"]),
        });
        let forged = apply(attacker, &object(kinds, kinds.set, name, &metadata, 9, "attacker:1")).await;
        owners.push(owner(kinds.set, &json!(name), &forged["metadata"]["uid"]));
    }
    let gone = format!("{}/gone", kinds.set.to_lowercase());
    attacker.kubectl.run(&["delete", &gone, "--wait=false"]).await.unwrap();
    for (number, owner) in owners.iter().enumerate() {
        for (priority, point) in [("-1000", "before"), ("1000", "after")] {
            let metadata = json!({
                "name": format!("forged-{number}{priority}"), "labels": labels, "ownerReferences": owner,
                "annotations": {
                    "ordereddeployment.io/delete-priority": priority, "ordereddeployment.io/pause-point": point,
                },
            });
            let spec = json!({"containers": [{"name": "main", "image": "attacker:1"}]});
            apply(attacker, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
                .await;
        }
    }
}
