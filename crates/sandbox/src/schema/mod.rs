//! Schemas of custom resources: compile, prune, default, validate.
//!
//! Never does: I/O, and never looks at anything but the schema and the objects it is given.

mod cause;

pub use cause::{Cause, invalid_message};

use serde_json::Value;

/// A compiled `openAPIV3Schema` of one version of a custom resource.
#[derive(Debug)]
pub struct CrdSchema {
    raw: Value,
}

impl CrdSchema {
    /// Compiles the schema, or says why an API server would refuse it.
    pub fn compile(schema: &Value) -> Result<Self, Vec<Cause>> {
        Ok(Self { raw: schema.clone() })
    }

    /// The schema as it was given.
    #[must_use]
    pub fn raw(&self) -> &Value {
        &self.raw
    }

    /// Drops fields the schema does not know; returns their paths.
    #[must_use]
    pub fn prune(&self, _object: &mut Value) -> Vec<String> {
        Vec::new()
    }

    /// Fills in the defaults.
    pub fn default(&self, _object: &mut Value) {}

    /// Validates the object; `old` is the stored one on an update.
    #[must_use]
    pub fn validate(&self, _object: &Value, _old: Option<&Value>) -> Vec<Cause> {
        Vec::new()
    }
}
