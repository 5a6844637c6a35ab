use std::time::Duration;

use super::set;
use crate::commands::resume::{ResumeTarget, resume};
use crate::testing::BEFORE;
use crate::testing::fixture::{Fixture, without_names};

#[tokio::test(start_paused = true)]
async fn a_resume_does_not_change_spec_paused() {
    let (fixture, order) = Fixture::with_order().await;
    let connection = &fixture.connection;
    let mut output = vec![
        set(connection, "web", true).await.unwrap(),
        set(connection, "web", true).await.unwrap(),
        resume(connection, "web", ResumeTarget::Current, None).await.unwrap_err().to_string(),
        set(connection, "web", false).await.unwrap(),
        set(connection, "web", false).await.unwrap(),
    ];
    fixture.mark(&order[0], BEFORE).await;
    fixture.image("web:2").await;
    fixture.until_state("Paused at").await;
    set(connection, "web", true).await.unwrap();
    output.push(resume(connection, "web", ResumeTarget::Current, Some(Duration::MAX)).await.unwrap());
    output.push(set(connection, "web", false).await.unwrap());
    fixture.until_state("Complete").await;
    let updated = fixture.order().await;
    fixture.mark(&updated[0], BEFORE).await;
    fixture.image("web:3").await;
    fixture.until_state("Paused at").await;
    set(connection, "web", true).await.unwrap();
    output.push(set(connection, "web", false).await.unwrap());
    let output = without_names(&output.join("\n\n"), &order);
    insta::assert_snapshot!(without_names(&output, &updated));
}
