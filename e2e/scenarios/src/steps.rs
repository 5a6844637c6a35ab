//! The actions of a user in a scenario, with real kubectl. The object is always `web` in the namespace of the scenario.

use anyhow::{Context, Result, anyhow, ensure};
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::annotation;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::kubectl::talk;
use crate::request::KUBELET;
use crate::{TestCluster, beside_the_test};

impl TestCluster {
    /// Applies `web` with these fields of the spec. The defaults are six replicas of `web:1` and a maximum of one surge
    /// pod and one unavailable pod.
    pub async fn apply(&self, spec: &Value) -> Result<()> {
        self.kubectl.run_with(&["apply", "-f", "-"], &manifest(spec).to_string()).await.map(drop)
    }

    /// Applies `web` and waits until it is complete. Returns the names of the pods, in random order, since names are
    /// random.
    pub async fn deployed(&self, spec: &Value) -> Result<Vec<String>> {
        self.apply(spec).await?;
        let replicas = self.deployments().get("web").await?.spec.replicas;
        self.complete("web", replicas).await?;
        let names: Vec<_> = self.pods().await?.iter().map(ResourceExt::name_any).collect();
        ensure!(i32::try_from(names.len()).ok() == Some(replicas), "complete with {names:?}");
        Ok(names)
    }

    /// Patches `web`.
    pub async fn patch(&self, patch: &Value) -> Result<()> {
        let patch = patch.to_string();
        self.kubectl.run(&["patch", "od", "web", "--type=merge", "-p", &patch]).await.map(drop)
    }

    /// Starts a rollout.
    pub async fn set_image(&self, image: &str) -> Result<()> {
        let containers = json!([{"name": "web", "image": image}]);
        self.patch(&json!({"spec": {"template": {"spec": {"containers": containers}}}})).await
    }

    /// Scales `web`.
    pub async fn scale(&self, replicas: i32) -> Result<()> {
        self.kubectl.run(&["scale", "od", "web", &format!("--replicas={replicas}")]).await.map(drop)
    }

    /// Sets an annotation of a pod, `key=value`, or removes it, `key-`.
    pub async fn annotate(&self, pod: &str, annotation: &str) -> Result<()> {
        self.kubectl.run(&["annotate", "pod", pod, annotation]).await.map(drop)
    }

    /// Sets the delete priority of a pod.
    pub async fn prioritise(&self, pod: &str, priority: i32) -> Result<()> {
        self.annotate(pod, &format!("{}={priority}", annotation::DELETE_PRIORITY)).await
    }

    /// Makes a pod a pause point: `before` or `after`.
    pub async fn pause_at(&self, pod: &str, side: &str) -> Result<()> {
        self.annotate(pod, &format!("{}={side}", annotation::PAUSE_POINT)).await
    }

    /// Sets a pod ready or not ready, as its kubelet would.
    pub async fn set_ready(&self, pod: &str, ready: bool) -> Result<()> {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let status = if ready { "True" } else { "False" };
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": now});
        let patch = json!({"status": {"conditions": [condition]}}).to_string();
        self.kubectl.run(&["patch", "pod", pod, "--subresource=status", "-p", &patch]).await.map(drop)
    }

    /// Lets this user read the objects of the namespace and nothing else, and waits until the user may: the authorizer sees the
    /// role binding with a delay.
    pub async fn reader(&self, user: &str) -> Result<()> {
        let kinds =
            "--resource=orderedreplicasets.ordereddeployment.io,ordereddeployments.ordereddeployment.io,pods";
        let (user, as_user) = (format!("--user={user}"), format!("--as={user}"));
        self.kubectl.run(&["create", "role", "reader", "--verb=get,list,watch", kinds]).await?;
        self.kubectl.run(&["create", "rolebinding", "reader", "--role=reader", &user]).await?;
        let limit = tokio::time::Instant::now() + self.timeout;
        while self.kubectl.run(&["auth", "can-i", "list", "od", &as_user]).await.is_err() {
            ensure!(tokio::time::Instant::now() < limit, "timed out waiting for the role binding: {as_user}");
        }
        Ok(())
    }

