//! Label and field selectors, as they stand in the query of a list or a watch.
//!
//! Never does: use indexes; both only say whether one object matches.

mod fields;
mod labels;

pub use fields::Fields;
pub use labels::Labels;
