//! Answers of a proxy between: nothing is decided from them, and the cause is logged once.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Method;
use ordereddeployment_controller::{Family, LOG_FILTER, health};
use serde_json::json;

use crate::cluster::Cluster;
use crate::fault_injector::{RequestFault, RequestInfo};

const HTML: &str = "<html><body>Sign in to the network</body></html>";
const LIST: &str =
    r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"kind":"#;
const STATUS: &str =
    r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"message":"between"}"#;

/// What a proxy between can answer: a name, a code, a content type and a text.
const ANSWERS: [(&str, u16, &str, &str); 8] = [
    ("cut", 200, "application/json", LIST),
    ("empty", 200, "application/json", ""),
    ("a page", 200, "text/html", HTML),
    ("a page as JSON", 200, "application/json", HTML),
    ("a redirect", 302, "text/html", HTML),
    ("a bad gateway", 502, "text/html", HTML),
    ("a Status with 200", 200, "application/json", STATUS),
    (SLOW, 200, "application/json", LIST),
];
const SLOW: &str = "a byte a second";

/// Ten minutes in which each request of this kind gets that answer: how many there are, and what is logged.
/// Then the controller has a third pod within so much time.
async fn ten_minutes(
    is_hit: fn(&RequestInfo) -> bool,
    (name, code, content, text): (&str, u16, &'static str, &'static str),
    until: Duration,
) -> (usize, Vec<String>) {
    let log = tempfile::NamedTempFile::new().unwrap();
    let logged = || -> Vec<String> {
        std::fs::read_to_string(log.path()).unwrap().lines().map(ToOwned::to_owned).collect()
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(LOG_FILTER)
        .with_writer(Arc::new(log.reopen().unwrap()))
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut cluster = Cluster::start().await;
    let before = cluster.deployed(json!({"replicas": 2})).await;
    cluster.kill();
    let is_slow = name == SLOW;
    let count = cluster.faults.counted(is_hit, move |_| {
        if is_slow { RequestFault::Trickle(text) } else { RequestFault::Answer(code, content, text) }
    });
    cluster.scale(3).await;
    cluster.health = health(&[Family::Ordered], false);
    let begun = logged().len();
    cluster.start_controller();
    cluster.pass(Duration::from_secs(600)).await;
    assert_eq!(cluster.view().await.active().len(), before.len());
    let lines = logged().split_off(begun);
    let asked = count.load(Ordering::SeqCst);
    cluster.faults.clear();
    cluster.pass(until).await;
    assert_eq!(cluster.view().await.active().len(), 3);
    (asked, lines)
}

#[tokio::test(start_paused = true)]
async fn answers_of_something_between_end_nothing_and_spin_nothing() {
    let reads = |info: &RequestInfo| info.method == Method::GET && info.path.contains("/pods?");
    let creates = |info: &RequestInfo| info.is(&Method::POST, "/pods");
    for answer in ANSWERS {
        let name = answer.0;
        let (asked, lines) = ten_minutes(reads, answer, Duration::from_secs(180)).await;
        assert!(asked < 80, "{name}: {asked}");
        // The first failure of the watch; nothing is decided before its first list.
        assert_eq!(lines.len(), 1, "{name}: {lines:#?}");

        let (asked, lines) = ten_minutes(creates, answer, Duration::from_secs(360)).await;
        assert!(asked < 80, "{name}: {asked}");
        // An event for each failed create.
        assert!(lines.len() <= asked + 2, "{name}: {lines:#?}");
        assert!(!lines.iter().any(|line| line.contains("was created")), "{name}: {lines:#?}");
    }
}
