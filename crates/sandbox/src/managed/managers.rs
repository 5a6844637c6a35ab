//! The managers of an object: `metadata.managedFields`, decoded.
//!
//! The rules are those of apimachinery (`pkg/util/managedfields/internal`).

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::set::FieldSet;

/// How many managers of operation `Update` an object has at most. The oldest ones beyond it are merged.
const MAX_UPDATERS: usize = 10;

/// The manager that gets the fields of merged managers.
const ANCIENT: &str = "ancient-changes";

/// How a manager got its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What identifies a manager of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Manager {
    pub(crate) name: String,
    pub(crate) operation: Operation,
    /// Empty for appliers: an applier is the same one in each version.
    version: String,
    pub(crate) subresource: String,
}

impl Manager {
    pub(crate) fn new(name: &str, operation: Operation, version: &str, subresource: &str) -> Self {
        let name = if name.is_empty() { "unknown" } else { name };
        let version = if operation == Operation::Apply { "" } else { version };
        Self {
            name: name.to_owned(),
            operation,
            version: version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

/// As messages about conflicts show it.
impl std::fmt::Display for Manager {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:?}", self.name)?;
        if !self.subresource.is_empty() {
            write!(formatter, " with subresource {:?}", self.subresource)?;
        }
        if self.operation == Operation::Update {
            write!(formatter, " using {}", self.version)?;
        }
        Ok(())
    }
}

/// The fields of one manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The version of the API in which the fields are named.
    pub(crate) version: String,
    pub(crate) time: Option<String>,
    pub(crate) fields: FieldSet,
}

/// All managers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Managers(pub(crate) BTreeMap<Manager, Entry>);

impl Managers {
    /// Decodes `metadata.managedFields`; `None` if an entry is invalid.
    pub(crate) fn decode(entries: &Value) -> Option<Self> {
        let mut managers = BTreeMap::new();
        for entry in entries.as_array()? {
            let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return None,
            };
            if text("apiVersion").is_empty() || text("fieldsType") != "FieldsV1" {
                return None;
            }
            let fields = match entry.get("fieldsV1") {
                None | Some(Value::Null) => FieldSet::default(),
                Some(fields) => FieldSet::decode(fields)?,
            };
            let manager = Manager {
                name: text("manager").to_owned(),
                ..Manager::new("", operation, text("apiVersion"), text("subresource"))
            };
            let time = Some(text("time").to_owned()).filter(|time| !time.is_empty());
            managers.insert(manager, Entry { version: text("apiVersion").to_owned(), time, fields });
        }
        Some(Self(managers))
    }

    /// The value of `metadata.managedFields`; null if there are no managers.
    pub(crate) fn encode(&self) -> Value {
        let mut all: Vec<(&Manager, &Entry)> = self.0.iter().collect();
        all.sort_by_key(|(manager, entry)| (manager.operation, &entry.time, &manager.name, &entry.version));
        let encoded: Vec<Value> = all.into_iter().map(|(manager, entry)| encoded(manager, entry)).collect();
        if encoded.is_empty() { Value::Null } else { encoded.into() }
    }

    /// Removes fields from all managers except one.
    pub(crate) fn take(&mut self, fields: &FieldSet, except: Option<&Manager>) {
        for (manager, entry) in &mut self.0 {
            if Some(manager) != except {
                entry.fields = entry.fields.difference(fields);
            }
        }
        self.0.retain(|manager, entry| Some(manager) == except || !entry.fields.is_empty());
    }

    /// Merges the oldest updaters until their number is within the limit.
    pub(crate) fn cap(&mut self) {
        let mut updaters: Vec<(Option<String>, Manager)> = self
            .0
            .iter()
            .filter(|(manager, _)| manager.operation == Operation::Update)
            .map(|(manager, entry)| (entry.time.clone(), manager.clone()))
            .collect();
        updaters.sort();
        let mut excess = updaters.len().saturating_sub(MAX_UPDATERS);
        let mut first: BTreeMap<String, Manager> = BTreeMap::new();
        for (_, manager) in updaters {
            if excess == 0 {
                return;
            }
            let Some(entry) = self.0.get(&manager).cloned() else { continue };
            let Some(oldest) = first.get(&entry.version).cloned() else {
                first.insert(entry.version, manager);
                continue;
            };
            let bucket = Manager::new(ANCIENT, Operation::Update, &entry.version, "");
            let before = self.0.remove(&bucket).or_else(|| self.0.remove(&oldest));
            self.0.remove(&manager);
            let fields = before.map_or_else(FieldSet::default, |before| before.fields).union(&entry.fields);
            self.0.insert(bucket, Entry { fields, ..entry });
            excess -= 1;
        }
    }
}

fn encoded(manager: &Manager, entry: &Entry) -> Value {
    let mut encoded = json!({
        "manager": manager.name, "operation": manager.operation.text(), "apiVersion": entry.version,
        "fieldsType": "FieldsV1", "fieldsV1": entry.fields.encode(),
    });
    if let Some(time) = &entry.time {
        encoded["time"] = time.as_str().into();
    }
    if !manager.subresource.is_empty() {
        encoded["subresource"] = manager.subresource.as_str().into();
    }
    encoded
}
