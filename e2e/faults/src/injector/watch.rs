//! Faults of watches.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http::Response;
use http::request::Parts;
use http_body_util::{BodyExt, StreamBody};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};
use tower::BoxError;

use super::request::RequestInfo;
use super::{ApiResponse, FaultInjector, READ_TIMEOUT, RESET, status};
use crate::case::{Fault, Millis, Span, WatchFault};

/// What the client of a watch receives next.
enum Next {
    Line(Bytes),
    Fail,
    End,
    Wait,
}

/// An open watch.
struct Stream {
    injector: FaultInjector,
    instance: u32,
    info: RequestInfo,
    /// When it was opened, from the start of the run.
    opened: Millis,
    /// What the server sent, and when.
    sent: UnboundedReceiver<(Instant, Bytes)>,
    reader: AbortHandle,
    waiting: VecDeque<(Instant, Bytes)>,
    /// When the client received the last event.
    last_event: Instant,
    is_half_open: bool,
    is_over: bool,
    has_ended: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl FaultInjector {
    /// Injects the faults of that watch.
    pub(super) fn watch(&self, instance: u32, info: &RequestInfo, response: ApiResponse) -> ApiResponse {
        if !response.status().is_success() {
            return response;
        }
        let (parts, body) = response.into_parts();
        let (sender, sent) = unbounded_channel();
        // Events are read at once, so that delays do not add up.
        let reader = tokio::spawn(async move {
            let mut body = std::pin::pin!(body);
            let mut rest = BytesMut::new();
            while let Some(Ok(frame)) = body.frame().await {
                rest.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    if sender.send((Instant::now(), rest.split_to(end + 1).freeze())).is_err() {
                        return;
                    }
                }
            }
        });
        let stream = Stream {
            injector: self.clone(),
            instance,
            info: info.clone(),
            opened: self.now(),
            sent,
            reader: reader.abort_handle(),
            waiting: VecDeque::new(),
            last_event: Instant::now(),
            is_half_open: false,
            is_over: false,
            has_ended: false,
        };
        let frames = stream::unfold(stream, |mut stream| async move {
            let frame = stream.next().await?;
            Some((frame.map(http_body::Frame::data), stream))
        });
        let body = StreamBody::new(frames);
        Response::from_parts(parts, body.boxed_unsync())
    }

    /// Makes a list or a new watch show an older version.
    pub(super) fn rewind(&self, info: &RequestInfo, parts: &mut Parts) {
        let back = self.watch_faults(info, self.now()).into_iter().find_map(|(_, effect)| match effect {
            WatchFault::Rewind(back) => Some(back),
            _ => None,
        });
        let (Some(back), Some(query)) = (back, parts.uri.query()) else { return };
        let query = match info.verb {
            // The list of a reflector. Live reads have a label selector.
            "list" if !query.contains("labelSelector") && !query.contains("continue=") => {
                let version = self.writer.sandbox.version().saturating_sub(back).max(1);
                format!("{query}&resourceVersion={version}&resourceVersionMatch=Exact")
            }
            "watch" => {
                let pairs = query.split('&').map(|pair| match pair.strip_prefix("resourceVersion=") {
                    Some(version) => {
                        let version: u64 = version.parse().unwrap_or_default();
                        format!("resourceVersion={}", version.saturating_sub(back).max(1))
                    }
                    None => pair.to_owned(),
                });
                pairs.collect::<Vec<_>>().join("&")
            }
            _ => return,
        };
        if let Ok(uri) = format!("{}?{query}", parts.uri.path()).parse() {
            self.report(format!("Rewind {back}: {info}"));
            parts.uri = uri;
        }
    }

    /// The faults of that watch, at that time.
    fn watch_faults(&self, info: &RequestInfo, time: Millis) -> Vec<(Span, WatchFault)> {
        let state = self.state();
        if state.has_ended {
            return Vec::new();
        }
        let faults = state.faults.iter().filter_map(|fault| match fault {
            Fault::Watch { plural, span, effect } if plural.is_empty() || *plural == info.plural => {
                Some((*span, *effect))
            }
            _ => None,
        });
        faults.filter(|(span, _)| span.contains(time)).collect()
    }

    /// When a fault of that watch begins or ends next.
    fn next_change(&self, instance: u32, info: &RequestInfo, time: Millis) -> Option<Instant> {
        let state = self.state();
        let spans = state.faults.iter().filter_map(|fault| match fault {
            Fault::Watch { plural, span, .. } if plural.is_empty() || *plural == info.plural => Some(*span),
            Fault::Partition { instance: one, span } if *one == instance => Some(*span),
            _ => None,
        });
        let times = spans.flat_map(|span| [span.start, span.end()]).filter(|change| *change > time);
        times.min().map(|change| self.at(change))
    }
}

impl Stream {
    /// The next event, an error if the connection breaks, none at the end.
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        if self.is_over {
            return None;
        }
        loop {
            match self.poll_next().await {
                Next::Line(line) => {
                    self.last_event = Instant::now();
                    return Some(Ok(line));
                }
                Next::Fail => {
                    self.is_over = true;
                    return Some(Err(RESET.into()));
                }
                Next::End => return None,
                Next::Wait => {}
            }
        }
    }

    async fn poll_next(&mut self) -> Next {
        let time = self.injector.now();
        let faults = self.injector.watch_faults(&self.info, time);
        let opened = self.opened;
        let mut frozen = self.injector.partition(self.instance, time).is_some();
        let (mut delay, mut duplicate) = (Duration::ZERO, false);
        for (span, effect) in faults {
            match effect {
                WatchFault::Delay(millis) => delay = delay.max(Duration::from_millis(millis)),
                WatchFault::Freeze => frozen = true,
                WatchFault::HalfOpen => self.is_half_open = true,
                WatchFault::Disconnect => return Next::Fail,
                WatchFault::Duplicate => duplicate = true,
                WatchFault::Expire if opened < span.start => {
                    self.is_over = true;
                    return Next::Line(expired());
                }
                WatchFault::Expire | WatchFault::Rewind(_) => {}
            }
        }
        let timeout = self.last_event + READ_TIMEOUT;
        if Instant::now() >= timeout {
            return Next::Fail;
        }
        let change = self.injector.next_change(self.instance, &self.info, time);
        let mut wake = change.map_or(timeout, |change| change.min(timeout));
        if !frozen && !self.is_half_open {
            if let Some((sent, _)) = self.waiting.front() {
                let due = *sent + delay;
                if due <= Instant::now() {
                    return match self.waiting.pop_front() {
                        Some((_, line)) if duplicate => Next::Line([line.clone(), line].concat().into()),
                        Some((_, line)) => Next::Line(line),
                        None => Next::Wait,
                    };
                }
                wake = wake.min(due);
            } else if self.has_ended {
                return Next::End;
            }
        }
        tokio::select! {
            biased;
            sent = self.sent.recv(), if !self.has_ended => match sent {
                Some(sent) => self.waiting.push_back(sent),
                None => self.has_ended = true,
            },
            () = sleep_until(wake) => {}
        }
        Next::Wait
    }
}

fn expired() -> Bytes {
    let status = status(410, "Expired", "too old resource version");
    let mut line = json!({"type": "ERROR", "object": status}).to_string();
    line.push('\n');
    line.into()
}
