//! `get`, `list`, `order`, `plan` and completion: the output matches the cluster, and previews match the rollouts.

use scenarios::TestCluster;
use serde_json::{Value, json};

use super::six_in_order;

pub(super) async fn get_watches_a_rollout_until_the_object_is_deleted(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    let mut watch = plugin.start(&["get", "web", "-w"]).unwrap();
    watch.until("✔ complete at revision 1").await.unwrap();
    let mut names = plugin.start(&["get", "web", "-w", "-o", "name"]).unwrap();
    names.until("ordereddeployment.ordereddeployment.io/web").await.unwrap();
    plugin.ok(&["set", "image", "web", "web=web:2"]).await.unwrap();
    watch.until("↻ rolling out revision 2").await.unwrap();
    watch.until("⊘ Terminating").await.unwrap();
    let seen = watch.until("✔ complete at revision 2").await.unwrap();
    assert!(seen.iter().any(|line| line.contains("revision 1  web-")), "{seen:#?}");
    cluster.kubectl.run(&["delete", "od", "web"]).await.unwrap();
    watch.until("web is deleted").await.unwrap();
    assert_eq!(watch.ended().await.unwrap(), 0);
    assert_eq!(names.ended().await.unwrap(), 0);
}

pub(super) async fn the_list_spans_namespaces(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    let none = plugin.run(&["list"]).await.unwrap();
    let said = format!("No OrderedDeployments in namespace {}.\n", cluster.namespace);
    assert_eq!((none.code, none.out.as_str(), none.err.as_str()), (0, "", said.as_str()));
    cluster.deployed(&json!({"replicas": 1})).await.unwrap();
    let one = plugin.ok(&["list"]).await.unwrap();
    assert_eq!(one.lines().count(), 2, "{one}");
    assert!(one.contains("web") && one.contains("✔ Complete"), "{one}");
    let all = plugin.ok(&["list", "--all-namespaces"]).await.unwrap();
    let line = all.lines().find(|line| line.starts_with(&format!("{} ", cluster.namespace)));
    assert!(line.is_some_and(|line| line.contains(" web ")), "{all}");
    assert_eq!(
        plugin.ok(&["list", "-o", "name"]).await.unwrap(),
        "ordereddeployment.ordereddeployment.io/web\n"
    );
    let listed: Value = serde_json::from_str(&plugin.ok(&["list", "-o", "json"]).await.unwrap()).unwrap();
    assert_eq!(listed["items"][0]["metadata"]["name"], "web");
    let one: Value = serde_json::from_str(&plugin.ok(&["get", "web", "-o", "json"]).await.unwrap()).unwrap();
    assert_eq!(one, listed["items"][0]);
    assert!(plugin.ok(&["get", "od/web", "-o", "yaml"]).await.unwrap().contains("kind: OrderedDeployment"));
    assert!(plugin.ok(&["get", "-o", "wide"]).await.unwrap().contains("RESTARTS"));
    // kubectl requires flags after the name of a plugin.
    let before = plugin.plain(&["-n", &cluster.namespace, "ordered", "list"], "").await.unwrap();
    assert!(
        before.code != 0 && before.err.contains("flags cannot be placed before plugin name"),
        "{before:?}"
    );
}

pub(super) async fn the_order_previews_a_scale_down(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    let pods = six_in_order(&cluster).await;
    let order = plugin.ok(&["order", "web"]).await.unwrap();
    let places: Vec<&str> = order.lines().skip(2).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(places, pods);
    let preview = plugin.ok(&["order", "web", "--replicas", "2"]).await.unwrap();
    let (going, staying) = preview.split_once("2 pods would stay\n").unwrap();
    let named = |text: &str| -> Vec<String> {
        let words = text.split_whitespace().filter(|word| word.starts_with("web-")).map(str::to_owned);
        words.collect()
    };
    assert_eq!(named(going), pods[..4]);
    assert_eq!(named(staying), pods[4..]);
    cluster.scale(2).await.unwrap();
    cluster.complete("web", 2).await.unwrap();
    let deleted: std::collections::BTreeSet<String> = cluster.deleted().await.unwrap().into_iter().collect();
    assert_eq!(deleted, named(going).into_iter().collect());
    let more = plugin.ok(&["order", "web", "--replicas", "9"]).await.unwrap();
    assert!(more.contains("would delete no pod: not a scale-down"), "{more}");
}

