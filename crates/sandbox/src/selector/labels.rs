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
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        // A comma in parentheses separates values.
        let mut depth = 0_i32;
        let parts = text.split(|c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            c == ',' && depth == 0
        });
        let parsed = parts.map(|part| {
            requirement(part.trim()).map_err(|error| format!("unable to parse requirement: {error}"))
        });
        Ok(Self(parsed.collect::<Result<_, String>>()?))
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

fn requirement(text: &str) -> Result<Requirement, String> {
    let one = |key: &str, value: &str| Ok::<_, String>(vec![checked_value(key.trim(), value.trim())?]);
    let (key, operator) = if let Some(key) = text.strip_prefix('!') {
        (key, Operator::Absent)
    } else if let Some((key, value)) = text.split_once("!=") {
        (key, Operator::NotIn(one(key, value)?))
    } else if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        (key, Operator::In(one(key, value)?))
    } else if let Some((key, set)) = text.split_once(char::is_whitespace) {
        let values = |set: &str| {
            let inside = set.trim().strip_prefix('(').and_then(|set| set.strip_suffix(')'));
            let inside = inside.ok_or_else(|| format!("found '{set}' expected: '(', values, ')'"))?;
            inside.split(',').map(|value| checked_value(key, value.trim())).collect::<Result<Vec<_>, _>>()
        };
        match set.trim() {
            set if set.starts_with("in") => (key, Operator::In(values(&set[2..])?)),
            set if set.starts_with("notin") => (key, Operator::NotIn(values(&set[5..])?)),
            other => return Err(format!("found '{other}', expected: in, notin, =, ==, !=")),
        }
    } else {
        (text, Operator::Exists)
    };
    Ok(Requirement { key: checked_key(key.trim())?, operator })
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
