//! Text on a terminal: escapes, colours and tables.

pub(crate) mod escape;
pub(crate) mod style;
pub(crate) mod table;
