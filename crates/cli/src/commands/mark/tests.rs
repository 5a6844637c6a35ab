use std::time::Duration;

use super::{Marks, Side, mark, unmark, written};
use crate::client::Timeout;
use crate::testing::fixture::{Fixture, without_names};

#[tokio::test(start_paused = true)]
async fn a_mark_changes_the_order_and_the_pause_point_and_is_removed_again() {
    let fixture = Fixture::start().await;
    let order = fixture.order().await;
    let last = &order[3];
    let marks = Marks {
        priority: Some(7),
        pause: Some(Side::After),
        length: Some(Timeout(Some(Duration::from_secs(600)))),
    };
    let mut output = vec![mark(&fixture.connection, last, marks).await.unwrap()];
    assert_eq!(&fixture.order().await[0], last);
    let row = fixture.overview().await.in_order()[0].clone();
    assert_eq!((row.priority, row.point.is_some()), (7, true));
    // Values without a flag stay; a pause point without a duration removes an older duration.
    let only_pause = Marks { priority: None, pause: Some(Side::Before), length: None };
    output.push(mark(&fixture.connection, last, only_pause).await.unwrap());
    let row = fixture.overview().await.in_order()[0].clone();
    assert_eq!(row.priority, 7);
    let only_priority = Marks { priority: Some(-1), ..Marks::default() };
    output.push(mark(&fixture.connection, last, only_priority).await.unwrap());
    assert_eq!(&fixture.order().await[3], last);
    output.push(unmark(&fixture.connection, last).await.unwrap());
    assert_eq!(fixture.order().await, order);
    insta::assert_snapshot!(without_names(&output.join("\n"), &order));
}

#[tokio::test(start_paused = true)]
async fn unmarking_the_pod_at_which_a_rollout_is_paused_continues_it() {
    let fixture = Fixture::start().await;
    let first = fixture.order().await.remove(0);
    mark(&fixture.connection, &first, Marks { pause: Some(Side::Before), ..Marks::default() }).await.unwrap();
    fixture.image("web:2").await;
    fixture.until_state("Paused at").await;
    unmark(&fixture.connection, &first).await.unwrap();
    fixture.until_state("Complete").await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_pod_is_an_error() {
    let fixture = Fixture::start().await;
    let error = unmark(&fixture.connection, "web-0").await.unwrap_err().to_string();
    assert!(error.contains("cannot unmark pod web-0 in default") && error.contains("hint:"), "{error}");
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
