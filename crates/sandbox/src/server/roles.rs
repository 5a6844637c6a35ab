//! Users and roles: which request may be made, which roles may be written, and the aggregated roles.
//!
//! The decisions are in `rbac`; this module gives them the stored roles. Without roles every request is allowed.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Answer, Ask, Server, State, storage};
use crate::object;
use crate::rbac::{
    Attributes, Decision, GROUP, NoRole, Roles, Rule, User, aggregated, authorize, default_bindings,
    default_roles, is_full_authority, missing_rules, role_rules, rules_of,
};
use crate::render;
use crate::request::{Call, Query, Target, attributes};
use crate::resource::{self, Origin, ResourceInfo};
use crate::status::Failure;
use crate::store::Key;

/// The limit of the passes over the aggregated roles: roles can aggregate each other.
const PASSES: usize = 10;

impl Roles for State {
    fn role(&self, namespace: &str, name: &str) -> Option<&Value> {
        self.one("roles", namespace, name)
    }

    fn cluster_role(&self, name: &str) -> Option<&Value> {
        self.one("clusterroles", "", name)
    }

    fn bindings(&self, namespace: &str) -> Vec<&Value> {
        self.all("rolebindings", Some(namespace))
    }

    fn cluster_bindings(&self) -> Vec<&Value> {
        self.all("clusterrolebindings", None)
    }
}

impl Server {
    /// Handles a request if a role allows it, as the user that it acts as.
    pub(super) fn authorized(
        self: &Arc<Self>,
        state: &mut State,
        call: &Call,
        query: Query,
        target: Option<Target>,
    ) -> Answer {
        let acting = state.authorize(call, &query)?;
        self.route(state, acting.as_ref().unwrap_or(call), query, target)
    }
}

impl State {
    /// Serves roles and bindings, creates the default ones, and checks every request from now on.
    pub(crate) fn enable_roles(&mut self) {
        self.has_roles = true;
        self.registry.extend(resource::access_kinds().into_iter().map(Arc::new));
        let objects = default_roles().into_iter().chain(default_bindings());
        for mut object in objects {
            let kind = object["kind"].clone();
            let Some(info) = self.registry.iter().find(|info| info.group == GROUP && kind == info.kind)
            else {
                continue;
            };
            let info = Arc::clone(info);
            self.stamp_new(&info, &mut object);
            render::stamp(&info, &mut object);
            let key: Key = (String::new(), object::name(&object).to_owned());
            self.store.put(&storage(&info), &key, object);
        }
        self.aggregate_roles();
    }

    /// Decides about a request. With impersonation, returns it as a request of the other user.
    fn authorize(&self, call: &Call, query: &Query) -> Result<Option<Call>, Failure> {
        if !self.has_roles {
            return Ok(None);
        }
        let needs = call.impersonation.needs()?;
        for need in &needs {
            self.require(&call.user, need)?;
        }
        let acting = (!needs.is_empty()).then(|| Call { user: call.impersonation.target(), ..call.clone() });
        let user = acting.as_ref().map_or(&call.user, |acting| &acting.user);
        self.require(user, &attributes(&call.method, &call.path, query))?;
        Ok(acting)
    }

    /// An update that creates the object needs the verb `create` too.
    pub(super) fn authorize_create(&self, ask: &Ask<'_>) -> Result<(), Failure> {
        if !self.has_roles {
            return Ok(());
        }
        let request = attributes(&ask.call.method, &ask.call.path, &ask.query);
        self.require(&ask.call.user, &Attributes { verb: "create".to_owned(), ..request })
    }

    fn require(&self, user: &User, request: &Attributes) -> Result<(), Failure> {
        match authorize(self, user, request) {
            Decision::Allowed(_) => Ok(()),
            Decision::Denied(reason) => Err(request.refused(&user.name, &reason)),
        }
    }

    /// Refuses a role with rules that the user does not have, and a binding to such a role.
    ///
    /// Source: the packages `policybased` in `pkg/registry/rbac`.
    pub(super) fn check_escalation(
        &self,
        ask: &Ask<'_>,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Failure> {
        let (info, user) = (&ask.info, &ask.call.user);
        if !self.has_roles || !is_access(info) || user.is_all_powerful() {
            return Ok(());
        }
        if old.is_some_and(|old| differs_only_for_the_collector(object, old)) {
            return Ok(());
        }
        let refuse = |why: &str| Failure::forbidden_to(GROUP, &info.plural, object::name(object), why);
        let namespace = ask.namespace();
        let rules = match info.kind.as_str() {
            "Role" | "ClusterRole" => {
                if self.may_escalate(ask) {
                    return Ok(());
                }
                rules_of(object)
            }
            _ => {
                if self.may_bind(user, &object["roleRef"], namespace) {
                    return Ok(());
                }
                role_rules(self, &object["roleRef"], namespace).map_err(|error| no_role(&error))?
            }
        };
        if let Some(message) = missing_rules(self, user, namespace, &rules) {
            return Err(refuse(&message));
        }
        let gathers = |role: &Value| role["aggregationRule"].is_object();
        if (gathers(object) || old.is_some_and(gathers)) && !is_full_authority(self, user, namespace) {
            return Err(refuse("must have cluster-admin privileges to use an aggregationRule"));
        }
        Ok(())
    }

