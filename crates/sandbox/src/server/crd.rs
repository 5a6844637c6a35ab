//! CustomResourceDefinitions: the server serves the resources of stored definitions.
//!
//! No custom kind is built in. `resource::from_crd` validates definitions.

use std::sync::Arc;

use serde_json::{Value, json};

use super::State;
use crate::clock::seconds;
use crate::object;
use crate::resource::{self, Origin, ResourceInfo};
use crate::status::Failure;

/// The finalizer of a CRD: it waits for the deletion of the custom resources.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

impl State {
    /// Validates a definition and sets the default names.
    pub(super) fn check_crd(info: &ResourceInfo, crd: &mut Value) -> Result<(), Failure> {
        let text = |crd: &Value, path: &str| {
            object::at(crd, path).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let kind = text(crd, ".spec.names.kind");
        for (path, value) in
            [(".spec.names.singular", kind.to_lowercase()), (".spec.names.listKind", format!("{kind}List"))]
        {
            if text(crd, path).is_empty() {
                object::put_at(crd, path, value.into());
            }
        }
        if object::at(crd, ".spec.conversion.strategy").is_none() {
            object::put_at(crd, ".spec.conversion", json!({"strategy": "None"}));
        }
        match resource::from_crd(crd) {
            Ok(_) => Ok(()),
            Err(causes) => Err(Failure::invalid(info, object::name(crd), &causes)),
        }
    }

    /// After a create or an update: serves a definition and sets its status.
    pub(super) fn serve_crd(&mut self, info: &ResourceInfo, stored: &Arc<Value>) {
        if !is_crd(info) {
            return;
        }
        let Ok(served) = resource::from_crd(stored) else { return };
        self.forget_crd(info, stored);
        // Clients can read the objects of a terminating definition, and remove their finalizers.
        self.registry.extend(served.into_iter().map(Arc::new));
        let conditions = stored["status"]["conditions"].as_array();
        let established = conditions.into_iter().flatten().any(|one| one["type"] == "Established");
        let names = stored.pointer("/spec/names").cloned().unwrap_or_default();
        if object::terminating(stored) || established && stored["status"]["acceptedNames"] == names {
            return;
        }
        let at = seconds(self.clock.now());
        let mut crd = Value::clone(stored);
        crd["status"] = json!({
            "acceptedNames": names,
            "conditions": [
                {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts",
                "message": "no conflicts found", "lastTransitionTime": at},
                {"type": "Established", "status": "True", "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted", "lastTransitionTime": at},
            ],
            "storedVersions": [storage_version(stored)],
        });
        let key = (String::new(), object::name(stored).to_owned());
        self.store.put(&super::storage(info), &key, crd);
    }

    /// After a removal: no longer serves a definition.
    pub(super) fn forget_crd(&mut self, info: &ResourceInfo, crd: &Value) {
        if is_crd(info) {
            let (group, plural) = names(crd);
            self.registry.retain(|info| {
                info.origin == Origin::Builtin || info.group != group || info.plural != plural
            });
        }
    }
}

pub(super) fn is_crd(info: &ResourceInfo) -> bool {
    info.is_builtin("apiextensions.k8s.io", "CustomResourceDefinition")
}

/// The name of the storage version.
pub(super) fn storage_version(crd: &Value) -> &str {
    let versions = object::list(&crd["spec"], "versions");
    versions
        .iter()
        .find(|version| version["storage"] == true)
        .map_or("", |version| object::text(version, "name"))
}

/// Group and plural of the defined resource.
pub(super) fn names(crd: &Value) -> (String, String) {
    let spec = &crd["spec"];
    (object::text(spec, "group").to_owned(), object::text(&spec["names"], "plural").to_owned())
}
