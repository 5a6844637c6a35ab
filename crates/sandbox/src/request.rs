//! Parses a request: its path, headers and query. This module does not read stored objects.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::protobuf;
use crate::schema::Cause;
use crate::status::Failure;

/// A complete request, as received.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: http::Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) accept: String,
    pub(crate) content_type: String,
    pub(crate) user_agent: String,
    pub(crate) body: Bytes,
}

/// The sort key for requests of one simulated instant.
pub(crate) type Rank<'a> = (&'a str, &'a str, &'a str, &'a str, &'a [u8]);

impl Call {
    pub(crate) fn rank(&self) -> Rank<'_> {
        (&self.user_agent, self.method.as_str(), &self.path, &self.query, &self.body)
    }

    /// The body as JSON; protobuf is converted.
    pub(crate) fn json(&self) -> Result<Value, Failure> {
        if self.content_type.starts_with(protobuf::OBJECTS) {
            return protobuf::decode(&self.body)
                .map_err(|message| Failure::new(415, "UnsupportedMediaType", message));
        }
        serde_json::from_slice(&self.body).map_err(|error| {
            Failure::bad_request(format!(
                "the object provided is unrecognized (must be of type JSON): {error}"
            ))
        })
    }
}

/// The resource, object and subresource in a path.
pub(crate) struct Target {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

impl Target {
    /// Parses `/api/v1/…` and `/apis/GROUP/VERSION/…`; `None` for any other path.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let steps: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
        let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
        let (group, version, rest) = match steps.as_slice() {
            ["api", version, rest @ ..] => ("", version, rest),
            ["apis", group, version, rest @ ..] => (*group, version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            // `namespaces/NAME`, alone or with a subresource of Namespace, addresses the namespace itself.
            ["namespaces", _] | ["namespaces", _, "status"] => (None, rest),
            ["namespaces", namespace, rest @ ..] => (Some(namespace), rest),
            _ => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (plural, None, None),
            [plural, name] => (plural, Some(name), None),
            [plural, name, subresource] => (plural, Some(name), Some(subresource)),
            _ => return None,
        };
        let owned = |word: &&str| (*word).to_owned();
        let target = Self {
            group: group.to_owned(),
            version: owned(version),
            plural: owned(plural),
            namespace: namespace.map(owned),
            name: name.map(owned),
            subresource: subresource.map(owned),
        };
        (!target.plural.is_empty()).then_some(target)
    }
}

fn decode(step: &str) -> String {
    form_urlencoded::parse(format!("x={}", step.replace('+', "%2B")).as_bytes())
        .next()
        .map_or_else(String::new, |(_, value)| value.into_owned())
}

/// The decoded query of a request.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        Self(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// The first value of a key, if it is not empty.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, value)| name == key && !value.is_empty()).map(|(_, value)| value.as_str())
    }

    pub(crate) fn flag(&self, key: &str) -> bool {
        self.0.iter().any(|(name, value)| name == key && matches!(value.as_str(), "" | "1" | "true" | "True"))
    }

    /// Whether the query has `dryRun=All`. Any other value is an error.
    pub(crate) fn dry_run(&self) -> Result<bool, Failure> {
        match self.get("dryRun") {
            None => Ok(false),
            Some("All") => Ok(true),
            Some(other) => {
                let cause = Cause::not_supported("dryRun", &json!([other]), &["All"]);
                Err(Failure::invalid_options("Options", &[cause]))
            }
        }
    }
}

/// The requested form of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Object,
    Partial,
    Table,
}

impl Form {
    /// Parses `Accept`. The error is 406 if the server supports none of the media types.
    pub(crate) fn parse(accept: &str) -> Result<Self, Failure> {
        if accept.trim().is_empty() {
            return Ok(Self::Object);
        }
        for offer in accept.split(',') {
            let mut parts = offer.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            if !matches!(media, "application/json" | "application/*" | "*/*") {
                continue;
            }
            let parameters: Vec<(&str, &str)> = parts.filter_map(|part| part.split_once('=')).collect();
            let parameter =
                |key: &str| parameters.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
            match parameter("as") {
                None => return Ok(Self::Object),
                // Old clients list the beta version last, and its format is the same.
                Some("Table") if parameter("v") != Some("v1beta1") => return Ok(Self::Table),
                Some("PartialObjectMetadata" | "PartialObjectMetadataList") => return Ok(Self::Partial),
                Some(_) => {}
            }
        }
        Err(Failure::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json",
        ))
    }
}
