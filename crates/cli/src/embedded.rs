//! A cluster in this process: the sandbox with the CRDs, and the controller on it.
//!
//! The controller cannot tell it from any other cluster. Nothing outside this process is touched.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use kube_runtime::wait::{await_condition, conditions};
use ordereddeployment_api::crds;
use ordereddeployment_controller::{Clock, Controller, Metrics, Names, Options};
use ordereddeployment_sandbox::{Config, Sandbox};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The sandbox and what runs on it. Dropping it ends everything.
pub(crate) struct Embedded {
    pub(crate) sandbox: Sandbox,
    controller: Option<Running>,
}

struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<()>>,
}

impl Embedded {
    /// Starts the server and installs the CRDs.
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

    /// Starts the controller, with that source of time and of names.
    pub(crate) fn control(&mut self, clock: Clock, names: Names) -> Result<()> {
        let client = self.sandbox.connect("ordered-controller-manager")?;
        let metrics = Arc::new(Metrics::new().context("cannot set up the controller's metrics")?);
        let options = Options { clock, names, ..Options::new(metrics) };
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async move {
            // A stop, or the end of whoever could send one.
            let _ = stopped.await;
        };
        let task = tokio::spawn(async move {
            Box::pin(Controller::run(client, options, shutdown)).await.context("the controller failed")
        });
        self.controller = Some(Running { stop, task });
        Ok(())
    }

    /// Ends only if the controller does, with the reason.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        match &mut self.controller {
            Some(running) => match (&mut running.task).await {
                Ok(Ok(())) => anyhow!("the controller ended by itself"),
                Ok(Err(error)) => error,
                Err(error) => anyhow!("the controller broke off: {error}"),
            },
            None => std::future::pending().await,
        }
    }

    /// Ends the controller alone.
    #[cfg(test)]
    pub(crate) async fn stop_controller(&mut self) {
        if let Some(running) = self.controller.take() {
            let _ = running.stop.send(());
            let _ = running.task.await;
        }
    }

    /// Ends the controller, then the server.
    pub(crate) async fn stop(mut self) -> Result<()> {
        let Some(running) = self.controller.take() else { return Ok(()) };
        let _ = running.stop.send(());
        running.task.await.context("the controller broke off")?
    }
}
