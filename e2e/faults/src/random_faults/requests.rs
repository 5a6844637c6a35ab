//! Faults of requests.

use ordereddeployment_api::names::annotation;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;

use crate::case::{Fault, Millis, RequestFault, RequestMatcher};
use crate::scenarios::{disowned, labelled};

/// Verb, resource and subresource of the requests of the controllers.
const MATCHERS: &[(&str, &str, &str)] = &[
    ("", "", ""),
    ("create", "pods", ""),
    ("create", "pods", ""),
    ("delete", "pods", ""),
    ("delete", "pods", ""),
    ("create", "pods", "eviction"),
    ("create", "podtemplates", ""),
    ("patch", "pods", ""),
    ("patch", "ordereddeployments", "status"),
    ("patch", "ordereddeployments", "status"),
    ("create", "orderedreplicasets", ""),
    ("patch", "orderedreplicasets", ""),
    ("patch", "orderedreplicasets", "status"),
    ("delete", "orderedreplicasets", ""),
    ("create", "events", ""),
    ("patch", "events", ""),
    ("list", "pods", ""),
    ("list", "orderedreplicasets", ""),
    ("list", "", ""),
    ("get", "ordereddeployments", ""),
    ("get", "pods", ""),
    ("get", "", ""),
    ("watch", "", ""),
    ("update", "leases", ""),
];
/// Responses to a create that is refused by a quota, a webhook or the namespace.
const REFUSALS: &[(u16, &str, &str)] = &[
    (
        403,
        "Forbidden",
        "pods \"x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=4, limited: pods=4",
    ),
    (403, "Forbidden", "admission webhook \"pods.example.com\" denied the request: not today"),
    (400, "BadRequest", "admission webhook \"pods.example.com\" denied the request: no label"),
    (
        500,
        "InternalError",
        "Internal error occurred: failed calling webhook \"pods.example.com\": context deadline exceeded",
    ),
    (
        403,
        "Forbidden",
        "pods \"x\" is forbidden: unable to create new content in namespace default because it is being \
         terminated",
    ),
    (422, "Invalid", "Pod \"x\" is invalid: spec.containers[0].image: Required value"),
];

pub(super) fn fault(rng: &mut StdRng) -> Fault {
    let (matcher, effect) = match rng.random_range(0..14) {
        12 => return lasting(rng),
        13 => (creates(rng), mutation(rng)),
        // Own and foreign writes race, once or repeatedly.
        0 | 1 => (any(rng), RequestFault::UpdateBefore),
        2 => {
            let refusal = refusal(rng);
            (creates(rng), refusal)
        }
        // The pod changes between a decision and its request.
        6 => {
            let key = one(rng, &[annotation::DELETE_PRIORITY, annotation::PAUSE_POINT]);
            let value = one(rng, &[Some("before"), Some("after"), Some("7"), Some("-7"), None]);
            let change = RequestFault::AnnotateBefore(key.to_owned(), value.map(str::to_owned));
            let (verb, subresource) =
                one(rng, &[("delete", ""), ("get", ""), ("patch", ""), ("create", "eviction")]);
            (RequestMatcher::of(verb, "pods", subresource), change)
        }
        3 => {
            let verb = one(rng, &["delete", "delete", "patch"]);
            (RequestMatcher::of(verb, "pods", ""), RequestFault::DeleteBefore)
        }
        // A proxy repeats the create.
        5 if rng.random_range(0..3) == 0 => {
            let message = "pods \"x\" already exists";
            (RequestMatcher::of("create", "pods", ""), response(409, "AlreadyExists", message, true))
        }
        // The continue token of a list expires.
        4 => {
            let continued =
                RequestMatcher { continued: true, ..RequestMatcher::of("list", one(rng, &["", "pods"]), "") };
            (continued, response(410, "Expired", "The provided continue parameter is too old", false))
        }
        _ => (any(rng), effect(rng)),
    };
    Fault::Request {
        matcher,
        skip: *[0, rng.random_range(0..5), rng.random_range(0..40)].get(rng.random_range(0..3)).unwrap_or(&0),
        times: one(rng, &[1, 1, 1, 2, 5, 10, 60]),
        effect,
    }
}

