//! The configuration of a scenario.

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use ordereddeployment_api::crds;
use ordereddeployment_sandbox::{Config, NodeSpec};

/// The timeout of every wait. It is far longer than necessary: a wait that reaches it hangs.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The configuration of the server for a scenario.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Nodes with kubelets that run no containers.
    pub nodes: Vec<NodeSpec>,
    /// Time from the assignment of a pod to Ready.
    pub ready_delay: Duration,
    /// Time from the deletion timestamp of a pod to its removal.
    pub termination_delay: Duration,
    /// The controllers of a real kube-controller-manager, in the form of its flag `--controllers`.
    pub built_in_controllers: String,
    /// Additional arguments of a real kube-controller-manager.
    pub controller_manager_arguments: Vec<String>,
    /// Additional arguments of a real kube-apiserver.
    pub api_server_arguments: Vec<String>,
    /// The CRDs that are installed at the start.
    pub definitions: Vec<CustomResourceDefinition>,
    /// For scenarios that break a real server: one whose store survives SIGKILL and can be read.
    pub faults: bool,
}

impl Default for Setting {
    /// Three nodes in the pool `inference`, three in the pool `hybrid`; fast kubelets; all controllers; our
    /// CRDs.
    fn default() -> Self {
        Self {
            nodes: Config::default().nodes,
            ready_delay: Duration::from_millis(100),
            termination_delay: Duration::from_millis(50),
            built_in_controllers: "*".to_owned(),
            controller_manager_arguments: Vec::new(),
            api_server_arguments: Vec::new(),
            definitions: crds(),
            faults: false,
        }
    }
}
