//! Subresources of pods: binding, eviction, log. And the quotas that limit their number.

use serde_json::{Value, json};

use super::delete::read_options;
use super::{Answer, Ask, Reply, State, metadata};
use crate::clock::seconds;
use crate::object;
use crate::patch::{self, PatchKind};
use crate::schema::Cause;
use crate::selector::{label_selector, selects};
use crate::status::Failure;
use crate::store::Resource;

const SUCCESS: fn() -> Value =
    || json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});

impl State {
    /// Assigns a pod without a node to a node.
    pub(super) fn bind(&mut self, ask: &Ask<'_>) -> Answer {
        let binding = ask.call.json()?;
        let Some(node) =
            binding.pointer("/target/name").and_then(Value::as_str).filter(|node| !node.is_empty())
        else {
            return Err(Failure::internal("target.name: Required value"));
        };
        let old = self.existing(ask)?;
        let assigned = old.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default();
        let uid = object::uid(&binding);
        let name = ask.name();
        let why = if !uid.is_empty() && uid != object::uid(&old) {
            let real = object::uid(&old);
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {real}")
        } else if object::terminating(&old) {
            format!("pod {name} is being deleted, cannot be assigned to a host")
        } else if assigned.is_empty() {
            String::new()
        } else {
            format!("pod {name} is already assigned to node \"{assigned}\"")
        };
        if !why.is_empty() {
            return Err(Failure::conflict_at("", "pods/binding", name, &why));
        }
        let condition = json!({"type": "PodScheduled", "status": "True", "reason": null, "message": null,
            "lastProbeTime": null, "lastTransitionTime": seconds(self.now())});
        let bound = json!({"spec": {"nodeName": node}, "status": {"conditions": [condition]}});
        let mut pod = patch::apply(PatchKind::Strategic, &old, &bound)?;
        metadata::advance_generation(&ask.info, &mut pod, &old);
        if !ask.dry_run {
            self.store.put(&ask.resource(), &ask.key(), pod);
        }
        Ok(Reply::Json { code: 201, body: SUCCESS(), warnings: Vec::new() })
    }

    /// Deletes a pod unless a disruption budget forbids it.
    pub(super) fn evict(&mut self, ask: &Ask<'_>) -> Answer {
        let eviction = ask.call.json()?;
        let mut options = read_options(&eviction["deleteOptions"])?;
        options.dry_run = options.dry_run.or_else(|| ask.dry_run.then(Vec::new));
        let pod = self.existing(ask)?;
        let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
        // A pod that does not run is evicted without a budget check.
        let harmless = matches!(phase, "Succeeded" | "Failed" | "Pending") || object::terminating(&pod);
        if !harmless {
            self.spend_budget(ask, &pod, options.dry_run.is_some())?;
        }
        self.delete_one(&ask.info, &ask.key(), &options)?;
        Ok(Reply::Json { code: 201, body: SUCCESS(), warnings: Vec::new() })
    }

    fn spend_budget(&mut self, ask: &Ask<'_>, pod: &Value, dry: bool) -> Result<(), Failure> {
        let resource = ("policy".to_owned(), "poddisruptionbudgets".to_owned());
        let fits = |budget: &&Value| {
            label_selector(&budget["spec"]["selector"]).is_some_and(|selector| selects(&selector, pod))
        };
        let budgets: Vec<Value> =
            self.in_namespace(&resource, ask.namespace()).filter(fits).cloned().collect();
        let budget = match budgets.as_slice() {
            [] => return Ok(()),
            [budget] => budget,
            _ => {
                return Err(Failure::internal(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not \
                     support.",
                ));
            }
        };
        let name = object::name(budget);
        let number =
            |key: &str| budget.pointer(&format!("/status/{key}")).and_then(Value::as_i64).unwrap_or_default();
        let allowed = number("disruptionsAllowed");
        if allowed <= 0 {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            let why = format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                number("desiredHealthy"),
                number("currentHealthy")
            );
            let cause = Cause { reason: "DisruptionBudget", message: why, field: String::new() };
            return Err(Failure::new(429, "TooManyRequests", message).with_causes(&[cause]));
        }
        if !dry {
            let mut spent = budget.clone();
            object::put_at(&mut spent, ".status.disruptionsAllowed", (allowed - 1).into());
            let at = seconds(self.now());
            let disrupted = object::field_mut(object::field_mut(&mut spent, "status"), "disruptedPods");
            object::map_mut(disrupted).insert(object::name(pod).to_owned(), at.into());
            let key = (ask.namespace().to_owned(), name.to_owned());
            self.store.put(&resource, &key, spent);
        }
        Ok(())
    }

    /// The response is a note instead of a log: the sandbox runs no containers.
    pub(super) fn logs(&mut self, ask: &Ask<'_>) -> Answer {
        self.existing(ask)?;
        Ok(Reply::Text { code: 200, body: "the sandbox runs no containers: there are no logs\n" })
    }

    /// Rejects a pod that exceeds a quota. Only pod counts are enforced (`pods`, `count/pods`). The pods are
    /// counted on each create instead of read from the status of the quota, so a finished pod frees its place
    /// immediately.
    pub(super) fn check_quotas(&self, ask: &Ask<'_>, body: &Value) -> Result<(), Failure> {
        if !ask.info.is_builtin("", "Pod") {
            return Ok(());
        }
        let (quotas, namespace) = ((String::new(), "resourcequotas".to_owned()), ask.namespace());
        for quota in self.in_namespace(&quotas, namespace) {
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
        resource: &Resource,
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

/// The pod limits of a quota; none for one with scopes.
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
