//! The event recorder: writes Events in the background. No decision waits for it, and namespaces take turns.
//!
//! It does not use kube's `Recorder`, which reads the system clock and keeps the first note of a series: of
//! two deletions with different reasons, the second would get the note of the first. Here only equal notes
//! form a series, counted in one Event. Notes that each step of a rollout repeats (pods created and deleted,
//! sets scaled) are collected for a moment and written as one Event. A failed write is only logged.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event as CoreEvent, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use ordereddeployment_api::names::{CONTROLLER, reason};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::client::requests::Requests;
use crate::fair::{Permit, Permits, Turns};
use crate::{ClientMetrics, Clock, Names};

/// The most queued notes; further ones are dropped. A namespace has a share of them.
const WAITING: usize = 1000;
/// How long equal notes are counted in one Event.
const SERIES: SignedDuration = SignedDuration::from_mins(10);
/// How long routine notes are collected before they are written as one Event.
const AGGREGATION_WINDOW: Duration = Duration::from_secs(1);
/// The reasons whose notes are collected.
const AGGREGATED: [&str; 3] =
    [reason::SUCCESSFUL_CREATE, reason::SUCCESSFUL_DELETE, reason::SCALING_REPLICA_SET];
/// The longest message that the API server accepts.
const LONGEST_MESSAGE: usize = 1024;

/// The most Events at once with one reason about one object. As in client-go
/// (`EventSourceObjectSpamFilter`), which does not distinguish reasons.
const BURST: u32 = 25;
/// After the burst, the time until one more is allowed.
const ONE_MORE: Duration = Duration::from_secs(300);

/// The separator of notes in one Event.
const SEPARATOR: &str = "; ";

/// A note to publish, about an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// The namespace of the object.
    pub namespace: String,
    /// The apiVersion of the object.
    pub api_version: String,
    /// The kind of the object.
    pub kind: String,
    /// The name of the object.
    pub name: String,
    /// The UID of the object.
    pub uid: String,
    /// `Normal` or `Warning`.
    pub type_: &'static str,
    /// The reason, in CamelCase.
    pub reason: &'static str,
    /// What happened.
    pub message: String,
}

impl Notice {
    /// All but the message.
    fn subject(&self) -> impl PartialEq + '_ {
        let Self { namespace, api_version, kind, name, uid, type_, reason, message: _ } = self;
        (uid, reason, type_, namespace, name, kind, api_version)
    }
}

/// A note and its place in the queue.
type Queued = (Notice, Permit);

/// The sender of notes.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    sender: mpsc::UnboundedSender<Queued>,
    /// Bounds the queue.
    places: Permits,
    metrics: Arc<ClientMetrics>,
}

/// Writes the queued notes to the API server.
pub struct EventWriter {
    sent: mpsc::UnboundedReceiver<Queued>,
    /// Routine notes, collected until that time.
    collected: Vec<Queued>,
    due: Instant,
    /// To write.
    ready: Turns<Queued>,
    series: BTreeMap<Notice, Series>,
    /// When each object has its whole burst again for a reason.
    full: BTreeMap<(String, String, &'static str), Instant>,
    clock: Clock,
    names: Names,
    metrics: Arc<ClientMetrics>,
}

struct Series {
    event: String,
    count: i32,
    last: Timestamp,
}

/// An event recorder and its writer.
#[must_use]
pub fn events(clock: Clock, names: Names, metrics: Arc<ClientMetrics>) -> (EventRecorder, EventWriter) {
    let (sender, sent) = mpsc::unbounded_channel();
    let recorder = EventRecorder { sender, places: Permits::new(WAITING), metrics: Arc::clone(&metrics) };
    let writer = EventWriter {
        sent,
        collected: Vec::new(),
        due: Instant::now(),
        ready: Turns::default(),
        series: BTreeMap::new(),
        full: BTreeMap::new(),
        clock,
        names,
        metrics,
    };
    (recorder, writer)
}

impl EventRecorder {
    /// Publishes a warning about an object that is not an OrderedDeployment.
    pub fn warn_of_object(&self, object: ObjectReference, reason: &'static str, message: &str) {
        self.publish(Notice {
            namespace: object.namespace.unwrap_or_default(),
            api_version: object.api_version.unwrap_or_default(),
            kind: object.kind.unwrap_or_default(),
            name: object.name.unwrap_or_default(),
            uid: object.uid.unwrap_or_default(),
            type_: "Warning",
            reason,
            message: message.to_owned(),
        });
    }

