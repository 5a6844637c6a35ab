//! Get and list, with `resourceVersion`, `limit` and `continue` as on a real API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kube::core::Selector;
use serde_json::{Value, json};

use super::{Answer, Ask, Reply, State};
use crate::render;
use crate::request::{Form, Query};
use crate::resource::Origin;
use crate::schema::Cause;
use crate::selector::{Fields, parse_labels, selects};
use crate::status::Failure;
use crate::store::Key;

/// The selectors of a list, a watch or a collection delete.
pub(super) struct Filter {
    namespace: Option<String>,
    name: Option<String>,
    labels: Option<Selector>,
    fields: Option<Fields>,
}

impl Filter {
    pub(super) fn parse(ask: &Ask<'_>) -> Result<Self, Failure> {
        let labels = ask.query.get("labelSelector").map(parse_labels).transpose();
        let fields = ask.query.get("fieldSelector").map(|text| Fields::parse(&ask.info, text)).transpose();
        Ok(Self {
            namespace: ask.target.namespace.clone(),
            // A watch on a path with a name is the old form of a field selector.
            name: ask.target.name.clone(),
            labels: labels.map_err(Failure::bad_request)?,
            fields: fields.map_err(Failure::bad_request)?,
        })
    }

    pub(super) fn matches(&self, object: &Value) -> bool {
        self.namespace.as_ref().is_none_or(|wanted| crate::object::namespace(object) == wanted)
            && self.name.as_ref().is_none_or(|wanted| crate::object::name(object) == wanted)
            && self.labels.as_ref().is_none_or(|labels| selects(labels, object))
            && self.fields.as_ref().is_none_or(|fields| fields.matches(object))
    }

    fn is_open(&self) -> bool {
        self.labels.is_none() && self.fields.is_none()
    }
}

/// The `resourceVersion` of a read; `None` if absent.
pub(super) fn wanted_version(query: &Query) -> Result<Option<u64>, Failure> {
    query
        .get("resourceVersion")
        .map(|text| {
            text.parse().map_err(|_| {
                Failure::internal(format!(
                    "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": \
                     invalid syntax"
                ))
            })
        })
        .transpose()
}

/// The error for a version in the future, with the cause that clients check.
fn from_the_future(wanted: u64, current: u64) -> Failure {
    let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
    let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
    let details = json!({"causes": [cause], "retryAfterSeconds": 1});
    Failure { details: Some(details), ..Failure::new(504, "Timeout", message) }
}

impl State {
    pub(super) fn get(&mut self, ask: &Ask<'_>) -> Answer {
        if let Some(wanted) = wanted_version(&ask.query)?
            && wanted > self.store.version
        {
            return Err(from_the_future(wanted, self.store.version));
        }
        let stored = self.existing(ask)?;
        Ok(Reply::ok(self.shown(ask, &stored)))
    }

    pub(super) fn list(&mut self, ask: &Ask<'_>) -> Answer {
        let filter = Filter::parse(ask)?;
        let limit = match ask.query.get("limit") {
            None => usize::MAX,
            Some(text) => match parse_integer(text)? {
                // No limit, as without the parameter.
                ..=0 => usize::MAX,
                limit => usize::try_from(limit).unwrap_or(usize::MAX),
            },
        };
        let (version, after, objects) = self.snapshot(ask)?;
        let mut rest = objects
            .into_iter()
            .filter(|(key, object)| after.as_ref().is_none_or(|after| key > after) && filter.matches(object));
        let page: Vec<(Key, Arc<Value>)> = rest.by_ref().take(limit).collect();
        let remaining = rest.count();
        let mut meta = json!({"resourceVersion": version.to_string()});
        if ask.info.origin == Origin::Crd && ask.form == Form::Object {
            // Lists of custom resources always have this field.
            meta["continue"] = "".into();
        }
        if let (true, Some((last, _))) = (remaining > 0, page.last()) {
            meta["continue"] = encode(version, last).into();
            // With selectors the API server does not know how many objects remain.
            if filter.is_open() {
                meta["remainingItemCount"] = remaining.into();
            }
        }
        let items: Vec<Arc<Value>> = page.into_iter().map(|(_, object)| object).collect();
        Ok(Reply::ok(render::list(&ask.info, &items, &meta, ask.form, self.now())))
    }

