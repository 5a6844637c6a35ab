//! The key of an object and of its owner.
//!
//! An owner reference has no namespace: its author chooses the UID, and may know that of an object in another
//! namespace. The owner is in the namespace of the object that refers to it, and nowhere else.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The namespace and the UID of an object. In maps with this key, the objects of a namespace follow one
/// another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamespacedUid {
    namespace: Arc<str>,
    uid: Arc<str>,
}

impl NamespacedUid {
    /// The key of the object with this UID in this namespace.
    #[must_use]
    pub fn new(namespace: impl Into<Arc<str>>, uid: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), uid: uid.into() }
    }

    /// The key of this object.
    #[must_use]
    pub fn of(object: &ObjectMeta) -> Self {
        Self::new(text(object.namespace.as_ref()), text(object.uid.as_ref()))
    }

    /// The key of an owner of this object: it is in the same namespace.
    #[must_use]
    pub fn of_owner(object: &ObjectMeta, owner: &OwnerReference) -> Self {
        Self::new(text(object.namespace.as_ref()), owner.uid.as_str())
    }

    /// The key of the object with this UID in the same namespace.
    #[must_use]
    pub fn sibling(&self, uid: impl Into<Arc<str>>) -> Self {
        Self { namespace: Arc::clone(&self.namespace), uid: uid.into() }
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &Arc<str> {
        &self.namespace
    }

    /// The UID.
    #[must_use]
    pub fn uid(&self) -> &Arc<str> {
        &self.uid
    }

    /// Shares the text of the namespace with another key of it, instead of a second copy.
    pub fn share(&mut self, other: &Self) {
        if self.namespace == other.namespace {
            self.namespace = Arc::clone(&other.namespace);
        }
    }
}

/// The entries of the objects of this namespace.
pub fn in_namespace<'m, T>(
    map: &'m BTreeMap<NamespacedUid, T>,
    namespace: &'m Arc<str>,
) -> impl Iterator<Item = (&'m NamespacedUid, &'m T)> {
    let first = NamespacedUid { namespace: Arc::clone(namespace), uid: "".into() };
    map.range(first..).take_while(move |(key, _)| key.namespace == *namespace)
}

fn text(field: Option<&String>) -> &str {
    field.map(String::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_in_the_namespace_of_its_dependent() {
        let meta = |namespace: &str, uid: &str| ObjectMeta {
            namespace: Some(namespace.to_owned()),
            uid: Some(uid.to_owned()),
            ..ObjectMeta::default()
        };
        let owner = OwnerReference { uid: "s1".to_owned(), ..OwnerReference::default() };
        let set = NamespacedUid::of(&meta("shop", "s1"));
        assert_eq!(NamespacedUid::of_owner(&meta("shop", "p1"), &owner), set);
        assert_ne!(NamespacedUid::of_owner(&meta("attacker", "p2"), &owner), set);
    }
}
