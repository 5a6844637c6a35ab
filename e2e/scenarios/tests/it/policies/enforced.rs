//! The same sequences on a real API server with admission policies (Kubernetes 1.30 or newer).

use std::time::Duration;

use scenarios::{Server, Setting, TestCluster, workload};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::sequences::{OWNERS, USERS, cases};
use super::{Act, Case, Sequence, User, merged};

/// How long the server may take to load a policy and a role.
const LIMIT: Duration = Duration::from_secs(60);
/// What a refusal of a policy says.
const BY_POLICY: &str = "ValidatingAdmissionPolicy";

async fn create(cluster: &TestCluster, object: &Value) -> Value {
    let made = cluster.kubectl.run_with(&["create", "-f", "-", "-ojson"], &object.to_string()).await;
    serde_json::from_str(&made.unwrap()).unwrap()
}

fn permission(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// The scope of a role, its name, its rules, and who has it. A role without rules exists.
type Bound<'a> = (&'static str, &'a str, &'a [Value], fn(&User) -> bool);

/// Every user has `edit`, and the permissions of a client that writes the status of pods.
async fn bind_roles(cluster: &TestCluster) {
    let ours = "ordereddeployment.io";
    let more = [
        permission("", &["pods/status", "pods/binding", "bindings"], &["create", "patch"]),
        permission("apps", &["deployments/status"], &["patch"]),
        permission(ours, &["ordereddeployments"], &["get", "patch"]),
    ];
    let resumes = [permission(ours, &["ordereddeployments/status"], &["get", "patch"])];
    let cordons = [permission("", &["nodes"], &["get", "patch"])];
    let roles: [Bound<'_>; 4] = [
        ("", "more", &more, |_| true),
        ("", "resumes", &resumes, |user| user.may_resume),
        ("Cluster", &cluster.namespace, &cordons, |user| user.may_cordon),
        ("", "edit", &[], |_| true),
    ];
    for (scope, name, rules, has) in roles {
        let of = |kind: &str| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": name}})
        };
        let kind = if rules.is_empty() { "ClusterRole".to_owned() } else { format!("{scope}Role") };
        if !rules.is_empty() {
            let mut role = of(&kind);
            role["rules"] = json!(rules);
            create(cluster, &role).await;
        }
        let users = USERS.iter().filter(|user| has(user));
        let mut binding = of(&format!("{scope}RoleBinding"));
        binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name});
        binding["subjects"] = users.map(|user| json!({"kind": "User", "name": user.name})).collect();
        create(cluster, &binding).await;
    }
}

/// Sends one request with real kubectl.
async fn send(
    cluster: &TestCluster,
    user: User,
    act: &Act,
    object: &Value,
    suffix: &str,
    more: &[&str],
) -> anyhow::Result<String> {
    let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
    let pods = format!("/api/v1/namespaces/{}/pods", cluster.namespace);
    let patch = format!("patch {kind} {name} --type=merge --patch-file=/dev/stdin");
    let (command, input) = match act {
        Act::Create(change) => {
            let mut other = merged(object.clone(), change);
            other["metadata"]["name"] = format!("{name}-{suffix}").into();
            ("create -f -".to_owned(), other)
        }
        Act::Patch(change) => (patch, change.clone()),
        Act::PatchStatus(change) => (format!("{patch} --subresource=status"), change.clone()),
        Act::Delete => (format!("delete {kind} {name}"), Value::Null),
        Act::DeleteCollection => (format!("delete --raw {pods}?labelSelector=name%3D{name}"), Value::Null),
        Act::Evict => {
            let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
            (format!("create --raw {pods}/{name}/eviction -f -"), eviction)
        }
        Act::Bind(resource, annotations) => {
            let to = match *resource {
                "bindings" => pods.replace("/pods", "/bindings"),
                _ => format!("{pods}/{name}/binding"),
            };
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "annotations": annotations},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "none"},
            });
            (format!("create --raw {to} -f -"), binding)
        }
    };
    let command = format!("{command} --as={} --as-group={}", user.name, user.group);
    let arguments: Vec<&str> = command.split(' ').chain(more.iter().copied()).collect();
    cluster.kubectl.run_with(&arguments, &input.to_string()).await
}

/// The owners of pods, and the UID of each.
async fn owners(cluster: &TestCluster) -> Vec<(String, String)> {
    let mut uids = Vec::new();
    for kind in OWNERS {
        let version = if kind == "ReplicaSet" { "apps/v1" } else { "ordereddeployment.io/v1alpha1" };
        let mut owner = workload(version, kind, "owner", &json!({"replicas": 0}));
        owner["metadata"]["name"] = "web".into();
        let uid = create(cluster, &owner).await["metadata"]["uid"].as_str().unwrap().to_owned();
        uids.push((format!("\"UID of {kind}\""), format!("\"{uid}\"")));
    }
    uids
}

