//! Quotas: the limit of the number of pods in a namespace.
//!
//! Only pod counts are enforced (`pods`, `count/pods`); quotas with scopes are ignored. The server counts the
//! pods on each create instead of reading the status of the quota, so a finished pod frees its place
//! immediately.

use serde_json::Value;

use super::{Ask, State, storage};
use crate::object;
use crate::status::Failure;

impl State {
    /// Rejects a pod that exceeds a quota.
    pub(super) fn check_quotas(&self, ask: &Ask<'_>, body: &Value) -> Result<(), Failure> {
        if !ask.info.is_builtin("", "Pod") {
            return Ok(());
        }
        let Some(quotas) = self.find("", "v1", "resourcequotas") else { return Ok(()) };
        let namespace = ask.namespace();
        for quota in self.in_namespace(&storage(&quotas), namespace) {
            for (what, limit) in pod_limits(quota) {
                let used = self.in_namespace(&ask.resource(), namespace).filter(|pod| counts(pod)).count();
                if i64::try_from(used).unwrap_or(i64::MAX) >= limit {
                    return Err(Failure::forbidden(
                        &ask.info,
                        object::name(body),
                        &format!(
                            "exceeded quota: {}, requested: {what}=1, used: {what}={used}, limited: \
                             {what}={limit}",
                            object::name(quota)
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    fn in_namespace<'a>(
        &'a self,
        resource: &crate::store::Resource,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Value> {
        let collection = self.store.collections().find(|(found, _)| *found == resource);
        let objects = collection.into_iter().flat_map(|(_, collection)| &collection.objects);
        objects.filter(move |((inside, _), _)| inside == namespace).map(|(_, object)| &**object)
    }
}

/// A finished pod does not count.
fn counts(pod: &Value) -> bool {
    !matches!(pod.pointer("/status/phase").and_then(Value::as_str), Some("Succeeded" | "Failed"))
}

/// The pod limits of a quota.
fn pod_limits(quota: &Value) -> Vec<(&'static str, i64)> {
    let spec = &quota["spec"];
    if spec.get("scopes").is_some_and(|scopes| !scopes.is_null()) || spec["scopeSelector"].is_object() {
        return Vec::new();
    }
    let limit = |what: &'static str| {
        let amount = spec["hard"].get(what)?;
        let number = amount.as_i64().or_else(|| amount.as_str()?.parse().ok())?;
        Some((what, number))
    };
    ["count/pods", "pods"].into_iter().filter_map(limit).collect()
}
