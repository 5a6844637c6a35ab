//! Updates the status of ResourceQuotas: the limits and the number of pods.
//!
//! The API server enforces quotas, not this agent. It counts only pods, and it watches pods only if there is a quota.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::beside_pods::{self, Agent};
use super::pod::Pod;
use super::{Cache, RETRY};

struct Keeper {
    client: Client,
}

/// Runs until the process or the task ends.
pub async fn run(client: Client) {
    beside_pods::run(client.clone(), Keeper { client }).await;
}

impl Agent for Keeper {
    type Other = ResourceQuota;

    /// Writes each changed status.
    async fn round(&mut self, pods: &Cache<Pod>, quotas: &Cache<ResourceQuota>) -> Duration {
        let mut wait = Duration::MAX;
        for quota in quotas.objects.values() {
            if let Err(error) = self.count(quota, pods).await {
                tracing::debug!(%error, "cannot keep a quota");
                wait = RETRY;
            }
        }
        wait
    }
}

impl Keeper {
    async fn count(&self, quota: &ResourceQuota, pods: &Cache<Pod>) -> Result<(), kube::Error> {
        let namespace = quota.namespace().unwrap_or_default();
        let hard = quota.spec.as_ref().and_then(|spec| spec.hard.clone()).unwrap_or_default();
        let pods = pods.objects.iter().filter(|((inside, _), pod)| *inside == namespace && !pod.has_ended());
        let count = Quantity(pods.count().to_string());
        let counted = hard.keys().filter(|what| matches!(what.as_str(), "pods" | "count/pods"));
        let used: BTreeMap<String, Quantity> = counted.map(|what| (what.clone(), count.clone())).collect();
        let known = quota.status.clone().unwrap_or_default();
        if known.hard.as_ref() == Some(&hard) && known.used.as_ref() == Some(&used) {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"resourceVersion": quota.metadata.resource_version},
            "status": {"hard": hard, "used": used},
        });
        let api: Api<ResourceQuota> = Api::namespaced(self.client.clone(), &namespace);
        match api.patch_status(&quota.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
            // The watch delivers the newer version.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            other => other.map(drop),
        }
    }
}
