//! Parses names as kubectl does: `web`, `od/web`, `pod/web-1`.

use ordereddeployment_wire::Family;

/// A name that is valid in the path of a request.
pub(crate) fn object_name(text: &str) -> Result<String, String> {
    let kinds = ["od", "ordereddeployment", "ordereddeployments", "ordereddeployments.ordereddeployment.io"];
    of_kind(text, &kinds, "an OrderedDeployment", "od")
}

pub(crate) fn pod_name(text: &str) -> Result<String, String> {
    of_kind(text, &["po", "pod", "pods"], "a pod", "pod")
}

pub(crate) fn deployment_name(text: &str) -> Result<String, String> {
    let kinds = ["deploy", "deployment", "deployments", "deployment.apps", "deployments.apps"];
    of_kind(text, &kinds, "a Deployment", "deployment")
}

/// An OrderedDeployment of that name, or a plain Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfEither {
    pub(crate) family: Family,
    pub(crate) name: String,
}

/// The name of an OrderedDeployment, or `deployment/NAME`.
pub(crate) fn of_either(text: &str) -> Result<OfEither, String> {
    let (family, name) = match text.split_once('/') {
        Some(_) if object_name(text).is_err() => (Family::Plain, deployment_name(text)?),
        _ => (Family::Ordered, object_name(text)?),
    };
    Ok(OfEither { family, name })
}

pub(super) fn namespace(text: &str) -> Result<String, String> {
    if text.contains('.') {
        return Err("a namespace consists of lower-case letters, digits and '-'".to_owned());
    }
    name(text)
}

fn of_kind(text: &str, kinds: &[&str], what: &str, short: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some((kind, rest)) if kinds.contains(&kind.to_ascii_lowercase().as_str()) => name(rest),
        Some((kind, rest)) if name(rest).is_ok() => {
            Err(format!("wrong kind {kind:?}: this command takes {what}: {rest} or {short}/{rest}"))
        }
        _ => name(text),
    }
}

fn name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    // `.` and `..` would change the path of the request.
    let dots = text.chars().all(|c| c == '.');
    if dots || text.len() > 253 || !text.chars().all(allowed) {
        return Err("a name consists of lower-case letters, digits, '-' and '.'".to_owned());
    }
    Ok(text.to_owned())
}
