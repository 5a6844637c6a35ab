//! Which way an adoption goes.

/// Where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// From a Deployment to an OrderedDeployment.
    Forward,
    /// From an OrderedDeployment to a Deployment.
    Back,
}
