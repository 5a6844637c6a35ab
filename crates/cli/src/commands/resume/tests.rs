use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use ordereddeployment_api::OrderedDeploymentStatus;
use serde_json::json;

use super::{ResumeTarget, is_declared, plain, request, result, resume};
use crate::client::{Connection, DryRun};
use crate::commands::abort::{abort, retry};
use crate::commands::mark::{Marks, Side, mark};
use crate::commands::pause::set;
use crate::commands::restart::restart;
use crate::commands::set::set_image;
use crate::exit::{self, Exit};
use crate::testing::fixture::Fixture;
use crate::testing::{aborted, at_declared, condition, declaring, observed_state, paused_before, pod};

fn paused() -> OrderedDeploymentStatus {
    serde_json::from_value(paused_before(&pod("web:1", "cccccccc", "n2"))).unwrap()
}

const WEB: (&str, &str) = ("web", " -n shop");
const ID: &str = "web-5d9c7b8c4d-cccccccc@2";

/// A rollout that cannot reach its pause point; the condition says so.
fn blocked() -> OrderedDeploymentStatus {
    serde_json::from_value(json!({
        "rollout": {"revision": 2, "templateHash": "7f6d9b8c4d", "replicas": 4},
        "blocked": {"id": ID, "since": "2030-01-01T11:50:00Z"},
        "conditions": [
            condition("Stalled", "True", "Blocked", "Blocked at the pause point."),
            condition("Complete", "False", "RolloutInProgress", ""),
        ],
    }))
    .unwrap()
}

fn declared() -> OrderedDeploymentStatus {
    serde_json::from_value(at_declared("canary", &[pod("web:1", "cccccccc", "n2")])).unwrap()
}

/// The same rollout when it has gone past its pause point; with ids, these are stored as passed.
fn past(status: OrderedDeploymentStatus, ids: &[&str]) -> OrderedDeploymentStatus {
    let mut status = OrderedDeploymentStatus { hold: None, ..status };
    status.rollout.as_mut().unwrap().points = None;
    let passed = ids.iter().map(|id| json!({"id": id, "by": "Resume", "resumedAt": "2030-01-01T12:00:00Z"}));
    status.passed = serde_json::from_value(passed.collect()).unwrap();
    status
}

#[test]
fn a_request_names_its_pause_point_and_fits_the_state() {
    use ResumeTarget::{All, Current, Hold};
    let running = OrderedDeploymentStatus { hold: None, ..paused() };
    let aborted: OrderedDeploymentStatus = serde_json::from_value(aborted()).unwrap();
    let early = OrderedDeploymentStatus { conditions: None, ..blocked() };
    let ahead = OrderedDeploymentStatus { hold: None, ..declared() };
    let mut complete = running.clone();
    let condition = condition("Complete", "True", "RolloutComplete", "");
    complete.conditions = serde_json::from_value(json!([condition])).unwrap();
    let suspended = OrderedDeploymentStatus { replicas: Some(0), ..complete.clone() };
    let (existing, canary) = (Some("web-5d9c7b8c4d-cccccccc"), Some("canary"));
    let not_paused = "web is not paused at a pause point: nothing to resume";
    for (status, target, point, said) in vec![
        (paused(), Current, None, ID),
        (paused(), Hold(ID), None, ID),
        (paused(), All(None), None, "*@2"),
        (running.clone(), Current, None, not_paused),
        (running, All(None), None, not_paused),
        // Another revision, another object, no pause point.
        (
            paused(),
            Hold("web-5d9c7b8c4d-cccccccc@1"),
            None,
            "web is not paused at web-5d9c7b8c4d-cccccccc@1, but at pause point",
        ),
        (paused(), Hold("other-5d9c7b8c4d-d@2"), None, "web is not paused at other-5d9c7b8c4d-d@2, but at"),
        (paused(), Hold("web"), None, "web is not paused at web, but at"),
        (
            aborted.clone(),
            Current,
            None,
            "web is aborted: its rollout cannot be resumed\nhint: start it again",
        ),
        (aborted.clone(), All(None), None, "web is aborted"),
        (aborted, Hold("canary@2"), None, "web is aborted"),
        // A blocked rollout is resumed by id only, and once the condition says so.
        (
            blocked(),
            Current,
            None,
            "web is not paused, and a resume would pass its next pause point. Blocked at",
        ),
        (blocked(), Hold(ID), None, ID),
        (blocked(), All(None), None, "*@2"),
        (early, Hold(ID), existing, not_paused),
        // Its pod is replaced; it exists; it exists, and the point is stored as passed.
        (past(paused(), &[]), Hold(ID), None, "passed"),
        (past(paused(), &[]), Hold(ID), existing, not_paused),
        (past(paused(), &[ID]), Hold(ID), existing, "passed"),
        (declared(), Current, None, "canary@2"),
        (declared(), Hold("canary@2"), None, "canary@2"),
        (ahead, Hold("canary@2"), canary, not_paused),
        (past(declared(), &["canary@2"]), Hold("canary@2"), canary, "passed"),
        // It was passed by another rollout; the group of another zone is not passed.
        (past(declared(), &["canary@2"]), Hold("canary@1"), canary, not_paused),
        (past(declared(), &["canary@2"]), Hold("canary.b@2"), Some("canary.b"), not_paused),
        (complete, All(None), None, not_paused),
        (suspended.clone(), All(None), None, "*@2"),
        (suspended, Current, None, "web is not paused at a pause point, but its rollout is suspended at 0"),
    ] {
        let found = match request(WEB, &status, target, point) {
            Ok((_, true)) => "passed".to_owned(),
            Ok((id, false)) => id,
            Err(error) => error.to_string(),
        };
        assert!(
            if said.contains(' ') { found.starts_with(said) } else { found == said },
            "{target:?}: {found}"
        );
    }
    let error = request(WEB, &blocked(), Current, None).unwrap_err().to_string();
    assert!(
        error.contains(&format!("resume web {ID} -n shop")) && error.contains("undo web -n shop"),
        "{error}"
    );
}

