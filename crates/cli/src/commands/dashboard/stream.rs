//! The server-sent events of one page: the whole state once, then what changes. Read-only.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event;
use futures::stream::{self, Stream};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::access::Access;
use super::buttons::buttons;
use super::connections::OpenStream;
use super::live::Pulse;
use super::page::{Page, Rows, changed_rows, rows};
use super::shared::Dashboard;
use crate::client::watches::Lost;
use crate::view::overview::Overview;
use crate::view::revisions;

/// The shortest time between two updates of a page.
const INTERVAL: Duration = Duration::from_millis(150);
/// The interval for updating texts with times. It causes no request.
const TICK: Duration = Duration::from_secs(1);
/// How often the page hears that the dashboard runs, and how often everything is computed again: ages are
/// part of the order.
const BEAT: Duration = Duration::from_secs(5);

/// What was sent to one page.
struct Sent {
    dashboard: Arc<Dashboard>,
    pulse: watch::Receiver<Pulse>,
    /// The namespace and the name of the shown object.
    object: Option<(String, String)>,
    access: Access,
    rows: Rows,
    page: Page,
    overview: Option<Overview>,
    missing: bool,
    lost: Option<Lost>,
    /// The last update, and the last one that computed everything.
    updated: Option<Instant>,
    computed: Option<Instant>,
    queue: VecDeque<Event>,
    _open: OpenStream,
}

/// The events of a page that shows the list and, if one is chosen, an object.
pub(super) fn events(
    dashboard: Arc<Dashboard>,
    object: Option<(String, String)>,
    open: OpenStream,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let pulse = dashboard.pulse();
    let sent = Sent {
        dashboard,
        pulse,
        object,
        access: Access::default(),
        rows: Rows::new(),
        page: Page::default(),
        overview: None,
        missing: false,
        lost: None,
        updated: None,
        computed: None,
        queue: VecDeque::new(),
        _open: open,
    };
    stream::unfold(sent, |mut sent| async move {
        loop {
            if let Some(event) = sent.queue.pop_front() {
                return Some((Ok(event), sent));
            }
            sent = sent.next().await?;
        }
    })
}

impl Sent {
    /// Waits for a change or a tick, and queues what has changed.
    async fn next(mut self) -> Option<Self> {
        let mut changed = true;
        if let Some(updated) = self.updated {
            tokio::select! {
                ended = self.pulse.changed() => ended.ok()?,
                () = sleep(TICK) => changed = false,
            }
            sleep_until(updated + INTERVAL).await;
        }
        let pulse = self.pulse.borrow_and_update().clone();
        if let Some((namespace, name)) = self.object.as_ref().filter(|_| pulse.lost.is_none()) {
            self.access = self.dashboard.access(namespace, name).await;
        }
        let now = Instant::now();
        let is_due = self.computed.is_none_or(|computed| now.duration_since(computed) >= BEAT);
        // Thousands of pods take a while to compute.
        let updated = tokio::task::spawn_blocking(move || {
            if changed || is_due {
                self.compute(&pulse);
                self.computed = Some(now);
            } else {
                self.tick();
            }
            self.updated = Some(Instant::now());
            self
        });
        updated.await.ok()
    }

    fn compute(&mut self, pulse: &Pulse) {
        let now = self.dashboard.now();
        self.lost.clone_from(&pulse.lost);
        self.push("server", &json!({"now": now, "lost": self.lost}));
        self.list();
        let Some((namespace, name)) = self.object.clone() else { return };
        let Some(state) = self.dashboard.stores.state(&namespace, &name, now) else {
            if !self.missing {
                self.push("object", &json!({"missing": true}));
            }
            (self.missing, self.page, self.overview) = (true, Page::default(), None);
            return;
        };
        self.missing = false;
        let deployment = &state.deployment;
        let sets = self.dashboard.stores.sets(deployment);
        let revisions = revisions::of(deployment, sets.iter().map(|set| &**set));
        let flags = self.dashboard.flags(&namespace);
        let buttons = if self.dashboard.read_only {
            Vec::new()
        } else {
            buttons(deployment, &revisions, &self.access, &flags)
        };
        let overview = Overview::of(&state, &self.dashboard.pool_label);
        let page = Page::of(&state, &overview, &revisions, &buttons, &flags);
        self.overview = Some(overview);
        self.send(page);
    }

    /// Updates the texts with times.
    fn tick(&mut self) {
        self.list();
        let now = self.dashboard.now();
        let Some(overview) = &mut self.overview else { return };
        overview.now = now;
        let page = self.page.at(overview);
        self.send(page);
    }

    fn list(&mut self) {
        let deployments = self.dashboard.stores.deployments();
        let rows = rows(deployments.iter().map(|found| &**found), self.dashboard.now());
        let event = changed_rows(&self.rows, &rows).and_then(|delta| event("list", &delta));
        self.queue.extend(event);
        self.rows = rows;
    }

    fn send(&mut self, page: Page) {
        let event = page.since(&self.page).and_then(|delta| event("object", &delta));
        self.queue.extend(event);
        self.page = page;
    }

    fn push(&mut self, name: &str, data: &Value) {
        self.queue.extend(event(name, data));
    }
}

/// An event with JSON.
fn event(name: &str, data: &Value) -> Option<Event> {
    Event::default().event(name).json_data(data).ok()
}
