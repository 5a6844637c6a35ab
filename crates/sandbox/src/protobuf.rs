//! Decodes the objects that kubectl sends in protobuf: `kubectl create namespace`, and what drains send.
//! A field that is not in the table is an error, unless it is empty.
//!
//! The server never returns objects in protobuf; every client that sends protobuf also accepts JSON.

use serde_json::{Map, Value, json};

use Shape::{Message, Number, Text, Texts};

/// Media type of objects.
pub(crate) const OBJECTS: &str = "application/vnd.kubernetes.protobuf";
/// The prefix of every object.
const MAGIC: &[u8] = b"k8s\0";

/// The encoding of a field.
enum Shape {
    Text,
    Number,
    /// A list of strings.
    Texts,
    Message(&'static Fields),
}

/// The fields of one message: number, name in JSON, shape.
type Fields = [(u64, &'static str, Shape)];

/// The fields of a kind.
fn fields_of(api_version: &str, kind: &str) -> Option<&'static Fields> {
    Some(match (api_version, kind) {
        ("v1", "Namespace") => NAMESPACE,
        ("policy/v1", "Eviction") => EVICTION,
        (_, "DeleteOptions") => DELETE_OPTIONS,
        _ => return None,
    })
}

const META: (u64, &str, Shape) = (1, "metadata", Message(&[(1, "name", Text), (3, "namespace", Text)]));
const NAMESPACE: &Fields = &[META, (2, "spec", Message(&[])), (3, "status", Message(&[]))];
const EVICTION: &Fields = &[META, (2, "deleteOptions", Message(DELETE_OPTIONS))];
const DELETE_OPTIONS: &Fields = &[
    (1, "gracePeriodSeconds", Number),
    (2, "preconditions", Message(&[(1, "uid", Text), (2, "resourceVersion", Text)])),
    (4, "propagationPolicy", Text),
    (5, "dryRun", Texts),
];

/// One undecoded field.
#[derive(Clone, Copy)]
enum Raw<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The object as JSON.
pub(crate) fn decode(body: &[u8]) -> Result<Value, String> {
    let body = body.strip_prefix(MAGIC).ok_or("protobuf: the body does not begin as an object does")?;
    let part = |number: u64| -> Result<&[u8], String> {
        let found = fields(body)?.into_iter().find_map(|field| match field {
            (of, Raw::Bytes(bytes)) if of == number => Some(bytes),
            _ => None,
        });
        Ok(found.unwrap_or_default())
    };
    let of = message(part(1)?, &[(1, "apiVersion", Text), (2, "kind", Text)], "the envelope")?;
    let word = |key: &str| of[key].as_str().unwrap_or_default();
    let (api_version, kind) = (word("apiVersion"), word("kind"));
    let known = fields_of(api_version, kind).ok_or_else(|| json_only(&format!("{api_version} {kind}")))?;
    let mut object = message(part(2)?, known, kind)?;
    object["apiVersion"] = json!(api_version);
    object["kind"] = json!(kind);
    Ok(object)
}

fn json_only(what: &str) -> String {
    format!("protobuf: {what} is understood as JSON only: use kubectl apply -f")
}

fn message(bytes: &[u8], known: &Fields, what: &str) -> Result<Value, String> {
    let mut object = Map::new();
    for (number, raw) in fields(bytes)? {
        // Clients also encode empty fields. Only a number that is not required has a meaning then.
        let is_empty = matches!(raw, Raw::Number(0) | Raw::Bytes(b""));
        let Some((_, name, shape)) = known.iter().find(|(known, _, _)| *known == number) else {
            if is_empty {
                continue;
            }
            return Err(json_only(&format!("field {number} of {what}")));
        };
        match shape {
            Texts => {
                let value = value(raw, &Text, name)?;
                let list = object.entry(*name).or_insert_with(|| json!([]));
                list.as_array_mut().into_iter().for_each(|list| list.push(value.clone()));
            }
            Text if is_empty => {}
            shape => {
                object.insert((*name).to_owned(), value(raw, shape, name)?);
            }
        }
    }
    Ok(Value::Object(object))
}

fn value(raw: Raw<'_>, shape: &Shape, name: &str) -> Result<Value, String> {
    match (shape, raw) {
        (Text, Raw::Bytes(bytes)) => Ok(String::from_utf8_lossy(bytes).into()),
        (Number, Raw::Number(number)) => Ok(number.cast_signed().into()),
        (Message(known), Raw::Bytes(bytes)) => message(bytes, known, name),
        _ => Err(format!("protobuf: {name} has the wrong wire type")),
    }
}

/// Splits a message into its fields: tagged numbers and length-prefixed bytes.
fn fields(mut bytes: &[u8]) -> Result<Vec<(u64, Raw<'_>)>, String> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let raw = match tag & 7 {
            0 => Raw::Number(varint(&mut bytes)?),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).map_err(|err| err.to_string())?;
                let (inside, rest) =
                    bytes.split_at_checked(length).ok_or("protobuf: a field is longer than its message")?;
                bytes = rest;
                Raw::Bytes(inside)
            }
            other => return Err(format!("protobuf: wire type {other} is not understood here")),
        };
        fields.push((tag >> 3, raw));
    }
    Ok(fields)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, String> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or("protobuf: the message ends within a number")?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err("protobuf: a number is too long".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field with bytes, shorter than 128.
    fn bytes(field: u8, bytes: &[u8]) -> Vec<u8> {
        [&[field << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
    }

    fn decoded(api_version: &str, kind: &str, raw: &[Vec<u8>]) -> Result<Value, String> {
        let of = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        decode(&[MAGIC, &bytes(1, &of), &bytes(2, &raw.concat()), &bytes(3, b"")].concat())
    }

    #[test]
    fn a_protobuf_object_decodes_to_the_same_json() {
        let meta = [bytes(1, b"n"), bytes(2, b""), bytes(8, b"")].concat();
        assert_eq!(
            decoded("v1", "Namespace", &[bytes(1, &meta)]).unwrap(),
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
        );
        let grace = decoded("v1", "DeleteOptions", &[vec![8, 0], bytes(5, b"All")]).unwrap();
        assert_eq!((&grace["gracePeriodSeconds"], &grace["dryRun"]), (&json!(0), &json!(["All"])));
    }

    #[test]
    fn what_is_not_in_the_table_is_rejected_and_not_dropped() {
        let refusal = decoded("v1", "Namespace", &[bytes(9, b"x")]).unwrap_err();
        assert_eq!(
            refusal,
            "protobuf: field 9 of Namespace is understood as JSON only: use kubectl apply -f"
        );
        assert!(decoded("v1", "Node", &[]).unwrap_err().contains("v1 Node"));
        assert!(decode(b"{}").is_err());
        for truncated in [&[0x80][..], &[0x0a, 5, 1], &[0x08], &[0x0d, 0, 0, 0, 0]] {
            assert!(fields(truncated).is_err(), "{truncated:?}");
        }
    }
}
