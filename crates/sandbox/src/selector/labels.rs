//! Label selectors: `a=b`, `a!=b`, `a in (b,c)`, `a notin (b)`, `a`, `!a`, joined by commas.

use serde_json::Value;

/// A parsed label selector; the empty one matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels(Vec<Requirement>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    Absent,
}

impl Labels {
    /// Parses the query parameter `labelSelector`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.trim();
        let mut all = Vec::new();
        if let Some(odd) = rest.chars().next().filter(|c| ",=<>()".contains(*c)) {
            return Err(format!("found '{odd}', expected: !, identifier, or 'end of string'"));
        }
        while !rest.is_empty() {
            let (requirement, after) =
                requirement(rest).map_err(|err| format!("unable to parse requirement: {err}"))?;
            all.push(requirement);
            let after = after.trim_start();
            rest = match after.strip_prefix(',') {
                Some(next) if next.trim().is_empty() => {
                    return Err("found '', expected: identifier after ','".to_owned());
                }
                Some(next) => next.trim_start(),
                None if after.is_empty() => after,
                None => return Err(format!("found '{after}', expected: ',' or 'end of string'")),
            };
        }
        Ok(Self(all))
    }

    /// Whether the labels of the object match.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.0.iter().all(|requirement| {
            let value = labels[&requirement.key].as_str();
            match &requirement.operator {
                Operator::In(values) => value.is_some_and(|v| values.iter().any(|w| w == v)),
                Operator::NotIn(values) => value.is_none_or(|v| values.iter().all(|w| w != v)),
                Operator::Exists => value.is_some(),
                Operator::Absent => value.is_none(),
            }
        })
    }
}

/// Parses one requirement; returns it with the rest of the text.
fn requirement(text: &str) -> Result<(Requirement, &str), String> {
    if let Some(rest) = text.strip_prefix('!') {
        let (key, rest) = word(rest.trim_start());
        return Ok((Requirement { key: checked_key(key)?, operator: Operator::Absent }, rest));
    }
    let (key, rest) = word(text);
    let key = checked_key(key)?;
    let rest = rest.trim_start();
    let done = |operator, rest| Ok((Requirement { key: key.clone(), operator }, rest));
    if rest.is_empty() || rest.starts_with(',') {
        return done(Operator::Exists, rest);
    }
    // Longer operators before their prefixes.
    for (sign, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some(rest) = rest.strip_prefix(sign) {
            let rest = rest.trim_start();
            if let Some(odd) = rest.chars().next().filter(|c| "=!<>()".contains(*c)) {
                return Err(format!("found '{odd}', expected: identifier"));
            }
            let (value, rest) = word(rest);
            let values = vec![checked_value(&key, value)?];
            return done(if equal { Operator::In(values) } else { Operator::NotIn(values) }, rest);
        }
    }
    let (operator, rest) = word(rest);
    let is_in = match operator {
        "in" => true,
        "notin" => false,
        other => {
            return Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt"));
        }
    };
    let (values, rest) = set(&key, rest.trim_start())?;
    done(if is_in { Operator::In(values) } else { Operator::NotIn(values) }, rest)
}

/// Parses `(a, b)`; returns the values with the rest of the text.
fn set<'a>(key: &str, text: &'a str) -> Result<(Vec<String>, &'a str), String> {
    let inner = text.strip_prefix('(').ok_or_else(|| format!("found '{text}' expected: '('"))?;
    let (inside, rest) =
        inner.split_once(')').ok_or_else(|| format!("found '{inner}', expected: ',' or ')'"))?;
    let values: Result<Vec<String>, String> =
        inside.split(',').map(|v| checked_value(key, v.trim())).collect();
    Ok((values?, rest))
}

fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| c.is_whitespace() || "=!(),<>".contains(c)).unwrap_or(text.len());
    text.split_at(end)
}

fn checked_key(key: &str) -> Result<String, String> {
    match crate::names::label_key(key) {
        None => Ok(key.to_owned()),
        Some(detail) => Err(format!("<nil>: Invalid value: \"{key}\": {detail}")),
    }
}

fn checked_value(key: &str, value: &str) -> Result<String, String> {
    match crate::names::label_value(value) {
        None => Ok(value.to_owned()),
        Some(detail) => Err(format!("values[0][{key}]: Invalid value: \"{value}\": {detail}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors_match_like_on_the_api_server() {
        let pod = json!({"metadata": {"labels": {"app": "web", "tier": "2", "a.b/c": ""}}});
        for (text, wanted) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=2", true),
            ("app = web , tier = 2", true),
            ("app!=web", false),
            ("other!=x", true),
            ("app in (api,web)", true),
            ("app in (api, db),tier", false),
            ("app notin (api)", true),
            ("other notin (api)", true),
            ("tier", true),
            ("!tier", false),
            ("!other,app", true),
            ("a.b/c=", true),
        ] {
            assert_eq!(Labels::parse(text).unwrap().matches(&pod), wanted, "{text}");
        }
        assert!(!Labels::parse("app=web").unwrap().matches(&json!({"metadata": {}})));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["=a", "a in web", "a b", "a=b,", "a in (b", "a=b c", "-a=b", "a=-b-", "!", "a>1"] {
            assert!(Labels::parse(text).is_err(), "{text}");
        }
    }
}