    /// Publishes a note. A message that is too long is cut.
    pub fn publish(&self, mut notice: Notice) {
        notice.message = cut(&notice.message, LONGEST_MESSAGE);
        tracing::info!(object = %format!("{}/{}", notice.namespace, notice.name), reason = notice.reason,
        "{}", notice.message);
        let place = self.places.try_acquire(&notice.namespace.as_str().into());
        if place.is_none_or(|place| self.sender.send((notice, place)).is_err()) {
            self.metrics.events_dropped.inc();
            tracing::warn!("an event was dropped: too many are waiting");
        }
    }
}

impl EventWriter {
    /// Writes until all recorders are dropped.
    pub async fn run(mut self, requests: Arc<Requests>) {
        loop {
            while let Ok(notice) = self.sent.try_recv() {
                self.sort(notice);
            }
            if Instant::now() >= self.due {
                self.release();
            }
            if let Some((notice, _place)) = self.ready.pop() {
                self.write(&requests, notice).await;
                continue;
            }
            let due = if self.collected.is_empty() { None } else { Some(self.due) };
            let sent = match due {
                Some(due) => timeout_at(due, self.sent.recv()).await,
                None => Ok(self.sent.recv().await),
            };
            match sent {
                Ok(Some(notice)) => self.sort(notice),
                Ok(None) => break,
                Err(_) => {}
            }
        }
        self.release();
        while let Some((notice, _place)) = self.ready.pop() {
            self.write(&requests, notice).await;
        }
    }

    /// Collects a routine note; any other one is ready.
    fn sort(&mut self, (notice, place): Queued) {
        if !AGGREGATED.contains(&notice.reason) {
            self.ready.push(notice.namespace.as_str().into(), (notice, place));
            return;
        }
        if self.collected.is_empty() {
            self.due = Instant::now() + AGGREGATION_WINDOW;
        }
        aggregate(&mut self.collected, notice, place);
    }

    /// The collected notes are ready.
    fn release(&mut self) {
        for (notice, place) in std::mem::take(&mut self.collected) {
            self.ready.push(notice.namespace.as_str().into(), (notice, place));
        }
    }

    async fn write(&mut self, requests: &Requests, notice: Notice) {
        let now = self.clock.now();
        self.series.retain(|_, series| now.duration_since(series.last) < SERIES);
        if !self.is_allowed(&notice, Instant::now()) {
            self.metrics.events_dropped.inc();
            tracing::debug!(
                reason = notice.reason,
                object = notice.name,
                "an event was dropped: too many events of this object"
            );
            return;
        }
        if let Err(error) = self.send(requests, &notice, now).await {
            // Without its series, the next equal note creates a new Event.
            self.series.remove(&notice);
            tracing::warn!(%error, reason = notice.reason, "cannot publish an event");
        }
    }

    /// Whether this object has an Event left for this reason. Each reason has its own allowance, so that
    /// hundreds of deletions or a repeated warning do not suppress the Event that the object is held.
    fn is_allowed(&mut self, notice: &Notice, now: Instant) -> bool {
        self.full.retain(|_, full| *full > now);
        let of = (notice.namespace.clone(), notice.uid.clone(), notice.reason);
        let full = self.full.entry(of).or_insert(now);
        let is_allowed = *full <= now + ONE_MORE * (BURST - 1);
        if is_allowed {
            *full += ONE_MORE;
        }
        is_allowed
    }

    async fn send(
        &mut self,
        requests: &Requests,
        notice: &Notice,
        now: Timestamp,
    ) -> Result<(), crate::RequestError> {
        if let Some(series) = self.series.get_mut(notice) {
            series.count += 1;
            series.last = now;
            let patch = json!({"count": series.count, "lastTimestamp": Time(now)});
            return requests.patch::<CoreEvent>(&notice.namespace, &series.event, &patch).await.map(drop);
        }
        let name = format!("{}.{}", cut(&notice.name, 200), self.names.suffix());
        requests.create::<CoreEvent>(&notice.namespace, &event(notice, &name, now), false).await?;
        self.series.insert(notice.clone(), Series { event: name, count: 1, last: now });
        Ok(())
    }
}

/// Joins a note with one of the same reason about the same object, in order, until the message is too long.
fn aggregate<P>(collected: &mut Vec<(Notice, P)>, notice: Notice, place: P) {
    let alike = |(other, _): &&mut (Notice, P)| {
        other.subject() == notice.subject()
            && other.message.len() + SEPARATOR.len() + notice.message.len() <= LONGEST_MESSAGE
    };
    match collected.iter_mut().rev().find(alike) {
        Some((other, _)) => {
            other.message.push_str(SEPARATOR);
            other.message.push_str(&notice.message);
        }
        None => collected.push((notice, place)),
    }
}

fn event(notice: &Notice, name: &str, now: Timestamp) -> Value {
    let Notice { namespace, api_version, kind, name: of, uid, type_, reason, message } = notice;
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": api_version, "kind": kind, "name": of, "namespace": namespace, "uid": uid,
        },
        "type": type_, "reason": reason, "message": message,
        "source": {"component": CONTROLLER},
        "reportingComponent": CONTROLLER, "reportingInstance": CONTROLLER,
        "count": 1, "firstTimestamp": Time(now), "lastTimestamp": Time(now),
    })
}