#[test]
fn the_next_command_depends_on_the_state() {
    let before = paused().hold.unwrap();
    let mut next = paused();
    let hold = next.hold.as_mut().unwrap();
    hold.pod = "web-5d9c7b8c4d-dddddddd".to_owned();
    hold.id = "web-5d9c7b8c4d-dddddddd@2".to_owned();
    let lines = [
        result(WEB, ID, Some(&before), &next, false).unwrap(),
        result(WEB, ID, Some(&before), &OrderedDeploymentStatus { hold: None, ..paused() }, true).unwrap(),
        result(WEB, ID, Some(&before), &OrderedDeploymentStatus { hold: None, ..paused() }, false).unwrap(),
        result(WEB, ID, Some(&before), &paused(), false).unwrap_err().to_string(),
        request(WEB, &OrderedDeploymentStatus { hold: None, ..paused() }, ResumeTarget::Current, None)
            .unwrap_err()
            .to_string(),
    ];
    insta::assert_snapshot!(lines.join("\n\n"));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_has_its_own_exit_code_and_the_request_stays() {
    let fixture = Fixture::without_controller().await;
    let connection = &fixture.connection;
    let from = json!({"revision": 1, "templateHash": "5d9c7b8c4d"});
    let mut held = paused_before(&pod("web:1", "cccccccc", "n2"));
    held["rollout"]["from"] = from;
    for (verb, status, what) in [
        ("resume", held.clone(), format!("resume of {ID}")),
        ("abort", held, "abort of revision 2".to_owned()),
        ("retry", aborted(), "retry of revision 2".to_owned()),
    ] {
        let patch = Patch::Merge(json!({"status": status}));
        fixture.api().patch_status("web", &PatchParams::default(), &patch).await.unwrap();
        let request = async |limit| match verb {
            "resume" => resume(connection, "web", ResumeTarget::Current, limit).await,
            "abort" => abort(connection, "web", None, limit).await,
            _ => retry(connection, "web", None, limit).await,
        };
        let asked = request(None).await.unwrap();
        assert!(asked.starts_with(&format!("web: {what} requested\n`kubectl ordered get web`")), "{asked}");
        let error = request(Some(Duration::from_secs(30))).await.unwrap_err();
        assert_eq!(exit::of_error(&error), Exit::TimedOut);
        let waited = format!("timed out waiting for the controller to handle the {what} (30 s)\nhint: ");
        assert!(error.to_string().contains(&waited), "{error}");
    }
    let stored = fixture.api().get("web").await.unwrap().status.unwrap();
    assert_eq!(stored.resume_requested.as_deref(), Some(ID));
    assert_eq!((stored.abort_requested, stored.retry_requested), (Some(2), Some(2)));
}

#[test]
fn declared_points_are_found_by_their_names_and_not_as_pods() {
    let points = json!([
        {"name": "canary", "afterUpdated": 1}, {"name": "zones", "betweenNodeGroups": "zone"}
    ]);
    let spec = &declaring(observed_state(4, "web:2", &json!({}), &[]), &points).deployment.spec;
    let status = past(declared(), &["early@2"]);
    for (id, expected) in [
        ("canary@2", true),
        // No pod can have that name.
        ("zones.us_East.1@2", true),
        ("web-5d9c7b8c4d-cccccccc@2", false),
        ("canary", false),
        // It was removed from the spec after it was passed.
        ("early@2", true),
        ("late@2", false),
    ] {
        assert_eq!(is_declared(id, spec, &status), expected, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_requests_nothing_and_a_server_checks_the_write() {
    let (fixture, order) = Fixture::with_order().await;
    let before = Marks { priority: Some(1), pause: Some(Side::Before), length: None };
    mark(&fixture.connection, &order[0], before).await.unwrap();
    fixture.image("web:2").await;
    let held = fixture.until_state("Paused").await;
    let (version, id) = (held.resource_version(), held.status.unwrap().hold.unwrap().id);
    for (dry_run, note) in [(DryRun::Client, "dry run"), (DryRun::Server, "server dry run")] {
        let connection = Connection { dry_run, ..fixture.connection.clone() };
        let said = resume(&connection, "web", ResumeTarget::Current, None).await.unwrap();
        assert_eq!(said, format!("web: resume of {id} would be requested ({note})"));
        let said = mark(&connection, &order[1], before).await.unwrap();
        let expected =
            format!("{}: would have priority 1; pause point before it, until resumed ({note})", order[1]);
        assert_eq!(said, expected);
        let said = set(&connection, "web", true).await.unwrap();
        assert_eq!(said, format!("web: spec.paused would be true ({note})"));
        let said = restart(&connection, "web").await.unwrap();
        assert!(said.starts_with(&format!("web: would be restarted ({note})\n")), "{said}");
        let said = set_image(&connection, "web", &[("web".to_owned(), "web:3".to_owned())]).await.unwrap();
        assert!(said.starts_with(&format!("web: would change web from web:2 to web:3 ({note})\n")), "{said}");
        let said = abort(&connection, "web", None, None).await.unwrap();
        assert_eq!(said, format!("web: abort of revision 2 would be requested ({note})"));
    }
    let now = fixture.api().get("web").await.unwrap();
    assert_eq!(now.resource_version(), version, "nothing was stored");
}

#[tokio::test(start_paused = true)]
async fn a_plain_deployment_is_resumed_at_the_pause_point_that_was_read() {
    use k8s_openapi::api::apps::v1::Deployment;
    use ordereddeployment_api::names::annotation;

    let fixture = Fixture::without_controller().await;
    let (connection, client) = (&fixture.connection, fixture.connection.client.clone());
    let api: kube::Api<Deployment> = kube::Api::namespaced(client, &connection.namespace);
    let hold = json!({
        "id": "plain-1-x@2", "pod": "plain-1-x", "podUID": "u", "point": "Before", "revision": 2,
        "since": "2030-01-01T11:51:00Z", "replicas": 2, "sizes": {},
    });
    let labels = json!({"app": "plain"});
    let object = json!({
        "metadata": {"name": "plain"},
        "spec": {"paused": true, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:1"}]},
        }},
    });
    api.create(&kube::api::PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let resume = async |point, all| plain::resume(connection, "plain", point, all, false).await;
    let refused = async |point, all| resume(point, all).await.unwrap_err().to_string();
    let error = refused(None, false).await;
    assert!(
        error.contains("but by spec.paused") && error.contains("kubectl rollout resume deployment/plain"),
        "{error}"
    );
    let state = json!({"hold": hold}).to_string();
    let patch = json!({"metadata": {"annotations": {annotation::ROLLOUT_STATE: state}}});
    api.patch("plain", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert!(refused(Some("y@2"), false).await.contains("paused at plain-1-x@2, not at y@2"));
    assert!(refused(None, true).await.contains("passes one pause point at a time"));
    // The tests have no terminal.
    assert!(refused(None, false).await.contains("hint: name the pause point that you mean"));
    let text = resume(Some("plain-1-x"), false).await.unwrap();
    assert!(text.starts_with("deployment/plain: plain-1-x@2 is passed\n"), "{text}");
    assert_eq!(api.get("plain").await.unwrap().spec.unwrap().paused, Some(false));
    assert_eq!(refused(None, false).await, "deployment/plain is not paused at a pause point");
}
