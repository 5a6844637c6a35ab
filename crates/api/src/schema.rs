//! Hand-written pieces of the `OpenAPI` schema: those that a type cannot say.
//!
//! Whatever a CEL rule reads is declared and bounded here: a server refuses a rule that it cannot type-check
//! or whose worst case costs too much.

use schemars::{Schema, SchemaGenerator, json_schema};

use crate::limits;

/// `template`: declared only as far as rules read it; everything else passes through untouched.
pub(crate) fn template(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The pods' template, as in a Deployment. Fields unknown to this version are carried \
                        through untouched.",
        "type": "object",
        "required": ["spec"],
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "metadata": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "labels": {
                        "type": "object",
                        "maxProperties": 256,
                        "additionalProperties": {"type": "string", "maxLength": 63},
                    },
                },
            },
            "spec": {
                "type": "object",
                "required": ["containers"],
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "restartPolicy": {"type": "string", "maxLength": 32},
                    "activeDeadlineSeconds": {"type": "integer", "format": "int64"},
                    "containers": {
                        "type": "array",
                        "minItems": 1,
                        "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    },
                },
            },
        },
    })
}

/// `maxSurge` with its default.
pub(crate) fn max_surge(_: &mut SchemaGenerator) -> Schema {
    int_or_percent("How many pods may exist beyond `replicas`: a number, or a percentage rounded up.")
}

/// `maxUnavailable` with its default.
pub(crate) fn max_unavailable(_: &mut SchemaGenerator) -> Schema {
    int_or_percent("How many pods may be unavailable: a number, or a percentage rounded down.")
}

fn int_or_percent(description: &str) -> Schema {
    json_schema!({
        "description": description,
        "x-kubernetes-int-or-string": true,
        "pattern": "^[0-9]+%$",
        // Our type holds no more, and servers before CEL have no rule to say so.
        "minimum": i32::MIN,
        "maximum": i32::MAX,
        "default": "25%",
    })
}

/// `afterUpdated`: at least one pod.
pub(crate) fn after_updated(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Pause when so many updated pods are available: a number, or a percentage of \
                        `replicas` rounded up, and at most `replicas` - 1. Until the point is passed, no \
                        more updated pods exist.",
        "x-kubernetes-int-or-string": true,
        "pattern": "^0*([1-9][0-9]?|100)%$",
        "minimum": 1,
        "maximum": i32::MAX,
    })
}

/// `matchLabels`: bounded, for the price of the rules.
pub(crate) fn match_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "Labels that must be there with these values.",
        "type": "object",
        "maxProperties": 64,
        "additionalProperties": {"type": "string", "maxLength": 63},
    })
}

/// `values` of a selector's requirement: bounded, for the price of the rules.
pub(crate) fn label_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The values, for In and NotIn.",
        "type": "array",
        "maxItems": 64,
        "items": {"type": "string", "maxLength": 63},
    })
}

/// `sizes`: pods wanted by template hash.
pub(crate) fn sizes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "The wanted number of pods of each set, by its pod-template-hash.",
        "type": "object",
        "maxProperties": limits::SIZES,
        "additionalProperties": {"type": "integer", "format": "int32"},
    })
}
