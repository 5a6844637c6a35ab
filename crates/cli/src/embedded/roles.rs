//! The roles of the chart in a sandbox with roles, and the user of the controller.
//!
//! The sandbox does not know this API; these roles are created as an administrator creates them.

use anyhow::{Context, Result};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::PostParams;
use kube::{Api, Client};
use ordereddeployment_sandbox::User;
use serde_json::json;

const ROLES: &str = include_str!("roles.yaml");
/// The namespace and the name of the controller's service account, and the name of its role.
const NAMESPACE: &str = "ordered-system";
const CONTROLLER: &str = "ordered-deployment";

/// The user that the controller runs as.
pub(super) fn controller() -> User {
    User::service_account(NAMESPACE, CONTROLLER)
}

/// Creates the roles, and gives the controller its own.
pub(super) async fn install(client: Client) -> Result<()> {
    let roles: Vec<ClusterRole> =
        serde_saphyr::from_multiple(ROLES).context("the roles are not valid YAML")?;
    let api: Api<ClusterRole> = Api::all(client.clone());
    for role in roles {
        api.create(&PostParams::default(), &role).await.context("cannot create the roles in the sandbox")?;
    }
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": CONTROLLER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": CONTROLLER},
        "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": CONTROLLER}],
    }))
    .context("the binding of the controller is invalid")?;
    let created = Api::all(client).create(&PostParams::default(), &binding).await;
    created.context("cannot bind the role of the controller in the sandbox")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::{CONTROLLER, ROLES};
    use crate::state::State;
    use crate::testing::fixture::Fixture;

    const USERS: &str = include_str!("../../../../charts/ordered-deployment/templates/user-roles.yaml");
    const HELPERS: &str = include_str!("../../../../charts/ordered-deployment/templates/_helpers.tpl");

    type Role = (Value, Value);

    /// Labels and rules by name.
    fn by_name(text: &str) -> BTreeMap<String, Role> {
        let roles: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
        let name = |role: &Value| role["metadata"]["name"].as_str().unwrap().to_owned();
        let labels = |role: &Value| role["metadata"].get("labels").cloned().unwrap_or_default();
        roles.iter().map(|role| (name(role), (labels(role), role["rules"].clone()))).collect()
    }

    /// A template without its directives, with the default values.
    fn plain(template: &str) -> String {
        let mut chart = template.replace("{{ .Chart.Name }}", CONTROLLER);
        // Optional features, which are off by default.
        while let Some((before, rest)) = chart.split_once("{{- if .Values.replicaSets.enabled }}") {
            let (_, after) = rest.split_once("{{- end }}").unwrap();
            chart = format!("{before}{after}");
        }
        let lines = chart.lines().filter(|line| !line.trim_start().starts_with("{{"));
        lines
            .map(|line| {
                line.split_once("{{ if or .Values")
                    .map_or_else(|| line.to_owned(), |(line, _)| format!("{line}]"))
            })
            .fold(String::new(), |text, line| text + &line + "\n")
    }

    fn defined(name: &str) -> Vec<Value> {
        let start = format!("{{{{- define \"ordered-deployment.{name}\" -}}}}");
        let body = HELPERS.split_once(&start).unwrap().1.split_once("{{- end -}}").unwrap().0;
        serde_saphyr::from_str(&plain(body)).unwrap()
    }

    #[test]
    fn the_roles_of_users_are_those_of_the_chart() {
        let mut own = by_name(ROLES);
        own.remove(CONTROLLER);
        assert_eq!(own, by_name(&plain(USERS)));
    }

    #[test]
    fn the_role_of_the_controller_is_that_of_the_chart() {
        let wanted = [defined("controllerRules"), defined("nodeRules")].concat();
        assert_eq!(by_name(ROLES)[CONTROLLER].1, Value::from(wanted));
    }

    #[tokio::test(start_paused = true)]
    async fn the_controller_needs_no_other_role_for_a_rollout_and_a_scale_down() {
        let fixture = Fixture::with_roles().await;
        fixture.image("web:2").await;
        fixture
            .until(|web| {
                let observed = web.status.as_ref().and_then(|status| status.observed_generation);
                observed == web.metadata.generation && State::of(web) == State::Complete
            })
            .await;
        fixture.patch(json!({"spec": {"replicas": 1}})).await;
        fixture.until(|web| web.status.as_ref().is_some_and(|status| status.replicas == Some(1))).await;
        let requests = fixture.cluster.sandbox.requests();
        let own = requests.iter().filter(|one| one.user_agent.starts_with("ordered-controller-manager"));
        let refused: Vec<_> = own.clone().filter(|one| one.code == 403).collect();
        assert!(own.count() > 10 && refused.is_empty(), "{refused:?}");
    }
}