fn cut(text: &str, longest: usize) -> String {
    let mut end = text.len().min(longest);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use http::{Request, Response};
    use kube::Client;
    use kube::client::Body;
    use ordereddeployment_api::names::reason;
    use tokio::time::Instant;
    use tower::{BoxError, service_fn};

    use super::{BURST, LONGEST_MESSAGE, Notice, ONE_MORE, WAITING, aggregate, cut, events};
    use crate::client::requests::Requests;
    use crate::{Clock, Limiter, Limits, Names};

    #[test]
    fn each_reason_of_an_object_has_a_burst_of_events_and_then_few() {
        let (_events, mut event_writer) =
            events(Clock::system(), Names::seeded(1), crate::metrics::metrics());
        let start = Instant::now();
        let mut told_by = |name, reason, now| {
            (0..100).filter(|_| event_writer.is_allowed(&notice(reason, name, ""), now)).count()
        };
        assert_eq!(told_by("web", reason::SUCCESSFUL_DELETE, start), BURST as usize);
        assert_eq!(told_by("web", "PausePointReached", start), BURST as usize);
        assert_eq!(told_by("other", reason::SUCCESSFUL_DELETE, start), BURST as usize);
        let after = |count| start + ONE_MORE * count - Duration::from_secs(1);
        assert_eq!(told_by("web", reason::SUCCESSFUL_DELETE, after(1)), 0);
        assert_eq!(told_by("web", reason::SUCCESSFUL_DELETE, after(3)), 2);
        assert_eq!(told_by("web", reason::SUCCESSFUL_DELETE, after(4)), 1, "what is over is not forgotten");
        assert_eq!(told_by("web", reason::SUCCESSFUL_DELETE, after(1000)), BURST as usize);
    }

    fn notice(reason: &'static str, name: &str, message: &str) -> Notice {
        notice_in("shop", reason, name, message)
    }

    fn notice_in(namespace: &str, reason: &'static str, name: &str, message: &str) -> Notice {
        let text = str::to_owned;
        Notice {
            namespace: text(namespace),
            api_version: text("v1"),
            kind: text("Pod"),
            name: text(name),
            uid: text(name),
            type_: "Normal",
            reason,
            message: text(message),
        }
    }

    fn joined(notices: Vec<Notice>) -> Vec<Notice> {
        let mut collected = Vec::new();
        for notice in notices {
            aggregate(&mut collected, notice, ());
        }
        collected.into_iter().map(|(notice, ())| notice).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn many_events_of_one_namespace_do_not_keep_those_of_another_one_waiting() {
        let metrics = crate::metrics::metrics();
        let (recorder, writer) = events(Clock::system(), Names::seeded(1), Arc::clone(&metrics));
        for number in 0..2 * WAITING {
            recorder.publish(notice_in("noisy", "Other", &number.to_string(), ""));
        }
        let dropped = metrics.events_dropped.get();
        assert!(dropped > 0, "the queue is bounded");
        recorder.publish(notice_in("quiet", reason::SUCCESSFUL_DELETE, "web", ""));
        recorder.publish(notice_in("quiet", "Other", "web", ""));
        assert_eq!(metrics.events_dropped.get(), dropped, "there is a place for another namespace");
        let written = Arc::new(Mutex::new(Vec::new()));
        let service = service_fn({
            let written = Arc::clone(&written);
            move |request: Request<Body>| {
                written.lock().unwrap().push(request.uri().path().contains("/quiet/"));
                async move {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Ok::<_, BoxError>(Response::new(Body::from(
                        br#"{"metadata": {"name": "a"}, "involvedObject": {}}"#.to_vec(),
                    )))
                }
            }
        });
        let client = Client::new(service, "shop");
        let requests = Requests::new(&client, &[], Limiter::new(Limits::default()), &metrics);
        drop(recorder);
        writer.run(Arc::new(requests)).await;
        let written = written.lock().unwrap();
        assert_eq!(written.iter().position(|is_quiet| *is_quiet), Some(1));
        // The routine note is collected for a second.
        assert!(written.iter().rposition(|is_quiet| *is_quiet).unwrap() < 15, "{written:?}");
    }

    #[test]
    fn notes_of_one_reason_about_one_object_are_joined_in_one_event_in_order() {
        let pending = vec![
            notice("Created", "web", "a"),
            notice("Deleted", "web", "b"),
            notice("Created", "web", "c"),
            notice("Created", "other", "d"),
        ];
        let expected = [
            notice("Created", "web", "a; c"),
            notice("Deleted", "web", "b"),
            notice("Created", "other", "d"),
        ];
        assert_eq!(joined(pending), expected);
    }

    #[test]
    fn joining_notes_cuts_none() {
        let long = "x".repeat(LONGEST_MESSAGE / 3);
        let pending: Vec<_> = (0..5).map(|_| notice("Created", "web", &long)).collect();
        let lengths: Vec<_> = joined(pending).iter().map(|notice| notice.message.len()).collect();
        assert_eq!(lengths, [2 * long.len() + 2, 2 * long.len() + 2, long.len()]);
    }

    #[test]
    fn a_message_is_cut_between_characters() {
        assert_eq!(cut("abc", 10), "abc");
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("", 0), "");
    }
}
