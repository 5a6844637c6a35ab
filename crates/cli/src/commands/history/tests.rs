use std::time::Duration;

use serde_json::json;

use super::history;
use crate::client::output::Output;
use crate::commands::abort::{abort, retry};
use crate::commands::resume::{ResumeTarget, resume};
use crate::terminal::style::Style;
use crate::testing::fixture::Fixture;

#[tokio::test(start_paused = true)]
async fn the_history_lists_revisions_and_shows_the_template_of_one() {
    let fixture = Fixture::start().await;
    fixture.complete_second().await;
    let shown = async |revision| history(&fixture.connection, "web", revision, None, Style::default()).await;
    let (table, one) = (shown(None).await.unwrap(), shown(Some(1)).await.unwrap());
    insta::assert_snapshot!(format!("{table}\n{one}"));
    let error = shown(Some(7)).await.unwrap_err().to_string();
    assert!(error.contains("no revision 7\nhint: it has 1, 2"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_history_lists_holds_resumes_aborts_and_retries() {
    let fixture = Fixture::start().await;
    let connection = &fixture.connection;
    let limit = Some(Duration::from_secs(30));
    assert!(!history(connection, "web", None, None, Style::default()).await.unwrap().contains("Holds"));
    fixture.pause_at(json!([{"name": "canary", "afterUpdated": 1}])).await;
    abort(connection, "web", None, limit).await.unwrap();
    retry(connection, "web", None, limit).await.unwrap();
    fixture.until_state("Paused at").await;
    resume(connection, "web", ResumeTarget::Current, limit).await.unwrap();
    let text = history(connection, "web", None, None, Style::default()).await.unwrap();
    let (_, events) = text.split_once("\n\n").unwrap();
    let at = events.lines().nth(2).unwrap().split(' ').next().unwrap();
    assert!(at.starts_with("2030-01-01T00:") && at.ends_with('Z'), "{events}");
    // Without the times.
    let columns: Vec<&str> = events.lines().skip(1).map(|line| line.get(22..).unwrap_or(line)).collect();
    insta::assert_snapshot!(columns.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn programs_get_the_history_as_data() {
    let fixture = Fixture::start().await;
    let connection = &fixture.connection;
    let text = history(connection, "web", None, Some(Output::Json), Style::default()).await.unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&value["revisions"][0]["revision"], &value["revisions"][0]["current"]),
        (&1.into(), &true.into())
    );
    let names = history(connection, "web", None, Some(Output::Name), Style::default()).await.unwrap();
    let set = value["revisions"][0]["set"].as_str().unwrap();
    assert_eq!(names, format!("orderedreplicaset.ordereddeployment.io/{set}\n"));
    let template = history(connection, "web", Some(1), Some(Output::Yaml), Style::default()).await.unwrap();
    assert!(template.contains("image: web:1"), "{template}");
}
