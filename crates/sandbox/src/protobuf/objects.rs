//! Decodes protobuf objects into JSON.
//!
//! Unknown fields are not dropped: an unknown field with content is an error.

use base64::Engine;
use serde_json::{Map, Value, json};

use super::{
    kinds::{Fields, Shape, fields_of},
    wire::{Raw, fields},
};

/// The prefix of every object.
const MAGIC: &[u8] = b"k8s\0";

const ENVELOPE: &Fields = &[
    (1, "typeMeta", Shape::Message(&[(1, "apiVersion", Shape::Text), (2, "kind", Shape::Text)])),
    (2, "raw", Shape::Bytes),
    (3, "contentEncoding", Shape::Text),
    (4, "contentType", Shape::Text),
];

/// The object as JSON.
pub(crate) fn decode(body: &[u8]) -> Result<Value, String> {
    let body = body.strip_prefix(MAGIC).ok_or("protobuf: the body does not begin as an object does")?;
    let kind = message(body, ENVELOPE, "the envelope")?;
    let word = |key: &str| kind["typeMeta"][key].as_str().unwrap_or_default();
    let (api_version, kind) = (word("apiVersion"), word("kind"));
    let known = fields_of(api_version, kind).ok_or_else(|| {
        format!("protobuf: {api_version} {kind} is understood as JSON only: use kubectl apply -f")
    })?;
    let mut raw: &[u8] = &[];
    for (number, field) in fields(body)? {
        if let (2, Raw::Bytes(bytes)) = (number, field) {
            raw = bytes;
        }
    }
    let mut object = message(raw, known, kind)?;
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    Ok(object)
}

fn message(bytes: &[u8], known: &Fields, what: &str) -> Result<Value, String> {
    let mut object = Map::new();
    for (number, raw) in fields(bytes)? {
        let empty = matches!(raw, Raw::Number(0) | Raw::Bytes(b""));
        let Some((_, name, shape)) = known.iter().find(|(n, _, _)| *n == number) else {
            // Clients also encode empty fields; they have no meaning.
            if empty {
                continue;
            }
            return Err(format!(
                "protobuf: field {number} of {what} is understood as JSON only: use kubectl apply -f"
            ));
        };
        match shape {
            Shape::List(item) => {
                let value = value(&raw, item, name)?;
                let list = object.entry(*name).or_insert_with(|| json!([]));
                if let (Some(list), Some(value)) = (list.as_array_mut(), value) {
                    list.push(value);
                }
            }
            Shape::Map(item) => {
                let (key, value) = entry(&raw, item, name)?;
                object.entry(*name).or_insert_with(|| json!({}))[key] = value;
            }
            // Clients also encode empty fields; they have no meaning.
            Shape::Text | Shape::Int if empty => {}
            shape => {
                if let Some(value) = value(&raw, shape, name)? {
                    object.insert((*name).to_owned(), value);
                }
            }
        }
    }
    Ok(Value::Object(object))
}

fn value(raw: &Raw<'_>, shape: &Shape, name: &str) -> Result<Option<Value>, String> {
    Ok(Some(match (shape, raw) {
        (Shape::Text, Raw::Bytes(bytes)) => {
            json!(std::str::from_utf8(bytes).map_err(|err| format!("protobuf: {name}: {err}"))?)
        }
        (Shape::Bytes, Raw::Bytes(bytes)) => json!(base64::engine::general_purpose::STANDARD.encode(bytes)),
        (Shape::Bool, Raw::Number(number)) => json!(*number != 0),
        (Shape::Int | Shape::Optional, Raw::Number(number)) => json!(number.cast_signed()),
        (Shape::Time, Raw::Bytes(bytes)) => return time(bytes),
        (Shape::Quantity, Raw::Bytes(bytes)) => {
            message(bytes, &[(1, "amount", Shape::Text)], name)?["amount"].take()
        }
        (Shape::IntOrText, Raw::Bytes(bytes)) => int_or_text(bytes)?,
        (Shape::Message(known), Raw::Bytes(bytes)) => message(bytes, known, name)?,
        _ => return Err(format!("protobuf: {name} has the wrong wire type")),
    }))
}

