//! Reads the audit log of a kube-apiserver.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::Request;

/// How long a delete may have no response.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    #[serde(rename = "auditID")]
    id: String,
    stage: String,
    #[serde(rename = "requestURI")]
    uri: String,
    verb: String,
    user: User,
    #[serde(default)]
    user_agent: String,
    object_ref: Option<ObjectRef>,
    response_status: Option<Status>,
    request_object: Option<Value>,
    request_received_timestamp: Option<Timestamp>,
    stage_timestamp: Option<Timestamp>,
}

#[derive(Debug, Deserialize)]
struct User {
    #[serde(default)]
    username: String,
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<String>,
    api_group: String,
}

/// The answered requests. A delete is at the position where it began, so every delete with a visible effect is in the
/// list. `dead` are the logs of killed servers, oldest first: requests without a response have the code 0 there, since
/// their result is unknown.
pub(super) async fn requests(dead: &[PathBuf], file: &Path) -> Result<Vec<Request>> {
    let mut all = Vec::new();
    for file in dead {
        all.extend(parse(whole_lines(&read(file)?))?.into_iter().map(Entry::whatever));
    }
    let limit = Instant::now() + PATIENCE;
    loop {
        let bytes = match read(file) {
            // A restarted server has no log before its first response.
            Err(_) if !dead.is_empty() && !file.exists() => Vec::new(),
            read => read?,
        };
        if whole_lines(&bytes).len() == bytes.len()
            && let Some(answered) =
                parse(&bytes)?.into_iter().map(Entry::answered).collect::<Option<Vec<_>>>()
        {
            all.extend(answered);
            return Ok(all);
        }
        if Instant::now() > limit {
            bail!("a delete is in the audit log without its answer for {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn read(file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read the audit log {}", file.display()))
}

/// Without an incomplete last line.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    &bytes[..end]
}

/// A request, and whether it was answered.
struct Entry(Request, bool);

impl Entry {
    fn answered(self) -> Option<Request> {
        self.1.then_some(self.0)
    }

    fn whatever(self) -> Request {
        self.0
    }
}

fn parse(lines: &[u8]) -> Result<Vec<Entry>> {
    let mut requests: Vec<Entry> = Vec::new();
    let mut begun = BTreeMap::new();
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let event: Event = serde_json::from_slice(line)
            .with_context(|| format!("cannot read an audit event: {}", String::from_utf8_lossy(line)))?;
        if event.stage == "RequestReceived" {
            begun.insert(event.id.clone(), requests.len());
            requests.push(Entry(request(event), false));
        } else if event.stage == "ResponseComplete" || event.stage == "Panic" {
            match begun.remove(&event.id) {
                Some(place) => requests[place] = Entry(request(event), true),
                None => requests.push(Entry(request(event), true)),
            }
        }
    }
    Ok(requests)
}

fn request(event: Event) -> Request {
    let object = event.object_ref.unwrap_or_default();
    Request {
        user: Some(event.user.username),
        user_agent: event.user_agent,
        verb: event.verb,
        path: event.uri,
        group: object.api_group,
        plural: object.resource,
        namespace: object.namespace,
        name: object.name,
        subresource: object.subresource,
        body: event.request_object,
        code: event.response_status.unwrap_or_default().code,
        received: event.request_received_timestamp,
        answered: event.stage_timestamp.filter(|_| event.stage == "ResponseComplete"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, parse, whole_lines};

    fn line(id: &str, stage: &str) -> String {
        format!(
            r#"{{"auditID":"{id}","stage":"{stage}","requestURI":"/x","verb":"delete","user":{{"username":"u"}},
            "objectRef":{{"resource":"pods","name":"{id}"}},"responseStatus":{{"code":200}}}}"#
        )
        .replace('\n', "")
            + "\n"
    }

    fn names(entries: Vec<Entry>) -> Vec<(String, bool)> {
        entries.into_iter().map(|Entry(request, answered)| (request.name.unwrap(), answered)).collect()
    }

    #[test]
    fn a_delete_is_at_its_start_and_known_to_be_unanswered() {
        let begun = line("a", "RequestReceived") + &line("b", "ResponseComplete");
        assert_eq!(names(parse(begun.as_bytes()).unwrap()), [("a".into(), false), ("b".into(), true)]);
        let done = begun + &line("a", "ResponseComplete");
        assert_eq!(names(parse(done.as_bytes()).unwrap()), [("a".into(), true), ("b".into(), true)]);
    }

    #[test]
    fn half_a_line_is_left_out() {
        assert_eq!(whole_lines(b"{}\n{\"auditID\":"), b"{}\n");
        assert_eq!(whole_lines(b"{\"auditID\":"), b"");
    }
}
