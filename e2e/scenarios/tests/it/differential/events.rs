//! Reads a watch from one version up to the marker.

use std::time::Duration;

use futures::future::join_all;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use super::normal;
use super::run::MARKER;
use super::side::{Kind, Side};

/// The timeout of the next event of a server.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A watch of one kind from the n-th moment of the sequence on.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    pub kind: Kind,
    pub moment: usize,
    pub selector: &'static str,
}

/// The events of these watches up to the marker. All watches run at once, since a real server delays the
/// first event of each.
pub async fn events(side: &mut Side, watches: &[Watch]) -> Vec<Value> {
    let reading = watches.iter().map(|watch| {
        let (collection, version) = (side.collection(watch.kind), &side.moments[watch.moment]);
        let path = format!("{collection}?watch=true&resourceVersion={version}{}", watch.selector);
        read(side, path)
    });
    let raw = join_all(reading).await;
    watches.iter().zip(raw).map(|(watch, raw)| shown(side, watch.kind, &raw)).collect()
}

async fn read(side: &Side, path: String) -> Vec<Value> {
    let request = http::Request::get(&path).header("Accept", "application/json").body(Body::empty()).unwrap();
    let mut response = side.client.send(request).await.unwrap();
    let mut buffer = Vec::new();
    let mut raw: Vec<Value> = Vec::new();
    loop {
        let frame = tokio::time::timeout(TIMEOUT, response.body_mut().frame()).await;
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
                return raw;
            }
        }
    }
}

/// The events of a watch with a timeout, without bookmarks.
pub async fn events_for_a_second(side: &mut Side, kind: Kind, path: &str) -> Value {
    let request = http::Request::get(path).header("Accept", "application/json").body(Body::empty()).unwrap();
    let response = tokio::time::timeout(TIMEOUT, side.client.send(request)).await.unwrap().unwrap();
    let bytes =
        tokio::time::timeout(TIMEOUT, response.into_body().collect()).await.unwrap().unwrap().to_bytes();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let raw: Vec<Value> = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
    shown(side, kind, &raw)
}

fn shown(side: &mut Side, kind: Kind, raw: &[Value]) -> Value {
    for event in raw {
        side.learn(&event["object"]);
    }
    assert_ascending(side, raw);
    let mut shown: Vec<Value> = raw
        .iter()
        .map(|event| json!({"type": event["type"], "object": normal::object(side, kind, &event["object"])}))
        .collect();
    for event in &mut shown {
        normal::names(side, event);
    }
    // A collection is deleted in the order of names, and generated names are random.
    shown.sort_by_key(|event| event.pointer("/object/metadata/name").map(ToString::to_string));
    json!(shown)
}

/// The events of one watch are in the order of their versions.
fn assert_ascending(side: &Side, events: &[Value]) {
    let versions: Vec<u64> = events
        .iter()
        .filter_map(|event| event.pointer("/object/metadata/resourceVersion")?.as_str()?.parse().ok())
        .collect();
    assert!(versions.is_sorted(), "{}: {versions:?}", side.label);
}
