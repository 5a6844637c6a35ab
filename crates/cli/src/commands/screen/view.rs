//! What the screen shows, and what its keys do. Pure functions: no server, clock or terminal.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::client::watches::Lost;
use crate::terminal::escape::escaped;
use crate::terminal::style::Paint;
use crate::terminal::table::shortened;
use crate::view::age::span;
use crate::view::overview::Overview;
use crate::view::tree::{Drawing, Fold, body, summary};

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Quit,
    /// Pass the pause point with this id.
    Resume(String),
    Plan,
}

/// The result of a command that the user started.
#[derive(Debug)]
pub(super) enum Done {
    Message(String),
    Plan(String),
}

/// What the bottom line asks the user.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ask {
    Filter,
    Resume(String),
}

/// The parts of the screen, from top to bottom. Only the lines in the middle scroll.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) top: Vec<String>,
    pub(super) middle: Vec<String>,
    pub(super) bottom: Vec<String>,
}

/// The state of the screen.
#[derive(Debug, Default)]
pub(super) struct View {
    /// The first line of the middle that is shown.
    scroll: usize,
    /// The last line that the middle can begin with.
    max_scroll: usize,
    room: usize,
    all: bool,
    filter: String,
    ask: Option<Ask>,
    plan: Option<Vec<String>>,
    message: Option<String>,
    /// The pause point at which the object is held. A message about another one is outdated.
    held: Option<String>,
}

impl View {
    pub(super) fn new(all: bool) -> Self {
        Self { all, ..Self::default() }
    }

    /// Forgets the question and the message about a pause point that is passed.
    fn forget_passed(&mut self, overview: &Overview) {
        let held = overview.hold.as_ref().map(|hold| hold.id.clone());
        if matches!(&self.ask, Some(Ask::Resume(id)) if held.as_ref() != Some(id)) {
            self.ask = None;
        }
        if held.is_some() && held != self.held {
            self.message = None;
        }
        self.held = held;
    }

    /// The page for a terminal of that height.
    pub(super) fn page(
        &mut self,
        overview: &Overview,
        lost: Option<&Lost>,
        drawing: Drawing<'_>,
        height: usize,
    ) -> Page {
        self.forget_passed(overview);
        let mut top = vec![connection(lost, overview, drawing)];
        let filter = Some(self.filter.as_str()).filter(|text| !text.is_empty());
        let drawing = Drawing { fold: Fold { all: self.all, filter, on_screen: true }, ..drawing };
        let all = if let Some(plan) = &self.plan {
            plan.clone()
        } else {
            top.extend(summary(overview, drawing));
            body(overview, drawing)
        };
        let bottom = self.bottom(overview, drawing);
        // The middle always keeps a line. A small terminal shows less of the top.
        top.truncate(height.saturating_sub(bottom.len() + 1).max(1));
        self.room = height.saturating_sub(top.len() + bottom.len()).max(1);
        self.max_scroll = all.len().saturating_sub(self.room);
        self.scroll = self.scroll.min(self.max_scroll);
        let mut middle: Vec<String> = all.into_iter().skip(self.scroll).take(self.room).collect();
        let below = self.max_scroll - self.scroll;
        if let (true, Some(last)) = (below > 0 && self.room > 2, middle.last_mut()) {
            let text = format!("{} {} more lines", drawing.style.pick("↓", "v"), below + 1);
            *last = drawing.style.paint(Paint::Dim, &text);
        }
        Page { top, middle, bottom }
    }

    fn bottom(&self, overview: &Overview, drawing: Drawing<'_>) -> Vec<String> {
        let width = drawing.width.unwrap_or(usize::MAX);
        let style = drawing.style;
        let mut lines: Vec<String> = Vec::new();
        let message = self.message.iter().flat_map(|text| text.lines());
        lines.extend(message.map(|line| shortened(escaped(line).into_owned(), width, style)));
        let line = match &self.ask {
            Some(Ask::Filter) => {
                format!("filter: {}_  (Enter keeps it, Esc clears it)", escaped(&self.filter))
            }
            Some(Ask::Resume(id)) => format!("pass pause point {id} of {}? y/n", overview.name),
            None => self.keys(overview),
        };
        let paint = if self.ask.is_some() { Paint::Warn } else { Paint::Dim };
        lines.push(style.paint(paint, &shortened(line, width, style)));
        lines
    }

