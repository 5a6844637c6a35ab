//! Lenient decoding, which fails only for invalid JSON: a field with an unexpected type counts as absent.
//!
//! A watch sends a list of thousands of objects as one document: one undecodable object would hide all
//! others, and every client that may write a pod could blind the controller. That also happens without
//! malice: an API server shows a time beyond the year 9999 for a pod that was deleted with a grace period of
//! 300,000 years. Nothing is buffered, and no unread field is built.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use ordereddeployment_api::parse_time;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A value that can be made of any JSON; of an unexpected type, the default.
pub(super) trait Shape: Default {
    fn text(_: &str) -> Self {
        Self::default()
    }

    fn truth(_: bool) -> Self {
        Self::default()
    }

    fn number(_: i64) -> Self {
        Self::default()
    }

    fn list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }

    fn map<'de, A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Self::default())
    }
}

/// Decodes any value as a `T`.
pub(super) fn read<'de, T: Shape, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(Reader(PhantomData))
}

/// The same as a type that implements `Deserialize`.
pub(super) struct Lenient<T>(pub(super) T);

impl<'de, T: Shape> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer).map(Self)
    }
}

struct Reader<T>(PhantomData<T>);

impl<'de, T: Shape> Visitor<'de> for Reader<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<T, E> {
        Ok(T::text(value))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<T, E> {
        Ok(T::truth(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        Ok(T::number(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        Ok(T::number(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_unit<E: Error>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<T, A::Error> {
        T::list(list)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::map(map)
    }
}

impl Shape for String {
    fn text(text: &str) -> Self {
        text.to_owned()
    }
}

impl Shape for Option<String> {
    fn text(text: &str) -> Self {
        Some(text.to_owned())
    }
}

impl Shape for Option<Arc<str>> {
    fn text(text: &str) -> Self {
        Some(text.into())
    }
}

impl Shape for Option<bool> {
    fn truth(truth: bool) -> Self {
        Some(truth)
    }
}

impl Shape for i32 {
    fn number(number: i64) -> Self {
        Self::try_from(number).unwrap_or(if number < 0 { Self::MIN } else { Self::MAX })
    }
}

impl Shape for Option<Time> {
    fn text(text: &str) -> Self {
        parse_time(text).map(Time)
    }
}

impl<T: Shape> Shape for Option<Vec<T>> {
    fn list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Self, A::Error> {
        let mut items = Vec::new();
        while let Some(Lenient(item)) = list.next_element()? {
            items.push(item);
        }
        Ok(Some(items))
    }
}

impl Shape for Option<BTreeMap<String, String>> {
    fn map<'de, A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut entries = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            if let Lenient(Some(value)) = map.next_value::<Lenient<Option<String>>>()? {
                entries.insert(key, value);
            }
        }
        Ok(Some(entries))
    }
}

/// The name of the next field, if it is one of these.
pub(super) struct Field(pub(super) &'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Field {
    type Value = Option<&'static str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Field {
    type Value = Option<&'static str>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().copied().find(|name| *name == key))
    }
}

/// Decodes an object by the names of its fields, and skips all others.
macro_rules! fields {
    ($type:ty { $($key:literal => $field:ident),* $(,)? }) => {
        impl $crate::view::lenient::Shape for $type {
            fn map<'de, A: serde::de::MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
                let mut read = Self::default();
                while let Some(key) = map.next_key_seed($crate::view::lenient::Field(&[$($key),*]))? {
                    match key {
                        $(Some($key) => read.$field = map.next_value::<$crate::view::lenient::Lenient<_>>()?.0,)*
                        _ => {
                            map.next_value::<serde::de::IgnoredAny>()?;
                        }
                    }
                }
                Ok(read)
            }
        }
    };
}

pub(super) use fields;
