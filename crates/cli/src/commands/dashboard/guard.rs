//! Who may send which request to the dashboard. Pure functions of the headers of a request.
//!
//! Every program of this machine can connect to a port on loopback, and a browser sends requests on behalf of
//! any page. The token in the printed address proves that the user opened the page.

use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::{HeaderMap, StatusCode, header};

/// The headers of every response.
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
    /// The value of the cookie.
    session: String,
    /// The folder of the requests that need the cookie. Browsers send a cookie to every port of a host, but
    /// only to its folder: another server on loopback does not get it.
    folder: String,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The host is not that of the printed address: DNS rebinding, for example.
    Host,
    /// Another page sent the request.
    Origin,
    /// The token is wrong.
    Token,
    /// The token was exchanged before.
    Used,
    /// The cookie is missing or wrong.
    Session,
}

impl Refusal {
    /// The status and the text of the response.
    pub(super) fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::Host => {
                (StatusCode::MISDIRECTED_REQUEST, "open the dashboard by the address that it printed")
            }
            Self::Origin => (StatusCode::FORBIDDEN, "the request is not from a page of this dashboard"),
            Self::Used => (
                StatusCode::GONE,
                "this address was opened before, and its token works once: run `kubectl ordered dashboard` \
                 again. If you have not opened it, somebody else has: stop that dashboard",
            ),
            Self::Token | Self::Session => (
                StatusCode::UNAUTHORIZED,
                "open the address that `kubectl ordered dashboard` printed: it contains a token for this \
                 session",
            ),
        }
    }
}

impl Gate {
    /// A gate with random secrets. The name is a random one under `localhost`, which browsers resolve to
    /// loopback themselves, or the address of loopback.
    pub(super) fn new(port: u16, use_ip: bool) -> Self {
        let secret = || format!("{:032x}", rand::random::<u128>());
        let random = || format!("od-{:016x}.localhost", rand::random::<u64>());
        let name = if use_ip { "127.0.0.1".to_owned() } else { random() };
        let is_exchanged = AtomicBool::new(false);
        Self { port, name, token: secret(), is_exchanged, session: secret(), folder: secret() }
    }

    /// The only host that is served.
    pub(super) fn own_host(&self) -> String {
        format!("{}:{}", self.name, self.port)
    }

    /// The address to open. A browser does not send the fragment with the token.
    pub(super) fn address(&self) -> String {
        format!("http://{}/#token={}", self.own_host(), self.token)
    }

    /// The folder of the requests that need the cookie.
    pub(super) fn folder(&self) -> String {
        format!("/s/{}", self.folder)
    }

    /// The cookie of the session.
    pub(super) fn cookie(&self) -> String {
        format!("{}={}; Path={}; HttpOnly; SameSite=Strict", self.cookie_name(), self.session, self.folder())
    }

    fn cookie_name(&self) -> String {
        format!("ordered-dashboard-{}", self.port)
    }

    /// Checks that the browser asked for the host of the printed address.
    pub(super) fn host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let is_own =
            text(headers, header::HOST).is_some_and(|host| host.eq_ignore_ascii_case(&self.own_host()));
        is_own.then_some(()).ok_or(Refusal::Host)
    }

    /// Checks that a page of this dashboard sent a write.
    pub(super) fn origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let own = format!("http://{}", self.own_host());
        let is_own = text(headers, header::ORIGIN).is_some_and(|origin| origin.eq_ignore_ascii_case(&own));
        is_own.then_some(()).ok_or(Refusal::Origin)
    }

    /// Checks the token of the address, for the one time that it works.
    pub(super) fn exchange(&self, token: &str) -> Result<(), Refusal> {
        if !equal(token, &self.token) {
            return Err(Refusal::Token);
        }
        if self.is_exchanged.swap(true, Ordering::AcqRel) { Err(Refusal::Used) } else { Ok(()) }
    }

    /// Checks the cookie.
    pub(super) fn session(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let name = self.cookie_name();
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let is_known = pairs.any(|(key, value)| key == name && equal(value, &self.session));
        is_known.then_some(()).ok_or(Refusal::Session)
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    // Two values would let two parsers disagree.
    values.next().is_none().then(|| value.to_str().ok()).flatten()
}

