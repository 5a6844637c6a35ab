//! Watches: a cursor over the history of one resource.
//!
//! A watch has no queue except the events at its start. It reads the shared history at its own pace and
//! expires with 410 when the history no longer has its next event. It never blocks a writer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::read::{Filter, parse_integer, wanted_version};
use super::{Answer, Ask, Reply, Server, State};
use crate::object;
use crate::render;
use crate::request::Form;
use crate::resource::ResourceInfo;
use crate::schema::Cause;
use crate::status::Failure;
use crate::store::{Event, Resource};

/// The default timeout of a watch.
const LIFETIME: Duration = Duration::from_secs(45 * 60);
/// The maximum timeout, so that the deadline does not overflow.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
/// Time between two bookmarks.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// One open watch.
pub(crate) struct Watch {
    server: Arc<Server>,
    info: Arc<ResourceInfo>,
    resource: Resource,
    form: Form,
    filter: Filter,
    changed: Arc<Notify>,
    /// Version of the last event that was read.
    cursor: u64,
    ready: VecDeque<Bytes>,
    bookmark_at: Option<Instant>,
    deadline: Instant,
    columns_sent: bool,
    over: bool,
    /// The number of restores when the watch began.
    restored: u64,
}

enum Step {
    Lines,
    Wait(Option<Instant>),
}

impl Server {
    pub(super) fn watch(self: &Arc<Self>, state: &mut State, ask: &Ask<'_>) -> Answer {
        let filter = Filter::parse(ask)?;
        let version = wanted_version(&ask.query)?;
        let bookmarks = ask.query.flag("allowWatchBookmarks");
        for (field, detail) in [
            ("sendInitialEvents", "the sandbox has no streaming lists"),
            (
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ),
        ] {
            if ask.query.get(field).is_some() {
                return Err(Failure::invalid_options("ListOptions", &[Cause::forbidden(field, detail)]));
            }
        }
        let lifetime = match ask.query.get("timeoutSeconds") {
            None => LIFETIME,
            Some(text) => match parse_integer(text)? {
                ..=0 => LIFETIME,
                seconds => Duration::from_secs(seconds.unsigned_abs()).min(LONGEST),
            },
        };
        let resource = ask.resource();
        let (current, restored) = (state.store.version, state.store.restored);
        let collection = state.store.collection(&resource);
        let now = Instant::now();
        let mut watch = Watch {
            server: Arc::clone(self),
            info: Arc::clone(&ask.info),
            resource,
            form: ask.form,
            filter,
            changed: Arc::clone(&collection.changed),
            cursor: version.unwrap_or(current),
            ready: VecDeque::new(),
            bookmark_at: bookmarks.then(|| now + BOOKMARKS),
            deadline: now + lifetime,
            columns_sent: false,
            over: false,
            restored,
        };
        if matches!(version, None | Some(0)) {
            watch.cursor = current;
            let objects: Vec<Arc<Value>> =
                collection.objects.values().filter(|object| watch.filter.matches(object)).cloned().collect();
            for stored in objects {
                watch.push("ADDED", &stored);
            }
        }
        Ok(Reply::Watch(Box::new(watch)))
    }
}

impl Watch {
    /// The next chunk of the stream; `None` at its end.
    pub(crate) async fn next(&mut self) -> Option<Bytes> {
        let changed = Arc::clone(&self.changed);
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.over {
                return None;
            }
            // Register before the read of the store, so that no change is missed.
            let notified = changed.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            let until = match self.step() {
                Step::Lines => continue,
                Step::Wait(until) => until,
            };
            let wake = [until, self.bookmark_at].into_iter().flatten().fold(self.deadline, Instant::min);
            tokio::select! {
                biased;
                () = notified => {}
                () = sleep_until(wake) => {}
            }
        }
    }

    /// Reads the events that are due.
    fn step(&mut self) -> Step {
        let server = Arc::clone(&self.server);
        let mut state = server.state();
        let (now, version) = (Instant::now(), state.store.version);
        let is_void = state.store.restored != self.restored;
        let collection = state.store.collection(&self.resource);
        if is_void || self.cursor < collection.forgotten {
            let (cursor, forgotten) = (self.cursor, collection.forgotten);
            let gone = Failure::expired(format!("too old resource version: {cursor} ({forgotten})"));
            self.ready.push_back(line("ERROR", &gone.to_value()));
            self.over = true;
            return Step::Lines;
        }
        let delay = collection.delay;
        let mut due: Vec<Arc<Event>> = Vec::new();
        let mut later = None;
        for event in collection.since(self.cursor) {
            if event.at + delay > now {
                later = Some(event.at + delay);
                break;
            }
            due.push(Arc::clone(event));
        }
        // Rendering does not need the lock.
        drop(state);
        for event in &due {
            self.cursor = event.version;
            self.event(event);
        }
        if later.is_none() {
            self.cursor = self.cursor.max(version);
        }
        if self.ready.is_empty() && now >= self.deadline {
            if self.bookmark_at.is_some() {
                self.bookmark();
            }
            self.over = true;
            return Step::Lines;
        }
        if self.bookmark_at.is_some_and(|at| at <= now) {
            self.bookmark();
            self.bookmark_at = Some(now + BOOKMARKS);
        }
        if self.ready.is_empty() { Step::Wait(later) } else { Step::Lines }
    }

    /// Translates a change into the event for a watch with these selectors.
    fn event(&mut self, event: &Event) {
        let before = event.previous.as_ref().is_some_and(|object| self.filter.matches(object));
        let after = !event.deleted && self.filter.matches(&event.object);
        match (before, after) {
            (false, true) => self.push("ADDED", &event.object),
            (true, true) => self.push("MODIFIED", &event.object),
            (true, false) if event.deleted => self.push("DELETED", &event.object),
            (true, false) => {
                // The object no longer matches: send its last matching state with the version of the change.
                if let Some(previous) = &event.previous {
                    let mut last = Value::clone(previous);
                    object::set_meta(&mut last, "resourceVersion", event.version.to_string().into());
                    self.push("DELETED", &last);
                }
            }
            (false, false) => {}
        }
    }

    fn push(&mut self, kind: &str, stored: &Value) {
        let mut object = render::one(&self.info, stored, self.form, self.server.clock.now());
        if let Form::Table = self.form {
            if self.columns_sent {
                object["columnDefinitions"] = Value::Null;
            }
            self.columns_sent = true;
        }
        self.ready.push_back(line(kind, &object));
    }

    fn bookmark(&mut self) {
        let meta = json!({"resourceVersion": self.cursor.to_string(), "creationTimestamp": null});
        let mut object = json!({"metadata": meta});
        render::stamp(&self.info, &mut object);
        if let Form::Table = self.form {
            object = json!({
                "kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": null, "rows": [],
                "metadata": {"resourceVersion": self.cursor.to_string()},
            });
        }
        self.ready.push_back(line("BOOKMARK", &object));
    }
}

fn line(kind: &str, object: &Value) -> Bytes {
    let mut text = json!({"type": kind, "object": object}).to_string();
    text.push('\n');
    Bytes::from(text)
}
