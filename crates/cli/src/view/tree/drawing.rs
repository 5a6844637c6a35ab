//! Options for drawing: style, width, and the flags of the commands that are printed.

use super::fold::Fold;
use crate::terminal::style::{Style, width_of_stdout};

/// Options for drawing a tree or a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drawing<'a> {
    pub(crate) style: Style,
    /// Flags to repeat in the printed commands.
    pub(crate) flags: &'a str,
    /// The width of the terminal: columns that do not fit are left out. `None` on a pipe.
    pub(crate) width: Option<usize>,
    /// Show all columns, whatever the width.
    pub(crate) wide: bool,
    /// Which pods are shown.
    pub(crate) fold: Fold<'a>,
}

impl<'a> Drawing<'a> {
    /// The options for standard output.
    pub(crate) fn of_stdout(flags: &'a str) -> Self {
        let style = Style::of_stdout();
        Self { style, flags, width: width_of_stdout(), wide: false, fold: Fold::default() }
    }
}
