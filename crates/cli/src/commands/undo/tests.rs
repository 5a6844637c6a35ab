use std::time::Duration;

use super::{UndoOptions, undo};
use crate::client::{Connection, DryRun, Timeout};
use crate::exit::{self, Exit};
use crate::testing::BEFORE;
use crate::testing::fixture::{Fixture, without_names};

const OPTIONS: UndoOptions =
    UndoOptions { to_revision: 0, through: false, timeout: Timeout(Some(Duration::from_secs(30))) };

/// Revision 2 is complete, and its third pod has a pause point.
async fn at_revision_two() -> (Fixture, Vec<String>) {
    let fixture = Fixture::start().await;
    fixture.complete_second().await;
    let order = fixture.order().await;
    fixture.mark(&order[2], BEFORE).await;
    (fixture, order)
}

fn image(web: &ordereddeployment_api::OrderedDeployment) -> String {
    web.spec.template.value()["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn an_undo_lists_its_pause_points_and_pauses_at_them() {
    let (fixture, order) = at_revision_two().await;
    let connection = Connection { dry_run: DryRun::Client, ..fixture.connection.clone() };
    let dry = undo(&connection, "web", OPTIONS).await.unwrap();
    assert_eq!(image(&fixture.api().get("web").await.unwrap()), "web:2");
    let output = undo(&fixture.connection, "web", OPTIONS).await.unwrap();
    insta::assert_snapshot!(without_names(&format!("{dry}\n\n{output}"), &order));
    let paused = fixture.until_state("Paused at").await;
    assert_eq!(paused.status.unwrap().hold.unwrap().pod, order[2]);
    assert_eq!(image(&fixture.api().get("web").await.unwrap()), "web:1");
    let cause = paused.metadata.annotations.unwrap();
    assert_eq!(cause["kubernetes.io/change-cause"], "first");
}

#[tokio::test(start_paused = true)]
async fn through_passes_all_pause_points_and_the_rollback_completes() {
    let (fixture, order) = at_revision_two().await;
    let output = undo(&fixture.connection, "web", UndoOptions { through: true, ..OPTIONS }).await.unwrap();
    assert!(
        output.contains(&format!("{} (before)", order[2]))
            && output.contains("passed all pause points of revision 3"),
        "{output}"
    );
    let done = fixture.until_state("Complete").await;
    assert_eq!(done.status.unwrap().rollout.unwrap().revision, 3);
    // Roll back again, by number.
    let output = undo(&fixture.connection, "web", UndoOptions { to_revision: 2, ..OPTIONS }).await.unwrap();
    assert!(output.contains("no pause points"), "{output}");
    fixture.until(|web| image(web) == "web:2").await;
}

#[tokio::test(start_paused = true)]
async fn an_undo_that_is_not_possible_says_why() {
    let fixture = Fixture::start().await;
    let same = undo(&fixture.connection, "web", UndoOptions { to_revision: 1, ..OPTIONS }).await.unwrap();
    assert!(same.contains("has the template of revision 1 already"), "{same}");
    fixture.image("web:2").await;
    fixture.patch(serde_json::json!({"spec": {"paused": true}})).await;
    let paused = undo(&fixture.connection, "web", UndoOptions { to_revision: 1, ..OPTIONS })
        .await
        .unwrap_err()
        .to_string();
    assert!(paused.contains("kubectl ordered unpause web"), "{paused}");
}

#[tokio::test(start_paused = true)]
async fn through_without_a_controller_has_the_exit_code_of_a_timeout() {
    let (mut fixture, _) = at_revision_two().await;
    fixture.cluster.stop().await.unwrap();
    let error = undo(&fixture.connection, "web", UndoOptions { through: true, ..OPTIONS }).await.unwrap_err();
    assert_eq!(exit::of_error(&error), Exit::TimedOut);
    assert!(error.to_string().contains("resume web --all"), "{error}");
}