/// Compares secrets in a time that does not depend on where they differ.
fn equal(first: &str, second: &str) -> bool {
    let differences = first.bytes().zip(second.bytes()).fold(0, |all, (one, other)| all | (one ^ other));
    first.len() == second.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use axum::http::{HeaderMap, HeaderName, HeaderValue};

    use super::{Gate, Refusal};

    const HOST: &str = "od-1.localhost:8001";

    fn gate() -> Gate {
        let [name, token, session, folder] =
            ["od-1.localhost", "token", "session", "folder"].map(str::to_owned);
        Gate { port: 8001, name, token, is_exchanged: AtomicBool::new(false), session, folder }
    }

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn only_the_host_of_the_printed_address_is_served() {
        for host in [HOST, "OD-1.localhost:8001"] {
            assert_eq!(gate().host(&headers(&[("host", host)])), Ok(()), "{host}");
        }
        for host in [
            "evil.example:8001",
            "od-1.localhost:8002",
            "od-1.localhost",
            "od-2.localhost:8001",
            "od-1.localhost.evil.example:8001",
            "localhost:8001",
            "127.0.0.1:8001",
            "[::1]:8001",
            "",
        ] {
            assert_eq!(gate().host(&headers(&[("host", host)])), Err(Refusal::Host), "{host}");
        }
        assert_eq!(gate().host(&HeaderMap::new()), Err(Refusal::Host));
        assert_eq!(gate().host(&headers(&[("host", HOST), ("host", "evil.example")])), Err(Refusal::Host));
    }

    #[test]
    fn a_write_has_the_origin_of_the_printed_address() {
        let check = |origin| gate().origin(&headers(&[("host", HOST), ("origin", origin)]));
        assert_eq!(check("http://od-1.localhost:8001"), Ok(()));
        for origin in [
            "http://evil.example",
            "http://od-1.localhost:8002",
            "http://od-2.localhost:8001",
            "http://localhost:8001",
            "https://od-1.localhost:8001",
            "null",
        ] {
            assert_eq!(check(origin), Err(Refusal::Origin), "{origin}");
        }
        assert_eq!(gate().origin(&headers(&[("host", HOST)])), Err(Refusal::Origin));
    }

    #[test]
    fn the_token_is_exchanged_once_for_a_cookie_that_scripts_and_other_sites_do_not_get() {
        let gate = gate();
        assert_eq!(gate.address(), "http://od-1.localhost:8001/#token=token");
        for wrong in ["", "toke", "tokens", "Token", "session"] {
            assert_eq!(gate.exchange(wrong), Err(Refusal::Token), "{wrong}");
        }
        let exchanged = [(); 3].map(|()| gate.exchange("token"));
        assert_eq!(exchanged, [Ok(()), Err(Refusal::Used), Err(Refusal::Used)]);
        assert_eq!(gate.exchange("wrong"), Err(Refusal::Token));
        assert_eq!(
            gate.cookie(),
            "ordered-dashboard-8001=session; Path=/s/folder; HttpOnly; SameSite=Strict"
        );
    }

    #[test]
    fn a_request_needs_the_cookie_of_its_port() {
        let check = |cookie| gate().session(&headers(&[("cookie", cookie)]));
        assert_eq!(check("ordered-dashboard-8001=session"), Ok(()));
        assert_eq!(check("a=b; ordered-dashboard-8001=session;c=d"), Ok(()));
        for cookie in ["", "ordered-dashboard-8001=token", "ordered-dashboard-8002=session", "session"] {
            assert_eq!(check(cookie), Err(Refusal::Session), "{cookie}");
        }
        assert_eq!(gate().session(&HeaderMap::new()), Err(Refusal::Session));
    }

    #[test]
    fn the_secrets_and_the_names_of_two_dashboards_differ() {
        let (one, other) = (Gate::new(1, false), Gate::new(1, false));
        assert!(one.name != other.name && one.name.ends_with(".localhost"), "{}", one.name);
        assert!(Gate::new(1, true).address().starts_with("http://127.0.0.1:1/#"));
        assert!(one.token != other.token && one.session != other.session && one.folder != other.folder);
        assert!(one.token != one.session && one.token.len() == 32);
    }
}
