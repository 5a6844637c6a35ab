//! Updates the status of PodDisruptionBudgets, which the API server reads on evictions.
//!
//! It counts pods and reads the scale of their controllers. It never evicts pods, and it watches pods only if
//! there is a budget.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Patch, PatchParams};
use kube::core::{Selector, SelectorExt};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::pod::Pod;
use super::{Agent, Cache, RETRY, part, run_beside_pods};
use crate::clock::Clock;

/// An eviction without a subsequent deletion expires after this time.
const DISRUPTION_TIMEOUT: i64 = 120;

struct Disruption {
    client: Client,
    clock: Clock,
}

/// Runs until the process or the task ends.
pub async fn run(client: Client, clock: Clock) {
    run_beside_pods(client.clone(), Disruption { client, clock }).await;
}

impl Agent for Disruption {
    type Other = PodDisruptionBudget;

    /// Writes each changed status.
    async fn round(&mut self, pods: &Cache<Pod>, budgets: &Cache<PodDisruptionBudget>) -> Duration {
        let mut wait = Duration::MAX;
        for budget in budgets.objects.values() {
            match self.count(budget, pods).await {
                Ok(true) => {}
                // An eviction in progress ends with the deletion or with its timeout.
                Ok(false) => wait = wait.min(Duration::from_secs(10)),
                Err(error) => {
                    tracing::debug!(%error, "cannot keep a disruption budget");
                    wait = RETRY;
                }
            }
        }
        wait
    }
}

impl Disruption {
    /// Updates one status. Returns whether no eviction is in progress.
    async fn count(&self, budget: &PodDisruptionBudget, pods: &Cache<Pod>) -> Result<bool, kube::Error> {
        let namespace = budget.namespace().unwrap_or_default();
        let Some(spec) = &budget.spec else { return Ok(true) };
        let selector: Option<Selector> = spec.selector.clone().and_then(|selector| selector.try_into().ok());
        let pods: Vec<&Pod> = pods
            .objects
            .values()
            .filter(|pod| pod.namespace().as_deref() == Some(&namespace))
            .filter(|pod| selector.as_ref().is_some_and(|selector| selector.matches(pod.labels())))
            .filter(|pod| !pod.has_ended())
            .collect();
        let (expected, desired) = match (&spec.max_unavailable, &spec.min_available) {
            (Some(limit), _) => {
                let expected = self.scale(&namespace, &pods).await?;
                (expected, (expected - part(limit, expected)).max(0))
            }
            (None, Some(IntOrString::Int(least))) => (count(pods.len()), i64::from(*least)),
            (None, Some(share)) => {
                let expected = self.scale(&namespace, &pods).await?;
                (expected, part(share, expected))
            }
            (None, None) => (count(pods.len()), 0),
        };
        let under_way = self.under_way(budget, &pods);
        let healthy = pods
            .iter()
            .filter(|pod| !pod.is_terminating() && pod.is_ready() && !under_way.contains(&pod.name_any()));
        let healthy = count(healthy.count());
        let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
        let old = budget.status.clone().unwrap_or_default();
        let wanted = (healthy, desired, expected, allowed, budget.metadata.generation);
        let known = (
            i64::from(old.current_healthy),
            i64::from(old.desired_healthy),
            i64::from(old.expected_pods),
            i64::from(old.disruptions_allowed),
            old.observed_generation,
        );
        let evicting: BTreeSet<&String> = old.disrupted_pods.iter().flat_map(BTreeMap::keys).collect();
        if wanted == known && evicting == under_way.iter().collect() {
            return Ok(under_way.is_empty());
        }
        let forgotten = evicting.into_iter().filter(|name| !under_way.contains(*name));
        let disrupted: BTreeMap<&String, Option<()>> = forgotten.map(|name| (name, None)).collect();
        let patch = json!({
            // Requires the version that was read: an eviction may have changed the status.
            "metadata": {"resourceVersion": budget.metadata.resource_version},
            "status": {
                "currentHealthy": healthy, "desiredHealthy": desired, "expectedPods": expected,
                "disruptionsAllowed": allowed, "observedGeneration": budget.metadata.generation,
                "disruptedPods": disrupted,
            },
        });
        let api: Api<PodDisruptionBudget> = Api::namespaced(self.client.clone(), &namespace);
        match api.patch_status(&budget.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
            // The watch delivers the newer version.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(under_way.is_empty()),
            Err(error) => Err(error),
            Ok(_) => Ok(under_way.is_empty()),
        }
    }

    /// Evictions whose pods still exist without a deletion timestamp.
    fn under_way(&self, budget: &PodDisruptionBudget, pods: &[&Pod]) -> BTreeSet<String> {
        let now = self.clock.now().as_second();
        budget
            .status
            .iter()
            .flat_map(|status| status.disrupted_pods.iter().flatten())
            .filter(|(name, since)| {
                let waiting = pods.iter().any(|pod| pod.name_any() == **name && !pod.is_terminating());
                waiting && now - since.0.as_second() < DISRUPTION_TIMEOUT
            })
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// How many pods the controllers of these pods desire.
    async fn scale(&self, namespace: &str, pods: &[&Pod]) -> Result<i64, kube::Error> {
        let mut controllers: BTreeMap<String, &OwnerReference> = BTreeMap::new();
        for pod in pods {
            let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
            controllers.extend(owner.map(|owner| (owner.uid.clone(), owner)));
        }
        let mut sum = 0;
        for owner in controllers.into_values() {
            let root = if owner.api_version.contains('/') { "apis" } else { "api" };
            // The plural of every scalable kind has this form.
            let plural = format!("{}s", owner.kind.to_lowercase());
            let path =
                format!("/{root}/{}/namespaces/{namespace}/{plural}/{}/scale", owner.api_version, owner.name);
            let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
            match self.client.request::<Scale>(request).await {
                Ok(scale) => sum += i64::from(scale.spec.and_then(|spec| spec.replicas).unwrap_or_default()),
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
        Ok(sum)
    }
}

fn count(pods: usize) -> i64 {
    i64::try_from(pods).unwrap_or(i64::MAX)
}
