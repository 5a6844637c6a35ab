//! Requests as the server saw them, in one form for both servers: from the audit log of a real one, from the sandbox's
//! own.

use jiff::Timestamp;
use ordereddeployment_sandbox::Record;
use serde_json::Value;

/// What the kubelet stand-ins call themselves; their deletes end what others have asked for.
pub(crate) const KUBELET: &str = "sandbox-kubelet";

/// One answered request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Who asked, as the server authenticated them; the sandbox knows only one user.
    pub user: Option<String>,
    /// The `User-Agent` they sent.
    pub user_agent: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// Path and query.
    pub path: String,
    /// API group, empty for the core one; the sandbox leaves it empty for all.
    pub group: String,
    /// `pods`; empty for paths that name none.
    pub plural: String,
    /// Namespace in the path.
    pub namespace: Option<String>,
    /// Object in the path.
    pub name: Option<String>,
    /// Subresource in the path.
    pub subresource: Option<String>,
    /// The body of deletes and evictions of pods.
    pub body: Option<Value>,
    /// Status code of the answer.
    pub code: u16,
    /// When the server received it, as far as the server says so.
    pub received: Option<Timestamp>,
    /// When the server answered it, as far as the server says so.
    pub answered: Option<Timestamp>,
}

impl Request {
    /// Whether our controller sent it.
    #[must_use]
    pub fn by_the_controller(&self) -> bool {
        self.user_agent.starts_with("ordered-controller-manager")
    }

    /// Whether it would change something: neither a read nor a dry run.
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
            user: None,
            user_agent: record.user_agent,
            verb: record.verb.to_owned(),
            path: record.path,
            group: String::new(),
            plural: record.plural,
            namespace: record.namespace,
            name: record.name,
            subresource: record.subresource,
            body: record.body,
            code: record.code,
            received: None,
            answered: None,
        }
    }
}

/// One accepted deletion of a pod, by whatever way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// The pod's name; `*` for a whole collection.
    pub pod: String,
    /// Who asked, where the server tells users apart.
    pub user: Option<String>,
    /// The `User-Agent` they sent.
    pub user_agent: String,
    /// Through the eviction API.
    pub evicted: bool,
    /// The UID it was bound to.
    pub uid: Option<String>,
    /// The version it was bound to.
    pub resource_version: Option<String>,
}

impl Deletion {
    /// Whether our controller sent it.
    #[must_use]
    pub fn by_the_controller(&self) -> bool {
        self.user_agent.starts_with("ordered-controller-manager")
    }

    /// What this request deleted, if it is one that counts: accepted, no dry run, and not a kubelet's end of a pod that
    /// is being deleted already.
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
            user: request.user.clone(),
            user_agent: request.user_agent.clone(),
            evicted,
            uid: precondition("uid"),
            resource_version: precondition("resourceVersion"),
        })
    }
}
