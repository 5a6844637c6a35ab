use std::time::Duration;

use kube::Api;
use kube::api::{Patch, PatchParams};
use ordereddeployment_api::names::annotation;
use ordereddeployment_sandbox::Fault;
use ordereddeployment_wire::Family;

use super::{Marks, Side, unmark, unmark_all, written};
use crate::testing::BEFORE;
use crate::testing::fixture::{Fixture, without_names};
use crate::view::pod::ObservedPod;

#[tokio::test(start_paused = true)]
async fn a_mark_changes_the_order_and_the_pause_point_and_is_removed_again() {
    let (fixture, order) = Fixture::with_order().await;
    let last = &order[3];
    let marks = Marks { priority: Some(7), pause: Some(Side::After), length: Some(Duration::from_secs(600)) };
    let mut output = vec![fixture.mark(last, marks).await];
    assert_eq!(&fixture.order().await[0], last);
    let row = fixture.overview().await.in_order()[0].clone();
    assert_eq!((row.priority, row.point.is_some()), (7, true));
    // Values without a flag stay; a pause point without a duration removes an older duration.
    output.push(fixture.mark(last, BEFORE).await);
    let row = fixture.overview().await.in_order()[0].clone();
    assert_eq!(row.priority, 7);
    let only_priority = Marks { priority: Some(-1), ..Marks::default() };
    output.push(fixture.mark(last, only_priority).await);
    assert_eq!(&fixture.order().await[3], last);
    output.push(unmark(&fixture.connection, last).await.unwrap());
    assert_eq!(fixture.order().await, order);
    insta::assert_snapshot!(without_names(&output.join("\n"), &order));
}

#[tokio::test(start_paused = true)]
async fn a_pause_point_that_can_move_or_pauses_nothing_has_a_note() {
    let (fixture, order) = Fixture::with_order().await;
    let (first, last) = (&order[0], &order[3]);
    let pause = |side| Marks { pause: Some(side), ..Marks::default() };
    let has = |text: &str, part: &str| text.contains(part);
    let notes =
        |text: &str| (has(text, "its place can change"), has(text, "no rollout pauses after its last pod"));
    let both = fixture.mark(last, pause(Side::After)).await;
    let given = Marks { priority: Some(-5), ..pause(Side::After) };
    for (pod, marks, expected) in [
        (last, pause(Side::After), (true, true)),
        (last, pause(Side::Before), (true, false)),
        (first, pause(Side::After), (true, false)),
        // With a priority, given now or before, it does not move.
        (last, given, (false, true)),
        (last, pause(Side::Before), (false, false)),
        // A priority alone pauses nothing.
        (first, Marks { priority: Some(1), ..Marks::default() }, (false, false)),
    ] {
        let text = fixture.mark(pod, marks).await;
        assert_eq!(notes(&text), expected, "{marks:?}: {text}");
    }
    let given = fixture.mark(last, given).await;
    insta::assert_snapshot!(without_names(&[both, given].join("\n"), &order));
}

#[tokio::test(start_paused = true)]
async fn all_pods_of_an_object_are_unmarked_at_once() {
    let (fixture, order) = Fixture::with_order().await;
    let connection = &fixture.connection;
    assert_eq!(unmark_all(connection, Family::Ordered, "web").await.unwrap(), "web: no pod has marks");
    fixture.mark(&order[0], BEFORE).await;
    fixture.mark(&order[1], Marks { priority: Some(3), ..Marks::default() }).await;
    let alias = serde_json::json!({annotation::DELETE_PRIORITY_ALIAS: "2"});
    let pods: Api<ObservedPod> = Api::default_namespaced(connection.client.clone());
    let patch = Patch::Merge(serde_json::json!({"metadata": {"annotations": alias}}));
    pods.patch(&order[2], &PatchParams::default(), &patch).await.unwrap();
    let text = unmark_all(connection, Family::Ordered, "web").await.unwrap();
    assert!(text.starts_with("web: annotations removed from 3 pods: "), "{text}");
    let overview = fixture.overview().await;
    assert!(overview.pods().all(|row| row.priority == 0 && row.point.is_none()), "{overview:#?}");
    assert_eq!(unmark_all(connection, Family::Ordered, "web").await.unwrap(), "web: no pod has marks");
    let error = unmark_all(connection, Family::Ordered, "other").await.unwrap_err().to_string();
    assert!(error.contains("cannot read other in default"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_unmarked_does_not_prevent_the_others() {
    let (fixture, order) = Fixture::with_order().await;
    for pod in &order[..3] {
        fixture.mark(pod, Marks { priority: Some(3), ..Marks::default() }).await;
    }
    let refused = |times| Fault {
        verb: Some("patch"),
        plural: Some("pods".to_owned()),
        user_agent: None,
        code: 403,
        times,
    };
    fixture.cluster.sandbox.inject(refused(2));
    let error = format!("{:#}", unmark_all(&fixture.connection, Family::Ordered, "web").await.unwrap_err());
    assert!(error.starts_with("web: annotations removed from 1 of 3 pods, not from web-"), "{error}");
    assert!(error.contains(": cannot unmark pod web-") && error.contains("\nhint: "), "{error}");
    let marked = fixture.overview().await.pods().filter(|row| row.priority == 3).count();
    assert_eq!(marked, 2);
    // A pod that is deleted meanwhile is no failure.
    fixture.cluster.sandbox.inject(Fault { code: 404, ..refused(1) });
    let text = unmark_all(&fixture.connection, Family::Ordered, "web").await.unwrap();
    assert!(text.starts_with("web: annotations removed from 1 pod: "), "{text}");
}

#[test]
fn durations_are_in_the_format_of_go() {
    for (length, text) in [(600, "10m"), (7200, "2h"), (90, "90s"), (3601, "3601s")] {
        assert_eq!(written(Duration::from_secs(length)), text);
    }
    let half = Duration::from_millis(1500);
    assert_eq!(written(half), "1500ms");
    assert_eq!(ordereddeployment_api::parse_pause_duration(&written(half)), Some(half));
}
