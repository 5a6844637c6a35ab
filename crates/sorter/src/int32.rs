//! The grammar that the delete priority and the deletion cost share. Never reports what is wrong with a value:
//! malformed counts as absent, and the one who read the annotation warns about it.

/// A decimal int32 without a leading `+` and without a leading zero; `None` is malformed.
///
/// These are Kubernetes' words for the pod deletion cost, and its reading of them: only the first character is
/// looked at for a leading zero, so `-0` is 0 and `-008` is -8. Both keys follow it, so that a value which the
/// API server admits as a cost is a value here.
#[must_use]
pub fn parse_int32(text: &str) -> Option<i32> {
    match text.as_bytes() {
        [b'0'] => Some(0),
        [b'-' | b'1'..=b'9', ..] => text.parse().ok(),
        _ => None,
    }
}
