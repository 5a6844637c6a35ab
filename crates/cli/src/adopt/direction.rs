//! The direction of an adoption.

/// The direction of an adoption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From a Deployment to an OrderedDeployment.
    Forward,
    /// From an OrderedDeployment to a Deployment.
    Back,
}
