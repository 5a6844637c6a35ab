//! Escapes text for the terminal. Names, images, messages and change causes come from other users: control
//! characters in them are printed in escaped form, so that they have no effect on the terminal.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{IsTerminal, Write};

/// Marks for colours: noncharacters that `Style::paint` writes and [`terminal_text`] replaces by escape
/// sequences. [`escaped`] escapes them in foreign text. The first one ends a colour.
pub(crate) const PAINT_MARKS: [(char, &str); 6] = [
    ('\u{fdd0}', "0"),
    ('\u{fdd1}', "1"),
    ('\u{fdd2}', "2"),
    ('\u{fdd3}', "32"),
    ('\u{fdd4}', "1;33"),
    ('\u{fdd5}', "31"),
];

fn sequence(c: char) -> Option<&'static str> {
    PAINT_MARKS.iter().find(|(mark, _)| *mark == c).map(|(_, code)| *code)
}

/// C0, DEL, C1, line separators, and bidirectional controls (<https://trojansource.codes>).
fn is_control(c: char) -> bool {
    let direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || direction
}

/// Escapes foreign text for use in a line. Line breaks are escaped too.
pub(crate) fn escaped(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !is_control(c) && sequence(c).is_none();
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    text.chars()
        .map(|c| if is_plain(c) { c.to_string() } else { c.escape_default().to_string() })
        .collect::<String>()
        .into()
}

/// The output for the terminal: with line breaks and colours, all other control characters escaped.
pub(crate) fn terminal_text(text: &str) -> String {
    let mut text_out = String::with_capacity(text.len());
    for c in text.chars() {
        match sequence(c) {
            Some(code) => text_out.extend(["\x1b[", code, "m"]),
            None if c != '\n' && is_control(c) => text_out.extend(c.escape_default()),
            None => text_out.push(c),
        }
    }
    text_out
}

pub(crate) fn print(text: impl Display) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    out.write_all(terminal_text(&text.to_string()).as_bytes())?;
    out.flush()
}

pub(crate) fn print_line(text: impl Display) -> std::io::Result<()> {
    print(format_args!("{text}\n"))
}

/// Prints output for programs: unchanged, except on a terminal.
pub(crate) fn print_data(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    if out.is_terminal() {
        return print(text);
    }
    out.write_all(text.as_bytes())?;
    out.flush()
}

pub(crate) fn print_stderr(text: impl Display) {
    // A failure to print cannot be reported anywhere.
    let _ = writeln!(std::io::stderr(), "{}", terminal_text(&text.to_string()));
}

#[cfg(test)]
mod tests {
    use super::{escaped, terminal_text};
    use crate::terminal::style::{Paint, Style};

    /// Sets the title, moves to the top, overwrites the line, and changes the direction of writing.
    const BAD: &str = "web\x1b]0;owned\x07\x1b[1;1H\u{9b}31m\r\u{202e}1:bew\u{2066}\n\t";

    #[test]
    fn control_characters_are_escaped() {
        let escaped_text = r"web\u{1b}]0;owned\u{7}\u{1b}[1;1H\u{9b}31m\r\u{202e}1:bew\u{2066}";
        assert_eq!(escaped(BAD), format!(r"{escaped_text}\n\t"));
        assert_eq!(terminal_text(BAD), format!("{escaped_text}\n\\t"));
        assert_eq!(escaped("✔ größer, 漢字"), "✔ größer, 漢字");
    }

    #[test]
    fn colour_marks_in_foreign_text_are_escaped() {
        let style = Style { color: true, unicode: true };
        let painted = style.paint(Paint::Bad, "gone");
        assert_eq!(terminal_text(&painted), "\x1b[31mgone\x1b[0m");
        assert_eq!(terminal_text(&escaped(&painted)), r"\u{fdd5}gone\u{fdd0}");
    }
}
