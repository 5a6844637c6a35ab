//! Reads the audit log of a kube-apiserver.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::time::Instant;

use crate::Request;

/// A position in the audit logs: what is before it was recorded earlier.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    /// How many servers were killed before.
    dead: usize,
    /// Where the next line of the log of the running server begins.
    offset: u64,
}

/// How long a delete may have no response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The end of the logs now.
pub(super) fn end(dead: &[PathBuf], file: &Path) -> Result<Mark> {
    let offset = match read_from(file, 0) {
        // A restarted server has no log before its first response.
        Err(_) if !dead.is_empty() && !file.exists() => 0,
        bytes => u64::try_from(whole_lines(&bytes?).len())?,
    };
    Ok(Mark { dead: dead.len(), offset })
}

/// The answered requests after the mark. A delete is at the position where it began, so every delete with a
/// visible effect is in the list. `dead` are the logs of killed servers, oldest first: requests without a
/// response have the code 0 there, since their result is unknown.
pub(super) async fn requests(dead: &[PathBuf], file: &Path, since: Mark) -> Result<Vec<Request>> {
    let mut all = Vec::new();
    let mut offset = since.offset;
    for file in dead.iter().skip(since.dead) {
        let bytes = read_from(file, std::mem::take(&mut offset))?;
        all.extend(parse(whole_lines(&bytes))?.into_iter().map(|(request, _)| request));
    }
    let limit = Instant::now() + TIMEOUT;
    loop {
        let bytes = match read_from(file, offset) {
            Err(_) if !dead.is_empty() && !file.exists() => Vec::new(),
            read => read?,
        };
        if whole_lines(&bytes).len() == bytes.len() {
            let entries = parse(&bytes)?;
            if entries.iter().all(|(_, answered)| *answered) {
                all.extend(entries.into_iter().map(|(request, _)| request));
                return Ok(all);
            }
        }
        if Instant::now() > limit {
            bail!("a delete is in the audit log without its answer for {} s", TIMEOUT.as_secs());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn read_from(file: &Path, offset: u64) -> Result<Vec<u8>> {
    let read = || -> std::io::Result<Vec<u8>> {
        let (mut log, mut bytes) = (File::open(file)?, Vec::new());
        log.seek(SeekFrom::Start(offset))?;
        log.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().with_context(|| format!("cannot read the audit log {}", file.display()))
}

/// Without an incomplete last line.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    &bytes[..end]
}

/// A request, and whether it was answered.
type Entry = (Request, bool);

fn parse(lines: &[u8]) -> Result<Vec<Entry>> {
    let mut requests: Vec<Entry> = Vec::new();
    let mut begun = BTreeMap::new();
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let event: Value = serde_json::from_slice(line)
            .with_context(|| format!("cannot read an audit event: {}", String::from_utf8_lossy(line)))?;
        let text = |key: &str| event[key].as_str().with_context(|| format!("no {key} in {event}"));
        let id = text("auditID")?;
        match text("stage")? {
            "RequestReceived" => {
                begun.insert(id.to_owned(), requests.len());
                requests.push((request(&event)?, false));
            }
            "ResponseComplete" | "Panic" => match begun.remove(id) {
                Some(place) => requests[place] = (request(&event)?, true),
                None => requests.push((request(&event)?, true)),
            },
            _ => {}
        }
    }
    Ok(requests)
}

fn request(event: &Value) -> Result<Request> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let time = |pointer: &str| text(pointer).map(|time| time.parse()).transpose();
    let code = event.pointer("/responseStatus/code").and_then(Value::as_u64);
    Ok(Request {
        user: text("/user/username"),
        user_agent: text("/userAgent").unwrap_or_default(),
        verb: text("/verb").unwrap_or_default(),
        path: text("/requestURI").unwrap_or_default(),
        group: text("/objectRef/apiGroup").unwrap_or_default(),
        plural: text("/objectRef/resource").unwrap_or_default(),
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        subresource: text("/objectRef/subresource"),
        body: event.get("requestObject").cloned(),
        code: code.and_then(|code| code.try_into().ok()).unwrap_or_default(),
        received: time("/requestReceivedTimestamp")?,
        answered: time("/stageTimestamp")?.filter(|_| event["stage"] == "ResponseComplete"),
    })
}

#[cfg(test)]
mod tests {
    use super::{Mark, end, parse, requests, whole_lines};

    fn line(id: &str, stage: &str) -> String {
        format!(
            r#"{{"auditID":"{id}","stage":"{stage}","requestURI":"/x","verb":"delete","user":{{"username":"u"}},
            "objectRef":{{"resource":"pods","name":"{id}"}},"responseStatus":{{"code":200}}}}"#
        )
        .replace('\n', "")
            + "\n"
    }

    #[test]
    fn a_delete_is_at_its_start_and_known_to_be_unanswered_and_half_a_line_is_left_out() {
        let names = |text: &str| -> Vec<(String, bool)> {
            let entries = parse(whole_lines(text.as_bytes())).unwrap().into_iter();
            entries.map(|(request, answered)| (request.name.unwrap(), answered)).collect()
        };
        let begun = line("a", "RequestReceived") + &line("b", "ResponseComplete");
        assert_eq!(names(&(begun.clone() + "{\"auditID\":")), [("a".into(), false), ("b".into(), true)]);
        let done = begun + &line("a", "ResponseComplete");
        assert_eq!(names(&done), [("a".into(), true), ("b".into(), true)]);
    }

    #[tokio::test]
    async fn requests_after_a_mark_include_those_of_servers_that_were_killed_since() {
        let folder = tempfile::tempdir().unwrap();
        let log = |name: &str| folder.path().join(name);
        let names = |found: Vec<crate::Request>| -> Vec<String> {
            found.into_iter().filter_map(|request| request.name).collect()
        };
        let write = |name: &str, text: String| std::fs::write(log(name), text).unwrap();
        write("old", line("a", "ResponseComplete"));
        write("new", line("b", "ResponseComplete") + "{");
        let mark = end(&[log("old")], &log("new")).unwrap();
        write("new", line("b", "ResponseComplete") + &line("c", "ResponseComplete"));
        write("newest", line("d", "ResponseComplete"));
        let (all, dead) = ([log("old"), log("new")], Mark::default());
        assert_eq!(names(requests(&all, &log("newest"), mark).await.unwrap()), ["c", "d"]);
        assert_eq!(names(requests(&all, &log("newest"), dead).await.unwrap()), ["a", "b", "c", "d"]);
    }
}
