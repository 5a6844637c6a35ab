use super::history;
use crate::style::Style;
use crate::testing::fixture::Fixture;

#[tokio::test(start_paused = true)]
async fn the_history_lists_revisions_and_shows_the_template_of_one() {
    let fixture = Fixture::start().await;
    fixture
        .patch(serde_json::json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}}))
        .await;
    fixture.image("web:2").await;
    fixture.until(|web| web.status.as_ref().unwrap().rollout.as_ref().unwrap().revision == 2).await;
    fixture.until_state("Complete").await;
    let table = history(&fixture.connection, "web", None, Style::default()).await.unwrap();
    let one = history(&fixture.connection, "web", Some(1), Style::default()).await.unwrap();
    insta::assert_snapshot!(format!("{table}\n{one}"));
    let error = history(&fixture.connection, "web", Some(7), Style::default()).await.unwrap_err().to_string();
    assert!(error.contains("no revision 7\nhint: it has 1, 2"), "{error}");
}
