//! Schemas of custom resources: compile, prune, default, validate.
//!
//! Follows what an API server does with a structural schema, order and messages included. Two differences are
//! known: rules are neither type-checked nor priced when a CRD is installed, and `optionalOldSelf` binds null
//! instead of an optional.
//!
//! Never does: I/O, and never looks at anything but the schema and the objects it is given.

mod cause;
mod cel;
mod defaulting;
mod formats;
mod node;
mod pruning;
mod structural;
mod validation;

pub use cause::{Cause, invalid_message};

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
    /// Compiles the schema, or says why an API server would refuse it.
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

    /// The schema as it was given.
    #[must_use]
    pub fn raw(&self) -> &Value {
        &self.raw
    }

    /// Drops fields the schema does not know; returns their paths. `apiVersion`, `kind` and `metadata` stay.
    #[must_use]
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        pruning::prune_root(object, &self.root)
    }

    /// Fills in the defaults, and drops nulls where the schema does not allow them.
    pub fn default(&self, object: &mut Value) {
        defaulting::default(object, &self.root);
        defaulting::drop_nulls(object, &self.root);
    }

    /// Validates the object; `old` is the stored one on an update, and what did not change since is not held
    /// against the object (a server ratchets).
    #[must_use]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = validation::validate(object, old, &self.root);
        if self.rules.is_empty() {
            return causes;
        }
        // Values that only break a limit have the right shape, and rules can read them.
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
