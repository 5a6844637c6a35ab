//! `kubectl ordered` as a user runs it: real kubectl finds the plugin in PATH. One walk through the commands
//! shows their exit codes and what they do to a cluster; `crates/cli` tests each of them and its output.

use kube::ResourceExt;
use ordereddeployment_api::names::annotation;
use scenarios::{Plugin, Setting, TestCluster, side_by_side};
use serde_json::{Value, json};

/// Six pods of `web` with different priorities, in deletion order.
async fn six_in_order(cluster: &TestCluster) -> Vec<String> {
    let pods = cluster.deployed(&json!({})).await.unwrap();
    cluster.prioritise_in_order(&pods).await.unwrap();
    pods
}

/// The ID of the pause point at which `web` is paused.
async fn hold(cluster: &TestCluster) -> String {
    cluster.deployments().get("web").await.unwrap().status.unwrap().hold.unwrap().id
}

async fn code(plugin: &Plugin, arguments: &[&str]) -> i32 {
    plugin.run(arguments).await.unwrap().code
}

async fn a_rollout_is_marked_planned_started_resumed_and_rolled_back(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    let missing = plugin.fails(1, &["status", "web"]).await.unwrap();
    assert!(missing.contains("\"web\" not found\nhint: `kubectl ordered get` lists"), "{missing}");
    plugin.fails(2, &["status", "web", "--until", "done"]).await.unwrap();
    let manifest = scenarios::top().join("docs/examples/pause-points.yaml");
    plugin.ok(&["plan", "-f", manifest.to_str().unwrap()]).await.unwrap();
    let pods = six_in_order(&cluster).await;
    plugin.ok(&["status", "web"]).await.unwrap();
    assert_eq!(code(&plugin, &["status", "web", "--until", "held"]).await, 6);
    for pod in [&pods[1], &pods[3], &pods[5]] {
        plugin.ok(&["mark", pod, "--pause", "before", "--for", "10m"]).await.unwrap();
    }
    plugin.ok(&["unmark", &pods[5]]).await.unwrap();
    plugin.ok(&["mark", &pods[5], "--priority", "-7"]).await.unwrap();
    plugin.ok(&["mark", &pods[1], "--pause", "before"]).await.unwrap();
    let annotations = |pod: &k8s_openapi::api::core::v1::Pod| {
        let ours = pod.annotations().iter().filter(|(key, _)| key.contains("ordereddeployment.io/"));
        ours.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>()
    };
    let found = cluster.pods().await.unwrap();
    assert_eq!(annotations(&found[5]), [format!("{}=-7", annotation::DELETE_PRIORITY)]);
    assert!(annotations(&found[1]).contains(&format!("{}=before", annotation::PAUSE_POINT)));
    assert!(!annotations(&found[1]).iter().any(|one| one.contains(annotation::PAUSE_DURATION)));

    // The order and the plan are those of the rollout.
    let order = plugin.ok(&["order", "web", "-o", "name"]).await.unwrap();
    assert_eq!(order.lines().map(|line| line.trim_start_matches("pod/")).collect::<Vec<_>>(), pods);
    let plan = plugin.ok(&["plan", "web", "--image", "web=web:2", "-o", "json"]).await.unwrap();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let steps = plan["steps"].as_array().unwrap().iter().filter_map(|step| step["pods"].as_array());
    let planned: Vec<&str> = steps.flatten().filter_map(|pod| pod["name"].as_str()).collect();
    assert_eq!(planned, pods);

    plugin.ok(&["set", "image", "web", "web=web:2"]).await.unwrap();
    assert_eq!(code(&plugin, &["status", "web"]).await, 3);
    assert_eq!(code(&plugin, &["status", "web", "--until", "held"]).await, 0);
    assert_eq!(code(&plugin, &["status", "web", "--until", "complete", "--timeout", "1s"]).await, 5);
    // The command returns after the controller has passed the pause point. A second resume passes no other
    // one.
    let id = hold(&cluster).await;
    // Who resumes has seen the pause point, so without a terminal it has to be named.
    let unseen = plugin.fails(1, &["resume", "web"]).await.unwrap();
    assert!(unseen.contains(&format!("kubectl ordered resume web {}", pods[1])), "{unseen}");
    assert_eq!(hold(&cluster).await, id);
    plugin.ok(&["resume", "web", &pods[1]]).await.unwrap();
    assert_eq!(code(&plugin, &["status", "web", "--until", "held"]).await, 0);
    let again = plugin.ok(&["resume", "web", "--hold", &id]).await.unwrap();
    assert!(again.contains(&format!("{id} is already passed")), "{again}");
    assert_eq!(hold(&cluster).await, format!("{}@2", pods[3]));
    plugin.ok(&["resume", "web", "--all"]).await.unwrap();
    plugin.ok(&["status", "web"]).await.unwrap();
    assert_eq!(cluster.deleted().await.unwrap(), planned);
    plugin.fails(1, &["resume", "web", "--all"]).await.unwrap();

    plugin.ok(&["restart", "web"]).await.unwrap();
    plugin.ok(&["status", "web"]).await.unwrap();
    plugin.ok(&["pause", "web"]).await.unwrap();
    plugin.fails(1, &["restart", "web"]).await.unwrap();
    plugin.ok(&["unpause", "web"]).await.unwrap();
    plugin.ok(&["undo", "web", "--to-revision", "1"]).await.unwrap();
    plugin.ok(&["status", "web"]).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap().len(), 6);
    let name = "ordereddeployment.ordereddeployment.io/web";
    assert_eq!(plugin.ok(&["list", "-o", "name"]).await.unwrap().trim(), name);
    let everywhere: Value =
        serde_json::from_str(&plugin.ok(&["list", "-A", "-o", "json"]).await.unwrap()).unwrap();
    let found = everywhere["items"].as_array().unwrap();
    assert!(found.iter().any(|one| one["metadata"]["namespace"] == cluster.namespace.as_str()));
    let history = plugin.ok(&["history", "web"]).await.unwrap();
    let numbers: Vec<&str> =
        history.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(numbers[..3], ["4", "3", "2"], "{history}");
}

