//! Errors of patches.

/// Why a patch could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PatchError {
    /// HTTP status.
    pub code: u16,
    /// Message of the response.
    pub message: String,
}

impl PatchError {
    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self { code: 400, message: message.into() }
    }
}