/// A fault that stays until all faults end: of pods of one template, of dry runs, or of all creates.
fn lasting(rng: &mut StdRng) -> Fault {
    let pods = RequestMatcher::of("create", "pods", "");
    let matcher = match rng.random_range(0..4) {
        0 => RequestMatcher { dry_run: Some(true), ..RequestMatcher::default() },
        1 => pods,
        _ => RequestMatcher {
            body_contains: one(rng, &["web:1", "web:2", "web:2", "web:3"]).to_owned(),
            ..pods
        },
    };
    let effect = match rng.random_range(0..6) {
        0 => response(404, "NotFound", "namespaces \"default\" not found", false),
        1 => response(409, "AlreadyExists", "pods \"x\" already exists", false),
        2 => response(429, "TooManyRequests", "too many requests, please try again later", false),
        3 => RequestFault::NoResponse { applied: false },
        _ => refusal(rng),
    };
    Fault::Request { matcher, skip: one(rng, &[0, 0, 2, 10]), times: one(rng, &[10, 60, 10_000]), effect }
}

/// A webhook removes or changes the labels or the owner.
fn mutation(rng: &mut StdRng) -> RequestFault {
    let changes = [json!({"metadata": {"labels": null}}), labelled("other"), disowned()];
    RequestFault::Mutate(one(rng, &changes))
}

/// The latency of all requests, or of some. It is shorter than the timeout of the client.
pub(super) fn latency(rng: &mut StdRng) -> Fault {
    let matcher = match rng.random_range(0..5) {
        0 | 1 => any(rng),
        // The leader keeps its Lease.
        2 => RequestMatcher::of("", "leases", ""),
        _ => RequestMatcher::default(),
    };
    Fault::Latency { matcher, before: one(rng, &[0, 20, 300, 3000]), after: one(rng, &[0, 20, 300, 3000]) }
}

fn any(rng: &mut StdRng) -> RequestMatcher {
    let (verb, plural, subresource) = one(rng, MATCHERS);
    RequestMatcher::of(verb, plural, subresource)
}

/// Creates of pods or sets.
fn creates(rng: &mut StdRng) -> RequestMatcher {
    RequestMatcher::of("create", one(rng, &["pods", "pods", "orderedreplicasets"]), "")
}

fn refusal(rng: &mut StdRng) -> RequestFault {
    let (code, reason, message) = one(rng, REFUSALS);
    response(code, reason, message, false)
}

pub(crate) fn response(code: u16, reason: &str, message: &str, applied: bool) -> RequestFault {
    RequestFault::Response { code, reason: reason.to_owned(), message: message.to_owned(), applied }
}

fn effect(rng: &mut StdRng) -> RequestFault {
    let applied = rng.random_range(0..2) == 0;
    match rng.random_range(0..12) {
        0 => response(409, "Conflict", "the object has been modified", false),
        1 => response(403, "Forbidden", "User \"manager\" cannot do that", false),
        2 => response(429, "TooManyRequests", "too many requests, please try again later", false),
        3 => response(500, "InternalError", "etcdserver: request timed out", applied),
        4 => {
            let message = "the server is currently unable to handle the request";
            response(503, "ServiceUnavailable", message, applied)
        }
        5 => response(504, "Timeout", "the request timed out", applied),
        6 => response(401, "Unauthorized", "Unauthorized", false),
        7 => response(410, "Expired", "too old resource version", false),
        8 | 9 => RequestFault::Reset { applied },
        10 => RequestFault::NoResponse { applied },
        _ => RequestFault::Delay(one(rng, &[20, 500, 5000, 9000, 30_000])),
    }
}

/// The lengths of scenarios, from short to long.
const LENGTHS: &[Millis] = &[5000, 15_000, 40_000, 150_000];

/// One of these.
pub(super) fn one<T: Clone>(rng: &mut StdRng, of: &[T]) -> T {
    of[rng.random_range(0..of.len())].clone()
}

/// A moment of the run. Early moments are more likely.
pub(super) fn moment(rng: &mut StdRng) -> Millis {
    let length = one(rng, LENGTHS);
    rng.random_range(0..length)
}
