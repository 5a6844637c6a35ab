//! The output of the demo: a tree that is redrawn in place on a terminal, otherwise plain lines.

use std::io::{IsTerminal, Write};

use anyhow::Result;

use crate::terminal::escape::{escaped, terminal_text};
use crate::terminal::frame::Frame;
use crate::terminal::style::{Paint, Style};
use crate::terminal::table::wrapped;
use crate::view::overview::Overview;
use crate::view::tree::{self, Drawing, Fold};

/// The number of messages above the tree.
const TAIL: usize = 3;

/// A terminal or a pipe.
pub(crate) struct Screen {
    out: Box<dyn Write + Send>,
    style: Style,
    frames: Option<Frames>,
    /// Whether a user can press Enter.
    attended: bool,
}

#[derive(Default)]
struct Frames {
    messages: Vec<String>,
    tree: Vec<String>,
    frame: Frame,
}

impl Screen {
    /// Redraws on a terminal, otherwise prints lines. It waits for Enter only if standard input is a terminal
    /// too.
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

    /// Plain lines into a writer.
    #[cfg(test)]
    pub(crate) fn lines(out: Box<dyn Write + Send>) -> Self {
        Self { out, style: Style { color: false, unicode: true }, frames: None, attended: false }
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.frames.is_some()
    }

    /// Prints a line that stays above the tree. It comes before any message.
    pub(crate) fn introduce(&mut self, text: &str) -> Result<()> {
        for line in wrapped(text, self.width(), "") {
            writeln!(self.out, "{line}")?;
        }
        Ok(self.out.flush()?)
    }

    /// Prints an event.
    pub(crate) fn say(&mut self, text: &str) -> Result<()> {
        if let Some(frames) = &mut self.frames {
            frames.messages.push(text.to_owned());
            return self.draw("");
        }
        writeln!(self.out, "{}", escaped(text))?;
        Ok(self.out.flush()?)
    }

    /// Prints a command that a user would type.
    pub(crate) fn command(&mut self, command: &str) -> Result<()> {
        self.say(&format!("$ {command}"))
    }

    /// Prints the tree, unless it is redrawn anyway.
    pub(crate) fn print(&mut self, overview: &Overview) -> Result<()> {
        if self.frames.is_none() {
            let text = tree::render(overview, self.drawing());
            self.out.write_all(terminal_text(&text).as_bytes())?;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Redraws the tree.
    pub(crate) fn show(&mut self, overview: &Overview) -> Result<()> {
        let drawing = self.drawing();
        if let Some(frames) = &mut self.frames {
            frames.tree = tree::render(overview, drawing).lines().map(str::to_owned).collect();
            self.draw("")?;
        }
        Ok(())
    }

    /// Waits for Enter; returns false at once if no user can press it.
    pub(crate) async fn confirm(&mut self, prompt: &str) -> Result<bool> {
        if !self.attended {
            return Ok(false);
        }
        let prompt = self.style.paint(Paint::Warn, prompt);
        self.draw(&prompt)?;
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
        if let Some(frames) = &mut self.frames {
            // The terminal has echoed the Enter.
            frames.frame.moved_down();
        }
        Ok(true)
    }

    /// Prints the result. On a terminal it lists all events first, because most have scrolled away above the
    /// tree.
    pub(crate) fn end(&mut self, events: &[String], result: &str) -> Result<()> {
        let width = self.width();
        if let Some(frames) = self.frames.take() {
            self.frames = Some(Frames { messages: Vec::new(), ..frames });
            self.draw("")?;
            writeln!(self.out)?;
            for line in events.iter().flat_map(|line| wrapped(line, width, "    ")) {
                writeln!(self.out, "{line}")?;
            }
        }
        for line in wrapped(result, width, "    ") {
            writeln!(self.out, "{}", terminal_text(&self.style.paint(Paint::Good, &line)))?;
        }
        Ok(self.out.flush()?)
    }

    fn drawing(&self) -> Drawing<'static> {
        Drawing { style: self.style, flags: "", width: self.width(), wide: false, fold: Fold::default() }
    }

    /// The width of the terminal.
    fn width(&self) -> Option<usize> {
        self.is_terminal().then(crate::terminal::style::width_of_stdout).flatten()
    }

    fn draw(&mut self, prompt: &str) -> Result<()> {
        let width = self.width();
        let Some(frames) = &mut self.frames else { return Ok(()) };
        let tail = frames.messages.len().saturating_sub(TAIL);
        let messages: Vec<String> =
            frames.messages[tail..].iter().flat_map(|text| wrapped(text, width, "    ")).collect();
        let mut lines: Vec<&str> = messages.iter().map(String::as_str).collect();
        if !frames.tree.is_empty() && !lines.is_empty() {
            lines.push("");
        }
        lines.extend(frames.tree.iter().map(String::as_str));
        Ok(frames.frame.draw(&mut self.out, &lines, prompt)?)
    }
}

#[cfg(test)]
mod tests {
    use super::{Frames, Screen, Style};
    use crate::testing::Written;

    #[test]
    fn the_introduction_stays_above_the_tree() {
        let out = Written::default();
        let frames = Some(Frames::default());
        let mut screen =
            Screen { out: Box::new(out.clone()), style: Style::default(), frames, attended: false };
        screen.introduce("A cluster in memory.").unwrap();
        for number in 1..=9 {
            screen.say(&format!("message {number}")).unwrap();
        }
        let text = out.text();
        let (introduction, drawn) = text.split_once('\n').unwrap();
        assert_eq!(introduction, "A cluster in memory.");
        // Each frame moves up by the lines of the frame before, at most three messages.
        assert!(drawn.contains("\x1b[3A") && !drawn.contains("\x1b[4A"), "{drawn:?}");
    }
}
