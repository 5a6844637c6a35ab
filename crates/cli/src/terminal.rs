//! Text on a terminal: escapes, colours, tables, and lines that are drawn again.

pub(crate) mod escape;
pub(crate) mod frame;
pub(crate) mod help_width;
pub(crate) mod style;
pub(crate) mod table;
