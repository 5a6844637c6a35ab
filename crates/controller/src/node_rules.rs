//! The node rules of plain Deployments: those of the ConfigMap of `nodecosts`, as a part of the order.

use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, Resource, ResourceExt};
use kube_runtime::watcher::watch_object;
use ordereddeployment_api::names::reason;
use ordereddeployment_api::{DeletionOrder, OrderedDeployment};
use ordereddeployment_kubernetes::{EventRecorder, Health, patient};
use ordereddeployment_nodecosts::Config;
use parking_lot::Mutex;
use tokio::sync::watch;

/// The ConfigMap with the rules of `nodecosts`.
#[derive(Clone, Debug)]
pub struct RulesSource {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The watch, in messages of the health.
const WATCH: &str = "the watch of the node rules";

/// The rules that are in force. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeRules(Arc<Mutex<Arc<Config>>>);

impl NodeRules {
    /// The Deployment with the rules that select it.
    pub(crate) fn apply(&self, deployment: &Arc<OrderedDeployment>) -> Arc<OrderedDeployment> {
        let config = Arc::clone(&self.0.lock());
        let namespace = deployment.namespace().unwrap_or_default();
        match config.order(&namespace, deployment.labels()) {
            Some(order) => Arc::new(with_order(deployment, order)),
            None => Arc::clone(deployment),
        }
    }

    fn set(&self, config: Config) {
        *self.0.lock() = Arc::new(config);
    }

    /// Follows the ConfigMap. Malformed rules leave those before in force. The first list sets `read`.
    pub(crate) async fn follow(
        &self,
        source: &RulesSource,
        client: &Client,
        events: &EventRecorder,
        health: &Health,
        read: &watch::Sender<bool>,
    ) {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &source.namespace);
        let mut shown = pin!(patient("node rules", || watch_object(maps.clone(), &source.name)));
        while let Some(map) = shown.next().await {
            let Ok(map) = map else {
                health.fails(WATCH);
                continue;
            };
            health.works(WATCH);
            match map {
                Some(map) => self.read(&map, events),
                None => self.set(Config::default()),
            }
            read.send_replace(true);
        }
    }

    fn read(&self, map: &ConfigMap, events: &EventRecorder) {
        match Config::parse(&map.data.clone().unwrap_or_default()) {
            Ok(config) => self.set(config),
            Err(error) => {
                let message = format!("The rules are malformed, and those before stay in force: {error}");
                events.warn_of_object(map.object_ref(&()), reason::MALFORMED_RULES, &message);
            }
        }
    }
}

fn with_order(deployment: &OrderedDeployment, order: &DeletionOrder) -> OrderedDeployment {
    let mut deployment = deployment.clone();
    deployment.spec.deletion_order = Some(order.clone());
    deployment
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use ordereddeployment_api::OrderedDeployment;
    use ordereddeployment_nodecosts::Config;
    use serde_json::json;

    use super::NodeRules;

    fn deployment(tier: &str) -> Arc<OrderedDeployment> {
        let object = json!({
            "metadata": {"name": "web", "namespace": "shop", "labels": {"tier": tier}},
            "spec": {"selector": {}, "template": {}},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_deployment_gets_the_rules_that_select_it() {
        let text = "deployments:\n- selector: {matchLabels: {tier: web}}\n  nodeCosts: [{unschedulable: \
                    true, deletionCost: -5}]\n";
        let rules = NodeRules::default();
        assert_eq!(rules.apply(&deployment("web")).spec.deletion_order, None);
        rules.set(Config::parse(&BTreeMap::from([("nodecosts.yaml".to_owned(), text.to_owned())])).unwrap());
        let order = rules.apply(&deployment("web")).spec.deletion_order.clone().unwrap();
        assert_eq!(order.node_priorities.unwrap()[0].deletion_cost, Some(-5));
        assert_eq!(rules.apply(&deployment("db")).spec.deletion_order, None);
    }
}
