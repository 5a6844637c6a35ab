//! The admission policies of the chart and of the documentation, on sequences of requests. A CEL library
//! evaluates the expressions (`evaluated`); a real API server that has such policies enforces them
//! (`enforced`).

#[cfg(feature = "real-servers")]
mod enforced;
mod evaluated;
mod sequences;

use scenarios::Helm;
use serde_json::{Value, json};

use crate::chart::CHART;

/// Who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct User {
    name: &'static str,
    group: &'static str,
    /// Has `patch` on `ordereddeployments/status`.
    may_resume: bool,
    /// Has `patch` on `nodes`.
    may_cordon: bool,
}

/// What a user does with the object of a sequence.
#[derive(Clone, Debug)]
enum Act {
    /// Creates another object: this one, changed by a merge patch.
    Create(Value),
    /// A merge patch of the object.
    Patch(Value),
    /// The same by the subresource `status`.
    PatchStatus(Value),
    Delete,
    /// Deletes all objects with the label `name` of this one, in one request.
    DeleteCollection,
    Evict,
    /// Binds the pod to a node by this resource and gives it these annotations.
    Bind(&'static str, Value),
}

/// Requests for one object, in order.
struct Sequence {
    what: &'static str,
    /// The object before the first request.
    object: Value,
    /// The requests, and whether each is allowed.
    steps: Vec<(User, Act, bool)>,
}

/// A policy with its binding, and the sequences that it is for. The first request of the first sequence is
/// refused.
struct Case {
    /// The values of the chart, or a file in `docs/examples`.
    source: &'static str,
    sequences: Vec<Sequence>,
}

impl Case {
    /// The policy and its binding.
    async fn objects(&self) -> Vec<Value> {
        let text = if self.source.contains('=') {
            let values =
                format!("--set=image.repository=example.com/a,admissionPolicy.enabled=true,{}", self.source);
            let helm = Helm::without_server().unwrap();
            let supported = "--api-versions=admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy";
            let only = "--show-only=templates/admissionpolicy.yaml";
            helm.run(&["template", "web", CHART, &values, supported, only]).await.unwrap()
        } else {
            std::fs::read_to_string(scenarios::top().join("docs/examples").join(self.source)).unwrap()
        };
        let mut objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        let [policy, binding] = &mut objects[..] else { panic!("{}: {objects:?}", self.source) };
        assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
        assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));
        objects
    }
}

/// The object after a merge patch.
pub(crate) fn merged(mut target: Value, patch: &Value) -> Value {
    json_patch::merge(&mut target, patch);
    target
}
