//! Why the controller, or one reconciliation, could not continue.

use ordereddeployment_kubernetes::RequestError;

/// Why the controller, or one reconciliation, could not continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The OrderedDeployment could not be read.
    #[error("cannot read the OrderedDeployment: {0}")]
    ReadDeployment(#[source] RequestError),
    /// Its sets could not be listed.
    #[error("cannot list the sets: {0}")]
    ListSets(#[source] RequestError),
    /// A set could not be read.
    #[error("cannot read a set: {0}")]
    ReadSet(#[source] RequestError),
    /// Its pods could not be listed.
    #[error("cannot list the pods: {0}")]
    ListPods(#[source] RequestError),
    /// A pod could not be read.
    #[error("cannot read a pod: {0}")]
    ReadPod(#[source] RequestError),
    /// A node could not be read.
    #[error("cannot read a node: {0}")]
    ReadNode(#[source] RequestError),
    /// A migration source could not be read.
    #[error("cannot read the migration source: {0}")]
    ReadSource(#[source] RequestError),
    /// The status could not be stored.
    #[error("cannot store the status: {0}")]
    StoreStatus(#[source] RequestError),
    /// This process lost the lease.
    #[error("leader election lost: the process ends, and a new one reads everything live")]
    LostLease,
    /// A controller panicked.
    #[error("the controller panicked: {0}")]
    Panicked(String),
    /// Metrics and health could not be served.
    #[error("cannot serve metrics and health: {0}")]
    Serve(#[source] std::io::Error),
}

impl Error {
    /// Whether a request was not sent because this process is not the leader, or stands aside.
    pub(crate) fn is_not_leading(&self) -> bool {
        matches!(self.request(), Some(RequestError::NotLeading))
    }

    /// Whether the API server does not permit the request.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.request().and_then(RequestError::code) == Some(403)
    }

    fn request(&self) -> Option<&RequestError> {
        std::error::Error::source(self)?.downcast_ref()
    }
}
