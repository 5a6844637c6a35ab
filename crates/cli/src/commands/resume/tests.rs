use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use ordereddeployment_api::OrderedDeploymentStatus;
use serde_json::json;

use super::{RequestedPoint, ResumeRequest, ResumeTarget, request, requested_declared, result, resume};
use crate::client::{Connection, DryRun};
use crate::commands::abort::abort;
use crate::commands::mark::{Marks, Side, mark};
use crate::commands::pause::set;
use crate::commands::restart::restart;
use crate::commands::retry::retry;
use crate::commands::set::set_image;
use crate::exit::{self, Exit};
use crate::testing::fixture::Fixture;
use crate::testing::{aborted, at_declared, condition, observed_state, paused_before, pod};

fn paused() -> OrderedDeploymentStatus {
    serde_json::from_value(paused_before(&pod("web:1", "cccccccc", "n2"))).unwrap()
}

const WEB: (&str, &str) = ("web", " -n shop");
const ID: &str = "web-5d9c7b8c4d-cccccccc@2";

/// The id that a request writes; else its error.
fn written(
    status: &OrderedDeploymentStatus,
    target: ResumeTarget<'_>,
    point: Option<&RequestedPoint>,
) -> String {
    match request(WEB, status, target, point) {
        Ok(ResumeRequest::Write(id)) => id,
        Ok(ResumeRequest::AlreadyPassed(id)) => format!("{id} is passed"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_request_names_its_pause_point_and_fits_the_state() {
    use ResumeTarget::{All, Current, Hold};
    let running = OrderedDeploymentStatus { hold: None, ..paused() };
    let aborted: OrderedDeploymentStatus = serde_json::from_value(aborted()).unwrap();
    for (status, target, said) in [
        (paused(), Current, ID),
        (paused(), Hold(ID), ID),
        (paused(), All, "*@2"),
        (running.clone(), Current, "web is not paused at a pause point"),
        (running, All, "web is not paused at a pause point"),
        // Another revision, another object, no pause point.
        (
            paused(),
            Hold("web-5d9c7b8c4d-cccccccc@1"),
            "web is not paused at web-5d9c7b8c4d-cccccccc@1, but at pause point",
        ),
        (
            paused(),
            Hold("other-5d9c7b8c4d-dddddddd@2"),
            "web is not paused at other-5d9c7b8c4d-dddddddd@2, but at",
        ),
        (paused(), Hold("web"), "web is not paused at web, but at"),
        (
            aborted.clone(),
            Current,
            "web is aborted: its rollout cannot be resumed\nhint: start it again with `kubectl ordered retry \
             web -n shop`",
        ),
        (aborted.clone(), All, "web is aborted"),
        (aborted, Hold("canary@2"), "web is aborted"),
    ] {
        let found = written(&status, target, None);
        let is_request = said.contains('@') && !said.contains(' ');
        assert!(if is_request { found == said } else { found.starts_with(said) }, "{target:?}: {found}");
    }
}

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

#[test]
fn a_blocked_rollout_is_resumed_by_id_only_and_a_plain_resume_lists_the_options() {
    let error = request(WEB, &blocked(), ResumeTarget::Current, None).unwrap_err().to_string();
    let by_name = format!("resume web {ID} -n shop");
    for part in ["web is not paused", "Blocked at the pause point.", by_name.as_str(), "undo web -n shop"] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert_eq!(written(&blocked(), ResumeTarget::Hold(ID), None), ID);
    assert_eq!(written(&blocked(), ResumeTarget::All, None), "*@2");
    // Only once the condition says so, and only at this pause point.
    let early = OrderedDeploymentStatus { conditions: None, ..blocked() };
    let view = observed_state(4, "web:2", &json!({}), &[pod("web:1", "cccccccc", "n2")]).pods.remove(0);
    let view = RequestedPoint::Pod(Box::new((*view).clone()));
    assert!(request(WEB, &early, ResumeTarget::Hold(ID), Some(&view)).is_err());
}

#[test]
fn a_second_resume_of_a_passed_pause_point_writes_nothing() {
    let mut status = paused();
    let hold = status.hold.take().unwrap();
    status.rollout.as_mut().unwrap().points = None;
    // Its pod is replaced.
    let passed = format!("{ID} is passed");
    assert_eq!(written(&status, ResumeTarget::Hold(ID), None), passed);
    // Its pod exists, and the point is stored as passed.
    let view = observed_state(4, "web:2", &json!({}), &[pod("web:1", "cccccccc", "n2")]).pods.remove(0);
    let view = RequestedPoint::Pod(Box::new((*view).clone()));
    assert!(request(WEB, &status, ResumeTarget::Hold(ID), Some(&view)).is_err());
    let stored = json!([{"id": hold.id, "by": "Resume", "podUID": "x", "resumedAt": "2030-01-01T12:00:00Z"}]);
    status.passed = serde_json::from_value(stored).unwrap();
    assert_eq!(written(&status, ResumeTarget::Hold(ID), Some(&view)), passed);
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

fn declared() -> OrderedDeploymentStatus {
    serde_json::from_value(at_declared("canary", &[pod("web:1", "cccccccc", "n2")])).unwrap()
}

#[test]
fn declared_points_are_found_by_their_names_and_not_as_pods() {
    let points = json!([
        {"name": "canary", "afterUpdated": 1}, {"name": "zones", "betweenNodeGroups": "zone"}
    ]);
    let mut spec = observed_state(4, "web:2", &json!({}), &[]).deployment.spec.clone();
    spec.strategy.pause_points = serde_json::from_value(points).unwrap();
    let status = OrderedDeploymentStatus { hold: None, ..declared() };
    let found = |id| match requested_declared(id, &spec, &status) {
        Some(RequestedPoint::Declared(label)) => Some(label),
        _ => None,
    };
    assert_eq!(found("canary@2").as_deref(), Some("canary"));
    // No pod can have that name.
    assert_eq!(found("zones.us_East.1@2").as_deref(), Some("zones.us_East.1"));
    assert_eq!((found("web-5d9c7b8c4d-cccccccc@2"), found("canary")), (None, None));
    // It was removed from the spec after it was passed.
    let passed = json!([{"id": "early@2", "resumedAt": "2030-01-01T12:00:00Z"}]);
    let status =
        OrderedDeploymentStatus { passed: serde_json::from_value(passed).unwrap(), ..status.clone() };
    assert!(requested_declared("early@2", &spec, &status).is_some());
    assert!(requested_declared("late@2", &spec, &status).is_none());
}

#[test]
fn a_declared_point_is_passed_by_its_id_and_only_once() {
    let canary = RequestedPoint::Declared("canary".to_owned());
    let hold = ResumeTarget::Hold("canary@2");
    for target in [ResumeTarget::Current, hold] {
        assert_eq!(written(&declared(), target, None), "canary@2");
    }
    let mut status = OrderedDeploymentStatus { hold: None, ..declared() };
    // It is ahead.
    let error = request(WEB, &status, hold, Some(&canary)).unwrap_err().to_string();
    assert!(error.contains("not paused at a pause point"), "{error}");
    status.rollout.as_mut().unwrap().points = None;
    status.passed =
        serde_json::from_value(json!([{"id": "canary@2", "resumedAt": "2030-01-01T12:00:00Z"}])).unwrap();
    assert_eq!(written(&status, hold, Some(&canary)), "canary@2 is passed");
    // It was passed by another rollout.
    assert!(request(WEB, &status, ResumeTarget::Hold("canary@1"), Some(&canary)).is_err());
    // The group of another zone is not passed.
    let zone = RequestedPoint::Declared("canary.b".to_owned());
    assert!(request(WEB, &status, ResumeTarget::Hold("canary.b@2"), Some(&zone)).is_err());
}

#[test]
fn all_ends_a_suspension_and_a_plain_resume_says_how() {
    let mut status: OrderedDeploymentStatus = OrderedDeploymentStatus { hold: None, ..paused() };
    status.conditions =
        serde_json::from_value(json!([condition("Complete", "True", "RolloutComplete", "")])).unwrap();
    assert!(request(WEB, &status, ResumeTarget::All, None).is_err());
    status.replicas = Some(0);
    assert_eq!(written(&status, ResumeTarget::All, None), "*@2");
    let error = request(WEB, &status, ResumeTarget::Current, None).unwrap_err().to_string();
    assert!(
        error.contains("suspended at 0 replicas") && error.contains("resume web --all -n shop"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_requests_nothing_and_a_server_checks_the_write() {
    let fixture = Fixture::start().await;
    let order = fixture.order().await;
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
    let error = super::plain::resume(connection, "plain", None, false).await.unwrap_err().to_string();
    assert!(
        error.contains("but by spec.paused") && error.contains("kubectl rollout resume deployment/plain"),
        "{error}"
    );
    let state = json!({"hold": hold}).to_string();
    let patch = json!({"metadata": {"annotations": {annotation::ROLLOUT_STATE: state}}});
    api.patch("plain", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let other = super::plain::resume(connection, "plain", Some("y@2"), false).await.unwrap_err().to_string();
    assert!(other.contains("paused at plain-1-x@2, not at y@2"), "{other}");
    assert!(super::plain::resume(connection, "plain", None, true).await.is_err());
    let text = super::plain::resume(connection, "plain", None, false).await.unwrap();
    assert!(text.starts_with("deployment/plain: plain-1-x@2 is passed\n"), "{text}");
    assert_eq!(api.get("plain").await.unwrap().spec.unwrap().paused, Some(false));
    let again = super::plain::resume(connection, "plain", None, false).await.unwrap_err().to_string();
    assert_eq!(again, "deployment/plain is not paused at a pause point");
}
