//! A leader with its fence, against a server that has only a Lease: when requests may start, and when the
//! leader gives up.
#![allow(clippy::unwrap_used, reason = "a test fails if its setup fails")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use ordereddeployment_kubernetes::{Candidate, Clock, Fence, Health, Timing};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep};
use tower::service_fn;

/// The delay of each answer to a renewal.
const LATE: Duration = Duration::from_secs(4);
/// How exactly the tests measure.
const TICK: Duration = Duration::from_millis(100);

/// The server.
#[derive(Default)]
struct Server {
    lease: Option<Value>,
    version: u64,
    /// When each stored write was sent.
    stored: Vec<Instant>,
    /// No request is answered.
    is_gone: bool,
}

type Shared = Arc<Mutex<Server>>;

fn answer(code: StatusCode, body: &Value) -> Response<Body> {
    Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
}

fn failed(code: StatusCode, reason: &str) -> Response<Body> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason,
        "reason": reason, "code": code.as_u16()});
    answer(code, &status)
}

fn client(server: &Shared) -> Client {
    let server = Arc::clone(server);
    let service = service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&server);
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("fieldSelector"));
            let is_pod = request.uri().path().contains("/pods");
            if is_watch || is_pod || server.lock().unwrap().is_gone {
                // A watch without events, and requests that only end with the fence.
                std::future::pending::<()>().await;
            }
            let sent = Instant::now();
            let (method, body) =
                (request.method().clone(), request.into_body().collect_bytes().await.unwrap());
            let answer = server.lock().unwrap().answer(&method, &body, sent);
            if method != Method::GET {
                sleep(LATE).await;
            }
            Ok::<_, Infallible>(answer)
        }
    });
    Client::new(service, "default")
}

impl Server {
    fn answer(&mut self, method: &Method, body: &[u8], sent: Instant) -> Response<Body> {
        if *method == Method::GET {
            return match &self.lease {
                Some(lease) => answer(StatusCode::OK, lease),
                None => failed(StatusCode::NOT_FOUND, "NotFound"),
            };
        }
        let mut lease: Value = serde_json::from_slice(body).unwrap();
        let stored = self.lease.as_ref().map(|lease| &lease["metadata"]["resourceVersion"]);
        if stored.is_some_and(|version| *version != lease["metadata"]["resourceVersion"]) {
            return failed(StatusCode::CONFLICT, "Conflict");
        }
        self.store(&mut lease);
        self.stored.push(sent);
        answer(StatusCode::OK, &lease)
    }

    fn store(&mut self, lease: &mut Value) {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.lease = Some(lease.clone());
    }
}

/// A candidate that leads from now on.
struct Leader {
    server: Shared,
    fence: Fence,
    ended: oneshot::Receiver<Instant>,
}

async fn leader() -> Leader {
    let (server, fence) = (Shared::default(), Fence::default());
    let client = client(&server);
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let candidate =
        Candidate::new(&client, "default", "a", Timing::default(), fence.clone(), clock, Health::of([]));
    let (leadership, mut leads) = watch::channel(false);
    let (end, ended) = oneshot::channel();
    tokio::spawn(async move {
        let work = std::future::pending::<()>();
        assert_eq!(candidate.run_while_leading(work, leadership).await, None);
        end.send(Instant::now()).unwrap();
    });
    leads.wait_for(|leads| *leads).await.unwrap();
    Leader { server, fence, ended }
}

/// Sends requests through the fence until one may not start: when that was, and when the last of those in
/// flight ended.
async fn stopped(leader: &Leader) -> (Instant, Instant) {
    let guarded = leader.fence.guard(&client(&leader.server));
    let (began, mut in_flight) = (Instant::now(), tokio::task::JoinSet::new());
    loop {
        assert!(began.elapsed() < Duration::from_secs(60), "requests still start");
        let (client, start) = (guarded.clone(), Instant::now());
        let mut request = tokio::spawn(async move {
            let request = Request::get("/api/v1/namespaces/shop/pods").body(Body::empty()).unwrap();
            assert!(client.send(request).await.is_err());
            Instant::now()
        });
        tokio::select! {
            biased;
            end = &mut request => {
                assert_eq!(end.unwrap(), start, "it did not start");
                let ended = in_flight.join_all().await;
                return (start, ended.into_iter().max().unwrap());
            }
            () = sleep(TICK) => drop(in_flight.spawn(async { request.await.unwrap() })),
        }
    }
}

fn near(time: Instant, expected: Instant) {
    let off = time.max(expected).duration_since(time.min(expected));
    assert!(off <= 2 * TICK, "{off:?} away");
}

#[tokio::test(start_paused = true)]
async fn a_lease_counts_from_its_request_and_a_leader_that_cannot_renew_it_gives_up() {
    let mut leader = leader().await;
    sleep(Duration::from_secs(60)).await;
    assert!(leader.ended.try_recv().is_err(), "slow answers end no leadership");
    let renewed = {
        let mut server = leader.server.lock().unwrap();
        server.is_gone = true;
        *server.stored.last().unwrap()
    };
    let Timing { renew_deadline, lease, .. } = Timing::default();
    let (start, end) = stopped(&leader).await;
    near(start, renewed + renew_deadline);
    let ended = leader.ended.await.unwrap();
    assert!(ended <= renewed + lease, "it gives up before another candidate can take the lease");
    near(end, ended.min(renewed + lease));
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_another_holds_stops_at_once() {
    let leader = leader().await;
    sleep(Duration::from_secs(60)).await;
    {
        let mut server = leader.server.lock().unwrap();
        let mut lease = server.lease.clone().unwrap();
        lease["spec"]["holderIdentity"] = "b".into();
        server.store(&mut lease);
    }
    let taken = Instant::now();
    let (start, end) = stopped(&leader).await;
    let ended = leader.ended.await.unwrap();
    // A renewal in flight, and the next one.
    assert!(ended <= taken + 2 * LATE + Duration::from_secs(2));
    near(start, ended);
    near(end, ended);
}
