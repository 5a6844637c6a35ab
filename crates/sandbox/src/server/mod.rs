//! The API server: handles requests under one lock.
//!
//! All handlers are synchronous. The response to a watch is a stream that reads the store later. The server
//! never schedules or runs pods, and it never sleeps.

mod cleanup;
mod crd;
mod create;
mod delete;
mod metadata;
mod patch;
mod pods;
mod read;
mod scale;
mod update;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;

use crate::audit::{Fault, Record};
use crate::clock::Clock;
use crate::discovery;
use crate::request::{Call, Form, Query, Target};
use crate::resource::{self, Origin, ResourceInfo};
use crate::status::Failure;
use crate::store::{Key, Resource, Store};

pub(crate) use cleanup::run as clean_up;
pub(crate) use watch::Watch;

/// How many requests the audit log keeps.
const AUDIT_LIMIT: usize = 200_000;

/// A response before serialization.
pub(crate) enum Reply {
    Json { code: u16, body: Value, warnings: Vec<String> },
    Text { code: u16, body: &'static str },
    Watch(Box<Watch>),
}

impl Reply {
    fn ok(body: Value) -> Self {
        Self::Json { code: 200, body, warnings: Vec::new() }
    }

    pub(crate) fn code(&self) -> u16 {
        match self {
            Self::Json { code, .. } | Self::Text { code, .. } => *code,
            Self::Watch(_) => 200,
        }
    }
}

impl From<Failure> for Reply {
    fn from(failure: Failure) -> Self {
        Self::Json { code: failure.code, body: failure.to_value(), warnings: Vec::new() }
    }
}

type Answer = Result<Reply, Failure>;

/// The state under the lock.
pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) registry: Vec<Arc<ResourceInfo>>,
    pub(crate) audit: VecDeque<Record>,
    pub(crate) faults: Vec<Fault>,
    /// Resources whose creates are refused, with the message.
    pub(crate) refused_creates: BTreeMap<String, String>,
    random: StdRng,
    pub(crate) clock: Clock,
}

/// The server.
pub(crate) struct Server {
    state: Mutex<State>,
    pub(crate) clock: Clock,
}

/// A request with its resource.
struct Ask<'a> {
    call: &'a Call,
    query: Query,
    info: Arc<ResourceInfo>,
    target: Target,
    form: Form,
    dry_run: bool,
}

impl Ask<'_> {
    fn namespace(&self) -> &str {
        self.target.namespace.as_deref().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.target.name.as_deref().unwrap_or_default()
    }

    fn resource(&self) -> Resource {
        storage(&self.info)
    }

    fn key(&self) -> Key {
        (self.namespace().to_owned(), self.name().to_owned())
    }

    fn sub(&self) -> Option<&str> {
        self.target.subresource.as_deref()
    }
}

/// The resource under which objects are stored.
pub(crate) fn storage(info: &ResourceInfo) -> Resource {
    (info.group.clone(), info.plural.clone())
}

