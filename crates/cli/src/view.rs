//! What people see of an OrderedDeployment, or of a plain Deployment: its phase, its pods in order, its pause
//! points, as text and as JSON. Pure functions: no client, no clock. The planner computes everything.

pub(crate) mod age;
pub(crate) mod declared;
pub(crate) mod overview;
pub(crate) mod pause_points;
pub(crate) mod phase;
pub(crate) mod plain;
pub(crate) mod pod;
pub(crate) mod state;
pub(crate) mod tree;
