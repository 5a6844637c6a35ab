//! Label and field selectors, as in the query of a list or a watch.
//!
//! There are no indexes; a selector only decides whether one object matches.

mod fields;
mod labels;

pub use fields::Fields;
pub use labels::Labels;