async fn a_failed_rollout_has_its_own_exit_code(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    cluster.deployed(&json!({"progressDeadlineSeconds": 2})).await.unwrap();
    plugin.ok(&["set", "image", "web", "*=broken:2"]).await.unwrap();
    for until in [&[][..], &["--until", "complete"], &["--until", "held"]] {
        assert_eq!(code(&plugin, &[&["status", "web"], until].concat()).await, 4);
    }
    plugin.ok(&["undo", "web"]).await.unwrap();
    plugin.ok(&["status", "web"]).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap().len(), 6);
}

async fn get_watches_a_rollout_until_the_object_is_deleted(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    let mut watch = plugin.start(&["get", "web", "-w"]).unwrap();
    watch.until("✔ complete at revision 1").await.unwrap();
    plugin.fails(1, &["get", "web", "-w", "-o", "name"]).await.unwrap();
    plugin.ok(&["set", "image", "web", "web=web:2"]).await.unwrap();
    watch.until("↻ rolling out revision 2").await.unwrap();
    let seen = watch.until("⊘ Terminating").await.unwrap();
    assert!(seen.iter().any(|line| line.contains("revision 1  web-")), "{seen:#?}");
    watch.until("✔ complete at revision 2").await.unwrap();
    cluster.kubectl.run(&["delete", "od", "web"]).await.unwrap();
    watch.until("web is deleted").await.unwrap();
    assert_eq!(watch.ended().await.unwrap(), 0);
}

async fn kubectl_passes_its_flags_and_completes_names_through_the_plugin(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    let pods = cluster.deployed(&json!({"replicas": 2})).await.unwrap();
    let space = ["-n", &cluster.namespace];
    // kubectl requires flags after the name of a plugin.
    let before = plugin.plain(&[&space[..], &["ordered", "list"]].concat(), "").await.unwrap();
    assert!(before.err.contains("flags cannot be placed before plugin name"), "{before:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubectl_complete-ordered");
    let program = scenarios::beside_the_test("kubectl-ordered").unwrap();
    std::os::unix::fs::symlink(program, file).unwrap();
    let plugin = plugin.with_folder(folder.path()).unwrap();
    let complete = async |words: &[&[&str]]| {
        let asked = [&["__complete", "ordered"], &words.concat()[..]].concat();
        let printed = plugin.plain(&asked, "").await.unwrap();
        printed.out.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(complete(&[&["sta"]]).await, ["status", ":4"]);
    assert_eq!(complete(&[&["get"], &space, &[""]]).await, ["web", ":4"]);
    assert_eq!(complete(&[&["status"], &space, &["od/"]]).await, ["od/web", ":4"]);
    assert_eq!(complete(&[&["mark"], &space, &["web-"]]).await[..2], pods);
    assert_eq!(complete(&[&["set", "image", "web"], &space, &[""]]).await, ["web=", ":6"]);
    assert_eq!(complete(&[&["status", "web", "--until", ""]]).await, ["complete", "held", ":4"]);
}

#[cfg(feature = "real-servers")]
async fn a_user_without_permissions_gets_the_name_of_the_role(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    let pods = six_in_order(&cluster).await;
    plugin.ok(&["mark", &pods[0], "--pause", "before"]).await.unwrap();
    plugin.ok(&["set", "image", "web", "web=web:2"]).await.unwrap();
    cluster.held("web").await.unwrap();
    cluster.reader("vera").await.unwrap();
    for reads in ["get", "order", "history", "plan"] {
        plugin.ok(&[reads, "web", "--as", "vera"]).await.unwrap();
    }
    let refused: [(&[&str], &str); 7] = [
        (&["resume", "web"], "the chart's role `ordered-deployment-resumer`"),
        (&["set", "image", "web", "web=web:3"], "patch ordereddeployments"),
        (&["pause", "web"], "patch ordereddeployments"),
        (&["restart", "web"], "patch ordereddeployments"),
        (&["undo", "web"], "patch ordereddeployments"),
        (&["mark", &pods[1], "--priority", "3"], "patch pods"),
        (&["list", "-A"], "one namespace"),
    ];
    for (arguments, role) in refused {
        let asked = [arguments, &["--as", "vera"]].concat();
        let said = plugin.fails(1, &asked).await.unwrap();
        let first = said.lines().next().unwrap();
        assert!(first.starts_with("error: cannot ") && first.contains("User \"vera\" cannot "), "{said}");
        let hint = said.lines().nth(1).unwrap();
        assert!(hint.starts_with("hint: ask for ") && hint.contains(role), "{said}");
    }
}

side_by_side!(
    Setting::default();
    a_rollout_is_marked_planned_started_resumed_and_rolled_back,
    a_failed_rollout_has_its_own_exit_code,
    get_watches_a_rollout_until_the_object_is_deleted,
    kubectl_passes_its_flags_and_completes_names_through_the_plugin,
    ; only on a real server:
    a_user_without_permissions_gets_the_name_of_the_role,
);
