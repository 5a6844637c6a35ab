//! Watches that show what there is in another way than they should.

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

use super::Chaos;
use super::answer::{Answer, Broken, READ_TIMEOUT};
use super::request::Asked;
use crate::case::{Fault, Millis, Span, WatchHow};

/// What a watch is told of next.
enum Next {
    Line(Bytes),
    Fail,
    End,
    Look,
}

/// One watch under way.
struct Stream {
    chaos: Chaos,
    instance: u32,
    asked: Asked,
    /// When it was opened, from the start of the run.
    opened: Millis,
    /// What the server sent, and when.
    sent: UnboundedReceiver<(Instant, Bytes)>,
    reader: AbortHandle,
    waiting: VecDeque<(Instant, Bytes)>,
    /// When something came last.
    heard: Instant,
    is_dead: bool,
    is_over: bool,
    has_ended: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Chaos {
    /// Shows that watch as the faults have it.
    pub(super) fn watch(&self, instance: u32, asked: &Asked, answer: Answer) -> Answer {
        if !answer.status().is_success() {
            return answer;
        }
        let (parts, body) = answer.into_parts();
        let (sender, sent) = unbounded_channel();
        // Read as it comes: how late it is shown must not count twice.
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
            chaos: self.clone(),
            instance,
            asked: asked.clone(),
            opened: self.now(),
            sent,
            reader: reader.abort_handle(),
            waiting: VecDeque::new(),
            heard: Instant::now(),
            is_dead: false,
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

    /// Makes a list, or the start of a watch, look back.
    pub(super) fn rewind(&self, asked: &Asked, parts: &mut Parts) {
        let back = self.watch_faults(asked, self.now()).into_iter().find_map(|(_, how)| match how {
            WatchHow::Rewind(back) => Some(back),
            _ => None,
        });
        let (Some(back), Some(query)) = (back, parts.uri.query()) else { return };
        let query = match asked.verb {
            // The lists of watches: what is read live says whose it wants.
            "list" if !query.contains("labelSelector") && !query.contains("continue=") => {
                let version = self.sandbox.version().saturating_sub(back).max(1);
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
            self.tell(format!("looks {back} versions back: {asked}"));
            parts.uri = uri;
        }
    }

    /// The faults of that watch, at that time.
    fn watch_faults(&self, asked: &Asked, time: Millis) -> Vec<(Span, WatchHow)> {
        let state = self.state();
        if state.is_healed {
            return Vec::new();
        }
        let faults = state.faults.iter().filter_map(|fault| match fault {
            Fault::Watch { plural, span, how } if plural.is_empty() || *plural == asked.plural => {
                Some((*span, *how))
            }
            _ => None,
        });
        faults.filter(|(span, _)| span.contains(time)).collect()
    }

    /// When the faults of that watch change next.
    fn next_change(&self, instance: u32, asked: &Asked, time: Millis) -> Option<Instant> {
        let state = self.state();
        let spans = state.faults.iter().filter_map(|fault| match fault {
            Fault::Watch { plural, span, .. } if plural.is_empty() || *plural == asked.plural => Some(*span),
            Fault::Cut { instance: one, span } if *one == instance => Some(*span),
            _ => None,
        });
        let times = spans.flat_map(|span| [span.at, span.end()]).filter(|change| *change > time);
        times.min().map(|change| self.at(change))
    }
}

impl Stream {
    /// The next piece, an error where the connection breaks, none at the end.
    async fn next(&mut self) -> Option<Result<Bytes, BoxError>> {
        if self.is_over {
            return None;
        }
        loop {
            match self.look().await {
                Next::Line(line) => {
                    self.heard = Instant::now();
                    return Some(Ok(line));
                }
                Next::Fail => {
                    self.is_over = true;
                    return Some(Err(Broken.into()));
                }
                Next::End => return None,
                Next::Look => {}
            }
        }
    }

    async fn look(&mut self) -> Next {
        let time = self.chaos.now();
        let faults = self.chaos.watch_faults(&self.asked, time);
        let opened = self.opened;
        let mut frozen = self.chaos.cut(self.instance, time).is_some();
        let (mut delay, mut twice) = (Duration::ZERO, false);
        for (span, how) in faults {
            match how {
                WatchHow::Delay(millis) => delay = delay.max(Duration::from_millis(millis)),
                WatchHow::Freeze => frozen = true,
                WatchHow::HalfOpen => self.is_dead = true,
                WatchHow::Break => return Next::Fail,
                WatchHow::Double => twice = true,
                WatchHow::Expire if opened < span.at => {
                    self.is_over = true;
                    return Next::Line(expired());
                }
                WatchHow::Expire | WatchHow::Rewind(_) => {}
            }
        }
        let silence = self.heard + READ_TIMEOUT;
        if Instant::now() >= silence {
            return Next::Fail;
        }
        let change = self.chaos.next_change(self.instance, &self.asked, time);
        let mut wake = change.map_or(silence, |change| change.min(silence));
        if !frozen && !self.is_dead {
            if let Some((sent, _)) = self.waiting.front() {
                let due = *sent + delay;
                if due <= Instant::now() {
                    return match self.waiting.pop_front() {
                        Some((_, line)) if twice => Next::Line([line.clone(), line].concat().into()),
                        Some((_, line)) => Next::Line(line),
                        None => Next::Look,
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
        Next::Look
    }
}

fn expired() -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    let mut line = json!({"type": "ERROR", "object": status}).to_string();
    line.push('\n');
    line.into()
}
