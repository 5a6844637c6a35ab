//! Reads the audit log of a kube-apiserver.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::Request;

/// How long a delete may stay unanswered.
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

/// The answered requests. Deletes stand where they began: by that order nothing that somebody has seen the effect of can
/// be missing.
pub(super) async fn requests(file: &Path) -> Result<Vec<Request>> {
    let limit = Instant::now() + PATIENCE;
    loop {
        let bytes = std::fs::read(file);
        let bytes = bytes.with_context(|| format!("cannot read the audit log {}", file.display()))?;
        if let Some(requests) = parse(&bytes)? {
            return Ok(requests);
        }
        if Instant::now() > limit {
            bail!("a delete is in the audit log without its answer for {} s", PATIENCE.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// None while a delete is under way, or a line is being written.
fn parse(bytes: &[u8]) -> Result<Option<Vec<Request>>> {
    if bytes.last().is_some_and(|last| *last != b'\n') {
        return Ok(None);
    }
    let mut requests: Vec<Option<Request>> = Vec::new();
    let mut begun = BTreeMap::new();
    for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let event: Event = serde_json::from_slice(line)
            .with_context(|| format!("cannot read an audit event: {}", String::from_utf8_lossy(line)))?;
        if event.stage == "RequestReceived" {
            begun.insert(event.id, requests.len());
            requests.push(None);
        } else if event.stage == "ResponseComplete" || event.stage == "Panic" {
            match begun.remove(&event.id) {
                Some(place) => requests[place] = Some(request(event)),
                None => requests.push(Some(request(event))),
            }
        }
    }
    Ok(begun.is_empty().then(|| requests.into_iter().flatten().collect()))
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
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn line(id: &str, stage: &str) -> String {
        format!(
            r#"{{"auditID":"{id}","stage":"{stage}","requestURI":"/x","verb":"delete","user":{{"username":"u"}},
            "objectRef":{{"resource":"pods","name":"{id}"}},"responseStatus":{{"code":200}}}}"#
        )
        .replace('\n', "")
            + "\n"
    }

    #[test]
    fn a_delete_without_its_answer_is_waited_for() {
        let begun = line("a", "RequestReceived") + &line("b", "ResponseComplete");
        assert!(parse(begun.as_bytes()).unwrap().is_none());
        let done = begun + &line("a", "ResponseComplete");
        let names: Vec<_> =
            parse(done.as_bytes()).unwrap().unwrap().into_iter().filter_map(|one| one.name).collect();
        assert_eq!(names, ["a", "b"], "in the order in which they began");
    }

    #[test]
    fn half_a_line_is_waited_for() {
        assert!(parse(b"{\"auditID\":").unwrap().is_none());
    }
}
