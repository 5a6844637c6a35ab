//! `mark`, `set image`, `restart`, `undo`, `history`, `pause`, `unpause` and `convert`: their writes and the results.

use kube::ResourceExt;
use ordereddeployment_api::names::annotation;
use scenarios::TestCluster;
use scenarios::proxy::RequestMatcher;
use serde_json::{Value, json};

use super::six_in_order;

async fn annotations(cluster: &TestCluster, pod: &str) -> Vec<(String, String)> {
    let pods = cluster.pods().await.unwrap();
    let found = pods.iter().find(|found| found.name_any() == pod).unwrap();
    let ours = found.annotations().iter().filter(|(key, _)| key.contains("ordereddeployment.io/"));
    ours.map(|(key, value)| (key.clone(), value.clone())).collect()
}

pub(super) async fn marks_are_written_and_removed(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    let pods = cluster.deployed(&json!({"replicas": 2})).await.unwrap();
    let output =
        plugin.ok(&["mark", &pods[1], "--priority", "-7", "--pause", "after", "--for", "10m"]).await.unwrap();
    assert!(output.contains("web: it is number 2 of 2 in the order"), "{output}");
    assert!(output.contains("no rollout pauses after its last pod"), "{output}");
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let all = [
        pair(annotation::DELETE_PRIORITY, "-7"),
        pair(annotation::PAUSE_DURATION, "10m"),
        pair(annotation::PAUSE_POINT, "after"),
    ];
    assert_eq!(annotations(&cluster, &pods[1]).await, all);
    plugin.ok(&["mark", &format!("pod/{}", pods[1]), "--pause", "before"]).await.unwrap();
    assert_eq!(
        annotations(&cluster, &pods[1]).await,
        [all[0].clone(), pair(annotation::PAUSE_POINT, "before")]
    );
    plugin.ok(&["unmark", &pods[1], &pods[0]]).await.unwrap();
    assert_eq!(annotations(&cluster, &pods[1]).await, []);
    for pod in &pods {
        let output = plugin.ok(&["mark", pod, "--pause", "before"]).await.unwrap();
        assert!(output.contains("its place can change until a rollout is there"), "{output}");
    }
    let left = plugin.ok(&["status", "web"]).await.unwrap();
    assert!(left.contains("2 pause points are left for the next rollout: "), "{left}");
    let hint = format!("`kubectl ordered unmark --all web -n {}`", cluster.namespace);
    assert!(left.contains(&hint), "{left}");
    let output = plugin.ok(&["unmark", "--all", "web"]).await.unwrap();
    assert!(output.starts_with("web: annotations removed from 2 pods: "), "{output}");
    assert_eq!(plugin.ok(&["status", "web"]).await.unwrap(), "web: complete at revision 1\n");
    cluster
        .kubectl
        .run(&["annotate", "pod", &pods[0], "ordereddeployment.io/pausepoint=before"])
        .await
        .unwrap();
    let tree = plugin.ok(&["get", "web"]).await.unwrap();
    assert!(tree.contains("did you mean ordereddeployment.io/pause-point?"), "{tree}");
    let missing = plugin.fails(1, &["mark", "web-1", "--priority", "1"]).await.unwrap();
    assert!(
        missing.contains("pods \"web-1\" not found\nhint: `kubectl ordered get` shows the pods"),
        "{missing}"
    );
    for malformed in
        [&["mark", "web-1"][..], &["mark", "web-1", "--for", "1m"], &["mark", "web-1", "--priority", "x"]]
    {
        plugin.fails(2, malformed).await.unwrap();
    }
}

