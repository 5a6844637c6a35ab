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
    /// What stops the controller, and its task.
    controller: Option<(oneshot::Sender<()>, JoinHandle<Result<()>>)>,
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

    /// Starts the controller. It collects events for that long before it reconciles.
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
        self.controller = Some((stop, task));
        Ok(())
    }

    /// Waits until the controller ends, and returns the reason.
    pub(crate) async fn failed(&mut self) -> anyhow::Error {
        match &mut self.controller {
            Some((_, task)) => match task.await {
                Ok(Ok(())) => anyhow!("the controller ended unexpectedly"),
                Ok(Err(error)) => error,
                Err(error) => anyhow!("the controller panicked: {error}"),
            },
            None => std::future::pending().await,
        }
    }

    /// Stops the controller. The server runs until this is dropped.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        let Some((stop, task)) = self.controller.take() else { return Ok(()) };
        let _ = stop.send(());
        task.await.context("the controller panicked")?
    }
}
