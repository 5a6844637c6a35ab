//! Failures that a test injects. The server rejects such a request before it processes it, so a fault never
//! changes stored objects.

use crate::audit::Record;
use crate::status::Failure;

/// Rejects the next matching requests.
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
