use std::sync::Arc;

use axum::body::Body;
use http::{Method, Request, StatusCode, header};
use ordereddeployment_sandbox::Fault;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::ServiceExt;

use super::super::server::router;
use super::super::{Args, Dashboard, STREAMS, listen};
use crate::client::ConnectArgs;
use crate::testing::fixture::Fixture;

/// A dashboard of the fixture's cluster.
struct Served {
    fixture: Fixture,
    dashboard: Arc<Dashboard>,
}

/// A response: its status, its headers and its text.
struct Answer {
    status: StatusCode,
    headers: http::HeaderMap,
    text: String,
}

impl Served {
    async fn start(read_only: bool) -> Self {
        let fixture = Fixture::start().await;
        let args = Args {
            name: None,
            all_namespaces: false,
            port: 8001,
            use_ip: false,
            read_only,
            pool_label: "node.usage".to_owned(),
        };
        let connection = fixture.connection.clone();
        let dashboard = Dashboard::start(args, ConnectArgs::default(), connection, 8001).await.unwrap();
        Self { fixture, dashboard: Arc::new(dashboard) }
    }

    async fn send(&self, request: http::request::Builder, body: &Value) -> Answer {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let response =
            router(Arc::clone(&self.dashboard)).oneshot(request.body(body).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, text }
    }

    fn cookie(&self) -> String {
        self.dashboard.gate.cookie().split(';').next().unwrap().to_owned()
    }

    fn host(&self) -> String {
        self.dashboard.gate.own_host()
    }

    fn get(&self, path: &str) -> http::request::Builder {
        Request::get(path).header(header::HOST, self.host())
    }

    /// A write of the page.
    fn post(&self, path: &str) -> http::request::Builder {
        let request = Request::post(path).header(header::HOST, self.host());
        let request = request.header(header::ORIGIN, format!("http://{}", self.host()));
        request.header(header::CONTENT_TYPE, "application/json")
    }

    fn path(&self, rest: &str) -> String {
        format!("{}{rest}", self.dashboard.gate.folder)
    }

    async fn act(&self, act: &Value) -> Answer {
        let request = self.post(&self.path("/act")).header(header::COOKIE, self.cookie());
        self.send(request, &json!({"namespace": "default", "name": "web", "act": act})).await
    }

    async fn is_paused(&self) -> bool {
        self.fixture.api().get("web").await.unwrap().spec.paused
    }
}

