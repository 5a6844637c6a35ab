//! What the screen shows, and what its keys do. Pure functions: no server, clock or terminal.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use jiff::Timestamp;

use crate::client::watches::Lost;
use crate::terminal::escape::escaped;
use crate::terminal::style::Paint;
use crate::terminal::table::shortened;
use crate::view::age::span;
use crate::view::overview::Overview;
use crate::view::tree::{Drawing, Fold, body, head, summary};

/// The connection to the API server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link<'a> {
    pub(super) lost: Option<&'a Lost>,
    pub(super) now: Timestamp,
}

/// What a key asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Quit,
    Resume { namespace: String, name: String, id: String },
    Plan { namespace: String, name: String },
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
    /// The text of the filter.
    Filter,
    /// Whether to pass the pause point with this id.
    Resume { namespace: String, name: String, id: String },
}

/// The parts of the screen, from top to bottom. Only the lines in the middle scroll.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) top: Vec<String>,
    pub(super) middle: Vec<String>,
    pub(super) bottom: Vec<String>,
}

/// The state of the screen.
#[derive(Debug)]
pub(super) struct View {
    /// Whether the command names one object, so that there is no list.
    single: bool,
    /// The object that is shown alone: its namespace and name.
    open: Option<(String, String)>,
    /// The selected object of the list.
    selected: usize,
    /// The first line of the middle that is shown.
    scroll: usize,
    /// The last line that the middle can begin with.
    max_scroll: usize,
    /// The number of lines in the middle.
    room: usize,
    all: bool,
    filter: String,
    ask: Option<Ask>,
    plan: Option<Vec<String>>,
    message: Option<String>,
    /// The pause point at which the shown object is held. A message about another one is outdated.
    held: Option<String>,
}

impl View {
    pub(super) fn new(single: bool, all: bool) -> Self {
        Self {
            single,
            open: None,
            selected: 0,
            scroll: 0,
            max_scroll: 0,
            room: 1,
            all,
            filter: String::new(),
            ask: None,
            plan: None,
            message: None,
            held: None,
        }
    }

    /// Forgets the question and the message about a pause point that is passed.
    fn forget_passed(&mut self, overviews: &[Overview]) {
        if let Some(Ask::Resume { namespace, name, id }) = &self.ask {
            let held = find(overviews, namespace, name).and_then(|found| found.hold.as_ref());
            if held.is_none_or(|hold| hold.id != *id) {
                self.ask = None;
            }
        }
        let held = self.chosen(overviews).and_then(|chosen| chosen.hold.as_ref()).map(|hold| hold.id.clone());
        if held.is_some() && held != self.held {
            self.message = None;
        }
        self.held = held;
    }

