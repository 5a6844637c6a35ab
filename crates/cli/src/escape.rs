//! Text on its way to a terminal. Names, images, messages and change causes are somebody else's: what would steer a terminal in
//! them is shown, not done.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{IsTerminal, Write};

/// What the text of others cannot have: `Style::paint` marks with these noncharacters where a paint begins, and [`shown`] turns
/// them into escape sequences. The first one ends a paint.
pub(crate) const MARKS: [(char, &str); 6] = [
    ('\u{fdd0}', "0"),
    ('\u{fdd1}', "1"),
    ('\u{fdd2}', "2"),
    ('\u{fdd3}', "32"),
    ('\u{fdd4}', "1;33"),
    ('\u{fdd5}', "31"),
];

/// The escape sequence of a mark of ours.
fn sequence(c: char) -> Option<&'static str> {
    MARKS.iter().find(|(mark, _)| *mark == c).map(|(_, code)| *code)
}

/// Whether a terminal would do something else than show it: controls (C0, DEL, C1), separators of lines, and what changes the
/// direction of writing (<https://trojansource.codes>).
fn steers(c: char) -> bool {
    let direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || direction
}

/// The text of others as one piece of a line: line breaks are escaped too.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !steers(c) && sequence(c).is_none();
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    text.chars()
        .map(|c| if is_plain(c) { c.to_string() } else { c.escape_default().to_string() })
        .collect::<String>()
        .into()
}

/// The text of this program as the terminal gets it: our line breaks and paints, and nothing else that steers.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match sequence(c) {
            Some(code) => shown.extend(["\x1b[", code, "m"]),
            None if c != '\n' && steers(c) => shown.extend(c.escape_default()),
            None => shown.push(c),
        }
    }
    shown
}

/// Prints to the standard output.
pub(crate) fn print(text: impl Display) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(shown(&text.to_string()).as_bytes())?;
    out.flush()
}

/// Prints what programs read: as it is, but for a terminal.
pub(crate) fn print_data(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    if out.is_terminal() {
        return print(text);
    }
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A line on the standard error.
pub(crate) fn tell(text: impl Display) {
    // Nobody is left to tell where this fails.
    let _ = writeln!(std::io::stderr(), "{}", shown(&text.to_string()));
}

#[cfg(test)]
mod tests {
    use super::{escaped, shown};
    use crate::style::{Paint, Style};

    /// Sets the title, goes to the top, overwrites the line, and writes from right to left.
    const BAD: &str = "web\x1b]0;owned\x07\x1b[1;1H\u{9b}31m\r\u{202e}1:bew\u{2066}\n\t";

    #[test]
    fn what_steers_a_terminal_is_shown_and_not_done() {
        let told = r"web\u{1b}]0;owned\u{7}\u{1b}[1;1H\u{9b}31m\r\u{202e}1:bew\u{2066}";
        assert_eq!(escaped(BAD), format!(r"{told}\n\t"));
        assert_eq!(shown(BAD), format!("{told}\n\\t"));
        assert_eq!(escaped("✔ größer, 漢字"), "✔ größer, 漢字");
    }

    #[test]
    fn only_this_program_paints() {
        let style = Style { color: true, unicode: true };
        let painted = style.paint(Paint::Bad, "gone");
        assert_eq!(shown(&painted), "\x1b[31mgone\x1b[0m");
        assert_eq!(shown(&escaped(&painted)), r"\u{fdd5}gone\u{fdd0}");
    }
}
