//! Reads a watch from one version up to the marker.

use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use super::normal;
use super::run::MARKER;
use super::side::{Kind, Side};

/// How long a server may take for the next event.
const PATIENCE: Duration = Duration::from_secs(20);

/// The events from that version up to the marker.
pub async fn events(side: &mut Side, kind: Kind, version: &str, selector: &str) -> Value {
    let path = format!("{}?watch=true&resourceVersion={version}{selector}", side.collection(kind));
    let request = http::Request::get(&path).header("Accept", "application/json").body(Body::empty()).unwrap();
    let mut response = side.client.send(request).await.unwrap();
    let mut buffer = Vec::new();
    let mut raw: Vec<Value> = Vec::new();
    'reading: loop {
        let frame = tokio::time::timeout(PATIENCE, response.body_mut().frame()).await;
        let Ok(Some(Ok(frame))) = frame else {
            panic!("{}: no marker in the watch {path}: {raw:?}", side.label)
        };
        buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line).unwrap();
            let ends = event.pointer("/object/metadata/name") == Some(&json!(MARKER));
            raw.push(event);
            if ends {
                break 'reading;
            }
        }
    }
    for event in &raw {
        side.learn(&event["object"]);
    }
    assert_ascending(side, &raw);
    let mut shown: Vec<Value> = raw
        .iter()
        .map(|event| json!({"type": event["type"], "object": normal::object(side, kind, &event["object"])}))
        .collect();
    for event in &mut shown {
        normal::names(side, kind, event);
    }
    // A collection is deleted by name, and made-up names sort by chance.
    shown.sort_by_key(|event| event.pointer("/object/metadata/name").map(ToString::to_string));
    json!(shown)
}

/// The events of one watch come in the order of their versions.
fn assert_ascending(side: &Side, events: &[Value]) {
    let versions: Vec<u64> = events
        .iter()
        .filter_map(|event| event.pointer("/object/metadata/resourceVersion")?.as_str()?.parse().ok())
        .collect();
    assert!(versions.is_sorted(), "{}: {versions:?}", side.label);
}