pub(super) async fn images_restarts_and_undos_are_rollouts_in_the_history(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    six_in_order(&cluster).await;
    let wrong = plugin.fails(1, &["set", "image", "web", "app=web:2"]).await.unwrap();
    assert!(wrong.contains("web has no container \"app\"\nhint: it has web"), "{wrong}");
    plugin.ok(&["set", "image", "web", "web=web:2"]).await.unwrap();
    plugin.ok(&["status", "web"]).await.unwrap();
    let same = plugin.ok(&["set", "image", "web", "web=web:2"]).await.unwrap();
    assert!(same.contains("has these images already"), "{same}");

    let before = cluster.pods_of_image("web:2").await.unwrap();
    plugin.ok(&["restart", "web"]).await.unwrap();
    plugin.ok(&["status", "web"]).await.unwrap();
    let after = cluster.pods_of_image("web:2").await.unwrap();
    assert!(after.len() == 6 && after.iter().all(|pod| !before.contains(pod)), "{before:?} {after:?}");

    let history = plugin.ok(&["history", "web"]).await.unwrap();
    let numbers: Vec<&str> =
        history.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(numbers, ["3", "2", "1"], "{history}");
    let first = plugin.ok(&["history", "web", "--revision", "1"]).await.unwrap();
    assert!(first.contains("image: web:1"), "{first}");
    let none = plugin.fails(1, &["history", "web", "--revision", "9"]).await.unwrap();
    assert!(none.contains("web has no revision 9\nhint: it has 1, 2, 3"), "{none}");

    plugin.ok(&["mark", &after[0], "--pause", "before"]).await.unwrap();
    let dry = plugin.ok(&["undo", "web", "--to-revision", "1", "--dry-run"]).await.unwrap();
    assert!(dry.contains("would roll back to revision 1 (web:1)") && dry.contains(&after[0]), "{dry}");
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap(), after);
    let output = plugin.ok(&["undo", "web", "--to-revision", "1", "--through"]).await.unwrap();
    assert!(output.contains("passed all pause points of revision 4"), "{output}");
    plugin.ok(&["status", "web"]).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap().len(), 6);
    let again = plugin.ok(&["undo", "web", "--to-revision", "4"]).await.unwrap();
    assert!(again.contains("has the template of revision 4 already"), "{again}");
}

pub(super) async fn pause_and_unpause_write_spec_paused(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    let pods = cluster.deployed(&json!({"replicas": 3})).await.unwrap();
    let output = plugin.ok(&["pause", "web"]).await.unwrap();
    assert!(output.contains("continue with `kubectl ordered unpause web"), "{output}");
    plugin.ok(&["set", "image", "web", "web=web:2"]).await.unwrap();
    assert_eq!(plugin.run(&["status", "web"]).await.unwrap().code, 3);
    let tree = plugin.ok(&["get", "web"]).await.unwrap();
    assert!(tree.contains("‖ paused (spec.paused)"), "{tree}");
    let refused = plugin.fails(1, &["restart", "web"]).await.unwrap();
    assert!(
        refused.contains("it is paused (spec.paused)\nhint: run `kubectl ordered unpause web"),
        "{refused}"
    );
    let resumed = plugin.fails(1, &["resume", "web"]).await.unwrap();
    assert!(
        resumed.contains("but by spec.paused\nhint: continue with `kubectl ordered unpause web"),
        "{resumed}"
    );
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap(), pods);
    plugin.ok(&["unpause", "web"]).await.unwrap();
    plugin.ok(&["status", "web"]).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:2").await.unwrap().len(), 3);
}

pub(super) async fn a_change_of_an_outdated_template_is_refused(cluster: TestCluster) {
    cluster.deployed(&json!({"replicas": 1})).await.unwrap();
    let rules = cluster.proxy.rules();
    let plugin = cluster.plugin_behind_the_proxy().unwrap();
    for (arguments, image) in
        [(&["set", "image", "web", "web=web:2"][..], "web:3"), (&["restart", "web"], "web:4")]
    {
        // The plugin has read the template, and another client writes before the plugin's write arrives.
        let patches = RequestMatcher::new("patch", "ordereddeployments");
        let before = rules.held_back();
        rules.freeze(RequestMatcher { user_agent: Some("kubectl-ordered"), ..patches });
        let late = plugin.run(arguments);
        let other = async {
            rules.until_held_back(before).await;
            cluster.set_image(image).await.unwrap();
            rules.thaw();
        };
        let (printed, ()) = tokio::join!(late, other);
        let printed = printed.unwrap();
        assert_eq!((printed.code, printed.out.as_str()), (1, ""), "{printed:?}");
        assert!(
            printed.err.contains("another client has changed the template since it was read\nhint: check"),
            "{printed:?}"
        );
        let web = cluster.deployments().get("web").await.unwrap();
        assert_eq!(
            web.spec.template.value()["spec"]["containers"][0]["image"],
            image,
            "nothing is overwritten"
        );
    }
    // The API server gives no details, and the code of an invalid object.
    let stale = json!([{"op": "test", "path": "/spec/replicas", "value": 7}]).to_string();
    let said = cluster.kubectl.run(&["patch", "od", "web", "--type=json", "-p", &stale]).await.unwrap_err();
    assert!(
        format!("{said:#}").contains("the server rejected our request due to an error in our request"),
        "{said:#}"
    );
}

