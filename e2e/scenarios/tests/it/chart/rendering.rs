//! The output of Helm for the chart, without a server.

use std::collections::BTreeSet;

use scenarios::Helm;
use serde_json::{Value, json};

use super::{CHART, sets_of_values};

const OLDEST: &str = "1.20";
const NEW: &str = "1.36";
/// The value without a default.
const IMAGE: &str = "--set=image.repository=registry.example.com/ordered-controller-manager";

/// The manifests with these values for this version of Kubernetes.
async fn rendered(version: &str, arguments: &[&str]) -> Vec<Value> {
    let helm = Helm::without_server().unwrap();
    let mut all =
        vec!["template", "web", CHART, "--namespace=ordered-system", "--kube-version", version, IMAGE];
    if version == NEW {
        all.push("--api-versions=admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy");
    }
    all.extend(arguments);
    let text = helm.run(&all).await.unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{all:?}: {error}\n{text}"))
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

#[tokio::test]
async fn the_chart_has_no_lint_errors_with_every_values_file_by_helm() {
    let helm = Helm::without_server().unwrap();
    for strict in [&["lint", CHART][..], &["lint", "--strict", CHART]] {
        helm.run(&[strict, &[IMAGE]].concat()).await.unwrap();
        for values in sets_of_values() {
            helm.run(&[strict, &["--values", &values]].concat()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn every_values_file_is_rendered_for_an_old_and_a_new_kubernetes_by_helm() {
    for (version, budgets) in [(OLDEST, "policy/v1beta1"), (NEW, "policy/v1")] {
        for values in sets_of_values() {
            let objects = rendered(version, &["--values", &values]).await;
            let mut seen = BTreeSet::new();
            for object in &objects {
                let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                let id = ["/kind", "/metadata/namespace", "/metadata/name"].map(text);
                assert!(
                    !id[0].is_empty() && !id[2].is_empty() && !text("/apiVersion").is_empty(),
                    "{object}"
                );
                assert!(seen.insert(id), "{id:?} stands twice in what {values} makes");
            }
            for budget in of_kind(&objects, "PodDisruptionBudget") {
                assert_eq!(budget["apiVersion"], budgets, "{values} on {version}");
            }
            let alone = values.ends_with("single-values.yaml");
            assert_eq!(of_kind(&objects, "PodDisruptionBudget").len(), usize::from(!alone), "{values}");
            let policies = of_kind(&objects, "ValidatingAdmissionPolicy").len();
            assert_eq!(policies, usize::from(!alone && version == NEW), "{values} on {version}");
        }
    }
}

#[tokio::test]
async fn unknown_and_invalid_values_are_rejected_by_helm() {
    let helm = Helm::without_server().unwrap();
    for (value, error) in [
        ("replicaCount=two", "replicaCount: Invalid type"),
        ("replicaCount=-1", "replicaCount: Must be greater than or equal to 0"),
        ("leaderElectoin.enabled=true", "Additional property leaderElectoin is not allowed"),
        ("image.tagg=1", "Additional property tagg is not allowed"),
        ("image.pullPolicy=Sometimes", "image.pullPolicy must be one of"),
        ("image.digest=abc", "image.digest: Does not match pattern"),
        ("logFormat=xml", "logFormat must be one of"),
        ("flowControl.nominalConcurrencyShares=0", "flowControl.nominalConcurrencyShares: Must be greater"),
        ("podDisruptionBudget.maxUnavailable=lots", "podDisruptionBudget.maxUnavailable: Does not match"),
        // Invalid only in combination.
        ("leaderElection.enabled=false", "two leaders would work against each other"),
        ("serviceMonitor.enabled=true,service.enabled=false", "serviceMonitor.enabled needs service.enabled"),
        ("serviceAccount.create=false", "Set serviceAccount.name to an account"),
        ("image.repository=", "Set it to where you have pushed"),
    ] {
        let refused = helm.run(&["template", CHART, IMAGE, "--set", value]).await.unwrap_err().to_string();
        assert!(refused.contains(error), "{value}: {refused}");
    }
}

#[tokio::test]
async fn pods_meet_the_restricted_standard_with_all_values_by_helm() {
    for values in sets_of_values() {
        let objects = rendered(NEW, &["--values", &values]).await;
        let pod = &of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"];
        let expected = json!({
            "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        });
        assert_eq!(pod["securityContext"], expected, "{values}");
        let containers = pod["containers"].as_array().unwrap();
        let expected = json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        });
        assert!(containers.iter().all(|one| one["securityContext"] == expected), "{values}: {containers:?}");
        assert!(pod["hostNetwork"].is_null() && pod["volumes"].is_null(), "{values}");
    }
}

#[tokio::test]
async fn the_default_is_two_replicas_with_a_budget_by_helm() {
    let objects = rendered(NEW, &[]).await;
    let deployment = of_kind(&objects, "Deployment")[0];
    assert_eq!(deployment["spec"]["replicas"], 2);
    let budget = of_kind(&objects, "PodDisruptionBudget")[0];
    assert_eq!(budget["spec"]["selector"], deployment["spec"]["selector"]);
    for kind in ["NetworkPolicy", "ServiceMonitor", "ConfigMap", "ValidatingAdmissionPolicy", "FlowSchema"] {
        assert!(of_kind(&objects, kind).is_empty(), "{kind} is switched off");
    }
}

#[tokio::test]
async fn flow_control_has_a_level_for_the_controller_and_one_for_its_lease_by_helm() {
    let enabled = "--set=flowControl.enabled=true";
    assert!(of_kind(&rendered("1.28", &[enabled]).await, "FlowSchema").is_empty(), "the version is too old");
    let account = json!([{
        "kind": "ServiceAccount",
        "serviceAccount": {"name": "web-ordered-deployment", "namespace": "ordered-system"},
    }]);
    let of_lease = json!([{
        "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"],
        "namespaces": ["ordered-system"],
    }]);
    let objects = rendered("1.29", &[enabled]).await;
    let level = of_kind(&objects, "PriorityLevelConfiguration")[0];
    let schemas = of_kind(&objects, "FlowSchema").into_iter().map(|schema| &schema["spec"]);
    let [all, lease] = schemas.collect::<Vec<_>>()[..] else { panic!("{objects:?}") };
    assert_eq!(all["priorityLevelConfiguration"]["name"], level["metadata"]["name"]);
    assert_eq!(all["distinguisherMethod"]["type"], "ByNamespace");
    assert_eq!(lease["priorityLevelConfiguration"]["name"], "leader-election");
    assert_eq!(lease["rules"][0]["resourceRules"], of_lease);
    for schema in [all, lease] {
        assert_eq!(schema["rules"][0]["subjects"], account);
    }
    // The first schema that matches counts. The API server has its own one of all service accounts at 9000.
    let precedence = |schema: &Value| schema["matchingPrecedence"].as_i64().unwrap();
    assert!(precedence(lease) < precedence(all) && precedence(all) < 9000);
    let alone = rendered(NEW, &[enabled, "--set=leaderElection.enabled=false,replicaCount=1"]).await;
    assert_eq!(of_kind(&alone, "FlowSchema").len(), 1);
}

#[tokio::test]
async fn names_of_cluster_scoped_objects_depend_on_the_watched_namespaces_by_helm() {
    let helm = Helm::without_server().unwrap();
    for (watched, name) in [("", "ordered-deployment"), ("shop", "ordered-deployment-in-shop")] {
        for release in ["one", "other"] {
            let watched = format!("--set=watchNamespace={watched},fullnameOverride=mine");
            let namespace = format!("--namespace={release}");
            let text = helm.run(&["template", release, CHART, IMAGE, &watched, &namespace]).await.unwrap();
            let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
            let roles = of_kind(&objects, "ClusterRole").into_iter();
            let mut roles: Vec<&str> = roles.filter_map(|role| role["metadata"]["name"].as_str()).collect();
            roles.sort_unstable();
            let user_roles =
                ["adopter", "editor", "resumer", "viewer"].map(|who| format!("ordered-deployment-{who}"));
            let mut expected: Vec<&str> = user_roles.iter().map(String::as_str).chain([name]).collect();
            expected.sort_unstable();
            assert_eq!(roles, expected, "{release}");
        }
    }
}

#[tokio::test]
async fn of_leases_only_two_by_name_in_one_namespace_each_are_granted_by_helm() {
    let objects = rendered(NEW, &["--set=replicaSets.enabled=true"]).await;
    let all = of_kind(&objects, "Role").into_iter().chain(of_kind(&objects, "ClusterRole"));
    let rules = all.flat_map(|role| role["rules"].as_array().unwrap().iter().map(move |rule| (role, rule)));
    let is_of_leases = |rule: &Value| rule["resources"].as_array().unwrap().contains(&json!("leases"));
    let mut granted: Vec<String> = rules
        .filter(|(_, rule)| is_of_leases(rule) && rule["verbs"] != json!(["create"]))
        .map(|(role, rule)| format!("{} {}", role["metadata"]["namespace"], rule["resourceNames"]))
        .collect();
    granted.sort_unstable();
    let (theirs, ours) = (r#"["kube-controller-manager"]"#, r#"["ordered-controller-manager"]"#);
    assert_eq!(granted, [format!(r#""kube-system" {theirs}"#), format!(r#""ordered-system" {ours}"#)]);
}
