//! Subresources of pods: binding, eviction, log.

use std::sync::Arc;

use serde_json::{Value, json};

use super::delete::Options;
use super::{Answer, Ask, Reply, State, metadata};
use crate::clock::seconds;
use crate::object;
use crate::patch::{self, PatchKind};
use crate::selector::{Labels, selector_text};
use crate::status::Failure;

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
        let mut options = Options::from_value(eviction.get("deleteOptions").unwrap_or(&Value::Null))?;
        options.dry_run |= ask.dry_run;
        let pod = self.existing(ask)?;
        let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
        // A pod that does not run is evicted without a budget check.
        let harmless = matches!(phase, "Succeeded" | "Failed" | "Pending") || object::terminating(&pod);
        if !harmless {
            self.spend_budget(ask, &pod, options.dry_run)?;
        }
        self.delete_one(&ask.info, &ask.key(), &options)?;
        Ok(Reply::Json { code: 201, body: SUCCESS(), warnings: Vec::new() })
    }

    fn spend_budget(&mut self, ask: &Ask<'_>, pod: &Value, dry: bool) -> Result<(), Failure> {
        let resource = ("policy".to_owned(), "poddisruptionbudgets".to_owned());
        let budgets: Vec<Arc<Value>> = self
            .store
            .collection(&resource)
            .objects
            .iter()
            .filter(|((namespace, _), budget)| namespace == ask.namespace() && selects(budget, pod))
            .map(|(_, budget)| Arc::clone(budget))
            .collect();
        let budget = match budgets.as_slice() {
            [] => return Ok(()),
            [budget] => budget,
            _ => {
                return Err(Failure::new(
                    500,
                    // The API server sends no reason either.
                    "",
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
            let mut failure = Failure::new(
                429,
                "TooManyRequests",
                "Cannot evict pod as it would violate the pod's disruption budget.",
            );
            failure.details = Some(json!({"causes": [{
                "reason": "DisruptionBudget",
                "message": format!(
                    "The disruption budget {name} needs {} healthy pods and has {} currently",
                    number("desiredHealthy"),
                    number("currentHealthy")
                ),
            }]}));
            return Err(failure);
        }
        if !dry {
            let mut spent = Value::clone(budget);
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
}

fn selects(budget: &Value, pod: &Value) -> bool {
    budget
        .pointer("/spec/selector")
        .and_then(|selector| Labels::parse(&selector_text(selector)).ok())
        .is_some_and(|labels| labels.matches(pod))
}
