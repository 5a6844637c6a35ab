//! Invariants of the store, which hold after any requests.

use std::collections::BTreeMap;

use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::Value;

use crate::requests::COLLECTIONS;

async fn get(client: &Client, path: &str) -> Result<(u16, Vec<Value>), String> {
    let request = http::Request::get(path).body(Body::empty()).map_err(|error| format!("{path}: {error}"))?;
    let response = client.send(request).await.map_err(|error| format!("{path}: {error}"))?;
    let code = response.status().as_u16();
    if code == 404 {
        return Ok((code, Vec::new()));
    }
    let bytes = response.into_body().collect().await.map_err(|error| format!("{path}: {error}"))?.to_bytes();
    let lines = serde_json::Deserializer::from_slice(&bytes).into_iter().collect::<Result<_, _>>();
    Ok((code, lines.map_err(|error| format!("{path}: {error} in {}", String::from_utf8_lossy(&bytes)))?))
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Objects by their UID.
fn by_uid(objects: &[Value]) -> BTreeMap<String, Value> {
    let plain = |object: &Value| {
        let mut object = object.clone();
        // Items of a list do not contain their kind.
        let fields =
            object.as_object_mut().map(|fields| (fields.remove("kind"), fields.remove("apiVersion")));
        drop(fields);
        object
    };
    objects.iter().map(|object| (text(object, "/metadata/uid").to_owned(), plain(object))).collect()
}

/// Every object can be read with get, list and watch, and is the same each time.
pub async fn check(client: &Client) -> Result<(), String> {
    for (base, plural, namespaced) in COLLECTIONS {
        let collection = format!("{base}/{plural}");
        let (code, lists) = get(client, &collection).await?;
        if code == 404 && plural == "gadgets" {
            continue;
        }
        let [list] = lists.as_slice() else { return Err(format!("{collection} answers {code}, {lists:?}")) };
        let version: u64 = text(list, "/metadata/resourceVersion").parse().map_err(|_| format!("{list}"))?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let listed = by_uid(&items);
        if code != 200 || listed.len() != items.len() {
            return Err(format!("{collection} answers {code}, or two objects have one UID: {list}"));
        }
        for item in listed.values() {
            let (name, namespace) = (text(item, "/metadata/name"), text(item, "/metadata/namespace"));
            let own: Option<u64> = text(item, "/metadata/resourceVersion").parse().ok();
            let is_whole = !name.is_empty()
                && namespaced != namespace.is_empty()
                && own.is_some_and(|own| 0 < own && own <= version)
                && text(item, "/metadata/creationTimestamp").parse::<jiff::Timestamp>().is_ok();
            if !is_whole {
                return Err(format!("{collection} lists {item}"));
            }
            let encoded: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
            let path = if namespaced {
                format!("{base}/namespaces/{namespace}/{plural}/{encoded}")
            } else {
                format!("{collection}/{encoded}")
            };
            let (code, read) = get(client, &path).await?;
            if code != 200 || by_uid(&read).values().next() != Some(item) {
                return Err(format!("{path} answers {code}, {read:?}; listed was {item}"));
            }
        }
        let (code, events) =
            get(client, &format!("{collection}?watch=1&resourceVersion=0&timeoutSeconds=1")).await?;
        let added: Vec<Value> = events
            .iter()
            .filter(|event| event["type"] == "ADDED")
            .map(|event| event["object"].clone())
            .collect();
        if code != 200 || added.len() != events.len() || by_uid(&added) != listed {
            return Err(format!("{collection} answers a watch by {code}, {events:?}; listed was {list}"));
        }
        if let Some(odd) = added.iter().find(|object| !object["kind"].is_string()) {
            return Err(format!("{collection} shows an object of no kind: {odd}"));
        }
    }
    Ok(())
}
