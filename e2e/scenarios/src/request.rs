//! The requests that a server received, in one form for both servers: from the audit log of a real server,
//! and from the request log of the sandbox.

use jiff::Timestamp;
use ordereddeployment_sandbox::Record;
use serde_json::Value;

/// The user agent of the kubelet stand-ins. Their deletes complete deletions that other clients requested.
pub(crate) const KUBELET: &str = "sandbox-kubelet";

/// One answered request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// The authenticated user; the sandbox has only one user.
    pub user: Option<String>,
    /// The `User-Agent` of the client.
    pub user_agent: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// Path and query.
    pub path: String,
    /// API group; empty for the core group, and always empty on the sandbox.
    pub group: String,
    /// Plural of the resource, such as `pods`; empty for paths without a resource.
    pub plural: String,
    /// Namespace in the path.
    pub namespace: Option<String>,
    /// Object in the path.
    pub name: Option<String>,
    /// Subresource in the path.
    pub subresource: Option<String>,
    /// The body of deletes and evictions of pods.
    pub body: Option<Value>,
    /// Status code of the response.
    pub code: u16,
    /// When the server received the request, if the server records it.
    pub received: Option<Timestamp>,
    /// When the server answered the request, if the server records it.
    pub answered: Option<Timestamp>,
}

impl Request {
    /// Whether the controller sent it.
    #[must_use]
    pub fn by_the_controller(&self) -> bool {
        self.user_agent.starts_with("ordered-controller-manager")
    }

    /// Whether it writes: it is neither a read nor a dry run.
    #[must_use]
    pub fn writes(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch") && !self.is_dry()
    }

    fn is_dry(&self) -> bool {
        let options = |pointer| self.body.as_ref().and_then(|body: &Value| body.pointer(pointer));
        let named =
            |value: Option<&Value>| value.and_then(Value::as_array).is_some_and(|all| !all.is_empty());
        self.path.contains("dryRun=") || named(options("/dryRun")) || named(options("/deleteOptions/dryRun"))
    }
}

impl From<Record> for Request {
    fn from(record: Record) -> Self {
        Self {
            user_agent: record.user_agent,
            verb: record.verb.to_owned(),
            path: record.path,
            plural: record.plural,
            namespace: record.namespace,
            name: record.name,
            subresource: record.subresource,
            body: record.body,
            code: record.code,
            ..Self::default()
        }
    }
}

/// One accepted deletion of a pod, by any request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Name of the pod; `*` for a collection.
    pub pod: String,
    /// The `User-Agent` of the client.
    pub user_agent: String,
    /// Whether the request was an eviction.
    pub evicted: bool,
    /// The UID in the precondition.
    pub uid: Option<String>,
    /// The resource version in the precondition.
    pub resource_version: Option<String>,
}

impl Deletion {
    /// Whether the controller sent it.
    #[must_use]
    pub fn by_the_controller(&self) -> bool {
        self.user_agent.starts_with("ordered-controller-manager")
    }

    /// The deletion of this request, if it counts: accepted, not a dry run, and not the final delete of a
    /// kubelet for a terminating pod.
    #[must_use]
    pub fn of(request: &Request) -> Option<Self> {
        let evicted = request.subresource.as_deref() == Some("eviction");
        let deletes = match request.subresource.as_deref() {
            None => matches!(request.verb.as_str(), "delete" | "deletecollection"),
            Some("eviction") => request.verb == "create",
            Some(_) => false,
        };
        let counts = request.plural == "pods" && deletes && request.code < 300 && !request.is_dry();
        if !counts || request.user_agent.starts_with(KUBELET) {
            return None;
        }
        let options = match &request.body {
            Some(body) if evicted => body.get("deleteOptions").cloned().unwrap_or_default(),
            Some(body) => body.clone(),
            None => Value::Null,
        };
        let precondition = |key: &str| {
            options.pointer(&format!("/preconditions/{key}")).and_then(Value::as_str).map(str::to_owned)
        };
        Some(Self {
            pod: request.name.clone().unwrap_or_else(|| "*".to_owned()),
            user_agent: request.user_agent.clone(),
            evicted,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
        })
    }
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The version of the change. All objects share one counter.
    pub version: u64,
    /// Plural of the resource.
    pub plural: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// The object after the change; `None` if it was removed.
    pub object: Option<Value>,
}
