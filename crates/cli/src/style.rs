//! What the output may be made of: colours, and lines beyond ASCII. It never changes what is said.

use std::io::IsTerminal;

use crate::escape::MARKS;

/// How to draw.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// Colours, as escape sequences.
    pub(crate) color: bool,
    /// Tree lines beyond ASCII.
    pub(crate) unicode: bool,
}

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// The name of what is shown.
    Title,
    /// Lines and headings.
    Dim,
    /// As it should be.
    Good,
    /// Somebody should look.
    Warn,
    /// It went wrong.
    Bad,
}

impl Style {
    /// Colours only on a terminal and without `NO_COLOR`; lines beyond ASCII where the locale has them.
    pub(crate) fn of_stdout() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
        let locale = locale.to_string_lossy().to_ascii_lowercase();
        Self {
            color: std::io::stdout().is_terminal()
                && set("NO_COLOR").is_none()
                && std::env::var_os("TERM").is_none_or(|term| term != "dumb"),
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    /// The text in that paint, or as it is where there are no colours. The paint is marked; [`crate::escape::shown`] makes it seen.
    pub(crate) fn paint(self, paint: Paint, text: &str) -> String {
        if !self.color || text.is_empty() {
            return text.to_owned();
        }
        let [end, title, dim, good, warn, bad] = MARKS.map(|(mark, _)| mark);
        let begin = match paint {
            Paint::Title => title,
            Paint::Dim => dim,
            Paint::Good => good,
            Paint::Warn => warn,
            Paint::Bad => bad,
        };
        format!("{begin}{text}{end}")
    }

    /// The one or the other, by what the locale can show.
    pub(crate) fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.unicode { unicode } else { ascii }
    }
}

/// How many columns the terminal has; none where the output is no terminal.
pub(crate) fn width_of_stdout() -> Option<usize> {
    let is_terminal = std::io::stdout().is_terminal();
    let size = is_terminal.then(terminal_size::terminal_size).flatten();
    size.map(|(width, _)| usize::from(width.0)).filter(|width| *width > 0)
}
