//! Who may send which request to the dashboard. Pure functions of the headers of a request.
//!
//! Every program of this machine can connect to a port on loopback, and a browser sends requests on behalf of
//! any page. The token in the printed address proves that the user opened the page.

use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::{HeaderMap, StatusCode, header};

pub(super) const HEADERS: [(&str, &str); 7] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; \
         frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// The secrets of a dashboard, and the port it listens on.
pub(super) struct Gate {
    port: u16,
    /// The name in the printed address. It is another one for each dashboard: a service worker that another
    /// program has registered on the same port has another origin, and does not see the page.
    name: String,
    /// In the printed address. The page exchanges it for the cookie, once.
    token: String,
    is_exchanged: AtomicBool,
    session: String,
    /// The folder of the requests that need the cookie. Browsers send a cookie to every port of a host, but
    /// only to its folder: another server on loopback does not get it.
    pub(super) folder: String,
}

/// The status and the text of the response to a request that is refused.
pub(super) type Refusal = (StatusCode, &'static str);

/// The host is not that of the printed address: DNS rebinding, for example.
const HOST: Refusal = (StatusCode::MISDIRECTED_REQUEST, "open the dashboard by the address that it printed");
const ORIGIN: Refusal = (StatusCode::FORBIDDEN, "the request is not from a page of this dashboard");
/// The token was exchanged before.
const USED: Refusal = (
    StatusCode::GONE,
    "this address was opened before, and its token works once: run `kubectl ordered dashboard` again. If you \
     have not opened it, somebody else has: stop that dashboard",
);
/// The token or the cookie is missing or wrong.
const SECRET: Refusal = (
    StatusCode::UNAUTHORIZED,
    "open the address that `kubectl ordered dashboard` printed: it contains a token for this session",
);

impl Gate {
    /// A gate with random secrets, and a random name under `localhost` or the address of loopback.
    pub(super) fn new(port: u16, use_ip: bool) -> Self {
        let secret = || format!("{:032x}", rand::random::<u128>());
        let random = || format!("od-{:016x}.localhost", rand::random::<u64>());
        let name = if use_ip { "127.0.0.1".to_owned() } else { random() };
        let is_exchanged = AtomicBool::new(false);
        let folder = format!("/s/{}", secret());
        Self { port, name, token: secret(), is_exchanged, session: secret(), folder }
    }

    /// The only host that is served.
    pub(super) fn own_host(&self) -> String {
        format!("{}:{}", self.name, self.port)
    }

    /// The address to open. A browser does not send the fragment with the token.
    pub(super) fn address(&self) -> String {
        format!("http://{}/#token={}", self.own_host(), self.token)
    }

    pub(super) fn cookie(&self) -> String {
        format!("{}={}; Path={}; HttpOnly; SameSite=Strict", self.cookie_name(), self.session, self.folder)
    }

    fn cookie_name(&self) -> String {
        format!("ordered-dashboard-{}", self.port)
    }

    /// Checks that the browser asked for the host of the printed address.
    pub(super) fn host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        is(headers, header::HOST, &self.own_host()).then_some(()).ok_or(HOST)
    }

    /// Checks that a page of this dashboard sent a write.
    pub(super) fn origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        is(headers, header::ORIGIN, &format!("http://{}", self.own_host())).then_some(()).ok_or(ORIGIN)
    }

    /// Checks the token of the address, for the one time that it works.
    pub(super) fn exchange(&self, token: &str) -> Result<(), Refusal> {
        if !equal(token, &self.token) {
            return Err(SECRET);
        }
        if self.is_exchanged.swap(true, Ordering::AcqRel) { Err(USED) } else { Ok(()) }
    }

    pub(super) fn session(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let name = self.cookie_name();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let is_known = pairs.any(|(key, value)| key == name && equal(value, &self.session));
        is_known.then_some(()).ok_or(SECRET)
    }
}

/// Whether it is the only value of that header: two would let two parsers disagree.
fn is(headers: &HeaderMap, name: header::HeaderName, own: &str) -> bool {
    let mut values = headers.get_all(name).iter();
    let is_own = values.next().is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(own.as_bytes()));
    is_own && values.next().is_none()
}

/// Compares secrets in a time that does not depend on where they differ.
fn equal(first: &str, second: &str) -> bool {
    let differences = first.bytes().zip(second.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    first.len() == second.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::Gate;

    #[test]
    fn the_secrets_and_the_names_of_two_dashboards_differ() {
        let (one, other) = (Gate::new(1, false), Gate::new(1, false));
        assert!(one.name != other.name && one.name.ends_with(".localhost"), "{}", one.name);
        assert!(Gate::new(1, true).address().starts_with("http://127.0.0.1:1/#"));
        assert!(one.token != other.token && one.session != other.session && one.folder != other.folder);
        assert!(one.token != one.session && one.token.len() == 32);
    }
}
