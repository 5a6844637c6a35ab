//! Requests that are not answered as they should be.

use ordereddeployment_api::names::annotation;
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::json;

use super::draw::one;
use crate::case::{Class, Fault, How};

/// What controllers ask for most, and what of it.
const CLASSES: &[(&str, &str, &str)] = &[
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
/// Words with which a create is refused by somebody else than the server itself.
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
        "pods \"x\" is forbidden: unable to create new content in namespace default because it is being terminated",
    ),
    (422, "Invalid", "Pod \"x\" is invalid: spec.containers[0].image: Required value"),
];

pub(super) fn fault(rng: &mut StdRng) -> Fault {
    let (class, how) = match rng.random_range(0..14) {
        12 => return lasting(rng),
        13 => (Class::of("create", one(rng, &["pods", "pods", "orderedreplicasets"]), ""), taken(rng)),
        // Own writes and foreign ones race; now and then they go on doing so.
        0 | 1 => (any(rng), How::Overtaken),
        2 => {
            let (code, reason, words) = one(rng, REFUSALS);
            (
                Class::of("create", one(rng, &["pods", "pods", "orderedreplicasets"]), ""),
                answer(code, reason, words, false),
            )
        }
        // Between a decision and its request.
        6 => {
            let key = one(rng, &[annotation::DELETE_PRIORITY, annotation::PAUSE_POINT]);
            let value = one(rng, &[Some("before"), Some("after"), Some("7"), Some("-7"), None]);
            let change = How::Annotated(key.to_owned(), value.map(str::to_owned));
            let (verb, subresource) =
                one(rng, &[("delete", ""), ("get", ""), ("patch", ""), ("create", "eviction")]);
            (Class::of(verb, "pods", subresource), change)
        }
        3 => (Class::of(one(rng, &["delete", "delete", "patch"]), "pods", ""), How::Gone),
        // A proxy before the server repeated it.
        5 if rng.random_range(0..3) == 0 => {
            let words = "pods \"x\" already exists";
            (Class::of("create", "pods", ""), answer(409, "AlreadyExists", words, true))
        }
        // A list whose pages took too long.
        4 => {
            let continued = Class { continued: true, ..Class::of("list", one(rng, &["", "pods"]), "") };
            (continued, answer(410, "Expired", "The provided continue parameter is too old", false))
        }
        _ => (any(rng), how(rng)),
    };
    Fault::Request {
        class,
        skip: *[0, rng.random_range(0..5), rng.random_range(0..40)].get(rng.random_range(0..3)).unwrap_or(&0),
        times: one(rng, &[1, 1, 1, 2, 5, 10, 60]),
        how,
    }
}

/// What is chosen by its content, until all is healed: pods of one template, dry runs, whatever is created.
fn lasting(rng: &mut StdRng) -> Fault {
    let pods = Class::of("create", "pods", "");
    let class = match rng.random_range(0..4) {
        0 => Class { dry_run: Some(true), ..Class::default() },
        1 => pods,
        _ => Class { says: one(rng, &["web:1", "web:2", "web:2", "web:3"]).to_owned(), ..pods },
    };
    let how = match rng.random_range(0..6) {
        0 => answer(404, "NotFound", "namespaces \"default\" not found", false),
        1 => answer(409, "AlreadyExists", "pods \"x\" already exists", false),
        2 => answer(429, "TooManyRequests", "too many requests, please try again later", false),
        3 => How::Hang { applied: false },
        _ => {
            let (code, reason, words) = one(rng, REFUSALS);
            answer(code, reason, words, false)
        }
    };
    Fault::Request { class, skip: one(rng, &[0, 0, 2, 10]), times: one(rng, &[10, 60, 10_000]), how }
}

/// A webhook takes away what tells whose it is.
fn taken(rng: &mut StdRng) -> How {
    let changes = [
        json!({"metadata": {"labels": null}}),
        json!({"metadata": {"labels": {"app": "other"}}}),
        json!({"metadata": {"ownerReferences": null}}),
    ];
    How::Mutated(changes[rng.random_range(0..changes.len())].clone())
}

/// Every answer, or those of one kind, takes its time; less than a client waits.
pub(super) fn slow(rng: &mut StdRng) -> Fault {
    let class = if rng.random_range(0..2) == 0 { any(rng) } else { Class::default() };
    Fault::Slow { class, before: one(rng, &[0, 20, 300, 3000]), after: one(rng, &[0, 20, 300, 3000]) }
}

fn any(rng: &mut StdRng) -> Class {
    let (verb, plural, subresource) = one(rng, CLASSES);
    Class::of(verb, plural, subresource)
}

fn answer(code: u16, reason: &str, words: &str, applied: bool) -> How {
    How::Answer { code, reason: reason.to_owned(), message: words.to_owned(), applied }
}

fn how(rng: &mut StdRng) -> How {
    let applied = rng.random_range(0..2) == 0;
    match rng.random_range(0..12) {
        0 => answer(409, "Conflict", "the object has been modified", false),
        1 => answer(403, "Forbidden", "User \"manager\" cannot do that", false),
        2 => answer(429, "TooManyRequests", "too many requests, please try again later", false),
        3 => answer(500, "InternalError", "etcdserver: request timed out", applied),
        4 => {
            answer(503, "ServiceUnavailable", "the server is currently unable to handle the request", applied)
        }
        5 => answer(504, "Timeout", "the request timed out", applied),
        6 => answer(401, "Unauthorized", "Unauthorized", false),
        7 => answer(410, "Expired", "too old resource version", false),
        8 | 9 => How::Reset { applied },
        10 => How::Hang { applied },
        _ => How::Late(one(rng, &[20, 500, 5000, 9000, 30_000])),
    }
}
