//! Paths without a resource: health, version, discovery, OpenAPI.

use http::Method;

use super::{Answer, Reply, State};
use crate::request::Call;
use crate::resource::ResourceInfo;
use crate::status::Failure;
use crate::{discovery, openapi};

impl State {
    pub(super) fn misc(&self, call: &Call) -> Answer {
        let steps: Vec<&str> = call.path.split('/').filter(|step| !step.is_empty()).collect();
        if call.method != Method::GET {
            return Err(Failure::no_such_resource());
        }
        let all: Vec<ResourceInfo> = self.registry.iter().map(|info| ResourceInfo::clone(info)).collect();
        let found = match steps.as_slice() {
            ["healthz" | "readyz" | "livez", ..] => return Ok(Reply::Text { code: 200, body: "ok" }),
            ["version"] => Some(discovery::version()),
            ["api"] => Some(discovery::api_versions()),
            ["apis"] => Some(discovery::api_groups(&all)),
            ["api", version] => discovery::api_resources(&all, "", version),
            ["apis", group, version] => discovery::api_resources(&all, group, version),
            // kubectl asks for a kind that v3 does not have. An empty document in protobuf has no bytes.
            ["openapi", "v2"] => return Ok(Reply::Text { code: 200, body: "" }),
            ["openapi", "v3"] => Some(openapi::index(&all)),
            ["openapi", "v3", "api", version] => openapi::document(&all, "", version),
            ["openapi", "v3", "apis", group, version] => openapi::document(&all, group, version),
            _ => None,
        };
        // The API server answers these paths from a plain router, not with a Status.
        Ok(found.map_or(Reply::Text { code: 404, body: "404 page not found\n" }, Reply::ok))
    }
}