    fn keys(&self, overview: &Overview) -> String {
        if self.plan.is_some() {
            return "q quit  ↑↓ scroll  Esc closes the plan".to_owned();
        }
        let resume = if overview.hold.is_some() { "r resume  " } else { "" };
        let all = if self.all { "a fold" } else { "a all pods" };
        let filter = if self.filter.is_empty() {
            String::new()
        } else {
            format!("  filter: {}", escaped(&self.filter))
        };
        format!("q quit  ↑↓ scroll  {resume}p plan  / filter  {all}{filter}")
    }

    pub(super) fn done(&mut self, done: Done) {
        match done {
            Done::Message(text) => self.message = Some(text),
            Done::Plan(text) => {
                self.message = None;
                self.scroll = 0;
                self.plan = Some(text.lines().map(str::to_owned).collect());
            }
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent, overview: &Overview) -> Effect {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return Effect::Quit;
        }
        match self.ask.take() {
            Some(Ask::Filter) => {
                self.edit_filter(key.code);
                return Effect::None;
            }
            Some(Ask::Resume(id)) => {
                if matches!(key.code, KeyCode::Char('y' | 'Y')) {
                    self.message = Some(format!("{}: resume of {id} requested", overview.name));
                    return Effect::Resume(id);
                }
                return Effect::None;
            }
            None => {}
        }
        self.message = None;
        match key.code {
            KeyCode::Esc if self.plan.is_some() => {
                self.plan = None;
                self.scroll = 0;
            }
            KeyCode::Esc if !self.filter.is_empty() => self.filter.clear(),
            KeyCode::Char('q') | KeyCode::Esc => return Effect::Quit,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll = (self.scroll + 1).min(self.max_scroll),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(self.room),
            KeyCode::PageDown | KeyCode::Char(' ') => {
                self.scroll = (self.scroll + self.room).min(self.max_scroll);
            }
            KeyCode::Home | KeyCode::Char('g') => self.scroll = 0,
            KeyCode::End | KeyCode::Char('G') => self.scroll = self.max_scroll,
            KeyCode::Char('a') => self.all = !self.all,
            KeyCode::Char('/') => self.ask = Some(Ask::Filter),
            KeyCode::Char('r') => match &overview.hold {
                Some(hold) => self.ask = Some(Ask::Resume(hold.id.clone())),
                None => self.message = Some(format!("{} is not paused at a pause point", overview.name)),
            },
            KeyCode::Char('p') => {
                self.message = Some(format!("{}: computing the plan", overview.name));
                return Effect::Plan;
            }
            _ => {}
        }
        Effect::None
    }

    fn edit_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => return,
            KeyCode::Esc => {
                self.filter.clear();
                return;
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) => self.filter.push(c),
            _ => {}
        }
        self.scroll = 0;
        self.ask = Some(Ask::Filter);
    }
}

fn connection(lost: Option<&Lost>, overview: &Overview, drawing: Drawing<'_>) -> String {
    let style = drawing.style;
    let Some(lost) = lost else {
        return style.paint(Paint::Good, &format!("{} connected", style.pick("●", "*")));
    };
    let text = format!(
        "{} connection lost for {}, reconnecting; this is the last known state: {}",
        style.pick("✖", "!"),
        span(lost.since, overview.now),
        escaped(&lost.error)
    );
    style.paint(Paint::Bad, &shortened(text, drawing.width.unwrap_or(usize::MAX), style))
}

#[cfg(test)]
mod tests;
