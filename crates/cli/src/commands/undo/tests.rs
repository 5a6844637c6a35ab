use std::time::Duration;

use super::{How, undo};
use crate::client::Timeout;
use crate::commands::mark::{Marks, Side, mark};
use crate::exit::{self, Exit};
use crate::testing::bench::{Bench, without_names};

const HOW: How =
    How { to_revision: 0, through: false, dry_run: false, timeout: Timeout(Some(Duration::from_secs(30))) };
const BEFORE: Marks = Marks { priority: None, pause: Some(Side::Before), length: None };

/// Revision 2 is out, and a pause point lies on its third pod.
async fn at_revision_two() -> (Bench, Vec<String>) {
    let bench = Bench::start().await;
    bench
        .patch(serde_json::json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}}))
        .await;
    bench.image("web:2").await;
    bench
        .until(|web| image(web) == "web:2" && crate::state::State::of(web) == crate::state::State::Complete)
        .await;
    let order = bench.order().await;
    mark(&bench.connection, &order[2], BEFORE).await.unwrap();
    (bench, order)
}

fn image(web: &ordereddeployment_api::OrderedDeployment) -> String {
    web.spec.template.value()["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn an_undo_lists_the_points_ahead_and_halts_at_them() {
    let (bench, order) = at_revision_two().await;
    let dry = undo(&bench.connection, "web", How { dry_run: true, ..HOW }).await.unwrap();
    assert_eq!(image(&bench.api().get("web").await.unwrap()), "web:2");
    let told = undo(&bench.connection, "web", HOW).await.unwrap();
    insta::assert_snapshot!(without_names(&format!("{dry}\n\n{told}"), &order));
    let held = bench.until_state("Held").await;
    assert_eq!(held.status.unwrap().hold.unwrap().pod, order[2]);
    assert_eq!(image(&bench.api().get("web").await.unwrap()), "web:1");
    let cause = held.metadata.annotations.unwrap();
    assert_eq!(cause["kubernetes.io/change-cause"], "first");
}

#[tokio::test(start_paused = true)]
async fn through_passes_all_points_of_the_undo_and_it_completes() {
    let (bench, order) = at_revision_two().await;
    let told = undo(&bench.connection, "web", How { through: true, ..HOW }).await.unwrap();
    assert!(told.contains(&format!("before {}", order[2])) && told.contains("passed *@3"), "{told}");
    let done = bench.until_state("Complete").await;
    assert_eq!(done.status.unwrap().rollout.unwrap().revision, 3);
    // Back again, by its number.
    let told = undo(&bench.connection, "web", How { to_revision: 2, ..HOW }).await.unwrap();
    assert!(told.contains("no pause point lies ahead"), "{told}");
    bench.until(|web| image(web) == "web:2").await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_undone_says_why() {
    let bench = Bench::start().await;
    let none = undo(&bench.connection, "web", HOW).await.unwrap_err().to_string();
    assert!(none.contains("no other revision"), "{none}");
    let wrong = undo(&bench.connection, "web", How { to_revision: 9, ..HOW }).await.unwrap_err().to_string();
    assert!(wrong.contains("no revision 9") && wrong.contains("it has 1"), "{wrong}");
    let same = undo(&bench.connection, "web", How { to_revision: 1, ..HOW }).await.unwrap();
    assert!(same.contains("has the template of revision 1 already"), "{same}");
    bench.image("web:2").await;
    bench.patch(serde_json::json!({"spec": {"paused": true}})).await;
    let paused = undo(&bench.connection, "web", How { to_revision: 1, ..HOW }).await.unwrap_err().to_string();
    assert!(paused.contains("kubectl ordered unpause web"), "{paused}");
}

#[tokio::test(start_paused = true)]
async fn through_without_a_controller_times_out_with_an_exit_code_of_its_own() {
    let (mut bench, _) = at_revision_two().await;
    bench.cluster.stop_controller().await;
    let error = undo(&bench.connection, "web", How { through: true, ..HOW }).await.unwrap_err();
    assert_eq!(exit::of_error(&error), Exit::TimedOut);
    assert!(error.to_string().contains("resume web --all"), "{error}");
}
