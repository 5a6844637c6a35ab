//! The actions of a user in a scenario, with real kubectl. The object is always `web` in the namespace of the
//! scenario.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::PostParams;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_api::names::{GROUP, annotation};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::TestCluster;
use crate::request::KUBELET;

impl TestCluster {
    /// Applies `web` with these fields of the spec. The defaults are six replicas of `web:1` and a maximum of
    /// one surge pod and one unavailable pod.
    pub async fn apply(&self, spec: &Value) -> Result<()> {
        self.make(&manifest("ordereddeployment.io/v1alpha1", "OrderedDeployment", spec).to_string()).await
    }

    /// Applies this manifest.
    pub async fn make(&self, manifest: &str) -> Result<()> {
        self.kubectl.run_with(&["apply", "-f", "-"], manifest).await.map(drop)
    }

    /// Applies a plain Deployment `web` with the same defaults, and waits for its pods.
    pub async fn apply_plain(&self, spec: &Value) -> Result<()> {
        self.make(&manifest("apps/v1", "Deployment", spec).to_string()).await?;
        self.rolled_out("web").await
    }

    /// Whether the server has the admission policies of this kind: `validating` or `mutating`.
    pub async fn has_policies(&self, which: &str) -> Result<bool> {
        let kinds = ["api-resources", "--api-group=admissionregistration.k8s.io", "-oname"];
        Ok(self.kubectl.run(&kinds).await?.contains(&format!("{which}admissionpolicies")))
    }

    /// Waits until the rollout of this plain Deployment is complete.
    pub async fn rolled_out(&self, name: &str) -> Result<()> {
        let name = format!("deployment/{name}");
        self.kubectl.run(&["rollout", "status", &name, "--timeout=60s"]).await.map(drop)
    }

    /// Applies `web` and waits until it is complete. Returns the names of the pods, in random order, since
    /// names are random.
    pub async fn deployed(&self, spec: &Value) -> Result<Vec<String>> {
        self.apply(spec).await?;
        let replicas = self.deployments().get("web").await?.spec.replicas;
        self.complete("web", replicas).await?;
        let names = self.names().await?;
        ensure!(i32::try_from(names.len()).ok() == Some(replicas), "complete with {names:?}");
        Ok(names)
    }

    /// Patches `web`.
    pub async fn patch(&self, patch: &Value) -> Result<()> {
        let patch = patch.to_string();
        self.kubectl.run(&["patch", "od", "web", "--type=merge", "-p", &patch]).await.map(drop)
    }

    /// Patches the status of `web`.
    pub async fn patch_status(&self, status: &Value) -> Result<()> {
        let patch = json!({"status": status}).to_string();
        let patch = ["patch", "od", "web", "--subresource=status", "--type=merge", "-p", &patch];
        self.kubectl.run(&patch).await.map(drop)
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

    /// Gives the pods priorities that decrease in this order.
    pub async fn prioritise_in_order(&self, pods: &[String]) -> Result<()> {
        for (pod, priority) in pods.iter().rev().zip(1..) {
            self.prioritise(pod, priority).await?;
        }
        Ok(())
    }

    /// Deletes a pod, as another client would.
    pub async fn lose(&self, pod: &str) -> Result<()> {
        self.kubectl.run(&["delete", "pod", pod, "--wait=false"]).await.map(drop)
    }

    /// Sets a pod ready or not ready, as its kubelet would.
    pub async fn set_ready(&self, pod: &str, ready: bool) -> Result<()> {
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let status = if ready { "True" } else { "False" };
        let condition = json!({"type": "Ready", "status": status, "lastTransitionTime": now});
        let patch = json!({"status": {"conditions": [condition]}}).to_string();
        self.kubectl.run(&["patch", "pod", pod, "--subresource=status", "-p", &patch]).await.map(drop)
    }

    /// Whether this user may do that with that resource, such as `pods/binding`, in the namespace.
    pub async fn may(&self, user: &str, verb: &str, group: &str, resource: &str) -> Result<bool> {
        let (resource, part) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = json!({
            "group": group, "resource": resource, "subresource": part, "verb": verb,
            "namespace": self.namespace,
        });
        let groups = match user.split(':').collect::<Vec<_>>()[..] {
            ["system", "serviceaccount", namespace, _] => vec![format!("system:serviceaccounts:{namespace}")],
            _ => Vec::new(),
        };
        let spec = json!({"user": user, "groups": groups, "resourceAttributes": attributes});
        let review: SubjectAccessReview = serde_json::from_value(json!({"spec": spec}))?;
        let answer = Api::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        Ok(answer.status.is_some_and(|status| status.allowed))
    }

    /// Waits until this user may, or may not, do that: the authorizer sees a change with a delay, without a
    /// notification.
    pub async fn until_may(
        &self,
        user: &str,
        (verb, group, resource): (&str, &str, &str),
        allowed: bool,
    ) -> Result<()> {
        let limit = Instant::now() + self.timeout;
        while self.may(user, verb, group, resource).await? != allowed {
            ensure!(Instant::now() < limit, "not {allowed}: {user} may {verb} {resource}");
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }

    /// Lets this user read the objects of the namespace and nothing else.
    pub async fn reader(&self, user: &str) -> Result<()> {
        let kinds =
            "--resource=orderedreplicasets.ordereddeployment.io,ordereddeployments.ordereddeployment.io,pods";
        self.kubectl.run(&["create", "role", "reader", "--verb=get,list,watch", kinds]).await?;
        let user_flag = format!("--user={user}");
        self.kubectl.run(&["create", "rolebinding", "reader", "--role=reader", &user_flag]).await?;
        self.until_may(user, ("list", GROUP, "ordereddeployments"), true).await
    }

    /// Limits the number of pods in the namespace and waits until the limit is in force.
    pub async fn set_quota(&self, pods: i32) -> Result<()> {
        let quota = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "pods"},
            "spec": {"hard": {"pods": pods.to_string()}},
        });
        self.make(&quota.to_string()).await?;
        let counted = |quota: &ResourceQuota| {
            let status = quota.status.clone().unwrap_or_default();
            status.hard.is_some_and(|hard| hard["pods"].0 == pods.to_string()) && status.used.is_some()
        };
        self.until_object(self.api(), "pods", "counted", counted).await.map(drop)
    }

    /// Resumes the pause of `web` by its ID.
    pub async fn resume(&self) -> Result<()> {
        let status = self.deployments().get("web").await?.status.unwrap_or_default();
        let id = status.hold.context("there is no hold to resume")?.id;
        self.request_resume(&id).await
    }

    /// Requests a resume with any ID.
    pub async fn request_resume(&self, id: &str) -> Result<()> {
        self.patch_status(&json!({"resumeRequested": id})).await
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

    /// Which clients created, deleted or evicted which pods so far, without the deletes of kubelets, which
    /// only complete deletions.
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

/// The manifest of `web` for [`TestCluster::apply`], of that version and kind.
#[must_use]
pub fn manifest(version: &str, kind: &str, spec: &Value) -> Value {
    let mut object = workload(version, kind, "web", spec);
    let bounds = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}});
    for (key, value) in [("replicas", json!(6)), ("strategy", bounds)] {
        if object["spec"].get(key).is_none() {
            object["spec"][key] = value;
        }
    }
    object
}

/// A manifest of that version, kind and name with pods of `web:1`, and with these fields of the spec.
#[must_use]
pub fn workload(version: &str, kind: &str, name: &str, spec: &Value) -> Value {
    let mut whole = json!({
        "selector": {"matchLabels": {"app": name}},
        "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "web", "image": "web:1"}]},
        },
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": whole})
}
