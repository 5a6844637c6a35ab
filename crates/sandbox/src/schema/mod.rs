//! Schemas of custom resources: compilation, pruning, defaulting and validation, as on the API server.
//!
//! It knows what the CRDs of this project use. A CRD with other limits is rejected, so that none is ignored.
//! Rules are neither type-checked nor limited in cost, and items of lists correlate with old items by their
//! place.
//!
//! There is no I/O; the results depend only on the schema and the objects.

mod cause;
mod node;
mod rules;
mod validation;

pub use cause::Cause;
pub(crate) use validation::type_of;

use serde_json::Value;

use self::{node::Node, rules::Rules};

/// A compiled `openAPIV3Schema` of one version of a custom resource.
#[derive(Debug)]
pub struct CrdSchema {
    raw: Value,
    root: Node,
    rules: Rules,
}

impl CrdSchema {
    /// Compiles the schema.
    ///
    /// # Errors
    /// The parts of the schema that are invalid, or that the sandbox does not know.
    pub fn compile(schema: &Value) -> Result<Self, Vec<Cause>> {
        let mut causes = Vec::new();
        let root = Node::read(schema, "", &mut causes);
        if !causes.is_empty() {
            return Err(causes);
        }
        Ok(Self { raw: schema.clone(), root, rules: Rules::compile(schema) })
    }

    /// The schema as in the CRD.
    #[must_use]
    pub fn raw(&self) -> &Value {
        &self.raw
    }

    /// Drops unknown fields and returns their paths. `apiVersion`, `kind` and `metadata` remain.
    #[must_use]
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut gone = Vec::new();
        self.root.prune(object, "", &mut gone);
        gone
    }

    /// Sets defaults and drops nulls that the schema does not allow.
    pub fn default(&self, object: &mut Value) {
        self.root.set_defaults(object);
    }

    /// Validates the object; `old` is the stored object on an update. As with the ratcheting of the API
    /// server, unchanged values are valid.
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = validation::validate(object, old, &self.root);
        if causes.is_empty() {
            self.rules.evaluate(object, old, &mut causes);
        } else if !self.rules.is_empty() {
            causes.push(Cause::invalid(
                validation::NO_PATH,
                &Value::Null,
                "some validation rules were not checked because the object was invalid; correct the existing \
                 errors to complete validation",
            ));
        }
        causes
    }
}

#[cfg(test)]
mod tests;
