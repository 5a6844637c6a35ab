//! The screen of `get --watch` on a terminal: it shows the cached state and runs `resume` and `plan`. It
//! decides nothing: the keys and the lines are pure functions in [`view`].

mod view;

use std::time::Duration;

use anyhow::{Context, Result};
use crossterm::event::{Event, EventStream, KeyEventKind};
use futures::StreamExt;
use ordereddeployment_wire::Family;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style as TextStyle};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::client::reader::Scope;
use crate::client::watch_cache::WatchCache;
use crate::commands::plan::rest_of;
use crate::commands::resume::{ResumeTarget, resume};
use crate::terminal::escape::{PAINT_MARKS, escaped};
use crate::terminal::style::Style;
use crate::terminal::table::text_of;
use crate::view::overview::Overview;
use crate::view::tree::{self, Drawing, Fold};
use view::{Done, Effect, Page, View};

/// The interval for updating ages. It causes no request.
const TICK: Duration = Duration::from_secs(1);
/// How long the end of the screen waits for a request that is being sent.
const SENDING: Duration = Duration::from_secs(5);
const RESUME: Duration = Duration::from_secs(30);

pub(crate) struct Options<'a> {
    pub(crate) name: &'a str,
    pub(crate) pool_label: &'a str,
    pub(crate) wide: bool,
    pub(crate) all: bool,
}

/// Shows the screen until the user ends it, or the object is deleted. Returns the text that stays.
pub(crate) async fn run(connection: &Connection, options: Options<'_>) -> Result<String> {
    let namespace = Some(connection.namespace.as_str());
    let scope = Scope { family: Family::Ordered, namespace, name: Some(options.name), selector: None };
    let mut cache = WatchCache::start(connection, scope).await?;
    let mut stop = signal(SignalKind::terminate()).context("cannot wait for SIGTERM")?;
    let mut hang_up = signal(SignalKind::hangup()).context("cannot wait for SIGHUP")?;
    let mut terminal =
        ratatui::try_init().inspect_err(|_| ratatui::restore()).context("cannot use the terminal")?;
    let mut tasks = JoinSet::new();
    let shown = tokio::select! {
        shown = show(&mut terminal, &mut cache, connection, &options, &mut tasks) => shown,
        _ = stop.recv() => Ok(String::new()),
        _ = hang_up.recv() => Ok(String::new()),
    };
    ratatui::try_restore().context("cannot restore the terminal")?;
    // A resume that was confirmed is sent, also if the user quits at once.
    let sent = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(SENDING, sent).await;
    shown
}

async fn show(
    terminal: &mut DefaultTerminal,
    cache: &mut WatchCache,
    connection: &Connection,
    options: &Options<'_>,
    tasks: &mut JoinSet<()>,
) -> Result<String> {
    let name = options.name;
    let mut view = View::new(options.all);
    let mut keys = EventStream::new();
    let (sender, mut results) = mpsc::unbounded_channel();
    loop {
        let Some(state) = cache.states(connection.clock.now()).pop() else {
            return Ok(format!("{name} is deleted\n"));
        };
        let overview = Overview::of(&state, options.pool_label);
        terminal.draw(|frame| {
            let area = frame.area();
            let style = Style { color: true, ..Style::of_stdout() };
            let drawing = Drawing {
                style,
                flags: &connection.flags,
                width: Some(usize::from(area.width)),
                wide: options.wide,
                fold: Fold::default(),
            };
            let page = view.page(&overview, cache.watches.lost(), drawing, usize::from(area.height));
            draw(frame, &page);
        })?;
        tokio::select! {
            changed = cache.watches.changed() => changed?,
            Some(done) = results.recv() => view.done(done),
            event = keys.next() => {
                let Some(event) = event else { return Ok(last(&overview, connection)) };
                let Event::Key(key) = event? else { continue };
                if key.kind == KeyEventKind::Release {
                    continue;
                }
                match view.key(key, &overview) {
                    Effect::None => {}
                    Effect::Quit => return Ok(last(&overview, connection)),
                    Effect::Resume(id) => {
                        let (connection, sender) = (connection.clone(), sender.clone());
                        let name = name.to_owned();
                        tasks.spawn(async move {
                            let done = resume(&connection, &name, ResumeTarget::Hold(&id),
                                Some(RESUME)).await;
                            let text = done.unwrap_or_else(|error| format!("error: {error:#}"));
                            // The screen may have ended.
                            let _ = sender.send(Done::Message(text));
                        });
                    }
                    Effect::Plan => {
                        let (connection, sender) = (connection.clone(), sender.clone());
                        let width = terminal.size().map(|size| usize::from(size.width)).ok();
                        tokio::spawn(async move {
                            let drawing = Drawing { width, ..Drawing::of_stdout(&connection.flags) };
                            let done = match rest_of(&connection.client, &state, drawing).await {
                                Ok(text) => Done::Plan(text),
                                Err(error) => Done::Message(format!("error: {error:#}")),
                            };
                            let _ = sender.send(done);
                        });
                    }
                }
            }
            () = tokio::time::sleep(TICK) => {}
        }
    }
}

fn last(overview: &Overview, connection: &Connection) -> String {
    text_of(&tree::summary(overview, Drawing::of_stdout(&connection.flags)))
}

/// Draws the three parts. Only lines that fit are in them.
fn draw(frame: &mut Frame<'_>, page: &Page) {
    let height = |lines: &[String]| Constraint::Length(u16::try_from(lines.len()).unwrap_or(u16::MAX));
    let parts = Layout::vertical([height(&page.top), Constraint::Min(1), height(&page.bottom)]);
    let areas = parts.split(frame.area());
    for (lines, area) in [&page.top, &page.middle, &page.bottom].into_iter().zip(areas.iter()) {
        let lines: Vec<Line<'_>> = lines.iter().map(|line| painted(line)).collect();
        frame.render_widget(Paragraph::new(lines), *area);
    }
}

/// A line with the colours of its marks. Other control characters are escaped.
fn painted(line: &str) -> Line<'static> {
    let mut spans = Vec::new();
    let mut style = TextStyle::default();
    let mut text = String::new();
    for c in line.chars() {
        let Some(mark) = PAINT_MARKS.iter().position(|(mark, _)| *mark == c) else {
            text.push(c);
            continue;
        };
        spans.push(Span::styled(escaped(&std::mem::take(&mut text)).into_owned(), style));
        style = of_mark(mark);
    }
    spans.push(Span::styled(escaped(&text).into_owned(), style));
    Line::from(spans)
}

/// The style of a mark, as [`crate::terminal::escape::terminal_text`] writes it.
fn of_mark(mark: usize) -> TextStyle {
    let plain = TextStyle::default();
    match mark {
        1 => plain.add_modifier(Modifier::BOLD),
        2 => plain.add_modifier(Modifier::DIM),
        3 => plain.fg(Color::Green),
        4 => plain.fg(Color::Yellow).add_modifier(Modifier::BOLD),
        5 => plain.fg(Color::Red),
        _ => plain,
    }
}