pub(super) async fn a_plan_of_a_manifest_matches_the_rollout(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    let manifest = |image: &str| {
        json!({
            "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 6, "selector": {"matchLabels": {"app": "web"}},
                "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": image}]},
                },
            },
        })
        .to_string()
    };
    let plan = ["plan", "-f", "-", "-o", "json"];
    let new = plugin.run_with(&plan[..3], &manifest("web:1")).await.unwrap();
    assert!(new.out.contains("web does not exist in") && new.out.contains("with 6 pods"), "{new:?}");

    let pods = six_in_order(&cluster).await;
    let same = plugin.run_with(&plan[..3], &manifest("web:1")).await.unwrap();
    assert!(same.out.contains("no pod would be created or deleted"), "{same:?}");
    plugin.ok(&["mark", &pods[2], "--pause", "before"]).await.unwrap();
    let requests = cluster.deployments().get("web").await.unwrap().metadata.resource_version;
    let preview = plugin.run_with(&plan, &manifest("web:2")).await.unwrap();
    assert_eq!(preview.code, 0, "{preview:?}");
    let output = plugin.run_with(&plan[..3], &manifest("web:2")).await.unwrap().out;
    assert!(output.contains(&format!("paused at pause point {} (before)", pods[2])), "{output}");
    assert!(output.contains("resume with: kubectl ordered resume web"), "{output}");
    let after = cluster.deployments().get("web").await.unwrap().metadata.resource_version;
    assert_eq!(requests, after, "a plan writes nothing");

    let preview: Value = serde_json::from_str(&preview.out).unwrap();
    let steps = preview["steps"].as_array().unwrap();
    let halt = steps.iter().position(|step| step["step"] == "Hold").unwrap();
    let gone = |steps: &[Value]| -> Vec<String> {
        let pods = steps.iter().filter_map(|step| step["pods"].as_array()).flatten();
        pods.map(|pod| pod["name"].as_str().unwrap_or("new").to_owned()).collect()
    };
    assert_eq!(preview["outcome"]["result"], "Complete");
    assert_eq!(gone(steps), pods);

    cluster.kubectl.run_with(&["apply", "-f", "-"], &manifest("web:2")).await.unwrap();
    plugin.ok(&["status", "web", "--until", "held"]).await.unwrap();
    let hold = cluster.held_with(2, 6).await.unwrap().status.unwrap().hold.unwrap();
    assert_eq!(cluster.deleted().await.unwrap(), gone(&steps[..halt]));
    let rest = plugin.run(&["plan", "web", "-o", "json"]).await.unwrap();
    let rest: Value = serde_json::from_str(&rest.out).unwrap();
    assert_eq!(gone(rest["steps"].as_array().unwrap()), gone(&steps[halt..]));
    plugin.ok(&["resume", "web", &hold.pod]).await.unwrap();
    plugin.ok(&["status", "web"]).await.unwrap();
    assert_eq!(cluster.deleted().await.unwrap(), gone(steps));
}

pub(super) async fn kubectl_completes_names_of_the_cluster_through_the_plugin(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    let pods = cluster.deployed(&json!({"replicas": 2})).await.unwrap();
    let script = plugin.plain(&["ordered", "completion", "kubectl"], "").await.unwrap().out;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubectl_complete-ordered");
    std::fs::write(&file, script).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let plugin = plugin.with_folder(folder.path()).unwrap();
    let complete = async |words: &[&str]| {
        let asked = [&["__complete", "ordered"], words].concat();
        let printed = plugin.plain(&asked, "").await.unwrap();
        let output: Vec<String> = printed.out.lines().map(str::to_owned).collect();
        output
    };
    let space = ["-n", &cluster.namespace];
    assert_eq!(complete(&["sta"]).await, ["status", ":4"]);
    assert_eq!(complete(&[&["get"], &space[..], &[""]].concat()).await, ["web", ":4"]);
    assert_eq!(complete(&[&["status"], &space[..], &["od/"]].concat()).await, ["od/web", ":4"]);
    let marked = complete(&[&["mark"], &space[..], &["web-"]].concat()).await;
    assert_eq!(marked[..2], pods);
    assert_eq!(complete(&[&["set", "image", "web"], &space[..], &[""]].concat()).await, ["web=", ":6"]);
    assert_eq!(complete(&["status", "web", "--until", ""]).await, ["complete", "held", ":4"]);
}
