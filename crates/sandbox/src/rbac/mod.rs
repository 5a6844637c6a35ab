//! Role-based access control: who may do what.
//!
//! Pure functions of stored roles, a user and a request. This module never reads the store, changes no object and
//! authenticates nobody; `server` does. The semantics are those of `plugin/pkg/auth/authorizer/rbac` and
//! `pkg/registry/rbac` in Kubernetes.

mod aggregation;
mod attributes;
mod defaults;
mod escalation;
mod impersonation;
mod policy;
mod rule;
#[cfg(test)]
mod tests;
mod user;

pub(crate) use aggregation::aggregated;
pub(crate) use attributes::Attributes;
pub(crate) use defaults::{default_bindings, default_roles};
pub(crate) use escalation::{is_full_authority, missing_rules};
pub(crate) use impersonation::Impersonation;
pub(crate) use policy::{Decision, NoRole, Roles, authorize, joined, role_rules, rules_for};
pub(crate) use rule::{Rule, rules_of};
pub use user::User;

pub(crate) use crate::resource::ROLES_GROUP as GROUP;
