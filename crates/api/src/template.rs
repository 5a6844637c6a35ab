//! The pod template: raw JSON, compared and hashed in one canonical form.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use lz4_flex::block::{compress, compress_with_dict, decompress, decompress_with_dict};
use serde::de::Deserializer;
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::names::label::POD_TEMPLATE_HASH;

/// A pod template as the user wrote it. Raw JSON, so that a field this build has never heard of reaches the
/// pod.
///
/// It is kept as compact text, compressed where it is long, with a hash of its canonical form; clones share
/// it. A template of 20 KB takes 90 KB as a tree, and every revision of every object has one. Revisions
/// differ little: [`share`](Self::share) keeps only the difference.
#[derive(Clone, PartialEq)]
pub struct Template(Arc<Packed>);

struct Packed {
    text: Text,
    /// Of the text, in bytes.
    length: usize,
    /// FNV-1a of the canonical form, 128 bits.
    canonical: u128,
    /// The same, 64 bits: the begin of a [`template_hash`].
    short: u64,
    /// Whether [`Template::without_hash`] changes it: each decision asks, and it is known without parsing.
    changes_without_hash: bool,
    /// What validation reads, once it has: every decision asks for it.
    validated: OnceLock<Box<Validated>>,
}

/// What validation reads of a template.
#[derive(Clone)]
pub(crate) struct Validated {
    /// Its labels that are text.
    labels: Box<[(Box<str>, Box<str>)]>,
    /// Whether its restart policy is absent or `Always`.
    pub(crate) restarts_always: bool,
    /// Whether it has a deadline after which its pods are ended.
    pub(crate) has_deadline: bool,
    /// Whether it has a container.
    pub(crate) has_containers: bool,
}

impl Validated {
    fn of(template: &Value) -> Self {
        let labels = template.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())));
        let restart_policy = template.pointer("/spec/restartPolicy");
        let deadline = template.pointer("/spec/activeDeadlineSeconds");
        let containers = template.pointer("/spec/containers").and_then(Value::as_array);
        Self {
            labels: labels.collect(),
            restarts_always: restart_policy.is_none_or(|policy| policy.is_null() || policy == "Always"),
            has_deadline: !deadline.is_none_or(Value::is_null),
            has_containers: containers.is_some_and(|containers| !containers.is_empty()),
        }
    }

    /// The value of the label with that key.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(other, _)| **other == *key).map(|(_, value)| &**value)
    }
}

enum Text {
    Plain(Box<str>),
    /// LZ4.
    Compressed(Box<[u8]>),
    /// LZ4, with the text of another as its dictionary.
    Beside(Arc<Packed>, Box<[u8]>),
}

/// Shorter ones are not compressed, in bytes.
const SHORT: usize = 1024;

impl Packed {
    /// The JSON. It is what [`Template::new`] wrote: nothing fails.
    fn text(&self) -> Cow<'_, [u8]> {
        match &self.text {
            Text::Plain(text) => Cow::Borrowed(text.as_bytes()),
            Text::Compressed(bytes) => Cow::Owned(decompress(bytes, self.length).unwrap_or_default()),
            Text::Beside(other, bytes) => {
                Cow::Owned(decompress_with_dict(bytes, self.length, &other.text()).unwrap_or_default())
            }
        }
    }
}

// Also for `Arc`, which compares by pointer first where what it points to has this.
impl Eq for Packed {}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        self.canonical == other.canonical && self.length == other.length && self.text() == other.text()
    }
}

