//! Who may send which request to the dashboard. Pure functions of the headers of a request.
//!
//! Every program of this machine can connect to a port on loopback, and a browser sends requests on behalf of any page. The
//! token in the printed address proves that the user opened the page.

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
    /// In the printed address. The page exchanges it for the cookie.
    token: String,
    /// The value of the cookie.
    session: String,
    /// The folder of the requests that need the cookie. Browsers send a cookie to every port of a host, but only to its
    /// folder: another server on loopback does not get it.
    folder: String,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The name of the host is not a loopback name: DNS rebinding.
    Host,
    /// Another page sent the request.
    Origin,
    /// The token is wrong.
    Token,
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
            Self::Token | Self::Session => (
                StatusCode::UNAUTHORIZED,
                "open the address that `kubectl ordered dashboard` printed: it contains a token for this session",
            ),
        }
    }
}

impl Gate {
    /// A gate with random secrets.
    pub(super) fn new(port: u16) -> Self {
        let secret = || format!("{:032x}", rand::random::<u128>());
        Self { port, token: secret(), session: secret(), folder: secret() }
    }

    /// The address to open. A browser does not send the fragment with the token.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/#token={}", self.port, self.token)
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

    /// Checks that the browser asked for a loopback name.
    pub(super) fn host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = text(headers, header::HOST).ok_or(Refusal::Host)?;
        let known = ["127.0.0.1", "localhost", "[::1]"].map(|name| format!("{name}:{}", self.port));
        let is_known = known.iter().any(|known| host.eq_ignore_ascii_case(known));
        is_known.then_some(()).ok_or(Refusal::Host)
    }

    /// Checks that a page of this dashboard sent a write.
    pub(super) fn origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        self.host(headers)?;
        let (host, origin) = (text(headers, header::HOST), text(headers, header::ORIGIN));
        let expected = host.map(|host| format!("http://{host}"));
        let is_own = origin.zip(expected).is_some_and(|(origin, own)| origin.eq_ignore_ascii_case(&own));
        is_own.then_some(()).ok_or(Refusal::Origin)
    }

    /// Checks the token of the address.
    pub(super) fn token(&self, token: &str) -> Result<(), Refusal> {
        equal(token, &self.token).then_some(()).ok_or(Refusal::Token)
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
    use axum::http::{HeaderMap, HeaderName, HeaderValue};

    use super::{Gate, Refusal};

    fn gate() -> Gate {
        let [token, session, folder] = ["token", "session", "folder"].map(str::to_owned);
        Gate { port: 8001, token, session, folder }
    }

    fn headers(all: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn only_loopback_names_with_the_port_are_hosts() {
        for host in ["127.0.0.1:8001", "localhost:8001", "LOCALHOST:8001", "[::1]:8001"] {
            assert_eq!(gate().host(&headers(&[("host", host)])), Ok(()), "{host}");
        }
        let rebound = ["evil.example:8001", "127.0.0.1:8002", "127.0.0.1", "localhost.evil.example:8001", ""];
        for host in rebound {
            assert_eq!(gate().host(&headers(&[("host", host)])), Err(Refusal::Host), "{host}");
        }
        assert_eq!(gate().host(&HeaderMap::new()), Err(Refusal::Host));
        let mut two = HeaderMap::new();
        two.append("host", HeaderValue::from_static("127.0.0.1:8001"));
        two.append("host", HeaderValue::from_static("evil.example"));
        assert_eq!(gate().host(&two), Err(Refusal::Host));
    }

    #[test]
    fn a_write_has_the_origin_of_its_host() {
        let check = |host, origin| gate().origin(&headers(&[("host", host), ("origin", origin)]));
        assert_eq!(check("127.0.0.1:8001", "http://127.0.0.1:8001"), Ok(()));
        assert_eq!(check("localhost:8001", "http://localhost:8001"), Ok(()));
        for origin in [
            "http://evil.example",
            "http://127.0.0.1:8002",
            "http://localhost:8001",
            "https://127.0.0.1:8001",
            "null",
        ] {
            assert_eq!(check("127.0.0.1:8001", origin), Err(Refusal::Origin), "{origin}");
        }
        assert_eq!(gate().origin(&headers(&[("host", "127.0.0.1:8001")])), Err(Refusal::Origin));
        assert_eq!(check("evil.example:8001", "http://evil.example:8001"), Err(Refusal::Host));
    }

    #[test]
    fn the_token_is_exchanged_for_a_cookie_that_scripts_and_other_sites_do_not_get() {
        assert_eq!(gate().address(), "http://127.0.0.1:8001/#token=token");
        assert_eq!(gate().token("token"), Ok(()));
        for wrong in ["", "toke", "tokens", "Token", "session"] {
            assert_eq!(gate().token(wrong), Err(Refusal::Token), "{wrong}");
        }
        assert_eq!(
            gate().cookie(),
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
    fn the_secrets_of_two_dashboards_differ() {
        let (one, other) = (Gate::new(1), Gate::new(1));
        assert!(one.token != other.token && one.session != other.session && one.folder != other.folder);
        assert!(one.token != one.session && one.token.len() == 32);
    }
}
