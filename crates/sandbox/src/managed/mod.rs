//! Managed fields and server-side apply, without a server: sets of fields, how types merge, and who owns what.
//!
//! The model is sigs.k8s.io/structured-merge-diff with the field manager of apimachinery
//! (`pkg/util/managedfields`). Nothing here reads the time, stores objects or answers requests.

mod change;
mod check;
mod compare;
mod conflict;
mod element;
mod extract;
mod last_applied;
mod managers;
mod merge;
mod remove;
mod set;
mod shape;

pub(crate) use change::{Change, apply, update};
pub(crate) use check::check;
pub(crate) use conflict::{causes, message};
pub(crate) use managers::Managers;
pub(crate) use set::FieldSet;
pub(crate) use shape::Shape;

#[cfg(test)]
mod tests;
