//! Forwards a watch line by line: each event is sent after its delay.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::client::Body;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Broken;
use super::rules::{RequestInfo, Rules};

/// The same lines with the delay.
pub(super) fn lines(body: Body, rules: Arc<Rules>, info: RequestInfo) -> UnsyncBoxBody<Bytes, Broken> {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(read(body, rules, info, sender));
    let frames = stream::unfold(receiver, |mut receiver| async move {
        let (due, line) = receiver.recv().await?;
        tokio::time::sleep_until(due).await;
        Some((Ok(Frame::data(line)), receiver))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Reads until the server ends the watch or the client disconnects.
async fn read(
    mut body: Body,
    rules: Arc<Rules>,
    info: RequestInfo,
    sender: mpsc::UnboundedSender<(Instant, Bytes)>,
) {
    let mut buffer = BytesMut::new();
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            () = sender.closed() => return,
        };
        let Some(Ok(frame)) = frame else { return };
        let Ok(data) = frame.into_data() else { continue };
        buffer.extend_from_slice(&data);
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line = buffer.split_to(end + 1).freeze();
            if sender.send((Instant::now() + rules.delay(&info), line)).is_err() {
                return;
            }
        }
    }
}
