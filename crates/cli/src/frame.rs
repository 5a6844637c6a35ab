//! Lines that are redrawn in place on a terminal. It knows nothing of what they say.

use std::io::{Result, Write};

use crate::escape::shown;

/// The size of a terminal that does not tell its own.
const USUAL: (u16, u16) = (80, 24);

/// What was drawn last, as far as it must be drawn over.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// How many lines the cursor is below the top of the frame.
    drawn: usize,
}

impl Frame {
    /// Draws over what was drawn before. Lines wider than the terminal are cut, as wrapped ones would shift the frame.
    pub(crate) fn draw(&mut self, out: &mut impl Write, lines: &[&str], prompt: &str) -> Result<()> {
        let size = terminal_size::terminal_size().map_or(USUAL, |(width, height)| (width.0, height.0));
        let columns = usize::from(size.0);
        // One row is left for the cursor, one for the prompt.
        let room = usize::from(size.1).saturating_sub(2);
        let more = format!("... {} more lines", lines.len().saturating_sub(room.saturating_sub(1)));
        let mut kept: Vec<&str> = lines.to_vec();
        if kept.len() > room {
            kept.truncate(room.saturating_sub(1));
            kept.push(&more);
        }
        let mut text = String::from("\r");
        if self.drawn > 0 {
            text.extend(["\x1b[", &self.drawn.to_string(), "A"]);
        }
        text.push_str("\x1b[J");
        for line in &kept {
            text.push_str(&cut(&shown(line), columns));
            text.push_str("\r\n");
        }
        self.drawn = kept.len();
        text.push_str(&cut(&shown(prompt), columns));
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// The terminal itself has moved the cursor down: it has echoed an Enter.
    pub(crate) fn moved_down(&mut self) {
        self.drawn += 1;
    }
}

/// The beginning of a line, as far as it fits. Escape sequences take no column, and all of them are kept.
fn cut(line: &str, columns: usize) -> String {
    let mut left = columns;
    let mut escape = false;
    line.chars()
        .filter(|c| {
            if escape {
                escape = !c.is_ascii_alphabetic();
                return true;
            }
            escape = *c == '\x1b';
            let fits = escape || left > 0;
            left = left.saturating_sub(usize::from(!escape));
            fits
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn a_line_is_cut_at_the_width_and_keeps_its_escape_sequences() {
        assert_eq!(cut("abcdef", 4), "abcd");
        assert_eq!(cut("├─ ab", 4), "├─ a");
        assert_eq!(cut("\x1b[1;33mabcdef\x1b[0m", 4), "\x1b[1;33mabcd\x1b[0m");
        assert_eq!(cut("abc", 4), "abc");
    }
}
