//! Plain requests to a real server, with complete answers: kubectl proxies them, so that no TLS is needed here. The socket
//! is in the check's own folder, where other users cannot write; it requires no credentials.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::tail;
use crate::servers::{Process, Server};

/// How long kubectl may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(30);

/// A running `kubectl proxy`.
pub(crate) struct Proxy {
    _process: Process,
    socket: PathBuf,
}

impl Proxy {
    /// Starts a proxy for `server`; `name` distinguishes it from others in `folder`.
    pub(crate) fn start(server: &Server, folder: &Path, name: &str) -> Result<Self> {
        let socket = folder.join(format!("{name}.sock"));
        let log = folder.join(format!("{name}-proxy.log"));
        let mut kubectl = server.kubectl();
        kubectl.arg("proxy").arg(format!("--unix-socket={}", socket.display()));
        let mut process = Process::start(&mut kubectl, log.clone())?;
        let start = Instant::now();
        while let Err(error) = UnixStream::connect(&socket) {
            let ended = process.child.try_wait()?.is_some();
            if ended || start.elapsed() > START_LIMIT {
                let said = tail(&log, 5);
                return Err(error).with_context(|| format!("kubectl proxy does not listen:\n{said}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Self { _process: process, socket })
    }

    /// Sends one request; returns the code and the body of the answer.
    pub(crate) fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        // No body if none is needed: a body that the server does not read resets the connection.
        let body = body.map(Value::to_string).unwrap_or_default();
        let mut stream = UnixStream::connect(&self.socket).context("kubectl proxy is gone")?;
        // Version 1.0: the answer ends with the connection, and is not chunked.
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        parse(&answer).with_context(|| format!("cannot read the answer to {method} {path}"))
    }
}

fn parse(answer: &[u8]) -> Result<(u16, Value)> {
    let text = std::str::from_utf8(answer)?;
    let Some((head, body)) = text.split_once("\r\n\r\n") else { bail!("no end of its headers") };
    let code = head.split(' ').nth(1).context("no code")?.parse()?;
    let body = serde_json::from_str(body).with_context(|| format!("code {code}, and no JSON: {body}"))?;
    Ok((code, body))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn an_answer_is_parsed_into_code_and_body() {
        let answer =
            b"HTTP/1.0 422 Unprocessable Entity\r\nContent-Type: application/json\r\n\r\n{\"a\": 1}\n";
        let (code, body) = parse(answer).unwrap();
        assert_eq!((code, body["a"].as_i64()), (422, Some(1)));
        assert!(parse(b"HTTP/1.0 200 OK\r\n\r\nhello").is_err());
    }
}