    fn may_escalate(&self, ask: &Ask<'_>) -> bool {
        let request = attributes(&ask.call.method, &ask.call.path, &ask.query);
        let escalate = Attributes { verb: "escalate".to_owned(), ..request };
        matches!(authorize(self, &ask.call.user, &escalate), Decision::Allowed(_))
    }

    fn may_bind(&self, user: &User, role: &Value, namespace: &str) -> bool {
        let text = |key: &str| role[key].as_str().unwrap_or_default();
        let resource = match text("kind") {
            "Role" => "roles",
            "ClusterRole" => "clusterroles",
            _ => return false,
        };
        let bind = Attributes {
            verb: "bind".to_owned(),
            group: GROUP.to_owned(),
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: text("name").to_owned(),
            ..Attributes::default()
        };
        matches!(authorize(self, user, &bind), Decision::Allowed(_))
    }

    /// Computes the rules of the aggregated roles after a change of a cluster role.
    pub(super) fn after_role_change(&mut self, info: &ResourceInfo) {
        if self.has_roles && info.is_builtin(GROUP, "ClusterRole") {
            self.aggregate_roles();
        }
    }

    fn aggregate_roles(&mut self) {
        let resource = (GROUP.to_owned(), "clusterroles".to_owned());
        for _ in 0..PASSES {
            let all = self.all("clusterroles", None);
            let changed: Vec<(Key, Value)> = all
                .iter()
                .filter_map(|role| {
                    let rules = Value::from(aggregated(role, &all)?);
                    let old = role.get("rules").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
                    let mut role = Value::clone(role);
                    object::set(&mut role, "rules", Some(&rules));
                    (old != rules).then(|| ((String::new(), object::name(&role).to_owned()), role))
                })
                .collect();
            if changed.is_empty() {
                return;
            }
            for (key, role) in changed {
                self.store.put(&resource, &key, role);
            }
        }
    }

    fn one(&self, plural: &str, namespace: &str, name: &str) -> Option<&Value> {
        let key = (namespace.to_owned(), name.to_owned());
        self.store.get(&(GROUP.to_owned(), plural.to_owned()), &key).map(Arc::as_ref)
    }

    /// All objects of a resource, in the order of their names.
    fn all(&self, plural: &str, namespace: Option<&str>) -> Vec<&Value> {
        let resource = (GROUP.to_owned(), plural.to_owned());
        let found = self.store.collections().filter(|(one, _)| **one == resource);
        let objects = found.flat_map(|(_, collection)| &collection.objects);
        objects
            .filter(|(key, _)| namespace.is_none_or(|namespace| key.0 == namespace))
            .map(|(_, object)| object.as_ref())
            .collect()
    }
}

/// Whether the resource is one of roles and bindings.
pub(super) fn is_access(info: &ResourceInfo) -> bool {
    info.origin == Origin::Builtin && info.group == GROUP
}

fn no_role(error: &NoRole) -> Failure {
    let message = error.stored();
    match error {
        NoRole::Missing(kind, name) => {
            let mut failure = Failure::new(404, "NotFound", message);
            failure.details = Some(json!({"name": name, "group": GROUP, "kind": format!("{kind}s")}));
            failure
        }
        NoRole::UnknownKind(_) => Failure::internal(message),
    }
}

/// Whether an update changes only the owners and the finalizers, as the garbage collector does.
fn differs_only_for_the_collector(object: &Value, old: &Value) -> bool {
    let mut object = object.clone();
    for key in ["ownerReferences", "finalizers"] {
        let value = old["metadata"].get(key).cloned().unwrap_or_default();
        object::set_meta(&mut object, key, value);
    }
    object == *old
}

/// The rules as a review lists them.
pub(super) fn listed(rules: &[Rule], urls: bool) -> Value {
    let chosen =
        rules.iter().filter(|rule| if urls { !rule.urls.is_empty() } else { !rule.resources.is_empty() });
    chosen.map(Rule::to_value).collect()
}
