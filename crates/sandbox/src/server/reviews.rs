//! Reviews: what a user may do, and who the user is. They are answered and never stored.
//!
//! Source: `pkg/registry/authorization` and `pkg/registry/authentication/selfsubjectreview`.

use serde_json::{Value, json};

use super::roles::listed;
use super::{Answer, Ask, Reply, State, metadata};
use crate::clock::seconds;
use crate::object;
use crate::rbac::{Attributes, Decision, NoRole, User, authorize, joined, rules_for};
use crate::schema::Cause;
use crate::status::Failure;

impl State {
    pub(super) fn review(&self, ask: &Ask<'_>) -> Answer {
        if ask.call.method != http::Method::POST || ask.target.name.is_some() {
            return Err(Failure::method_not_allowed());
        }
        let mut body = ask.call.json()?;
        metadata::decode(ask, &mut body)?;
        let own = &ask.call.user;
        let mut review = match ask.info.kind.as_str() {
            "SelfSubjectReview" => self.who(own),
            "SelfSubjectRulesReview" => self.rules(own, &body)?,
            "SelfSubjectAccessReview" => self.access(ask, own, body)?,
            _ => {
                let user = reviewed_user(&body["spec"]);
                self.access(ask, &user, body)?
            }
        };
        crate::render::stamp(&ask.info, &mut review);
        Ok(Reply::Json { code: 201, body: review, warnings: Vec::new() })
    }

    fn who(&self, user: &User) -> Value {
        let mut info = json!({"username": user.name});
        if !user.uid.is_empty() {
            info["uid"] = json!(user.uid);
        }
        if !user.groups.is_empty() {
            info["groups"] = json!(user.groups);
        }
        if !user.extra.is_empty() {
            info["extra"] = json!(user.extra);
        }
        json!({"metadata": {"creationTimestamp": seconds(self.now())}, "status": {"userInfo": info}})
    }

    fn rules(&self, user: &User, body: &Value) -> Result<Value, Failure> {
        let namespace = body.pointer("/spec/namespace").and_then(Value::as_str).unwrap_or_default();
        if namespace.is_empty() {
            return Err(Failure::bad_request("no namespace on request"));
        }
        let (rules, missing) = rules_for(self, user, namespace);
        let mut status = json!({
            "resourceRules": listed(&rules, false), "nonResourceRules": listed(&rules, true), "incomplete": false,
        });
        if !missing.is_empty() {
            let errors: Vec<String> = missing.iter().map(NoRole::cached).collect();
            status["evaluationError"] = joined(&errors).into();
        }
        Ok(json!({"metadata": {}, "spec": {}, "status": status}))
    }

    fn access(&self, ask: &Ask<'_>, user: &User, mut review: Value) -> Result<Value, Failure> {
        let causes = check(ask, &review);
        if !causes.is_empty() {
            // The message of the API server has no kind.
            return Err(Failure::invalid_kind(&ask.info.group, "", "", &causes));
        }
        let status = match authorize(self, user, &reviewed_request(&review["spec"])) {
            Decision::Allowed(reason) => (true, reason),
            Decision::Denied(reason) => (false, reason),
        };
        review["status"] = json!({"allowed": status.0});
        if !status.1.is_empty() {
            review["status"]["reason"] = status.1.into();
        }
        Ok(review)
    }
}

fn reviewed_user(spec: &Value) -> User {
    let text = |key: &str| spec[key].as_str().unwrap_or_default().to_owned();
    let groups = spec["groups"].as_array().into_iter().flatten();
    User {
        name: text("user"),
        uid: text("uid"),
        groups: groups.filter_map(|group| group.as_str().map(str::to_owned)).collect(),
        ..User::default()
    }
}

fn reviewed_request(spec: &Value) -> Attributes {
    let path = &spec["nonResourceAttributes"];
    let attributes = if path.is_object() { path } else { &spec["resourceAttributes"] };
    let text = |key: &str| attributes[key].as_str().unwrap_or_default().to_owned();
    Attributes {
        verb: text("verb"),
        group: text("group"),
        resource: text("resource"),
        subresource: text("subresource"),
        namespace: text("namespace"),
        name: text("name"),
        path: path.is_object().then(|| text("path")),
    }
}

/// Source: `pkg/apis/authorization/validation/validation.go`.
fn check(ask: &Ask<'_>, review: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = &review["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    if resource.is_object() && path.is_object() {
        let detail = "cannot be specified in combination with resourceAttributes";
        causes.push(Cause::invalid("spec.nonResourceAttributes", path, detail));
    }
    if !resource.is_object() && !path.is_object() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        causes.push(Cause::invalid("spec.resourceAttributes", &Value::Null, detail));
    }
    let own = ask.info.kind == "SelfSubjectAccessReview";
    if !own
        && spec["user"].as_str().is_none_or(str::is_empty)
        && spec["groups"].as_array().is_none_or(Vec::is_empty)
    {
        let detail = "at least one of user or group must be specified";
        causes.push(Cause::invalid("spec.user", &"".into(), detail));
    }
    let local = ask.info.namespaced;
    let named = review["metadata"].as_object().is_some_and(|meta| {
        meta.iter().any(|(key, value)| !(value.is_null() || local && key == "namespace"))
    });
    if named {
        let detail = if local { "must be empty except for namespace" } else { "must be empty" };
        causes.push(Cause::invalid("metadata", &review["metadata"], detail));
    }
    if local {
        let namespace = resource["namespace"].as_str().unwrap_or_default();
        if resource.is_object() && namespace != object::namespace(review) {
            let field = "spec.resourceAttributes.namespace";
            causes.push(Cause::invalid(field, &namespace.into(), "must match metadata.namespace"));
        }
        if path.is_object() {
            let detail = "disallowed on this kind of request";
            causes.push(Cause::invalid("spec.nonResourceAttributes", path, detail));
        }
    }
    causes
}
