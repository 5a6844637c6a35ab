//! The screen of `get --watch` on a terminal: it shows the cached state and runs `resume` and `plan`. It
//! decides nothing: the keys and the lines are pure functions in [`view`].

mod paint;
mod view;

use std::time::Duration;

use anyhow::{Context, Result};
use crossterm::event::{Event, EventStream, KeyEventKind};
use futures::StreamExt;
use ratatui::DefaultTerminal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::client::Connection;
use crate::client::reader::Scope;
use crate::client::watch_cache::WatchCache;
use crate::commands::plan::rest_of;
use crate::commands::resume::{ResumeTarget, resume};
use crate::terminal::style::Style;
use crate::terminal::table::text_of;
use crate::view::overview::Overview;
use crate::view::state::ObservedState;
use crate::view::tree::{self, Drawing, Fold};
use view::{Done, Effect, Link, View};

/// The interval for updating ages. It causes no request.
const TICK: Duration = Duration::from_secs(1);
/// How long the end of the screen waits for a request that is being sent.
const SENDING: Duration = Duration::from_secs(5);
/// How long `r` waits for the controller.
const RESUME: Duration = Duration::from_secs(30);

pub(crate) struct Options<'a> {
    pub(crate) scope: Scope<'a>,
    pub(crate) pool_label: &'a str,
    pub(crate) wide: bool,
    pub(crate) all: bool,
}

/// Shows the screen until the user ends it, or the named object is deleted. Prints the last state then.
pub(crate) async fn run(connection: &Connection, options: Options<'_>) -> Result<String> {
    let mut cache = WatchCache::start(connection, options.scope).await?;
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
    let mut view = View::new(options.scope.name.is_some(), options.all);
    let mut keys = EventStream::new();
    let (sender, mut results) = mpsc::unbounded_channel();
    loop {
        let now = connection.clock.now();
        let states = cache.states(now);
        if let (Some(name), true) = (options.scope.name, states.is_empty()) {
            return Ok(format!("{name} is deleted\n"));
        }
        let overviews: Vec<Overview> =
            states.iter().map(|state| Overview::of(state, options.pool_label)).collect();
        let link = Link { lost: cache.lost(), now };
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
            let page = view.page(&overviews, link, drawing, usize::from(area.height));
            paint::draw(frame, &page);
        })?;
        tokio::select! {
            changed = cache.changed() => drop(changed?),
            Some(done) = results.recv() => view.done(done),
            event = keys.next() => {
                let Some(event) = event else { return Ok(last(&overviews, connection)) };
                let Event::Key(key) = event? else { continue };
                if key.kind == KeyEventKind::Release {
                    continue;
                }
                match view.key(key, &overviews) {
                    Effect::None => {}
                    Effect::Quit => return Ok(last(&overviews, connection)),
                    Effect::Resume { namespace, name, id } => {
                        let connection = in_namespace(connection, namespace);
                        let sender = sender.clone();
                        tasks.spawn(async move {
                            let done = resume(&connection, &name, ResumeTarget::Hold(&id),
                                Some(RESUME)).await;
                            let text = done.unwrap_or_else(|error| format!("error: {error:#}"));
                            // The screen may have ended.
                            let _ = sender.send(Done::Message(text));
                        });
                    }
                    Effect::Plan { namespace, name } => {
                        let Some(state) = find(&states, &namespace, &name) else { continue };
                        let connection = in_namespace(connection, namespace);
                        let sender = sender.clone();
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

/// The state that stays on the terminal.
fn last(overviews: &[Overview], connection: &Connection) -> String {
    let drawing = Drawing::of_stdout(&connection.flags);
    let summaries = overviews.iter().flat_map(|overview| tree::summary(overview, drawing));
    text_of(&summaries.collect::<Vec<_>>())
}

fn in_namespace(connection: &Connection, namespace: String) -> Connection {
    Connection { namespace, ..connection.clone() }
}

fn find(states: &[ObservedState], namespace: &str, name: &str) -> Option<ObservedState> {
    let is_it = |state: &&ObservedState| {
        let metadata = &state.deployment.metadata;
        metadata.namespace.as_deref() == Some(namespace) && metadata.name.as_deref() == Some(name)
    };
    states.iter().find(is_it).cloned()
}
