//! One step of a path in an object: a field, or an item of a list.
//!
//! The text of a step is that of `FieldsV1` (`metav1.FieldsV1`): `f:name`, `k:{"name":"a"}`, `v:"x"`, `i:0`.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// One step of a path. Values are kept as JSON text, which has an order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    /// A field of a map.
    Field(String),
    /// An item of a list that merges by keys: the keys with their values.
    Key(BTreeMap<String, String>),
    /// An item of a set.
    Value(String),
    /// A position in a list. The server never writes one, but clients may send it.
    Index(u64),
}

impl Element {
    pub(crate) fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// Parses a step of `FieldsV1`; `None` if it has no known form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(':')?;
        match kind {
            "f" => Some(Self::field(rest)),
            "k" => {
                let Ok(Value::Object(keys)) = serde_json::from_str(rest) else { return None };
                Some(Self::Key(keys.into_iter().map(|(key, value)| (key, value.to_string())).collect()))
            }
            "v" => serde_json::from_str::<Value>(rest).ok().map(|value| Self::Value(value.to_string())),
            "i" => rest.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    /// The step as `FieldsV1` writes it.
    pub(crate) fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let pairs: Vec<String> = keys
                    .iter()
                    .map(|(key, value)| format!("{}:{value}", Value::from(key.as_str())))
                    .collect();
                format!("k:{{{}}}", pairs.join(","))
            }
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

/// As messages show it: `.name`, `[name="a"]`, `[="x"]`.
impl fmt::Display for Element {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(formatter, ".{name}"),
            Self::Key(keys) => {
                let pairs: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(formatter, "[{}]", pairs.join(","))
            }
            Self::Value(value) => write!(formatter, "[={value}]"),
            Self::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

/// A path as messages show it: `.spec.containers[name="a"].image`.
pub(crate) fn shown(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}
