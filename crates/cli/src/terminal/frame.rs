//! Redraws lines in place on a terminal.

use std::io::{Result, Write};

use crate::terminal::escape::terminal_text;

/// The size of a terminal that does not report its own.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// The lines on the terminal that the next draw overwrites.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    /// The number of lines between the top of the frame and the cursor.
    drawn: usize,
}

impl Frame {
    /// Overwrites the last frame, at the size of the terminal.
    pub(crate) fn draw(&mut self, out: &mut impl Write, lines: &[&str], prompt: &str) -> Result<()> {
        let size = terminal_size::terminal_size().map_or(DEFAULT_SIZE, |(width, height)| (width.0, height.0));
        self.draw_at(size, out, lines, prompt)
    }

    /// Overwrites the last frame. Lines wider than the terminal are cut, because wrapped lines would shift
    /// the frame.
    fn draw_at(
        &mut self,
        size: (u16, u16),
        out: &mut impl Write,
        lines: &[&str],
        prompt: &str,
    ) -> Result<()> {
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
        // Each line is cleared before it is written, and the rest at the end. To clear a whole screen at once
        // makes some terminals move it to their scrollback.
        for line in &kept {
            text.push_str("\x1b[K");
            text.push_str(&cut(&terminal_text(line), columns));
            text.push_str("\r\n");
        }
        text.push_str("\x1b[J");
        self.drawn = kept.len();
        text.push_str(&cut(&terminal_text(prompt), columns));
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// The terminal has moved the cursor down, because it echoed Enter.
    pub(crate) fn moved_down(&mut self) {
        self.drawn += 1;
    }
}

/// Cuts a line at the width. Escape sequences take no column and are all kept.
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
    use super::{Frame, cut};

    #[test]
    fn a_frame_overwrites_line_by_line_and_never_fills_the_terminal() {
        let mut frame = Frame::default();
        let lines: Vec<&str> = vec!["line"; 30];
        for _ in 0..3 {
            let mut out = Vec::new();
            frame.draw_at((80, 24), &mut out, &lines, "prompt").unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text.matches("\r\n").count(), 22);
            // One clear for each line, and nothing but the rest is cleared at once.
            assert_eq!(text.matches("\x1b[Kline\r\n").count(), 21);
            assert!(text.ends_with("\x1b[K... 9 more lines\r\n\x1b[Jprompt"), "{text:?}");
            assert_eq!(text.matches("\x1b[J").count(), 1);
        }
        let mut out = Vec::new();
        frame.draw_at((80, 24), &mut out, &["line"], "").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "\r\x1b[22A\x1b[Kline\r\n\x1b[J");
    }

    #[test]
    fn a_line_is_cut_at_the_width_and_keeps_its_escape_sequences() {
        assert_eq!(cut("abcdef", 4), "abcd");
        assert_eq!(cut("├─ ab", 4), "├─ a");
        assert_eq!(cut("\x1b[1;33mabcdef\x1b[0m", 4), "\x1b[1;33mabcd\x1b[0m");
        assert_eq!(cut("abc", 4), "abc");
    }
}
