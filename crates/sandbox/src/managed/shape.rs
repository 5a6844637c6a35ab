//! The shape of a value: whether it merges as a map, as a list with keys, as a set, or is one value.
//!
//! Shapes come from the schemas of the `OpenAPI` documents and of CRDs, by the rules of kube-openapi
//! (`pkg/schemaconv`) and structured-merge-diff (`schema`). A shape never validates values.

mod markers;

use serde_json::{Map, Value};

use self::markers::ListMarker;
use super::element::Element;
use crate::openapi;
use crate::resource::ResourceInfo;

/// The shape of a value.
#[derive(Debug, Clone)]
pub(crate) enum Shape<'a> {
    /// Without a schema: maps merge, everything else is one value.
    Deduced,
    /// Without a schema, inside of a list: one value.
    Untyped,
    /// With a schema.
    Typed(Typed<'a>),
}

#[derive(Debug, Clone)]
pub(crate) struct Typed<'a> {
    schema: &'a Value,
    /// The last part of the name of a built-in type; empty for schemas without a name.
    name: &'a str,
    /// A complete object, with apiVersion, kind and metadata.
    is_object: bool,
    atomic_map: bool,
    list: Option<ListMarker>,
    /// Fields without a schema are allowed here and below.
    preserve: bool,
}

/// How one value merges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    /// Replaced as a whole.
    Leaf,
    /// Merged field by field.
    Map,
    /// A list of unique scalars.
    Set,
    /// A list of objects that these keys identify.
    Keyed(Vec<&'a str>),
}

/// The shape of a field of a map.
pub(crate) struct Field<'a> {
    pub(crate) shape: Shape<'a>,
    /// Whether the type names this field, unlike a key of a map.
    pub(crate) declared: bool,
}

impl<'a> Shape<'a> {
    /// The shape of the objects of a resource.
    pub(crate) fn of(info: &'a ResourceInfo) -> Self {
        let (schema, name) = match &info.schema {
            Some(custom) => (Some(custom.raw()), ""),
            None => (openapi::definition(info), info.kind.as_str()),
        };
        let Some(schema) = schema else { return Self::Deduced };
        let typed = Typed { name, is_object: true, ..Typed::read(schema, "", "", false) };
        Self::Typed(typed)
    }

    /// How a value of this shape merges.
    pub(crate) fn kind(&self, value: &Value) -> Kind<'a> {
        match (self, value) {
            (Self::Deduced, Value::Object(_) | Value::Null) => Kind::Map,
            (Self::Untyped | Self::Deduced, _) => Kind::Leaf,
            (Self::Typed(typed), _) => match (typed.type_name(), value) {
                ("object", Value::Object(_) | Value::Null) | ("", Value::Object(_)) => typed.map_kind(),
                ("array", Value::Array(_) | Value::Null) | ("", Value::Array(_)) => typed.list_kind(),
                _ => Kind::Leaf,
            },
        }
    }

    /// The shape of a field; `None` if the type does not allow it.
    pub(crate) fn field(&self, name: &str) -> Option<Field<'a>> {
        let Self::Typed(typed) = self else {
            return Some(Field { shape: self.clone(), declared: false });
        };
        if let Some(declared) = typed.declared(name) {
            return Some(Field { shape: declared, declared: true });
        }
        let shape = match typed.schema.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => Self::Typed(Typed::read(schema, "", "", typed.preserve)),
            Some(Value::Bool(true)) => Self::Deduced,
            Some(Value::Bool(false)) => return None,
            _ if typed.preserve || typed.properties().is_none_or(Map::is_empty) => Self::Deduced,
            _ => return None,
        };
        Some(Field { shape, declared: false })
    }

    /// The shape of a field of an object that exists. A field without a type is treated like one without a schema.
    pub(crate) fn known_field(&self, name: &str) -> Field<'a> {
        self.field(name).unwrap_or(Field { shape: Self::Deduced, declared: false })
    }

    /// The shape of the items of a list.
    pub(crate) fn items(&self) -> Self {
        let Self::Typed(typed) = self else { return Self::Untyped };
        let items = typed.schema.get("items");
        items.map_or(Self::Untyped, |schema| Self::Typed(Typed::read(schema, "", "", typed.preserve)))
    }

    /// The step of a path that leads to this item of a list. The error is that of structured-merge-diff.
    pub(crate) fn element(&self, kind: &Kind<'_>, item: &Value) -> Result<Element, String> {
        let Kind::Keyed(keys) = kind else {
            return match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".into())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".into())
                }
                scalar => Ok(Element::Value(scalar.to_string())),
            };
        };
        let fields = item.as_object().ok_or_else(|| {
            let what = if item.is_null() { "a null element" } else { "non-map elements" };
            format!("associative list with keys may not have {what}")
        })?;
        let items = self.items();
        let value = |key: &str| match fields.get(key) {
            Some(value) => Some(value.to_string()),
            None => items.key_default(key).map(|default| default.to_string()),
        };
        let found: std::collections::BTreeMap<String, String> =
            keys.iter().filter_map(|key| Some(((*key).to_owned(), value(key)?))).collect();
        if found.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                keys.join(" ")
            ));
        }
        Ok(Element::Key(found))
    }

    fn key_default(&self, key: &str) -> Option<Value> {
        let Self::Typed(typed) = self else { return None };
        let known = markers::key_default(typed.name, key).map(Value::from);
        known.or_else(|| typed.properties()?.get(key)?.get("default").cloned())
    }

    /// Whether the types declare the last field of the path.
    pub(crate) fn declares(&self, path: &[Element]) -> bool {
        match path {
            [Element::Field(name)] => self.field(name).is_some_and(|field| field.declared),
            [Element::Field(name), rest @ ..] => self.known_field(name).shape.declares(rest),
            [] | [_] => false,
            [_, rest @ ..] => self.items().declares(rest),
        }
    }

    /// The type of scalars, as in the schema; empty if any value is valid.
    pub(crate) fn scalar(&self) -> &'a str {
        match self {
            Self::Typed(typed) if !matches!(typed.name, "Quantity" | "IntOrString" | "JSON") => {
                typed.type_name()
            }
            _ => "",
        }
    }
}