    /// The objects of a list, their version, and the key to continue after.
    #[allow(clippy::type_complexity, reason = "a name for this triple would say less than its parts")]
    fn snapshot(&mut self, ask: &Ask<'_>) -> Result<(u64, Option<Key>, BTreeMap<Key, Arc<Value>>), Failure> {
        let resource = ask.resource();
        let current = self.store.version;
        let matching = ask.query.get("resourceVersionMatch");
        // The API server answers requests that its cache does not support from etcd, with another wording of
        // errors.
        let from_storage = matching.is_some() || ask.query.get("limit").is_some();
        let wanted = wanted_version(&ask.query).map_err(|error| {
            if from_storage {
                Failure::bad_request(format!("invalid resource version: {}", error.message))
            } else {
                error
            }
        })?;
        if let Some(token) = ask.query.get("continue") {
            if wanted.is_some_and(|wanted| wanted != 0) {
                return Err(Failure::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let (version, after) = decode(token).ok_or_else(|| {
                Failure::bad_request(
                    "invalid continue token: continue key is not valid: the token cannot be decoded",
                )
            })?;
            let objects = self.store.at_version(&resource, version).ok_or_else(|| {
                Failure::expired(
                    "The provided continue parameter is too old to display a consistent list result. You can \
                     start a new list without the continue parameter, or use the continue token in this \
                     response to retrieve the remainder of the results. Continuing with the provided token \
                     results in an inconsistent list - objects that were created, modified, or deleted \
                     between the time the first chunk was returned and now may show up in the list.",
                )
            })?;
            return Ok((version, Some(after), objects));
        }
        match (matching, wanted) {
            (None | Some("NotOlderThan" | "Exact"), Some(wanted)) if wanted > current => {
                Err(from_the_future(wanted, current))
            }
            (Some("Exact"), Some(0)) => {
                Err(bad_match("resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\""))
            }
            (Some("Exact"), Some(wanted)) => {
                let objects = self.store.at_version(&resource, wanted).ok_or_else(|| {
                    Failure::expired(format!(
                        "The resourceVersion for the provided list is too old: {wanted}"
                    ))
                })?;
                Ok((wanted, None, objects))
            }
            (Some("NotOlderThan") | None, Some(_)) | (None, None) => {
                Ok((current, None, self.store.collection(&resource).objects.clone()))
            }
            (Some(_), None) => {
                Err(bad_match("resourceVersionMatch is forbidden unless resourceVersion is provided"))
            }
            (Some(other), Some(_)) => {
                let cause = Cause::not_supported(
                    "resourceVersionMatch",
                    &other.into(),
                    &["Exact", "NotOlderThan", ""],
                );
                Err(Failure::invalid_options("ListOptions", &[cause]))
            }
        }
    }
}

fn bad_match(detail: &str) -> Failure {
    Failure::invalid_options("ListOptions", &[Cause::forbidden("resourceVersionMatch", detail)])
}

/// Parses a number in the query.
pub(super) fn parse_integer(text: &str) -> Result<i64, Failure> {
    text.parse()
        .map_err(|_| Failure::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax")))
}

fn encode(version: u64, last: &Key) -> String {
    let token = json!({"v": "meta.k8s.io/v1", "rv": version, "namespace": last.0, "name": last.1});
    URL_SAFE_NO_PAD.encode(token.to_string())
}

fn decode(token: &str) -> Option<(u64, Key)> {
    let token: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    let text = |key: &str| token.get(key).and_then(Value::as_str).map(str::to_owned);
    Some((token.get("rv")?.as_u64()?, (text("namespace")?, text("name")?)))
}
