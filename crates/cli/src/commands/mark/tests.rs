use std::time::Duration;

use super::{Marks, Side, mark, unmark, written};
use crate::client::Timeout;
use crate::testing::bench::{Bench, without_names};

#[tokio::test(start_paused = true)]
async fn a_mark_moves_the_pod_halts_there_and_is_taken_away_again() {
    let bench = Bench::start().await;
    let order = bench.order().await;
    let last = &order[3];
    let marks = Marks {
        priority: Some(7),
        pause: Some(Side::After),
        length: Some(Timeout(Some(Duration::from_secs(600)))),
    };
    let mut told = vec![mark(&bench.connection, last, marks).await.unwrap()];
    assert_eq!(&bench.order().await[0], last);
    let row = bench.overview().await.in_order()[0].clone();
    assert_eq!((row.priority, row.point.is_some()), (7, true));
    // What is not asked for stays; a pause without a duration takes an older duration away.
    let only_pause = Marks { priority: None, pause: Some(Side::Before), length: None };
    told.push(mark(&bench.connection, last, only_pause).await.unwrap());
    let row = bench.overview().await.in_order()[0].clone();
    assert_eq!(row.priority, 7);
    let only_priority = Marks { priority: Some(-1), ..Marks::default() };
    told.push(mark(&bench.connection, last, only_priority).await.unwrap());
    assert_eq!(&bench.order().await[3], last);
    told.push(unmark(&bench.connection, last).await.unwrap());
    assert_eq!(bench.order().await, order);
    insta::assert_snapshot!(without_names(&told.join("\n"), &order));
}

#[tokio::test(start_paused = true)]
async fn unmarking_the_pod_that_a_rollout_is_held_at_lets_it_go_on() {
    let bench = Bench::start().await;
    let first = bench.order().await.remove(0);
    mark(&bench.connection, &first, Marks { pause: Some(Side::Before), ..Marks::default() }).await.unwrap();
    bench.image("web:2").await;
    bench.until_state("Held").await;
    unmark(&bench.connection, &first).await.unwrap();
    bench.until_state("Complete").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_there_is_an_error_that_says_so() {
    let bench = Bench::start().await;
    let error = unmark(&bench.connection, "web-0").await.unwrap_err().to_string();
    assert!(error.contains("cannot unmark pod web-0 in default") && error.contains("hint:"), "{error}");
}

#[test]
fn durations_are_written_as_go_reads_them() {
    for (length, text) in [(600, "10m"), (7200, "2h"), (90, "90s"), (3601, "3601s")] {
        assert_eq!(written(Duration::from_secs(length)), text);
    }
    let half = Duration::from_millis(1500);
    assert_eq!(written(half), "1500ms");
    assert_eq!(ordereddeployment_api::parse_pause_duration(&written(half)), Some(half));
}