#[tokio::test(start_paused = true)]
async fn every_response_forbids_scripts_of_others_and_is_not_stored() {
    let served = Served::start(false).await;
    for (path, status, media_type) in [
        ("/", StatusCode::OK, "text/html; charset=utf-8"),
        ("/assets/app.js", StatusCode::OK, "text/javascript; charset=utf-8"),
        ("/assets/style.css", StatusCode::OK, "text/css; charset=utf-8"),
        ("/assets/Cargo.toml", StatusCode::NOT_FOUND, ""),
        ("/assets/..%2fassets.rs", StatusCode::NOT_FOUND, ""),
        ("/s/guess/events", StatusCode::UNAUTHORIZED, "text/plain; charset=utf-8"),
    ] {
        let answer = served.send(served.get(path), &Value::Null).await;
        let found = answer.headers.get(header::CONTENT_TYPE).map_or("", |value| value.to_str().unwrap());
        assert_eq!((answer.status, found), (status, media_type), "{path}");
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.headers["cache-control"], "no-store", "{path}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(answer.headers["referrer-policy"], "no-referrer", "{path}");
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_token_is_exchanged_once_for_a_cookie_that_scripts_and_other_sites_do_not_get() {
    let served = Served::start(false).await;
    let address = served.dashboard.gate.address();
    let (page, token) = address.split_once("#token=").unwrap();
    assert_eq!(page, format!("http://{}/", served.host()));
    let exchange = async |token: &str| served.send(served.post("/session"), &json!({"token": token})).await;
    for wrong in ["", "guess", &token[1..], &format!("{token}0")] {
        let refused = exchange(wrong).await;
        let cookie = refused.headers.get(header::SET_COOKIE);
        assert_eq!((refused.status, cookie), (StatusCode::UNAUTHORIZED, None), "{wrong}");
    }
    let answer = exchange(token).await;
    assert_eq!(answer.status, StatusCode::OK);
    let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap();
    let expected = format!("{}; Path={}; HttpOnly; SameSite=Strict", served.cookie(), served.path(""));
    assert_eq!(cookie, expected);
    let again = exchange(token).await;
    assert_eq!((again.status, again.headers.get(header::SET_COOKIE)), (StatusCode::GONE, None));
    assert!(again.text.contains("its token works once"), "{}", again.text);
}

#[tokio::test(start_paused = true)]
async fn only_the_page_of_the_printed_address_gets_answers_and_writes() {
    let served = Served::start(false).await;
    let (host, cookie) = (served.host(), served.cookie());
    let send = async |method: Method, path: &str, changed: &[(&str, &str)]| {
        let own = [("host", host.as_str()), ("cookie", &cookie), ("origin", &format!("http://{host}"))];
        let kept = own.into_iter().chain([("content-type", "application/json")]);
        let kept = kept.filter(|(name, _)| changed.iter().all(|(other, _)| other != name));
        let headers = kept.chain(changed.iter().copied().filter(|(_, value)| *value != "-"));
        let request = Request::builder().method(method).uri(served.path(path));
        let request = headers.fold(request, |request, (name, value)| request.header(name, value));
        let body = json!({"namespace": "default", "name": "web", "act": {"action": "pause"}});
        served.send(request, &body).await
    };
    let (name, secret) = cookie.split_once('=').unwrap();
    let wrong_cookies = [
        "-".to_owned(),
        secret.to_owned(),
        format!("{name}={}", &secret[1..]),
        format!("ordered-dashboard-8002={secret}"),
    ];
    let cookies = wrong_cookies.iter().map(|wrong| ("cookie", wrong.as_str(), StatusCode::UNAUTHORIZED));
    let elsewhere = format!("{host}.evil.example:8001");
    let port = host.replace("8001", "8002");
    let hosts =
        ["evil.example:8001", "127.0.0.1:8001", "localhost:8001", "[::1]:8001", &elsewhere, &port, "-"];
    let hosts = hosts.into_iter().map(|wrong| ("host", wrong, StatusCode::MISDIRECTED_REQUEST));
    for (name, wrong, status) in cookies.chain(hosts) {
        for (method, path) in
            [(Method::POST, "/act"), (Method::GET, "/events"), (Method::GET, "/plan/default/web")]
        {
            assert_eq!(send(method, path, &[(name, wrong)]).await.status, status, "{path} {name}: {wrong}");
        }
    }
    let twice = [("host", host.as_str()), ("host", "evil.example")];
    assert_eq!(send(Method::GET, "/events", &twice).await.status, StatusCode::MISDIRECTED_REQUEST);
    let (https, other) = (format!("https://{host}"), format!("http://{port}"));
    for origin in ["http://evil.example", "http://127.0.0.1:8001", "null", "-", &https, &other] {
        let refused = send(Method::POST, "/act", &[("origin", origin)]).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{origin}");
    }
    let form = send(Method::POST, "/act", &[("content-type", "text/plain")]).await;
    assert_eq!(form.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(send(method, "/act", &[]).await.status, StatusCode::METHOD_NOT_ALLOWED);
    }
    assert!(!served.is_paused().await);

    let accepted = [("host", &*host.to_uppercase()), ("cookie", &format!("a=b; {cookie};c=d"))];
    let plan = send(Method::GET, "/plan/default/web", &accepted).await;
    assert!(
        plan.status == StatusCode::OK && plan.text.contains("no pod would be created or deleted"),
        "{}",
        plan.text
    );
}

#[tokio::test]
async fn no_other_program_can_listen_on_the_port() {
    let (port, listeners) = listen(0).await.unwrap();
    for address in listeners.iter().map(|listener| listener.local_addr().unwrap()) {
        assert!(address.ip().is_loopback() && address.port() == port, "{address}");
    }
    let Ok(taken) = TcpListener::bind("[::1]:0").await else { return };
    assert_eq!(listeners.len(), 2);
    let port = taken.local_addr().unwrap().port();
    let error = listen(port).await.unwrap_err().to_string();
    assert!(error.contains(&format!("cannot listen on [::1]:{port}")), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_body_has_a_limit_in_size_and_time() {
    let served = Served::start(false).await;
    let send = async |body: Body| {
        let request = served.post("/session").body(body).unwrap();
        router(Arc::clone(&served.dashboard)).oneshot(request).await.unwrap().status()
    };
    assert_eq!(send(Body::from(vec![b' '; 65 * 1024])).await, StatusCode::PAYLOAD_TOO_LARGE);
    let never = futures::stream::pending::<Result<String, std::io::Error>>();
    assert_eq!(send(Body::from_stream(never)).await, StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn writes_are_those_of_the_commands() {
    let served = Served::start(false).await;
    let done = served.act(&json!({"action": "pause"})).await;
    assert_eq!(done.status, StatusCode::OK);
    assert!(served.is_paused().await && done.text.contains("web: paused (spec.paused)"), "{}", done.text);
    let refused = served.act(&json!({"action": "resume", "hold": "web-1@9"})).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    let text: Value = serde_json::from_str(&refused.text).unwrap();
    assert!(text["error"].as_str().unwrap().contains("web is not paused at a pause point"), "{text}");
    for act in [json!({"action": "delete"}), json!({"action": "undo"})] {
        assert_eq!(served.act(&act).await.status, StatusCode::UNPROCESSABLE_ENTITY, "{act}");
    }
    let order = served.fixture.order().await;
    let mark = json!({"action": "mark", "pod": order[3], "priority": 7, "pause": "before", "length": "10m"});
    let marked = served.act(&mark).await;
    assert!(marked.text.contains("priority 7; pause point before it, for 10m"), "{}", marked.text);
    assert_eq!(served.fixture.order().await[0], order[3]);
    let forbidden = |verb, plural: &str| {
        let plural = Some(plural.to_owned());
        Fault { verb: Some(verb), plural, user_agent: None, code: 403, times: 1 }
    };
    served.fixture.cluster.sandbox.inject(forbidden("patch", "pods"));
    let refused = served.act(&json!({"action": "unmark", "pod": order[3]})).await;
    assert!(refused.text.contains("hint: ask for a role that may"), "{}", refused.text);
    let other = json!({"namespace": "kube-system", "name": "web", "act": {"action": "pause"}});
    let request = served.post(&served.path("/act")).header(header::COOKIE, served.cookie());
    assert_eq!(served.send(request, &other).await.status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test(start_paused = true)]
async fn a_click_on_an_outdated_page_acts_on_no_other_rollout() {
    let served = Served::start(false).await;
    served.fixture.pause_at(json!([{"name": "canary", "afterUpdated": 1}])).await;
    let act = async |action: &str, revision: i64| {
        served.act(&json!({"action": action, "revision": revision})).await
    };
    for action in ["abort", "resumeAll", "retry"] {
        let refused = act(action, 1).await;
        let message = "the page has shown the rollout to revision 1, and it is to revision 2 by now: nothing \
                       was requested";
        assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{action}");
        assert!(refused.text.contains(message), "{action}: {}", refused.text);
        let without = served.act(&json!({"action": action})).await;
        assert_eq!(without.status, StatusCode::UNPROCESSABLE_ENTITY, "{action} without a revision");
    }
    served.fixture.until_state("Paused at canary").await;
    let aborted = act("abort", 2).await;
    assert!(aborted.text.contains("web: aborted revision 2"), "{}", aborted.text);
    let again = act("retry", 2).await;
    assert!(again.text.contains("revision 2 is started again, as revision 3"), "{}", again.text);
    served.fixture.until_state("Paused at canary").await;
    assert_eq!(act("resumeAll", 2).await.status, StatusCode::UNPROCESSABLE_ENTITY);
    let resumed = act("resumeAll", 3).await;
    assert!(resumed.text.contains("passed all pause points of revision 3"), "{}", resumed.text);
}

#[tokio::test(start_paused = true)]
async fn a_dashboard_that_only_shows_has_no_writes_and_so_many_streams() {
    let served = Served::start(true).await;
    assert_eq!(served.act(&json!({"action": "pause"})).await.status, StatusCode::NOT_FOUND);
    assert!(!served.is_paused().await);
    let open = async || {
        let request = served.get(&served.path("/events/default/web")).header(header::COOKIE, served.cookie());
        let request = request.body(Body::empty()).unwrap();
        router(Arc::clone(&served.dashboard)).oneshot(request).await.unwrap()
    };
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(open().await);
    }
    assert_eq!(open().await.status(), StatusCode::SERVICE_UNAVAILABLE);
    drop(streams);
    let response = open().await;
    let mut events = response.into_body().into_data_stream();
    let mut text = String::new();
    while !text.contains("event: object") || !text.ends_with("\n\n") {
        let chunk = futures::StreamExt::next(&mut events).await.unwrap().unwrap();
        text.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    assert!(text.contains("event: list\ndata: {\"gone\":[],\"rows\":[{"), "{text}");
    assert!(!text.contains("\"action\""), "{text}");
}
