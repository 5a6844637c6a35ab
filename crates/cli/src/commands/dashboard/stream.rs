//! The server-sent events of one page: the whole state once, then what changes. Read-only.

use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::Event;
use futures::stream::{self, Stream, StreamExt};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::Dashboard;
use super::buttons::buttons;
use super::page::{Page, Rows, changed_rows, rows};
use crate::client::Connection;
use crate::client::watches::Lost;
use crate::view::overview::Overview;
use crate::view::state::revisions_of;

/// The shortest time between two updates of a page.
const INTERVAL: Duration = Duration::from_millis(150);
/// How often everything is computed again without a change: ages are in texts, and part of the order. The
/// page hears that the dashboard runs. It causes no request.
const TICK: Duration = Duration::from_secs(2);

/// What was sent to one page.
struct Sent {
    dashboard: Arc<Dashboard>,
    lost: watch::Receiver<Option<Lost>>,
    object: Option<(String, String)>,
    rows: Rows,
    page: Page,
    missing: bool,
    updated: Option<Instant>,
    _open: OwnedSemaphorePermit,
}

/// The events of a page that shows the list and, if one is chosen, an object.
pub(super) fn events(
    dashboard: Arc<Dashboard>,
    object: Option<(String, String)>,
    open: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Event, axum::Error>> {
    let sent = Sent {
        lost: dashboard.lost.clone(),
        dashboard,
        object,
        rows: Rows::new(),
        page: Page::default(),
        missing: false,
        updated: None,
        _open: open,
    };
    stream::unfold(sent, Sent::next).flat_map(stream::iter)
}

impl Sent {
    /// Waits for a change or a tick. Returns what has changed.
    async fn next(mut self) -> Option<(Vec<Result<Event, axum::Error>>, Self)> {
        if let Some(updated) = self.updated {
            tokio::select! {
                ended = self.lost.changed() => ended.ok()?,
                () = sleep(TICK) => {}
            }
            sleep_until(updated + INTERVAL).await;
        }
        let lost = self.lost.borrow_and_update().clone();
        // Thousands of pods take a while to compute.
        let updated = tokio::task::spawn_blocking(move || {
            let events = self.compute(lost.as_ref());
            self.updated = Some(Instant::now());
            let to_json = |(name, data)| Event::default().event(name).json_data(data);
            (events.into_iter().map(to_json).collect(), self)
        });
        updated.await.ok()
    }

    fn compute(&mut self, lost: Option<&Lost>) -> Vec<(&'static str, Value)> {
        let now = self.dashboard.now();
        let mut events = vec![("server", json!({"now": now, "lost": lost}))];
        let deployments = self.dashboard.stores.deployments();
        let rows = rows(deployments.iter().map(|found| &**found), now);
        events.extend(changed_rows(&self.rows, &rows).map(|delta| ("list", delta)));
        self.rows = rows;
        let Some((namespace, name)) = self.object.clone() else { return events };
        let state = self.dashboard.stores.state(&namespace, &name, now);
        let connection = self.dashboard.connection(&namespace).ok();
        let Some((state, Connection { flags, .. })) = state.zip(connection) else {
            if !self.missing {
                events.push(("object", json!({"missing": true})));
            }
            (self.missing, self.page) = (true, Page::default());
            return events;
        };
        self.missing = false;
        let deployment = &state.deployment;
        let sets = self.dashboard.stores.sets(deployment);
        let revisions = revisions_of(deployment, sets.iter().map(|set| &**set));
        let args = &self.dashboard.args;
        let buttons = if args.read_only { Vec::new() } else { buttons(deployment, &revisions, &flags) };
        let overview = Overview::of(&state, &args.pool_label);
        let page = Page::of(&state, &overview, &revisions, &buttons, &flags);
        events.extend(page.since(&self.page).map(|delta| ("object", delta)));
        self.page = page;
        events
    }
}