    /// The object that is shown alone.
    fn shown<'o>(&self, overviews: &'o [Overview]) -> Option<&'o Overview> {
        if self.single {
            return overviews.first();
        }
        let (namespace, name) = self.open.as_ref()?;
        find(overviews, namespace, name)
    }

    /// The object that the keys are about.
    fn chosen<'o>(&self, overviews: &'o [Overview]) -> Option<&'o Overview> {
        self.shown(overviews).or_else(|| overviews.get(self.selected.min(overviews.len().saturating_sub(1))))
    }

    /// The page for a terminal of that height.
    pub(super) fn page(
        &mut self,
        overviews: &[Overview],
        link: Link<'_>,
        drawing: Drawing<'_>,
        height: usize,
    ) -> Page {
        self.forget_passed(overviews);
        let mut top = vec![connection(link, drawing)];
        let filter = Some(self.filter.as_str()).filter(|text| !text.is_empty());
        let drawing = Drawing { fold: Fold { all: self.all, filter, on_screen: true }, ..drawing };
        let all = match (&self.plan, self.shown(overviews)) {
            (Some(plan), _) => plan.clone(),
            (None, Some(overview)) => {
                top.extend(summary(overview, drawing));
                body(overview, drawing)
            }
            (None, None) => list(overviews, self.selected, drawing),
        };
        let bottom = self.bottom(overviews, drawing);
        // The middle always keeps a line. A small terminal shows less of the top.
        top.truncate(height.saturating_sub(bottom.len() + 1).max(1));
        self.room = height.saturating_sub(top.len() + bottom.len()).max(1);
        self.max_scroll = all.len().saturating_sub(self.room);
        let is_list = self.plan.is_none() && self.shown(overviews).is_none();
        if is_list {
            // The selected object is always visible.
            let selected = self.selected.min(overviews.len().saturating_sub(1));
            self.scroll = self.scroll.clamp((selected + 1).saturating_sub(self.room), selected);
        }
        self.scroll = self.scroll.min(self.max_scroll);
        let mut middle: Vec<String> = all.into_iter().skip(self.scroll).take(self.room).collect();
        let below = self.max_scroll - self.scroll;
        if let (true, Some(last)) = (below > 0 && self.room > 2 && !is_list, middle.last_mut()) {
            let text = format!("{} {} more lines", drawing.style.pick("↓", "v"), below + 1);
            *last = drawing.style.paint(Paint::Dim, &text);
        }
        Page { top, middle, bottom }
    }

    fn bottom(&self, overviews: &[Overview], drawing: Drawing<'_>) -> Vec<String> {
        let width = drawing.width.unwrap_or(usize::MAX);
        let style = drawing.style;
        let mut lines: Vec<String> = Vec::new();
        let message = self.message.iter().flat_map(|text| text.lines());
        lines.extend(message.map(|line| shortened(escaped(line).into_owned(), width, style)));
        let line = match &self.ask {
            Some(Ask::Filter) => {
                format!("filter: {}_  (Enter keeps it, Esc clears it)", escaped(&self.filter))
            }
            Some(Ask::Resume { name, id, .. }) => format!("pass pause point {id} of {name}? y/n"),
            None => self.keys(overviews),
        };
        let paint = if self.ask.is_some() { Paint::Warn } else { Paint::Dim };
        lines.push(style.paint(paint, &shortened(line, width, style)));
        lines
    }

    fn keys(&self, overviews: &[Overview]) -> String {
        let mut keys = vec!["q quit", "↑↓ scroll"];
        if self.plan.is_some() {
            return "q quit  ↑↓ scroll  Esc closes the plan".to_owned();
        }
        let shown = self.shown(overviews);
        match shown {
            None => keys = vec!["q quit", "↑↓ select", "Enter opens"],
            Some(_) if !self.single => keys.push("Esc list"),
            Some(_) => {}
        }
        if self.chosen(overviews).is_some_and(|one| one.hold.is_some()) {
            keys.push("r resume");
        }
        keys.push("p plan");
        if shown.is_some() {
            keys.push("/ filter");
            keys.push(if self.all { "a fold" } else { "a all pods" });
        }
        let filter = if self.filter.is_empty() {
            String::new()
        } else {
            format!("  filter: {}", escaped(&self.filter))
        };
        format!("{}{filter}", keys.join("  "))
    }

    /// The result of a command.
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

    /// What a key does.
    pub(super) fn key(&mut self, key: KeyEvent, overviews: &[Overview]) -> Effect {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && key.code == KeyCode::Char('c') {
            return Effect::Quit;
        }
        match self.ask.take() {
            Some(Ask::Filter) => {
                self.edit_filter(key.code);
                return Effect::None;
            }
            Some(Ask::Resume { namespace, name, id }) => {
                if matches!(key.code, KeyCode::Char('y' | 'Y')) {
                    self.message = Some(format!("{name}: resume of {id} requested"));
                    return Effect::Resume { namespace, name, id };
                }
                return Effect::None;
            }
            None => {}
        }
        self.message = None;
        let is_list = self.plan.is_none() && self.shown(overviews).is_none();
        match key.code {
            KeyCode::Esc if self.plan.is_some() => {
                self.plan = None;
                self.scroll = 0;
            }
            KeyCode::Esc if !self.filter.is_empty() => self.filter.clear(),
            KeyCode::Esc if self.open.take().is_some() => self.scroll = 0,
            KeyCode::Char('q') | KeyCode::Esc => return Effect::Quit,
            KeyCode::Up | KeyCode::Char('k') if is_list => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') if is_list => {
                self.selected = (self.selected + 1).min(overviews.len().saturating_sub(1));
            }
            KeyCode::Enter if is_list => {
                let chosen = self.chosen(overviews);
                self.open = chosen.map(|one| (one.namespace.clone(), one.name.clone()));
                self.scroll = 0;
            }
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll = (self.scroll + 1).min(self.max_scroll),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(self.room),
            KeyCode::PageDown | KeyCode::Char(' ') => {
                self.scroll = (self.scroll + self.room).min(self.max_scroll);
            }
            KeyCode::Home | KeyCode::Char('g') => self.scroll = 0,
            KeyCode::End | KeyCode::Char('G') => self.scroll = self.max_scroll,
            KeyCode::Char('a') => self.all = !self.all,
            KeyCode::Char('/') if !is_list => self.ask = Some(Ask::Filter),
            KeyCode::Char('r') => self.ask_to_resume(overviews),
            KeyCode::Char('p') => {
                if let Some(one) = self.chosen(overviews) {
                    self.message = Some(format!("{}: computing the plan", one.name));
                    return Effect::Plan { namespace: one.namespace.clone(), name: one.name.clone() };
                }
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

    fn ask_to_resume(&mut self, overviews: &[Overview]) {
        let Some(one) = self.chosen(overviews) else { return };
        match &one.hold {
            Some(hold) => {
                self.ask = Some(Ask::Resume {
                    namespace: one.namespace.clone(),
                    name: one.name.clone(),
                    id: hold.id.clone(),
                });
            }
            None => self.message = Some(format!("{} is not paused at a pause point", one.name)),
        }
    }
}

fn find<'o>(overviews: &'o [Overview], namespace: &str, name: &str) -> Option<&'o Overview> {
    overviews.iter().find(|one| one.namespace == namespace && one.name == name)
}

/// Whether the screen is live.
fn connection(link: Link<'_>, drawing: Drawing<'_>) -> String {
    let style = drawing.style;
    let Some(lost) = link.lost else {
        return style.paint(Paint::Good, &format!("{} connected", style.pick("●", "*")));
    };
    let text = format!(
        "{} connection lost for {}, reconnecting; this is the last known state: {}",
        style.pick("✖", "!"),
        span(lost.since, link.now),
        escaped(&lost.error)
    );
    style.paint(Paint::Bad, &shortened(text, drawing.width.unwrap_or(usize::MAX), style))
}

/// The objects, with a mark at the selected one.
fn list(overviews: &[Overview], selected: usize, drawing: Drawing<'_>) -> Vec<String> {
    if overviews.is_empty() {
        return vec!["No OrderedDeployments.".to_owned()];
    }
    let selected = selected.min(overviews.len().saturating_sub(1));
    let narrow = Drawing { width: drawing.width.map(|width| width.saturating_sub(2)), ..drawing };
    let lines = overviews.iter().enumerate().flat_map(|(index, overview)| {
        let mark = if index == selected { drawing.style.pick("▶ ", "> ") } else { "  " };
        let first = head(overview, narrow).into_iter().next().unwrap_or_default();
        [format!("{mark}{first}")]
    });
    lines.collect()
}

#[cfg(test)]
mod tests;
