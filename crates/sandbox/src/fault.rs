//! Failures a test asks for. A fault never changes what is stored: the request is refused before it is looked at.

use crate::audit::Record;
use crate::status::Failure;

/// Refuses the next matching requests.
#[derive(Debug, Clone)]
pub struct Fault {
    /// The verb to refuse, as in [`Record::verb`]; none for all.
    pub verb: Option<&'static str>,
    /// The resource to refuse; none for all.
    pub plural: Option<String>,
    /// Only requests of user agents that contain this.
    pub user_agent: Option<String>,
    /// The status code to answer with.
    pub code: u16,
    /// How many requests to refuse.
    pub times: usize,
}

impl Fault {
    pub(crate) fn matches(&self, record: &Record) -> bool {
        self.verb.is_none_or(|verb| verb == record.verb)
            && self.plural.as_ref().is_none_or(|plural| *plural == record.plural)
            && self.user_agent.as_ref().is_none_or(|part| record.user_agent.contains(part.as_str()))
    }

    /// Uses the fault once; whether it is spent.
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