impl Template {
    /// The template without its `pod-template-hash` label: as it stood in the deployment it was made from.
    #[must_use]
    pub fn without_hash(&self) -> Self {
        if !self.0.changes_without_hash {
            return self.clone();
        }
        let mut value = self.value();
        let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata
            && let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut)
        {
            labels.remove(POD_TEMPLATE_HASH);
            if labels.is_empty() {
                metadata.remove("labels");
            }
        }
        Self::new(&value)
    }

    /// The template with that `pod-template-hash`, as its set has it.
    #[must_use]
    pub fn with_hash(&self, hash: &str) -> Self {
        let mut value = self.value();
        // A template without labels cannot match a selector, but its author may have written null.
        let metadata = child(&mut value, "metadata");
        let labels = metadata.map(|metadata| child(metadata, "labels"));
        if let Some(Some(Value::Object(labels))) = labels {
            labels.insert(POD_TEMPLATE_HASH.to_owned(), json!(hash));
        }
        Self::new(&value)
    }

    /// The template that this JSON is.
    #[must_use]
    pub fn new(value: &Value) -> Self {
        let text = value.to_string();
        let form = canonical(value).to_string();
        let (canonical, short) = (fnv128(form.bytes()), fnv64(FNV64, form.bytes()));
        let length = text.len();
        let text = if length < SHORT {
            Text::Plain(text.into())
        } else {
            Text::Compressed(compress(text.as_bytes()).into())
        };
        let labels = value.pointer("/metadata/labels").and_then(Value::as_object);
        let changes_without_hash =
            labels.is_some_and(|labels| labels.is_empty() || labels.contains_key(POD_TEMPLATE_HASH));
        let validated = OnceLock::new();
        Self(Arc::new(Packed { text, length, canonical, short, changes_without_hash, validated }))
    }

    /// Its JSON. It is decompressed at each call.
    #[must_use]
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.0.text()).unwrap_or_default()
    }

    /// Keeps no second copy of what another has, where both are written the same. Whether they are.
    pub fn share_equal(&mut self, other: &Self) -> bool {
        let is_equal = self == other;
        if is_equal {
            self.0 = Arc::clone(&other.0);
        }
        is_equal
    }

    /// Keeps no second copy of what another has: nothing where both are written the same, else the
    /// difference, where that takes less than half. The other stays in memory for as long as this: it is to
    /// be one that is kept anyway.
    pub fn share(&mut self, other: &Self) {
        if self.share_equal(other) {
            return;
        }
        let Text::Compressed(alone) = &self.0.text else { return };
        // Differences of differences would cost more to read with every revision.
        let other = if let Text::Beside(first, _) = &other.0.text { first } else { &other.0 };
        let beside = compress_with_dict(&self.0.text(), &other.text());
        if beside.len() * 2 < alone.len() {
            let text = Text::Beside(Arc::clone(other), beside.into());
            let Packed { length, canonical, short, changes_without_hash, .. } = *self.0;
            let validated = self.0.validated.clone();
            self.0 = Arc::new(Packed { text, length, canonical, short, changes_without_hash, validated });
        }
    }

    /// Changes its JSON.
    pub fn edit(&mut self, change: impl FnOnce(&mut Value)) {
        let mut value = self.value();
        change(&mut value);
        *self = Self::new(&value);
    }

    /// How many bytes are kept for it, without what it shares with another that differs.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        match &self.0.text {
            Text::Plain(text) => text.len(),
            Text::Compressed(bytes) | Text::Beside(_, bytes) => bytes.len(),
        }
    }

    /// The labels that its pods get.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<String, String> {
        self.strings("/metadata/labels")
    }

    /// The annotations that its pods get.
    #[must_use]
    pub fn annotations(&self) -> BTreeMap<String, String> {
        self.strings("/metadata/annotations")
    }

    /// What validation reads.
    pub(crate) fn validated(&self) -> &Validated {
        self.0.validated.get_or_init(|| Box::new(Validated::of(&self.value())))
    }

    /// Whether both stand for the same revision: equal in canonical form, by a hash of 128 bits.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        self.0.canonical == other.0.canonical
    }

    fn strings(&self, pointer: &str) -> BTreeMap<String, String> {
        let value = self.value();
        let entries = value.pointer(pointer).and_then(Value::as_object).into_iter().flatten();
        entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    }
}

impl Default for Template {
    fn default() -> Self {
        Self::new(&Value::Null)
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.value()).finish()
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(|value| Self::new(&value))
    }
}

/// FNV-1a, 128 bits: stable over versions, and wide enough that equal hashes of different templates need not
/// be feared.
fn fnv128(bytes: impl Iterator<Item = u8>) -> u128 {
    bytes.fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}