/// With the real UIDs of the owners.
fn owned(value: &Value, owners: &[(String, String)]) -> Value {
    let text = owners.iter().fold(value.to_string(), |text, (name, uid)| text.replace(name, uid));
    serde_json::from_str(&text).unwrap()
}

/// Creates the object of the sequence, with this name.
async fn prepare(
    cluster: &TestCluster,
    sequence: &Sequence,
    name: &str,
    owners: &[(String, String)],
) -> Value {
    let mut object = owned(&sequence.object, owners);
    object["metadata"]["name"] = name.into();
    object["metadata"]["labels"]["name"] = name.into();
    create(cluster, &object).await;
    if let Some(status) = object.get("status") {
        let status = json!({"status": status}).to_string();
        let patch = ["patch", "od", name, "--subresource=status", "--type=merge", "-p", &status];
        cluster.kubectl.run(&patch).await.unwrap();
    }
    object
}

/// Waits until the first request of the first sequence is refused by the policy. If it never is, the sequence
/// fails.
async fn enforced(cluster: &TestCluster, case: &Case, object: &Value) {
    let (user, act, _) = &case.sequences[0].steps[0];
    let limit = Instant::now() + LIMIT;
    while Instant::now() < limit {
        let said = send(cluster, *user, act, object, "dry", &["--dry-run=server"]).await;
        if said.is_err_and(|error| error.to_string().contains(BY_POLICY)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What the server finds wrong with the types of the policy.
async fn warnings(cluster: &TestCluster) -> Vec<String> {
    let get = ["get", "validatingadmissionpolicy", &cluster.namespace, "-ojson"];
    let limit = Instant::now() + LIMIT;
    loop {
        let policy: Value = serde_json::from_str(&cluster.kubectl.run(&get).await.unwrap()).unwrap();
        if let Some(checked) = policy["status"].get("typeChecking") {
            return checked.get("expressionWarnings").map(Value::to_string).into_iter().collect();
        }
        assert!(Instant::now() < limit, "the types were not checked: {policy}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The steps that the server decides otherwise, and its warnings.
async fn play(cluster: &TestCluster, case: &Case) -> Vec<String> {
    bind_roles(cluster).await;
    let owners = owners(cluster).await;
    let mut objects = Vec::new();
    for (index, sequence) in case.sequences.iter().enumerate() {
        objects.push(prepare(cluster, sequence, &format!("web-{index}"), &owners).await);
    }
    let mut policy = case.objects().await;
    for object in &mut policy {
        object["metadata"]["name"] = cluster.namespace.as_str().into();
    }
    policy[1]["spec"]["policyName"] = cluster.namespace.as_str().into();
    policy[1]["spec"]["matchResources"] =
        json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}}});
    for object in &policy {
        create(cluster, object).await;
    }
    enforced(cluster, case, &objects[0]).await;
    let mut wrong = warnings(cluster).await;
    for (sequence, object) in case.sequences.iter().zip(&objects) {
        for (number, (user, act, allowed)) in sequence.steps.iter().enumerate() {
            let act = match act {
                Act::Patch(change) => &Act::Patch(owned(change, &owners)),
                _ => act,
            };
            let said = send(cluster, *user, act, object, &number.to_string(), &[]).await;
            let expected = match &said {
                Ok(_) => *allowed,
                Err(error) => !allowed && error.to_string().contains(BY_POLICY),
            };
            if !expected {
                wrong.push(format!("{}, step {number}: {} {act:?}: {said:?}", sequence.what, user.name));
            }
        }
    }
    cluster.kubectl.run(&["delete", "clusterrole,clusterrolebinding", &cluster.namespace]).await.unwrap();
    for object in policy.iter().rev() {
        let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        cluster.kubectl.run(&["delete", kind, name]).await.unwrap();
    }
    wrong
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_sequence_of_requests_gets_around_the_permission_to_resume_on_a_real_server() {
    let _machine = scenarios::share_the_machine().await;
    let cluster = TestCluster::with(Server::Real, Setting::default()).await.unwrap();
    if !cluster.has_policies("validating").await.unwrap() {
        println!("not enforced: the server has no admission policies");
        return;
    }
    let mut wrong = Vec::new();
    for (index, case) in cases().iter().enumerate() {
        let apart = cluster.apart(&format!("{}-{index}", cluster.namespace)).await.unwrap();
        wrong.extend(play(&apart, case).await);
        apart.clear().await.unwrap();
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
