//! Why the controller, or one reconciliation, could not continue.

use ordereddeployment_kubernetes::RequestError;

/// Why the controller, or one reconciliation, could not continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A read failed.
    #[error("cannot {0}: {1}")]
    Read(&'static str, #[source] RequestError),
    /// The status could not be stored.
    #[error("cannot store the status: {0}")]
    StoreStatus(#[source] RequestError),
    /// This process lost the lease.
    #[error("leader election lost: the process ends, and a new one reads everything live")]
    LostLease,
    /// A controller panicked.
    #[error("the controller panicked: {0}")]
    Panicked(String),
}

impl Error {
    /// The failure of a request that was to read or to list something.
    pub(crate) fn to(doing: &'static str) -> impl FnOnce(RequestError) -> Self {
        move |error| Self::Read(doing, error)
    }

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