/// FNV-1a of nothing, 64 bits.
const FNV64: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, 64 bits, continued: stable over versions, which `std`'s hasher does not promise.
fn fnv64(begun: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(begun, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// The canonical form in which revisions are compared: without nulls and without
/// `metadata.creationTimestamp`, keys in byte order. Tools write both differently for one and the same
/// template.
#[must_use]
pub fn canonical(template: &Value) -> Value {
    let mut template = without_nulls(template);
    if let Some(metadata) = template.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
        if metadata.is_empty() {
            template.as_object_mut().map(|object| object.remove("metadata"));
        }
    }
    template
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().filter(|(_, value)| !value.is_null()).collect();
            entries.sort_unstable_by(|first, second| first.0.cmp(second.0));
            let entries = entries.into_iter().map(|(key, value)| (key.clone(), without_nulls(value)));
            Value::Object(entries.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

/// The value of the `pod-template-hash` label: ten characters that make up no words, after Kubernetes'
/// `SafeEncodeString`. `collisions` is `status.collisionCount`, which tells apart two templates of the same
/// hash.
#[must_use]
pub fn template_hash(template: &Template, collisions: i32) -> String {
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let seed = collisions.to_le_bytes();
    let seed = if collisions == 0 { [].iter() } else { seed.iter() };
    let mut hash = fnv64(template.0.short, seed.copied());
    let mut encoded = String::with_capacity(10);
    for _ in 0..10 {
        let index = usize::try_from(hash % 27).unwrap_or(0);
        encoded.push(char::from(ALPHABET[index]));
        hash /= 27;
    }
    encoded
}

/// What a set remembers of a template that is equal to its own though it is spelled differently: a hash of
/// both, so that it is void once the template of the set is edited. Both come without the `pod-template-hash`
/// label.
///
/// FNV-1a, 128 bits: equal hashes of different templates would silently skip a rollout.
#[must_use]
pub fn equality_hash(own: &Template, spelled: &Template) -> String {
    let texts = [own, spelled].map(|template| canonical(&template.value()).to_string());
    // JSON text has no zero byte: no two pairs read alike.
    let hash = fnv128(texts[0].bytes().chain([0]).chain(texts[1].bytes()));
    format!("{hash:032x}")
}

/// The child of that name; null and nothing become an empty object.
fn child<'a>(value: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    let child = value.as_object_mut()?.entry(key).or_insert(Value::Null);
    if child.is_null() {
        *child = json!({});
    }
    Some(child)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::{SHORT, Template, Text, equality_hash, template_hash};

    #[test]
    fn an_equality_is_of_both_templates_and_of_no_way_to_write_them() {
        let template = |image: &str| Template::new(&json!({"spec": {"image": image, "a": null}}));
        let hash = equality_hash(&template("a"), &template("b"));
        assert_eq!(hash, equality_hash(&Template::new(&json!({"spec": {"image": "a"}})), &template("b")));
        assert_eq!(hash.len(), 32);
        for (own, spelled) in [("b", "a"), ("a", "a"), ("a", "c"), ("c", "b"), ("ab", "")] {
            assert_ne!(hash, equality_hash(&template(own), &template(spelled)), "{own} {spelled}");
        }
        // Versions to come read what this one has stored.
        let (one, two) = (Template::new(&json!({"spec": 1})), Template::new(&json!({"spec": 2})));
        assert_eq!(equality_hash(&one, &two), "5504fa2806c13574edf87defecf07094");
    }

    /// About 20 KB.
    fn long(image: &str) -> Value {
        let variable =
            |number: u32| json!({"name": format!("SETTING_{number}"), "value": format!("value of {number}")});
        let variables: Vec<_> = (0..400).map(variable).collect();
        json!({"spec": {"containers": [{"name": "main", "image": image, "env": variables}]}})
    }

    #[test]
    fn equal_templates_share_their_memory_and_others_do_not() {
        for size in [0, 2 * SHORT] {
            let spec = |number: u32| Template::new(&json!({"spec": number, "text": "x".repeat(size)}));
            let known = spec(1);
            let (mut equal, mut other) = (spec(1), spec(2));
            equal.share(&known);
            other.share(&known);
            assert!(Arc::ptr_eq(&equal.0, &known.0));
            assert_eq!(other, spec(2));
            assert_ne!(other, known);
        }
    }

    #[test]
    fn a_revision_takes_little_more_than_what_it_changes() {
        let first = Template::new(&long("web:1"));
        let mut revisions: Vec<Template> = Vec::new();
        for number in 2..12 {
            let mut template = Template::new(&long(&format!("web:{number}")));
            template.share(revisions.last().unwrap_or(&first));
            revisions.push(template);
        }
        drop(first);
        for (number, template) in (2..).zip(&revisions) {
            assert!(template.own_bytes() < 256, "{}", template.own_bytes());
            assert!(
                matches!(&template.0.text, Text::Beside(first, _) if !matches!(first.text, Text::Beside(..)))
            );
            assert_eq!(template.value(), long(&format!("web:{number}")));
            assert_eq!(*template, Template::new(&long(&format!("web:{number}"))));
        }
    }

    #[test]
    fn nulls_creation_timestamps_and_key_order_make_no_new_revision() {
        let plain = Template::new(
            &json!({"metadata": {"labels": {"app": "web"}}, "spec": {"a": 1, "b": [{"c": 2}]}}),
        );
        let written = Template::new(&json!({
            "spec": {"b": [{"c": 2, "d": null}], "a": 1, "e": null},
            "metadata": {"creationTimestamp": null, "labels": {"app": "web"}},
        }));
        assert!(plain.same_as(&written));
        assert_eq!(template_hash(&plain, 0), template_hash(&written, 0));
    }

    #[test]
    fn an_empty_metadata_equals_none_but_an_empty_list_is_a_change() {
        let template = Template::new(&json!({"spec": {"a": 1}}));
        assert!(
            template
                .same_as(&Template::new(&json!({"metadata": {"creationTimestamp": null}, "spec": {"a": 1}})))
        );
        assert!(!template.same_as(&Template::new(&json!({"spec": {"a": 1, "b": []}}))));
    }

    #[test]
    fn a_collision_changes_the_hash() {
        let template = Template::new(&json!({"spec": {}}));
        assert_ne!(template_hash(&template, 0), template_hash(&template, 1));
        assert_eq!(template_hash(&template, 0).len(), 10);
    }

    #[test]
    fn a_template_comes_back_as_it_was_written_whatever_its_length() {
        let long = "x".repeat(SHORT);
        for value in [
            json!(null),
            json!("text"),
            json!({"spec": {"a": null, "b": [1.5, -1]}}),
            json!({"spec": {"é": long}}),
        ] {
            let template = Template::new(&value);
            assert_eq!(template.value(), value);
            assert_eq!(serde_json::to_value(&template).unwrap(), value);
            assert_eq!(serde_json::from_value::<Template>(value).unwrap(), template);
        }
    }

    #[test]
    fn a_long_template_takes_a_fraction_of_its_text() {
        let value = long("web:1");
        let (kept, text) = (Template::new(&value).own_bytes(), value.to_string().len());
        assert!(kept * 3 < text, "{kept} of {text}");
    }
}
