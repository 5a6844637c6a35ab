//! POST on a collection, and the admission that creates and updates share.

use std::sync::Arc;

use serde_json::{Value, json};

use super::crd::{is_crd, storage_version};
use super::{Answer, Ask, Reply, State, metadata, patch, scale, storage};
use crate::builtin;
use crate::object;
use crate::render;
use crate::resource::{Origin, ResourceInfo};
use crate::schema::Cause;
use crate::status::Failure;
use crate::store::Key;

/// The object in the body, decoded before the server reads any object.
pub(super) fn decode_body(ask: &Ask<'_>) -> Result<Value, Failure> {
    metadata::require_json(ask)?;
    let mut body = ask.call.json()?;
    metadata::decode(ask, &mut body)?;
    if ask.info.origin == Origin::Builtin {
        // The admission of the object returns the warnings for dropped fields.
        builtin::decode(&ask.info, &mut body.clone()).map_err(Failure::bad_request)?;
    }
    Ok(body)
}

impl State {
    pub(super) fn create(&mut self, ask: &Ask<'_>) -> Answer {
        let mut body = decode_body(ask)?;
        let info = Arc::clone(&ask.info);
        if !object::resource_version(&body).is_empty() {
            return Err(Failure::internal("resourceVersion should not be set on objects to be created"));
        }
        self.check_namespace(ask, &body)?;
        self.stamp_new(&info, &mut body);
        if info.status && !info.is_builtin("", "Node") {
            object::set(&mut body, "status", None);
        }
        metadata::check_kind(&info, &body)?;
        let warnings = admit(ask, &mut body, None)?;
        self.check_quotas(ask, &body)?;
        render::stamp(&info, &mut body);
        let key: Key = (ask.namespace().to_owned(), object::name(&body).to_owned());
        if self.store.get(&ask.resource(), &key).is_some() {
            return Err(Failure::already_exists(&info, &key.1));
        }
        Self::before_create(&info, &mut body)?;
        if ask.dry_run {
            return Ok(Reply::Json { code: 201, body: self.shown(ask, &body), warnings });
        }
        let stored = self.store.put(&ask.resource(), &key, body);
        self.serve_crd(&info, &stored);
        Ok(Reply::Json { code: 201, body: self.shown(ask, &stored), warnings })
    }

    pub(super) fn shown(&self, ask: &Ask<'_>, stored: &Value) -> Value {
        render::one(&ask.info, stored, ask.form, self.clock.now())
    }

    fn check_namespace(&self, ask: &Ask<'_>, body: &Value) -> Result<(), Failure> {
        if !ask.info.namespaced {
            return Ok(());
        }
        if ask.target.namespace.is_none() {
            return Err(Failure::method_not_allowed());
        }
        let key = (String::new(), ask.namespace().to_owned());
        let namespaces = self.find("", "v1", "namespaces").ok_or_else(Failure::no_such_resource)?;
        match self.store.get(&storage(&namespaces), &key) {
            None => Err(Failure::not_found(&namespaces, ask.namespace())),
            Some(namespace) if object::terminating(namespace) => {
                let name = ask.namespace();
                let why = format!(
                    "unable to create new content in namespace {name} because it is being terminated"
                );
                let cause = Cause {
                    reason: "NamespaceTerminating",
                    message: format!("namespace {name} is being terminated"),
                    field: "metadata.namespace".into(),
                };
                Err(Failure::forbidden(&ask.info, object::name(body), &why).with_causes(&[cause]))
            }
            Some(_) => Ok(()),
        }
    }

    /// Fields that the server sets for particular kinds.
    fn before_create(info: &ResourceInfo, body: &mut Value) -> Result<(), Failure> {
        if info.is_builtin("", "Namespace") {
            object::put_at(body, ".spec.finalizers", json!(["kubernetes"]));
            object::put_at(body, ".status.phase", "Active".into());
            // A default, so its creator owns it.
            let name = object::name(body).to_owned();
            let labels = object::entry(object::entry(body, "metadata"), "labels");
            labels["kubernetes.io/metadata.name"] = name.into();
        }
        if info.is_builtin("", "Pod") && body.pointer("/status/phase").is_none() {
            object::put_at(body, ".status.phase", "Pending".into());
        }
        if is_crd(info) {
            Self::check_crd(info, body)?;
            body["status"] = json!({
                "conditions": null, "acceptedNames": {"plural": "", "kind": ""},
                "storedVersions": [storage_version(body)],
            });
        }
        Ok(())
    }

    pub(super) fn create_first_namespaces(&mut self) {
        let Some(info) = self.find("", "v1", "namespaces") else { return };
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let mut body = json!({"metadata": {"name": name}});
            self.stamp_new(&info, &mut body);
            render::stamp(&info, &mut body);
            if Self::before_create(&info, &mut body).is_ok() {
                self.store.put(&storage(&info), &(String::new(), name.to_owned()), body);
            }
        }
    }
}

/// Defaults, prunes and validates the object. Returns warnings for dropped fields.
pub(super) fn admit(ask: &Ask<'_>, object: &mut Value, old: Option<&Value>) -> Result<Vec<String>, Failure> {
    let info = &ask.info;
    let mut warnings = Vec::new();
    let mut causes = metadata::validate(info, object, old);
    match (&info.origin, &info.schema) {
        (Origin::Crd, schema) => {
            if let Some(schema) = schema {
                let unknown = schema.prune(object);
                warnings.extend(unknown_fields(ask, &unknown, object)?);
                schema.default(object);
                causes.extend(schema.validate(object, old));
            }
            causes.extend(scale::check(info, object));
        }
        (Origin::Builtin, _) => {
            let unknown = builtin::decode(info, object).map_err(|error| {
                if ask.call.method == http::Method::PATCH {
                    patch::undecodable(object, &error)
                } else {
                    Failure::bad_request(error)
                }
            })?;
            warnings.extend(unknown_fields(ask, &unknown, object)?);
            causes.extend(builtin::prepare(info, object, old));
        }
    }
    if causes.is_empty() { Ok(warnings) } else { Err(Failure::invalid(info, object::name(object), &causes)) }
}

fn unknown_fields(ask: &Ask<'_>, unknown: &[String], object: &Value) -> Result<Vec<String>, Failure> {
    let texts: Vec<String> = unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
    match ask.query.get("fieldValidation") {
        Some("Ignore") => Ok(Vec::new()),
        Some("Strict") if !texts.is_empty() => {
            let why = format!("strict decoding error: {}", texts.join(", "));
            if ask.call.method == http::Method::PATCH {
                return Err(patch::undecodable(object, &why));
            }
            let (kind, version) = (&ask.info.kind, &ask.info.version);
            let what = format!("{kind} in version \"{version}\" cannot be handled as a {kind}");
            Err(Failure::bad_request(format!("{what}: {why}")))
        }
        _ => Ok(texts),
    }
}
