//! Sends sequences of unusual requests. The sandbox answers each request like an API server and never panics, and its
//! store stays consistent. `PROPTEST_CASES` increases the number of sequences.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed assumption fails the test")]

mod consistency;
mod json;
mod requests;

use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use ordereddeployment_sandbox::{Clock, Config, Sandbox};
use proptest::prelude::*;
use serde_json::Value;

use requests::Sent;

/// Panics since the last check, in any thread: a panic in a task of the sandbox ends only that task.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn watch_for_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(info.to_string());
            before(info);
        }));
    });
}

fn panics() -> Vec<String> {
    std::mem::take(&mut *PANICS.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs with a paused clock, in a separate runtime.
fn simulated<T>(run: impl Future<Output = T>) -> T {
    watch_for_panics();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(run)
}

async fn sandbox() -> Sandbox {
    let clock = Clock::simulated("2030-01-01T00:00:00Z".parse().unwrap());
    Sandbox::start(Config { clock, history: 50, ..Config::default() }).await.unwrap()
}

/// The response: the status code, and the body as far as it arrived within a few seconds.
struct Answer {
    code: u16,
    json: bool,
    body: Vec<u8>,
}

/// `None` if HTTP cannot represent the request.
async fn send(client: &Client, sent: &Sent) -> Option<Result<Answer, String>> {
    let mut request = http::Request::builder().method(sent.method.as_str()).uri(sent.uri());
    for (name, value) in &sent.headers {
        request = request.header(name.as_str(), value.as_str());
    }
    let request = request.body(Body::from(sent.body.clone())).ok()?;
    let response = match client.send(request).await {
        Ok(response) => response,
        Err(error) => return Some(Err(error.to_string())),
    };
    let code = response.status().as_u16();
    let json = response
        .headers()
        .get("content-type")
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let mut body = Vec::new();
    let mut stream = response.into_body();
    while let Ok(Some(frame)) = tokio::time::timeout(Duration::from_secs(2), stream.frame()).await {
        match frame {
            Ok(frame) => body.extend(frame.into_data().unwrap_or_default()),
            Err(error) => return Some(Err(error.to_string())),
        }
    }
    Some(Ok(Answer { code, json, body }))
}

/// Errors for which the API server also returns a 500 without a reason.
const PLAIN: [&str; 7] = [
    "failed to create typed patch object",
    "resourceVersion should not be set on objects to be created",
    "strconv.ParseUint: parsing",
    "does not contain declared merge key",
    "target.name: Required value",
    "This pod has more than one PodDisruptionBudget",
    "Internal error occurred: ",
];

fn check(sent: &Sent, answer: Result<Answer, String>) -> Result<(), String> {
    let answer = answer.map_err(|error| format!("no whole answer to {sent:?}: {error}"))?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let refuse = |why: &str| Err(format!("{why}: {} {text:.2000} to {sent:?}", answer.code));
    if answer.code == 503 || !(200..600).contains(&answer.code) {
        return refuse("no answer of a server");
    }
    if !answer.json || sent.method == "HEAD" {
        return Ok(());
    }
    // An open watch is a sequence of documents.
    for line in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        let Ok(line) = line else { return refuse("no JSON") };
        if !line.is_object() {
            return refuse("no object");
        }
        if answer.code >= 400 {
            let is_status =
                line["kind"] == "Status" && line["status"] == "Failure" && line["code"] == answer.code;
            if !is_status || !line["message"].is_string() {
                return refuse("no Status");
            }
        }
    }
    if answer.code >= 500 && answer.code != 504 && !PLAIN.iter().any(|known| text.contains(known)) {
        return refuse("a failure of the server itself");
    }
    Ok(())
}

async fn play(row: &[Sent]) -> Result<(), String> {
    panics();
    let sandbox = sandbox().await;
    let client = sandbox.connect("fuzz").unwrap();
    for sent in requests::prelude().iter().chain(row) {
        if let Some(answer) = send(&client, sent).await {
            check(sent, answer)?;
        }
        if let Some(panic) = panics().first() {
            return Err(format!("{panic} at {sent:?}"));
        }
    }
    // The agents have processed all requests, and the pods have terminated.
    tokio::time::sleep(Duration::from_secs(100)).await;
    if let Some(panic) = panics().first() {
        return Err(format!("{panic} afterwards"));
    }
    consistency::check(&client).await
}

fn config() -> ProptestConfig {
    let cases = std::env::var_os("PROPTEST_CASES").is_none().then_some(60);
    let default =
        ProptestConfig { failure_persistence: None, max_shrink_iters: 300, ..ProptestConfig::default() };
    ProptestConfig { cases: cases.unwrap_or(default.cases), ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_sequence_of_unusual_requests_keeps_the_store_consistent(
        row in proptest::collection::vec(requests::request(), 1..40),
    ) {
        let outcome = simulated(play(&row));
        prop_assert!(outcome.is_ok(), "{}", outcome.unwrap_err());
    }
}