pub(super) async fn a_deployment_is_converted_applied_and_converted_back(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    });
    let converted = plugin.plain(&["ordered", "convert", "-f", "-"], &deployment.to_string()).await.unwrap();
    assert_eq!((converted.code, converted.err.as_str()), (0, ""), "{converted:?}");
    cluster.kubectl.run_with(&["apply", "-f", "-"], &converted.out).await.unwrap();
    plugin.ok(&["status", "web"]).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap().len(), 2);
    let back = ["ordered", "convert", "-f", "-", "--to", "deployment"];
    let back = plugin.plain(&back, &converted.out).await.unwrap().out;
    let read: Value = serde_saphyr::from_str(&back).unwrap();
    assert_eq!(read, deployment);
    // The live object is converted to a valid manifest too.
    let live = plugin.ok(&["get", "web", "-o", "yaml"]).await.unwrap();
    let back = plugin.plain(&["ordered", "convert", "-f", "-", "--to=deployment"], &live).await.unwrap();
    let made =
        cluster.kubectl.run_with(&["create", "--dry-run=server", "-o", "name", "-f", "-"], &back.out).await;
    assert_eq!(made.unwrap(), "deployment.apps/web\n");
}

/// Images and change causes of other users are printed on terminals.
pub(super) async fn control_characters_are_escaped(cluster: TestCluster) {
    const BAD: &str = "\x1b]0;owned\x07\x1b[31m\u{9b}2J\r\u{202e}forged";
    let plugin = cluster.plugin().unwrap();
    cluster.deployed(&json!({"replicas": 2})).await.unwrap();
    let image = format!("web:2{BAD}");
    let cause = format!("by night{BAD}\nforged: line");
    let change = json!({
        "metadata": {"annotations": {"kubernetes.io/change-cause": cause}},
        "spec": {"template": {"spec": {"containers": [{"name": "web", "image": image}]}}},
    });
    cluster.patch(&change).await.unwrap();
    plugin.ok(&["status", "web"]).await.unwrap();
    let missing = format!("no{BAD}=web:1");
    let output = [
        plugin.ok(&["get", "web", "-o", "wide"]).await.unwrap(),
        plugin.ok(&["list", "-o", "wide"]).await.unwrap(),
        plugin.ok(&["history", "web"]).await.unwrap(),
        plugin.ok(&["plan", "web", "--image", &format!("web=web:3{BAD}")]).await.unwrap(),
        plugin.fails(1, &["set", "image", "web", &missing]).await.unwrap(),
    ];
    for output in &output {
        let steers = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!output.contains(steers), "{output:?}");
        assert!(!output.lines().any(|line| line.starts_with("forged")), "{output}");
    }
    assert!(
        output[0].contains(r"web:2\u{1b}]0;owned\u{7}\u{1b}[31m\u{9b}2J\r\u{202e}forged"),
        "{}",
        output[0]
    );
    assert!(output[2].contains(r"forged\nforged: line"), "{}", output[2]);
    // JSON has the stored value.
    let stored: Value =
        serde_json::from_str(&plugin.ok(&["get", "web", "-o", "json"]).await.unwrap()).unwrap();
    assert_eq!(stored.pointer("/spec/template/spec/containers/0/image"), Some(&json!(image)));
}