    /// Limits the number of pods in the namespace and waits until the limit is in force.
    pub async fn set_quota(&self, pods: i32) -> Result<()> {
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"},
            "spec": {"hard": {"pods": pods.to_string()}},
        });
        self.kubectl.run_with(&["apply", "-f", "-"], &quota.to_string()).await?;
        let counted = |quota: &ResourceQuota| {
            let status = quota.status.clone().unwrap_or_default();
            status.hard.is_some_and(|hard| hard["pods"].0 == pods.to_string()) && status.used.is_some()
        };
        let api = Api::namespaced(self.client.clone(), &self.namespace);
        self.until_object(api, "pods", "counted", counted).await.map(drop)
    }

    /// Sets a pod failed, as a kubelet that evicts it or preempts it for a critical pod.
    pub async fn fail(&self, pod: &str, reason: &str) -> Result<()> {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason, "lastTransitionTime": now});
        let status = json!({
            "phase": "Failed", "reason": reason, "message": "The node was low on resource: memory.",
            "conditions": [
                condition("DisruptionTarget", "True", "TerminationByKubelet"),
                condition("Ready", "False", "PodFailed"),
                condition("ContainersReady", "False", "PodFailed"),
            ],
        });
        let patch = json!({"status": status}).to_string();
        self.kubectl.run(&["patch", "pod", pod, "--subresource=status", "-p", &patch]).await.map(drop)
    }

    /// Sets a pod running and ready on a server without kubelets.
    pub async fn set_running(&self, pod: &str) -> Result<()> {
        let patch = json!({"status": {"phase": "Running"}}).to_string();
        self.kubectl.run(&["patch", "pod", pod, "--subresource=status", "-p", &patch]).await?;
        self.set_ready(pod, true).await
    }

    /// Runs `kubectl ordered`. Returns the output; the error contains stderr if the exit code is not 0.
    pub async fn ordered(&self, arguments: &[&str]) -> Result<String> {
        self.ordered_with(arguments, "").await.map(|(out, _)| out)
    }

    /// Runs it with this standard input. Returns standard output and standard error.
    pub async fn ordered_with(&self, arguments: &[&str], input: &str) -> Result<(String, String)> {
        let mut command = Command::new(beside_the_test("kubectl-ordered")?);
        command.args(arguments).env("KUBECONFIG", self.straight());
        // It uses no server and has no flags for one.
        if arguments.first() != Some(&"convert") {
            command.args(["--namespace", &self.namespace]);
        }
        let said = talk(command, input).await;
        said.map_err(|error| anyhow!("kubectl ordered {}: {error:#}", arguments.join(" ")))
    }

    /// Resumes the pause of `web` by its ID.
    pub async fn resume(&self) -> Result<()> {
        let status = self.deployments().get("web").await?.status.unwrap_or_default();
        let id = status.hold.context("there is no hold to resume")?.id;
        self.request_resume(&id).await
    }

    /// Requests a resume with any ID.
    pub async fn request_resume(&self, id: &str) -> Result<()> {
        let patch = json!({"status": {"resumeRequested": id}}).to_string();
        let patch = ["patch", "od", "web", "--subresource=status", "--type=merge", "-p", &patch];
        self.kubectl.run(&patch).await.map(drop)
    }

    /// Waits until `web` is held with this number of updated and of available pods.
    pub async fn held_with(&self, updated: i32, available: i32) -> Result<OrderedDeployment> {
        let what = format!("held with {updated} updated pods, {available} available");
        self.until("web", &what, |object| is_held_with(object, updated, available)).await
    }

    /// The pods that the controller has deleted so far, in order. Fails if another client has deleted one.
    pub async fn deleted(&self) -> Result<Vec<String>> {
        let deletions = self.deletions().await?;
        let others: Vec<_> = deletions.iter().filter(|one| !one.by_the_controller()).collect();
        ensure!(others.is_empty(), "another client deleted pods: {others:?}");
        Ok(deletions.into_iter().map(|one| one.pod).collect())
    }

    /// Which clients created, deleted or evicted which pods so far, without the deletes of kubelets, which only
    /// complete deletions.
    pub async fn turnover(&self) -> Result<Vec<String>> {
        let mut requests = self.requests().await?;
        requests.retain(|request| {
            request.plural == "pods"
                && request.namespace.as_deref() == Some(&self.namespace)
                && request.code < 300
                && request.writes()
                && matches!(request.verb.as_str(), "create" | "delete" | "deletecollection")
                && matches!(request.subresource.as_deref(), None | Some("eviction"))
                && !request.user_agent.starts_with(KUBELET)
        });
        Ok(requests.iter().map(|one| format!("{} {} {}", one.user_agent, one.verb, one.path)).collect())
    }

    /// How many pods the controller has created so far, without dry runs.
    pub async fn created(&self) -> Result<usize> {
        let requests = self.requests().await?;
        let created = requests.iter().filter(|one| {
            one.namespace.as_deref() == Some(&self.namespace)
                && (one.verb.as_str(), one.plural.as_str(), &one.subresource) == ("create", "pods", &None)
                && one.by_the_controller()
                && one.code < 300
                && !one.path.contains("dryRun=")
        });
        Ok(created.count())
    }
}

/// The manifest of `web` for [`TestCluster::apply`].
fn manifest(spec: &Value) -> Value {
    let mut whole = json!({
        "replicas": 6,
        "selector": {"matchLabels": {"app": "web"}},
        "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    json!({
        "apiVersion": "ordereddeployment.io/v1alpha1", "kind": "OrderedDeployment",
        "metadata": {"name": "web"}, "spec": whole,
    })
}

/// Whether the object is held with this number of updated and of available pods.
#[must_use]
pub fn is_held_with(object: &OrderedDeployment, updated: i32, available: i32) -> bool {
    let status = object.status.clone().unwrap_or_default();
    status.hold.is_some()
        && status.observed_generation == object.metadata.generation
        && status.updated_replicas.unwrap_or_default() == updated
        && status.available_replicas.unwrap_or_default() == available
        && status.replicas.unwrap_or_default() == available
}