impl<'a> Typed<'a> {
    /// Reads a schema: the field `field` of the type `owner`, or a schema without a name.
    fn read(schema: &'a Value, owner: &str, field: &str, preserve: bool) -> Self {
        let mut named = "";
        let mut target = schema;
        if let Some((name, found)) = schema.get("$ref").and_then(Value::as_str).and_then(openapi::referenced)
        {
            (named, target) = (name, found);
        }
        let is = |schema: &Value, key: &str, value: &str| schema.get(key).is_some_and(|found| found == value);
        let atomic_map = [schema, target].iter().any(|one| is(one, "x-kubernetes-map-type", "atomic"))
            || markers::is_atomic_type(named)
            || markers::is_atomic_map(owner, field);
        let preserves = target.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
        Self {
            schema: target,
            name: named,
            is_object: target.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)),
            atomic_map,
            list: markers::list(owner, field),
            preserve: preserve || preserves,
        }
    }

    fn declared(&self, name: &str) -> Option<Shape<'a>> {
        if self.is_object && name == "metadata" {
            // A CRD contains little about metadata; the API server completes it.
            let (type_name, schema) = openapi::referenced(openapi::OBJECT_META)?;
            return Some(Shape::Typed(Self { name: type_name, ..Self::read(schema, "", "", false) }));
        }
        let known = self.properties().and_then(|properties| properties.get(name));
        match known {
            Some(schema) => Some(Shape::Typed(Self::read(schema, self.name, name, self.preserve))),
            None if self.is_object && matches!(name, "apiVersion" | "kind") => Some(Shape::Deduced),
            None => None,
        }
    }

    fn properties(&self) -> Option<&'a Map<String, Value>> {
        self.schema.get("properties")?.as_object()
    }

    fn type_name(&self) -> &'a str {
        self.schema.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    fn map_kind(&self) -> Kind<'a> {
        if self.atomic_map { Kind::Leaf } else { Kind::Map }
    }

    fn list_kind(&self) -> Kind<'a> {
        match &self.list {
            Some(ListMarker::Atomic) => return Kind::Leaf,
            Some(ListMarker::Set) => return Kind::Set,
            Some(ListMarker::Keys(keys)) => return Kind::Keyed(keys.to_vec()),
            None => {}
        }
        match self.schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
            Some("set") => Kind::Set,
            Some("map") => {
                let keys = self.schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
                Kind::Keyed(keys.into_iter().flatten().filter_map(Value::as_str).collect())
            }
            _ => Kind::Leaf,
        }
    }
}
