//! Every constraint of the CRDs, violated once and satisfied once on real servers: the cases of
//! `crates/api/tests/validation/cases`.
//!
//! The API server of the control plane is usually 1.20: it does not evaluate CEL, and has its own messages.
//! Kubernetes' current CRD server must name the one field and give the one reason. The checks are dry runs;
//! one object of each kind is stored, for updates.

// One list for two readers.
#[path = "../../../../crates/api/tests/validation/cases/mod.rs"]
mod cases;

use std::path::PathBuf;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::client::Body;
use kube::{Api, Client};
use ordereddeployment_api::crds;
use scenarios::{Setting, real::ControlPlane};
use serde_json::{Value, json};

use cases::{Case, DEPLOYMENT, REPLICA_SET, minimal};

const NAME: &str = "stored";

/// A server that is asked.
struct Asked {
    client: Client,
    /// Whether it evaluates CEL, and answers with the messages of the cases.
    is_current: bool,
}

impl Asked {
    /// The code and the body of the answer.
    async fn send(&self, method: &str, path: &str, object: Option<&Value>) -> (u16, Value) {
        let request = http::Request::builder().method(method).uri(path);
        let request = request.header(http::header::CONTENT_TYPE, "application/json");
        // A body that the server does not read resets the connection.
        let body = object.map(Value::to_string).unwrap_or_default();
        let request = request.body(Body::from(body.into_bytes())).unwrap();
        let answer = self.client.send(request).await.unwrap();
        let code = answer.status().as_u16();
        (code, serde_json::from_slice(&answer.into_body().collect_bytes().await.unwrap()).unwrap())
    }

    /// Stores one object of each kind, from which cases of updates and of the status start.
    async fn store(&self) {
        for kind in [DEPLOYMENT, REPLICA_SET] {
            let mut object = minimal(kind);
            object["metadata"]["name"] = json!(NAME);
            let (code, answer) = self.send("POST", &collection(kind), Some(&object)).await;
            assert_eq!(code, 201, "the minimal {kind} is refused: {answer}");
        }
    }

    async fn ask(&self, case: &Case, patch: &Value) -> (u16, Value) {
        let mut object = case.object(patch);
        let collection = collection(case.kind);
        if !case.is_transition() && !case.is_of_the_status() {
            return self.send("POST", &format!("{collection}?dryRun=All"), Some(&object)).await;
        }
        let (_, stored) = self.send("GET", &format!("{collection}/{NAME}"), None).await;
        object["metadata"] = stored["metadata"].clone();
        let part = if case.is_of_the_status() { "/status" } else { "" };
        self.send("PUT", &format!("{collection}/{NAME}{part}?dryRun=All"), Some(&object)).await
    }

    /// What is wrong with the answer to a change that violates the case's constraint.
    async fn refuses(&self, case: &Case, patch: &Value, rules: &[&str]) -> Option<String> {
        let (code, answer) = self.ask(case, patch).await;
        if code != 422 {
            return Some(format!("it should be refused; the server answers {code}: {}", answer["message"]));
        }
        let causes = causes(&answer, case, rules);
        // Old servers omit the index of a list item.
        let (field, no_index) = (case.field(), case.field().replace("[0]", ""));
        let named = |cause: &String| cause.contains(&field) || !self.is_current && cause.contains(&no_index);
        let fits = if self.is_current {
            causes.len() == 1 && causes.iter().all(|cause| named(cause) && cause.contains(case.says()))
        } else {
            causes.iter().any(named)
        };
        let wanted = format!("{field}: {}", case.says());
        (!fits).then(|| format!("it should be refused for {wanted:?} alone; the server says {causes:#?}"))
    }

    /// What is wrong with the answer to a change that violates nothing.
    async fn accepts(&self, case: &Case, patch: &Value) -> Option<String> {
        let (code, answer) = self.ask(case, patch).await;
        let is_accepted = code == 200 || code == 201;
        (!is_accepted)
            .then(|| format!("it should be accepted; the server answers {code}: {}", answer["message"]))
    }

    /// Tries every case. Returns how many answers are right, and what is wrong with the others.
    async fn answers(&self) -> (usize, Vec<String>) {
        let cases = cases::all();
        let rules: Vec<&str> = cases.iter().filter(|case| case.is_cel()).map(Case::says).collect();
        let (mut right, mut wrong) = (0, Vec::new());
        self.store().await;
        for case in cases.iter().filter(|case| self.is_current || !case.is_new()) {
            let changes = case.breaks.iter().map(|patch| (patch, true));
            for (patch, breaks) in changes.chain(case.passes.iter().map(|patch| (patch, false))) {
                let error = if breaks {
                    self.refuses(case, patch, &rules).await
                } else {
                    self.accepts(case, patch).await
                };
                match error {
                    None => right += 1,
                    Some(error) => wrong.push(format!("{}\n  with {patch}\n  {error}", case.id())),
                }
            }
        }
        (right, wrong)
    }
}

/// Each cause as `field: message`, without what a server adds to a refusal: that rules were not evaluated,
/// its own checks of `.spec.replicas` and `.status.replicas` for the scale subresource, and, besides violated
/// bounds, the format. For a constraint that is not a rule, rules that read the same field may fail too.
fn causes(answer: &Value, case: &Case, rules: &[&str]) -> Vec<String> {
    let causes = answer.pointer("/details/causes").and_then(Value::as_array).into_iter().flatten();
    let texts = causes.filter_map(|cause| Some((cause["field"].as_str()?, cause["message"].as_str()?)));
    texts
        .filter(|(field, message)| {
            let added = ["some validation rules were not checked", "Checked value must be of type"];
            !field.starts_with('.') && !added.iter().any(|added| message.contains(added))
        })
        .filter(|(_, message)| case.is_cel() || !rules.iter().any(|rule| message.contains(rule)))
        .map(|(field, message)| format!("{field}: {message}"))
        .collect()
}

fn collection(kind: &str) -> String {
    format!("/apis/ordereddeployment.io/v1alpha1/namespaces/default/{}s", kind.to_lowercase())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_crds_are_served_and_refuse_what_violates_a_constraint_on_a_real_server() {
    let program = std::env::var_os("CRD_SERVER").map(PathBuf::from);
    let program = program.expect("CRD_SERVER names Kubernetes' CRD server: `cargo xtask crd-check` sets it");
    let setting = Setting { nodes: Vec::new(), ..Setting::default() };
    let mut plane = ControlPlane::start(&setting).await.unwrap();
    let old = Asked { client: plane.client("scenario").await.unwrap(), is_current: plane.minor() >= 36 };
    let client = plane.start_crd_server(&program, &setting.definitions).await.unwrap();
    for asked in [old, Asked { client, is_current: true }] {
        let api: Api<CustomResourceDefinition> = Api::all(asked.client.clone());
        for definition in crds() {
            let stored = api.get_status(definition.metadata.name.as_deref().unwrap()).await.unwrap();
            let conditions = stored.status.and_then(|status| status.conditions).unwrap_or_default();
            assert!(conditions.iter().all(|one| one.type_ != "NonStructuralSchema"), "{conditions:?}");
        }
        let (right, wrong) = asked.answers().await;
        println!("{right} answers are right, {} are wrong", wrong.len());
        assert!(wrong.is_empty(), "current: {}\n{}", asked.is_current, wrong.join("\n"));
    }
}
