//! The manifests of the documentation: both servers accept every one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use ordereddeployment_api::names::annotation;
use scenarios::{Setting, TestCluster, node_of, side_by_side, top};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::page::in_language;
use crate::templates::STRICT;

/// The newest minor version that has what the pages need.
const NEWEST: u32 = 36;

/// A node of every cluster.
const SPOT: &str = "n4";
/// How long the server may take to load a policy.
const LIMIT: Duration = Duration::from_secs(60);

fn parsed(text: &str) -> impl Iterator<Item = Value> {
    let objects: Vec<Value> =
        serde_saphyr::from_multiple(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    // Values files of the chart have no kind.
    objects.into_iter().filter(|object| object["kind"].is_string())
}

/// All YAML files in a folder and the folders in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flat_map(of).filter(|path| path.extension().is_some_and(|ending| ending == "yaml")).collect()
}

/// The manifests of the pages and of the examples, with the file that contains each.
fn manifests() -> Vec<(String, Value)> {
    let docs = top().join("docs");
    let pages = std::fs::read_dir(&docs).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let mut found = Vec::new();
    for page in pages {
        let name = page.strip_prefix(top()).unwrap().display().to_string();
        let blocks = in_language(&name, "yaml");
        found.extend(blocks.iter().flat_map(|block| parsed(block)).map(|object| (name.clone(), object)));
    }
    for file in files(&docs.join("examples")) {
        let text = std::fs::read_to_string(&file).unwrap();
        found.extend(parsed(&text).map(|object| (file.display().to_string(), object)));
    }
    // A file for kustomize is no object of a server.
    found.retain(|(_, object)| object["kind"] != "Kustomization");
    found
}

/// Whether the server must accept all manifests: an older one does not have all kinds.
fn is_newest(cluster: &TestCluster) -> bool {
    cluster.control_plane().is_some_and(|plane| plane.minor() >= NEWEST)
}

async fn the_server_accepts_every_manifest(cluster: TestCluster) {
    let is_strict = cluster.control_plane().is_some_and(|plane| plane.minor() >= STRICT);
    let strict: &[&str] = if is_strict { &["--validate=strict"] } else { &[] };
    let mut count = 0;
    for (file, mut object) in manifests() {
        object["metadata"].as_object_mut().unwrap().remove("namespace");
        let create = [&["create", "--dry-run=server", "-o", "json", "-f", "-"], strict].concat();
        let stored = match cluster.kubectl.run_with(&create, &object.to_string()).await {
            Err(error) if !is_newest(&cluster) && format!("{error:#}").contains("no matches for kind") => {
                println!("not tried, the server does not have it: {}", object["kind"]);
                continue;
            }
            stored => stored.unwrap_or_else(|error| panic!("{file}: {error:#}\n{object:#}")),
        };
        let stored: Value = serde_json::from_str(&stored).unwrap();
        // The API server drops unknown fields without an error.
        assert_part_of(&object["spec"], &stored["spec"], &format!("{file}: {}.spec", object["kind"]));
        if object["kind"] == "OrderedDeployment" {
            let convert = ["convert", "--to", "deployment", "-f", "-"];
            let plugin = cluster.plugin().unwrap();
            let deployment = plugin.ok_with(&convert, &object.to_string()).await.unwrap().out;
            cluster.kubectl.run_with(&create, &deployment).await.unwrap();
        }
        count += 1;
    }
    assert!(count >= 12, "{count} manifests");
}

/// The policy of the page sets the priority when the scheduler binds a pod.
async fn a_policy_sets_the_priority_of_pods_on_some_nodes(cluster: TestCluster) {
    if !cluster.has_policies("mutating").await.unwrap() {
        assert!(!is_newest(&cluster));
        println!("not tried: the server has no such policies");
        return;
    }
    let policies = in_language("docs/recipes.md", "yaml");
    let policy = policies.iter().find(|block| block.contains("MutatingAdmissionPolicy")).unwrap();
    let here = format!("metadata.name: {}", cluster.namespace);
    let policy = policy.replace("'spot-'", &format!("'{SPOT}'")).replace("metadata.name: default", &here);
    let policy = policy.replace("spot-pods-first", &cluster.namespace);
    cluster.make(&policy).await.unwrap();
    cluster.deployed(&json!({"replicas": 12})).await.unwrap();
    let limit = Instant::now() + LIMIT;
    let spot = loop {
        let pods = cluster.pods().await.unwrap();
        let spot: Vec<_> = pods.iter().filter(|pod| node_of(pod) == SPOT).collect();
        let is_first =
            |pod: &&Pod| pod.annotations().get(annotation::DELETE_PRIORITY).is_some_and(|it| it == "100");
        if !spot.is_empty() && spot.iter().all(is_first) {
            break spot.len();
        }
        assert!(Instant::now() < limit, "the server does not use the policy: {spot:?}");
        for replicas in [0, 12] {
            cluster.scale(replicas).await.unwrap();
            cluster.complete("web", replicas).await.unwrap();
        }
    };
    let left = 12 - i32::try_from(spot).unwrap();
    cluster.scale(left).await.unwrap();
    cluster.complete("web", left).await.unwrap();
    assert!(!cluster.pods().await.unwrap().iter().any(|pod| node_of(pod) == SPOT));
}

/// Whether the stored object contains everything in the manifest.
fn assert_part_of(asked: &Value, stored: &Value, path: &str) {
    match (asked, stored) {
        (Value::Object(asked), _) => {
            for (key, value) in asked {
                assert_part_of(value, &stored[key], &format!("{path}.{key}"));
            }
        }
        (Value::Array(asked), Value::Array(stored)) => {
            assert_eq!(asked.len(), stored.len(), "{path}");
            for (place, value) in asked.iter().enumerate() {
                assert_part_of(value, &stored[place], &format!("{path}[{place}]"));
            }
        }
        _ => assert_eq!(asked, stored, "{path}"),
    }
}

side_by_side!(
    Setting::default();
    the_server_accepts_every_manifest;
    only on a real server: a_policy_sets_the_priority_of_pods_on_some_nodes,
);
