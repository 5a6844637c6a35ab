use std::time::Duration;

use super::set;
use crate::commands::mark::{Marks, Side, mark};
use crate::commands::resume::{Which, resume};
use crate::testing::bench::{Bench, without_names};

#[tokio::test(start_paused = true)]
async fn a_pause_stops_the_whole_and_a_resume_does_not_lift_it() {
    let bench = Bench::start().await;
    let order = bench.order().await;
    let connection = &bench.connection;
    let mut told = vec![
        set(connection, "web", true).await.unwrap(),
        set(connection, "web", true).await.unwrap(),
        resume(connection, "web", Which::Present, None).await.unwrap_err().to_string(),
        set(connection, "web", false).await.unwrap(),
        set(connection, "web", false).await.unwrap(),
    ];
    mark(connection, &order[0], Marks { pause: Some(Side::Before), ..Marks::default() }).await.unwrap();
    bench.image("web:2").await;
    bench.until_state("Held").await;
    set(connection, "web", true).await.unwrap();
    told.push(resume(connection, "web", Which::Present, Some(Duration::MAX)).await.unwrap());
    told.push(set(connection, "web", false).await.unwrap());
    bench.until_state("Complete").await;
    let updated = bench.order().await;
    mark(connection, &updated[0], Marks { pause: Some(Side::Before), ..Marks::default() }).await.unwrap();
    bench.image("web:3").await;
    bench.until_state("Held").await;
    set(connection, "web", true).await.unwrap();
    told.push(set(connection, "web", false).await.unwrap());
    let told = without_names(&told.join("\n\n"), &order);
    insta::assert_snapshot!(without_names(&told, &updated));
}
