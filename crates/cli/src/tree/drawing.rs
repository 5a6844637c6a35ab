//! How a tree is drawn: in which style, how wide, and with which flags in its commands.

use crate::style::{Style, width_of_stdout};

/// How a tree is drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawing<'a> {
    pub(crate) style: Style,
    /// Flags that commands to copy must repeat.
    pub(crate) flags: &'a str,
    /// Columns that would make lines wider than this are left out; none on a pipe.
    pub(crate) width: Option<usize>,
    /// All columns there are, whatever the width.
    pub(crate) wide: bool,
}

impl<'a> Drawing<'a> {
    /// As the standard output asks for.
    pub(crate) fn of_stdout(flags: &'a str) -> Self {
        let style = Style::of_stdout();
        Self { style, flags, width: width_of_stdout(), wide: false }
    }
}
