//! Names as kubectl takes them: `web`, `od/web`, `pod/web-1`. It asks no server.

/// A name that the API server could know; others would make another path of the request.
pub(crate) fn object_name(text: &str) -> Result<String, String> {
    let kinds = ["od", "ordereddeployment", "ordereddeployments", "ordereddeployments.ordereddeployment.io"];
    of_kind(text, &kinds, "an OrderedDeployment", "od")
}

/// The name of a pod.
pub(crate) fn pod_name(text: &str) -> Result<String, String> {
    of_kind(text, &["po", "pod", "pods"], "a pod", "pod")
}

/// The name of a namespace.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    if text.contains('.') {
        return Err("a namespace has lower-case letters, digits and '-'".to_owned());
    }
    name(text)
}

fn of_kind(text: &str, kinds: &[&str], what: &str, short: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some((kind, rest)) if kinds.contains(&kind.to_ascii_lowercase().as_str()) => name(rest),
        Some((kind, rest)) if name(rest).is_ok() => {
            Err(format!("{kind:?} is another kind; this command takes {what}: {rest} or {short}/{rest}"))
        }
        _ => name(text),
    }
}

fn name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    // A path of dots alone would leave the place that it is in.
    let dots = text.chars().all(|c| c == '.');
    if dots || text.len() > 253 || !text.chars().all(allowed) {
        return Err("a name has lower-case letters, digits, '-' and '.'".to_owned());
    }
    Ok(text.to_owned())
}
