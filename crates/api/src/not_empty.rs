//! Stores an empty text as a dash: Kubernetes 1.20 takes an empty one for null, and refuses the object.

use serde::{Deserialize, Deserializer, Serializer};

/// What stands for an empty text.
const NONE: &str = "-";

pub(crate) fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if text.is_empty() { NONE } else { text })
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|text| if text == NONE { String::new() } else { text })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn an_empty_text_is_stored_as_a_dash() {
        let passed = |uid: &str| {
            json!({"id": "a@1", "by": "Resume", "podUID": uid,
            "resumedAt": "2030-01-01T00:00:00Z"})
        };
        for stored in ["", "-"] {
            let read: crate::Passed = serde_json::from_value(passed(stored)).unwrap();
            assert_eq!(read.pod_uid, "");
            assert_eq!(serde_json::to_value(read).unwrap(), passed("-"));
        }
    }
}
