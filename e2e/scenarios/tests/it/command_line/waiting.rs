//! `status` and `resume`: exit codes and waits.

use scenarios::TestCluster;
use serde_json::json;

use super::six_in_order;

/// The pod at whose pause point `web` is paused, and the ID of the pause point.
async fn hold(cluster: &TestCluster) -> (String, String) {
    let web = cluster.deployments().get("web").await.unwrap();
    let hold = web.status.unwrap().hold.unwrap();
    (hold.pod, hold.id)
}

pub(super) async fn every_end_of_a_wait_has_its_exit_code(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    let missing = plugin.fails(1, &["status", "web"]).await.unwrap();
    assert!(missing.contains("\"web\" not found\nhint: `kubectl ordered get` lists"), "{missing}");
    plugin.fails(2, &["status"]).await.unwrap();
    plugin.fails(2, &["status", "web", "--until", "done"]).await.unwrap();

    let pods = six_in_order(&cluster).await;
    assert!(plugin.ok(&["status", "web"]).await.unwrap().contains("complete at revision 1"));
    assert_eq!(plugin.run(&["status", "web", "--until", "held"]).await.unwrap().code, 6);
    let nothing = plugin.fails(1, &["resume", "web"]).await.unwrap();
    assert!(nothing.contains("web is not paused at a pause point: nothing to resume\nhint: "), "{nothing}");

    for pod in [&pods[1], &pods[3]] {
        plugin.ok(&["mark", pod, "--pause", "before"]).await.unwrap();
    }
    let output = plugin.ok(&["set", "image", "web", "web=web:2"]).await.unwrap();
    assert!(output.contains("2 pause points, 6 pods to replace:"), "{output}");
    let held = plugin.run(&["status", "web"]).await.unwrap();
    assert!(held.code == 3 && held.out.contains(&format!("paused at pause point {} (", pods[1])), "{held:?}");
    assert!(
        held.out.contains("resume with `kubectl ordered resume web --namespace") || held.out.contains("-n ")
    );
    assert_eq!(plugin.run(&["status", "web", "--until", "held"]).await.unwrap().code, 0);
    let waited = plugin.run(&["status", "web", "--until", "complete", "--timeout", "1s"]).await.unwrap();
    assert!(
        waited.code == 5 && waited.err.contains("web: timed out waiting for the rollout\nhint: "),
        "{waited:?}"
    );

    // The command returns after the controller has passed the pause point.
    let (pod, id) = hold(&cluster).await;
    assert_eq!(pod, pods[1]);
    let output = plugin.ok(&["resume", "web", &pod]).await.unwrap();
    assert!(output.contains(&format!("passed {id}")), "{output}");
    let status = cluster.deployments().get("web").await.unwrap().status.unwrap();
    assert!(status.resume_requested.is_none() && status.hold.is_none_or(|hold| hold.id != id));
    // A second resume is not an error and passes no other pause point.
    assert_eq!(plugin.run(&["status", "web", "--until", "held"]).await.unwrap().code, 0);
    let again = plugin.ok(&["resume", "web", "--hold", &id]).await.unwrap();
    assert!(again.contains(&format!("{id} is already passed")), "{again}");
    assert_eq!(hold(&cluster).await.0, pods[3]);
    let wrong = plugin.fails(1, &["resume", "web", "--hold", &format!("{}@9", pods[3])]).await.unwrap();
    assert!(wrong.contains("web is not paused at") && wrong.contains("hint: "), "{wrong}");

    plugin.ok(&["resume", "od/web", &pods[3]]).await.unwrap();
    plugin.ok(&["status", "web", "--until", "complete"]).await.unwrap();
    assert_eq!(cluster.deleted().await.unwrap(), pods);
    let over = plugin.ok(&["resume", "web", "--hold", &id]).await.unwrap();
    assert!(over.contains("is already passed: its pod is deleted"), "{over}");
}

pub(super) async fn a_failed_rollout_has_its_own_exit_code(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    cluster.deployed(&json!({"progressDeadlineSeconds": 2})).await.unwrap();
    plugin.ok(&["set", "image", "web", "*=broken:2"]).await.unwrap();
    for until in [&[][..], &["--until", "complete"], &["--until", "held"]] {
        let failed = plugin.run(&[&["status", "web"], until].concat()).await.unwrap();
        assert!(failed.code == 4 && failed.out.contains("web: failed: "), "{failed:?}");
    }
    let tree = plugin.ok(&["get", "web"]).await.unwrap();
    assert!(tree.contains("✖ failed: progress deadline exceeded"), "{tree}");
    assert!(tree.contains("roll back with: kubectl ordered undo web"), "{tree}");
    plugin.ok(&["undo", "web"]).await.unwrap();
    plugin.ok(&["status", "web"]).await.unwrap();
    assert_eq!(cluster.pods_of_image("web:1").await.unwrap().len(), 6);
}

pub(super) async fn all_points_are_passed_at_once(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    let pods = six_in_order(&cluster).await;
    for pod in &pods[..3] {
        plugin.ok(&["mark", pod, "--pause", "after"]).await.unwrap();
    }
    plugin.ok(&["set", "image", "web", "web=web:2"]).await.unwrap();
    assert_eq!(plugin.run(&["status", "web"]).await.unwrap().code, 3);
    let output = plugin.ok(&["resume", "web", "--all"]).await.unwrap();
    assert!(output.contains("passed all pause points of revision 2"), "{output}");
    plugin.ok(&["status", "web"]).await.unwrap();
    let refused = plugin.fails(1, &["resume", "web", "--all"]).await.unwrap();
    assert!(refused.contains("nothing to resume"), "{refused}");
    assert_eq!(cluster.deleted().await.unwrap(), pods);
}

#[cfg(feature = "real-servers")]
pub(super) async fn a_user_without_permissions_gets_the_name_of_the_role(cluster: TestCluster) {
    let plugin = cluster.plugin().unwrap();
    let pods = six_in_order(&cluster).await;
    plugin.ok(&["mark", &pods[0], "--pause", "before"]).await.unwrap();
    plugin.ok(&["set", "image", "web", "web=web:2"]).await.unwrap();
    cluster.held("web").await.unwrap();
    cluster.reader("vera").await.unwrap();
    let tree = plugin.ok(&["get", "web", "--as", "vera"]).await.unwrap();
    assert!(
        tree.contains("paused at pause point") && tree.contains("resume with: kubectl ordered resume web"),
        "{tree}"
    );
    assert!(tree.contains("--as vera"), "{tree}");
    plugin.ok(&["order", "web", "--as", "vera"]).await.unwrap();
    plugin.ok(&["history", "web", "--as", "vera"]).await.unwrap();
    plugin.ok(&["plan", "web", "--as", "vera"]).await.unwrap();
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
    let guest = plugin.fails(1, &["get", "web", "--as", "guest"]).await.unwrap();
    assert!(guest.contains("User \"guest\" cannot get resource"), "{guest}");
}