fn entry(raw: &Raw<'_>, item: &Shape, name: &str) -> Result<(String, Value), String> {
    let Raw::Bytes(bytes) = raw else { return Err(format!("protobuf: {name} has the wrong wire type")) };
    let (mut key, mut found) = (String::new(), Value::String(String::new()));
    for (number, raw) in fields(bytes)? {
        match (number, &raw) {
            (1, Raw::Bytes(bytes)) => key = String::from_utf8_lossy(bytes).into_owned(),
            (2, _) => found = value(&raw, item, name)?.unwrap_or_default(),
            _ => {}
        }
    }
    Ok((key, found))
}

/// Seconds and nanoseconds since 1970. A zero time is an empty message.
fn time(bytes: &[u8]) -> Result<Option<Value>, String> {
    for (number, raw) in fields(bytes)? {
        if let (1, Raw::Number(seconds)) = (number, raw) {
            return Ok(jiff::Timestamp::from_second(seconds.cast_signed())
                .ok()
                .map(|t| json!(t.to_string())));
        }
    }
    Ok(None)
}

fn int_or_text(bytes: &[u8]) -> Result<Value, String> {
    let (mut is_text, mut number, mut text) = (false, json!(0), json!(""));
    for (field, raw) in fields(bytes)? {
        match (field, raw) {
            (1, Raw::Number(kind)) => is_text = kind != 0,
            (2, Raw::Number(value)) => number = json!(value.cast_signed()),
            (3, Raw::Bytes(bytes)) => text = json!(String::from_utf8_lossy(bytes)),
            _ => {}
        }
    }
    Ok(if is_text { text } else { number })
}

#[cfg(test)]
mod tests {
    use super::{super::wire::Writer, *};

    fn enveloped(api_version: &str, kind: &str, raw: &Writer) -> Vec<u8> {
        let mut meta = Writer::default();
        meta.bytes(1, api_version.as_bytes());
        meta.bytes(2, kind.as_bytes());
        let mut envelope = Writer::default();
        envelope.message(1, &meta);
        envelope.message(2, raw);
        envelope.bytes(3, b"");
        envelope.bytes(4, b"");
        [MAGIC, &envelope.finish()].concat()
    }

    #[test]
    fn a_protobuf_object_decodes_to_the_same_json() {
        let mut label = Writer::default();
        label.bytes(1, b"a");
        label.bytes(2, b"b");
        let mut meta = Writer::default();
        meta.bytes(1, b"s");
        meta.bytes(2, b"");
        meta.message(8, &Writer::default());
        meta.message(11, &label);
        let mut pair = Writer::default();
        pair.bytes(1, b"k");
        pair.bytes(2, b"hi");
        let mut secret = Writer::default();
        secret.message(1, &meta);
        secret.message(2, &pair);
        secret.bytes(3, b"Opaque");
        assert_eq!(
            decode(&enveloped("v1", "Secret", &secret)).unwrap(),
            json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": {"k": "aGk="},
                "metadata": {"name": "s", "labels": {"a": "b"}}})
        );
    }

    #[test]
    fn a_quota_keeps_its_quantities() {
        let mut amount = Writer::default();
        amount.bytes(1, b"3");
        let mut pair = Writer::default();
        pair.bytes(1, b"pods");
        pair.message(2, &amount);
        let mut spec = Writer::default();
        spec.message(1, &pair);
        let mut quota = Writer::default();
        quota.message(2, &spec);
        let read = decode(&enveloped("v1", "ResourceQuota", &quota)).unwrap();
        assert_eq!(read["spec"], json!({"hard": {"pods": "3"}}));
    }

    #[test]
    fn a_grace_of_zero_is_kept() {
        let mut options = Writer::default();
        options.number(1, 0);
        let read = decode(&enveloped("v1", "DeleteOptions", &options)).unwrap();
        assert_eq!(read["gracePeriodSeconds"], 0);
    }

    #[test]
    fn an_unknown_field_is_rejected_and_not_dropped() {
        let mut pod = Writer::default();
        pod.bytes(9, b"x");
        assert!(decode(&enveloped("v1", "Pod", &pod)).unwrap_err().contains("field 9 of Pod"));
        assert!(decode(&enveloped("v1", "Node", &Writer::default())).unwrap_err().contains("v1 Node"));
        assert!(decode(b"{}").is_err());
    }
}
