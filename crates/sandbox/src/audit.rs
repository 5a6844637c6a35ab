//! The request log of the API server, and the failures that tests inject into requests.

use http::Method;
use jiff::Timestamp;
use serde_json::Value;

use crate::request::{Call, Query, Target};
use crate::status::Failure;

/// One request as the server received it.
#[derive(Debug, Clone)]
pub struct Record {
    /// When the server answered it.
    pub at: Timestamp,
    /// The client's `User-Agent`.
    pub user_agent: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: &'static str,
    /// Path and query.
    pub path: String,
    /// Resource in the path, such as `pods`; empty for paths without a resource.
    pub plural: String,
    /// Namespace in the path.
    pub namespace: Option<String>,
    /// Object in the path.
    pub name: Option<String>,
    /// Subresource in the path.
    pub subresource: Option<String>,
    /// The body of deletes, evictions, bindings and patches. With a journal, the body of every write.
    pub body: Option<Value>,
    /// Status code of the response.
    pub code: u16,
}

impl Record {
    pub(crate) fn new(
        at: Timestamp,
        call: &Call,
        target: Option<&Target>,
        query: &Query,
        has_journal: bool,
    ) -> Self {
        let one = target.is_some_and(|target| target.name.is_some());
        let verb = match (&call.method, one) {
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::PATCH, _) => "patch",
            (&Method::DELETE, true) => "delete",
            (&Method::DELETE, false) => "deletecollection",
            _ if query.flag("watch") => "watch",
            (_, false) if target.is_some() => "list",
            _ => "get",
        };
        let subresource = target.and_then(|target| target.subresource.clone());
        let is_kept = matches!(verb, "delete" | "deletecollection" | "patch") || subresource.is_some();
        let wanted = (is_kept || has_journal) && !call.body.is_empty();
        let path =
            if call.query.is_empty() { call.path.clone() } else { format!("{}?{}", call.path, call.query) };
        Self {
            at,
            user_agent: call.user_agent.clone(),
            verb,
            path,
            plural: target.map(|target| target.plural.clone()).unwrap_or_default(),
            namespace: target.and_then(|target| target.namespace.clone()),
            name: target.and_then(|target| target.name.clone()),
            subresource,
            body: wanted.then(|| call.json().ok()).flatten(),
            code: 0,
        }
    }
}

/// A failure that a test injects: the server rejects the next matching requests before it processes them.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The verb to reject, as in [`Record::verb`]; `None` matches all verbs.
    pub verb: Option<&'static str>,
    /// The resource to reject; `None` matches all resources.
    pub plural: Option<String>,
    /// Matches only requests with a user agent that contains this string.
    pub user_agent: Option<String>,
    /// The status code of the response.
    pub code: u16,
    /// How many requests to reject.
    pub times: usize,
}

impl Fault {
    pub(crate) fn matches(&self, record: &Record) -> bool {
        self.verb.is_none_or(|verb| verb == record.verb)
            && self.plural.as_ref().is_none_or(|plural| *plural == record.plural)
            && self.user_agent.as_ref().is_none_or(|part| record.user_agent.contains(part.as_str()))
    }

    /// Uses the fault once. Returns whether it is used up.
    pub(crate) fn spend(&mut self) -> bool {
        self.times = self.times.saturating_sub(1);
        self.times == 0
    }

    pub(crate) fn failure(&self) -> Failure {
        let (reason, message) = match self.code {
            429 => ("TooManyRequests", "the server has received too many requests, please try again later"),
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
            504 => ("Timeout", "the request timed out"),
            409 => ("Conflict", "injected conflict"),
            403 => ("Forbidden", "injected refusal"),
            _ => ("InternalError", "injected failure"),
        };
        Failure::new(self.code, reason, message)
    }
}
