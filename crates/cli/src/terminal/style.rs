//! Colours and Unicode lines in the output.

use std::ffi::OsString;
use std::io::IsTerminal;

use crate::terminal::escape::PAINT_MARKS;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) color: bool,
    pub(crate) unicode: bool,
}

/// The meaning of a coloured text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    Title,
    Dim,
    Good,
    Warn,
    Bad,
}

impl Style {
    /// Colours on a terminal or with `CLICOLOR_FORCE`, and not with `NO_COLOR`; Unicode in UTF-8 locales.
    pub(crate) fn of_stdout() -> Self {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let locale = locale.to_string_lossy().to_ascii_lowercase();
        Self {
            color: has_colors(std::io::stdout().is_terminal()),
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    /// The text in that colour, or unchanged without colours. The colour is a mark;
    /// [`crate::terminal::escape::terminal_text`] replaces it by an escape sequence.
    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        if !self.color || text.is_empty() {
            return text.to_owned();
        }
        let [end, title, dim, good, warn, bad] = PAINT_MARKS.map(|(mark, _)| mark);
        let begin = match paint {
            Paint::Title => title,
            Paint::Dim => dim,
            Paint::Good => good,
            Paint::Warn => warn,
            Paint::Bad => bad,
        };
        format!("{begin}{text}{end}")
    }

    pub(crate) fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { unicode } else { ascii }
    }
}

fn set(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn has_colors(is_terminal: bool) -> bool {
    let on_terminal = is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    let forced = set("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    set("NO_COLOR").is_none() && (on_terminal || forced)
}

pub(crate) fn has_colors_on_stderr() -> bool {
    has_colors(std::io::stderr().is_terminal())
}

/// The width of the terminal; `None` if the output is not a terminal.
pub(crate) fn width_of_stdout() -> Option<usize> {
    let is_terminal = std::io::stdout().is_terminal();
    let size = is_terminal.then(terminal_size::terminal_size).flatten();
    size.map(|(width, _)| usize::from(width.0)).filter(|width| *width > 0)
}
