//! Schemas of custom resources: compilation, pruning, defaulting and validation.
//!
//! This module works like the API server with a structural schema, including the order and the messages of errors. Two
//! differences are known: rules are not type-checked and have no cost limit when a CRD is created, and
//! `optionalOldSelf` passes null instead of an optional.
//!
//! There is no I/O; the results depend only on the schema and the objects.

mod cause;
mod cel;
mod defaulting;
mod formats;
mod node;
mod pruning;
mod structural;
mod validation;

pub use cause::Cause;

use serde_json::Value;

use self::{cel::Rules, node::Node};

/// A compiled `openAPIV3Schema` of one version of a custom resource.
#[derive(Debug)]
pub struct CrdSchema {
    raw: Value,
    root: Node,
    rules: Rules,
}

impl CrdSchema {
    /// Compiles the schema. The error is the reason why the API server would reject it.
    pub fn compile(schema: &Value) -> Result<Self, Vec<Cause>> {
        let mut causes = Vec::new();
        structural::check_root(schema, &mut causes);
        let root = Node::read(schema, "", &mut causes);
        let rules = Rules::compile(schema, "", &mut causes);
        if causes.is_empty() {
            structural::check_defaults(&root, "", &mut causes);
        }
        if causes.is_empty() { Ok(Self { raw: schema.clone(), root, rules }) } else { Err(causes) }
    }

    /// The schema as in the CRD.
    #[must_use]
    pub fn raw(&self) -> &Value {
        &self.raw
    }

    /// Drops unknown fields and returns their paths. `apiVersion`, `kind` and `metadata` remain.
    #[must_use]
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        pruning::prune_root(object, &self.root)
    }

    /// Sets defaults and drops nulls that the schema does not allow.
    pub fn default(&self, object: &mut Value) {
        defaulting::default(object, &self.root);
        defaulting::drop_nulls(object, &self.root);
    }

    /// Validates the object; `old` is the stored object on an update. As with the ratcheting of the API server,
    /// unchanged values are valid.
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = validation::validate(object, old, &self.root);
        if self.rules.is_empty() {
            return causes;
        }
        // Values that only exceed a limit have the right type, so rules can read them.
        if causes.iter().any(|cause| !matches!(cause.reason, "FieldValueInvalid" | "FieldValueDuplicate")) {
            causes.push(Cause::invalid(
                validation::NO_PATH,
                &Value::Null,
                "some validation rules were not checked because the object was invalid; correct the existing \
                 errors to complete validation",
            ));
        } else {
            self.rules.evaluate(object, old, &self.root, &mut causes);
        }
        causes
    }
}

#[cfg(test)]
mod tests;
