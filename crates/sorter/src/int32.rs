//! The grammar of the delete priority and of the deletion cost. The parser does not report errors: a
//! malformed value counts as absent, and the reader of the annotation warns of it.

/// A decimal int32 without a leading `+` and without a leading zero; `None` is malformed.
///
/// This is how Kubernetes documents and reads the pod deletion cost: it checks only the first character for
/// a leading zero, so `-0` is 0 and `-008` is -8. Both annotations follow it, so that every value that the
/// API server accepts as a cost is valid here.
#[must_use]
pub fn parse_int32(text: &str) -> Option<i32> {
    match text.as_bytes() {
        [b'0'] => Some(0),
        [b'-' | b'1'..=b'9', ..] => text.parse().ok(),
        _ => None,
    }
}
