//! A cluster in this process: the sandbox with the CRDs and the controller.
//!
//! The controller uses it like any other cluster. Nothing outside this process is changed.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use kube_runtime::wait::{await_condition, conditions};
use ordereddeployment_api::crds;
use ordereddeployment_controller::{Controller, Metrics, Options};
use ordereddeployment_kubernetes::{Clock, Names};
use ordereddeployment_sandbox::{Config, Sandbox};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The sandbox and its controller. Dropping it stops both.
pub(crate) struct Embedded {
    pub(crate) sandbox: Sandbox,
    controller: Option<Running>,
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<()>>,
}

impl Embedded {
    pub(crate) async fn start(config: Config) -> Result<Self> {
        let sandbox = Sandbox::start(config).await.context("cannot start the sandbox")?;
        let client = sandbox.connect("kubectl-ordered")?;
        let api: Api<CustomResourceDefinition> = Api::all(client);
        for crd in crds() {
            let name = crd.name_any();
            let installing = || format!("cannot install the CRD {name} in the sandbox");
            api.create(&PostParams::default(), &crd).await.with_context(installing)?;
            await_condition(api.clone(), &name, conditions::is_crd_established())
                .await
                .with_context(installing)?;
        }
        Ok(Self { sandbox, controller: None })
    }

    /// Starts the controller with that clock and that generator of names. It collects events for that long
    /// before it reconciles.
    pub(crate) fn start_controller(&mut self, clock: Clock, names: Names, coalesce: Duration) -> Result<()> {
        let client = self.sandbox.connect("ordered-controller-manager")?;
        let metrics = Arc::new(Metrics::new().context("cannot set up the controller's metrics")?);
        let options = Options { clock, names, coalesce, ..Options::new(metrics) };
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move {
            // An error means that the sender was dropped: stop too.
            let _ = stopped.await;
        };
        let task = tokio::spawn(async move {
            Box::pin(Controller::run(client, options, shutdown)).await.context("the controller failed")
        });
        self.controller = Some(Running { stop, task });
        Ok(())
    }

    /// Waits until the controller ends, and returns the reason.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        match &mut self.controller {
            Some(running) => match (&mut running.task).await {
                Ok(Ok(())) => anyhow!("the controller ended unexpectedly"),
                Ok(Err(error)) => error,
                Err(error) => anyhow!("the controller panicked: {error}"),
            },
            None => std::future::pending().await,
        }
    }

    /// Stops the controller and keeps the server.
    #[cfg(test)]
    pub(crate) async fn stop_controller(&mut self) {
        if let Some(running) = self.controller.take() {
            let _ = running.stop.send(());
            let _ = running.task.await;
        }
    }

    /// Stops the controller, then the server.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let Some(running) = self.controller.take() else { return Ok(()) };
        let _ = running.stop.send(());
        running.task.await.context("the controller panicked")?
    }
}
