//! Where the demo is shown: a tree redrawn in place on a terminal, plain lines elsewhere. It decides nothing.

use std::io::{IsTerminal, Write};

use anyhow::Result;

use crate::overview::Overview;
use crate::style::{Paint, Style};
use crate::tree::{self, Drawing};

/// How many of the last lines said stay above the tree.
const TAIL: usize = 3;
/// The size of a terminal that does not tell its own.
const USUAL: (u16, u16) = (80, 24);

/// A terminal or a pipe.
pub(crate) struct Screen {
    out: Box<dyn Write + Send>,
    style: Style,
    frames: Option<Frames>,
    /// Whether somebody is there to press Enter.
    attended: bool,
}

#[derive(Default)]
struct Frames {
    said: Vec<String>,
    tree: Vec<String>,
    /// How many lines the cursor is below the top of the frame.
    drawn: usize,
}

impl Screen {
    /// Redraws on a terminal, prints lines elsewhere; waits for Enter only where there is a keyboard too.
    pub(crate) fn of_stdout() -> Self {
        let terminal =
            std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self {
            out: Box::new(std::io::stdout()),
            style: Style::of_stdout(),
            frames: terminal.then(Frames::default),
            attended: terminal && std::io::stdin().is_terminal(),
        }
    }

    /// Plain lines into that.
    #[cfg(test)]
    pub(crate) fn lines(out: Box<dyn Write + Send>) -> Self {
        Self { out, style: Style { color: false, unicode: true }, frames: None, attended: false }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.frames.is_some()
    }

    /// One line: what was done or what happened.
    pub(crate) fn say(&mut self, text: &str) -> Result<()> {
        match &mut self.frames {
            None => {
                writeln!(self.out, "{text}")?;
                self.out.flush()?;
            }
            Some(frames) => {
                frames.said.push(text.to_owned());
                self.draw("")?;
            }
        }
        Ok(())
    }

    /// The tree, where it is not on show anyway.
    pub(crate) fn print(&mut self, overview: &Overview) -> Result<()> {
        if self.frames.is_none() {
            let text = tree::render(overview, self.drawing());
            self.out.write_all(text.as_bytes())?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// What is there now.
    pub(crate) fn show(&mut self, overview: &Overview) -> Result<()> {
        let drawing = self.drawing();
        if let Some(frames) = &mut self.frames {
            frames.tree = tree::render(overview, drawing).lines().map(str::to_owned).collect();
            self.draw("")?;
        }
        Ok(())
    }

    /// Waits for Enter; false at once where nobody could press it.
    pub(crate) async fn confirm(&mut self, prompt: &str) -> Result<bool> {
        if !self.attended {
            return Ok(false);
        }
        let prompt = self.style.paint(Paint::Warn, prompt);
        self.draw(&prompt)?;
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
        if let Some(frames) = &mut self.frames {
            // The terminal has echoed the Enter.
            frames.drawn += 1;
        }
        Ok(true)
    }

    /// The last words. On a terminal all that happened is listed, as the tree has hidden most of it.
    pub(crate) fn end(&mut self, happened: &[String], verdict: &str) -> Result<()> {
        if let Some(frames) = self.frames.take() {
            self.frames = Some(Frames { said: Vec::new(), ..frames });
            self.draw("")?;
            writeln!(self.out)?;
            for line in happened {
                writeln!(self.out, "{line}")?;
            }
        }
        writeln!(self.out, "{}", self.style.paint(Paint::Good, verdict))?;
        Ok(self.out.flush()?)
    }

    fn drawing(&self) -> Drawing<'static> {
        Drawing { style: self.style, flags: "" }
    }

    /// Draws over what was drawn before. Lines wider than the terminal are cut, as wrapped ones would shift the frame.
    fn draw(&mut self, prompt: &str) -> Result<()> {
        let Some(frames) = &mut self.frames else { return Ok(()) };
        let (columns, rows) =
            terminal_size::terminal_size().map_or(USUAL, |(width, height)| (width.0, height.0));
        let tail = frames.said.len().saturating_sub(TAIL);
        let mut lines: Vec<&str> = frames.said[tail..].iter().map(String::as_str).collect();
        if !frames.tree.is_empty() && !lines.is_empty() {
            lines.push("");
        }
        lines.extend(frames.tree.iter().map(String::as_str));
        // One row is left for the cursor, one for the prompt.
        lines.truncate(usize::from(rows).saturating_sub(2));
        let mut text = String::from("\r");
        if frames.drawn > 0 {
            text.extend(["\x1b[", &frames.drawn.to_string(), "A"]);
        }
        text.push_str("\x1b[J");
        for line in &lines {
            text.push_str(&cut(line, usize::from(columns)));
            text.push_str("\r\n");
        }
        frames.drawn = lines.len();
        text.push_str(&cut(prompt, usize::from(columns)));
        self.out.write_all(text.as_bytes())?;
        Ok(self.out.flush()?)
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