impl Server {
    pub(crate) fn new(clock: Clock, seed: u64, history: usize) -> Arc<Self> {
        let mut state = State {
            store: Store::new(history),
            registry: resource::builtins().into_iter().map(Arc::new).collect(),
            audit: VecDeque::new(),
            faults: Vec::new(),
            refused_creates: BTreeMap::new(),
            random: StdRng::seed_from_u64(seed),
            clock: clock.clone(),
        };
        state.create_first_namespaces();
        Arc::new(Self { state: Mutex::new(state), clock })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles one request and records it in the audit log.
    pub(crate) fn answer(self: &Arc<Self>, call: &Call) -> Reply {
        let query = Query::parse(&call.query);
        let target = Target::parse(&call.path);
        let mut state = self.state();
        let now = self.clock.now();
        let has_journal = state.store.journal.is_some();
        let mut record = Record::new(now, call, target.as_ref(), &query, has_journal);
        let place = state.audit.len();
        if let Some(journal) = &mut state.store.journal {
            (journal.at, journal.request) = (now, Some(place));
        }
        let reply = match state.fault(&record) {
            Some(failure) => failure.into(),
            None => self.route(&mut state, call, query, target).unwrap_or_else(Reply::from),
        };
        record.code = reply.code();
        if let Some(journal) = &mut state.store.journal {
            journal.request = None;
        }
        if state.audit.len() >= AUDIT_LIMIT {
            state.audit.pop_front();
        }
        state.audit.push_back(record);
        reply
    }

    fn route(
        self: &Arc<Self>,
        state: &mut State,
        call: &Call,
        query: Query,
        target: Option<Target>,
    ) -> Answer {
        let known = target.and_then(|target| {
            let info = state.find(&target.group, &target.version, &target.plural)?;
            Some((info, target))
        });
        let Some((info, target)) = known else { return state.misc(call) };
        if info.namespaced && target.namespace.is_none() && target.name.is_some()
            || !info.namespaced && target.namespace.is_some()
        {
            return Err(Failure::no_such_resource());
        }
        let form = Form::parse(&call.accept)?;
        let dry_run = call.method != Method::GET && query.dry_run()?;
        let ask = Ask { call, query, info, target, form, dry_run };
        if let Some(sub) = ask.sub() {
            return state.subresource(&ask, sub);
        }
        let one = ask.target.name.is_some();
        if call.method == Method::GET && ask.query.flag("watch") {
            return self.watch(state, &ask);
        }
        match (&call.method, one) {
            (&Method::GET, true) => state.get(&ask),
            (&Method::GET, false) => state.list(&ask),
            (&Method::POST, false) => state.create(&ask),
            (&Method::PUT, true) => state.update(&ask, None),
            (&Method::PATCH, true) => state.patch(&ask, None),
            (&Method::DELETE, true) => state.delete(&ask),
            (&Method::DELETE, false) => state.delete_collection(&ask),
            _ => Err(Failure::method_not_allowed()),
        }
    }
}

impl State {
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<ResourceInfo>> {
        self.registry
            .iter()
            .find(|info| info.group == group && info.version == version && info.plural == plural)
            .map(Arc::clone)
    }

    pub(crate) fn delay_watch(&mut self, plural: &str, delay: Duration) {
        let mut resources: Vec<Resource> = self.registry.iter().map(|info| storage(info)).collect();
        resources.retain(|(_, name)| name == plural);
        for resource in resources {
            let collection = self.store.collection(&resource);
            collection.delay = delay;
            // Open watches recompute when their next event is due.
            collection.changed.notify_waiters();
        }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn uid(&mut self) -> String {
        uuid::Builder::from_random_bytes(self.random.random()).into_uuid().to_string()
    }

    /// Five characters from an alphabet without vowels and similar characters, like generated names in
    /// Kubernetes.
    fn suffix(&mut self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5).map(|_| char::from(ALPHABET[self.random.random_range(0..ALPHABET.len())])).collect()
    }

    fn fault(&mut self, record: &Record) -> Option<Failure> {
        if let Some(message) = self.refused_creates.get(&record.plural).filter(|_| record.verb == "create") {
            return Some(Failure::new(403, "Forbidden", message.as_str()));
        }
        let place = self.faults.iter().position(|fault| fault.matches(record))?;
        let failure = self.faults[place].failure();
        if self.faults[place].spend() {
            self.faults.remove(place);
        }
        Some(failure)
    }

    /// Paths without a resource: health, version, discovery, OpenAPI.
    fn misc(&self, call: &Call) -> Answer {
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
            ["openapi", "v3"] => Some(discovery::index(&all)),
            ["openapi", "v3", "api", version] => discovery::document(&all, "", version),
            ["openapi", "v3", "apis", group, version] => discovery::document(&all, group, version),
            _ => None,
        };
        // The API server answers these paths from a plain router, not with a Status.
        Ok(found.map_or(Reply::Text { code: 404, body: "404 page not found\n" }, Reply::ok))
    }

    fn subresource(&mut self, ask: &Ask<'_>, sub: &str) -> Answer {
        let info = Arc::clone(&ask.info);
        match (sub, &ask.call.method) {
            ("status", &Method::GET) if info.status => self.get(ask),
            ("status", &Method::PUT) if info.status => self.update(ask, Some("status")),
            ("status", &Method::PATCH) if info.status => self.patch(ask, Some("status")),
            ("scale", method) if info.scale.is_some() => self.scale(ask, method),
            ("binding", &Method::POST) if info.is_builtin("", "Pod") => self.bind(ask),
            ("eviction", &Method::POST) if info.is_builtin("", "Pod") => self.evict(ask),
            ("log", &Method::GET) if info.is_builtin("", "Pod") => self.logs(ask),
            ("status", _) if info.status => Err(Failure::method_not_allowed()),
            // For custom resources the server reads the object before the subresource.
            _ if info.origin == Origin::Crd => Err(Failure::not_found(&info, ask.name())),
            _ => Err(Failure::no_such_resource()),
        }
    }
}
