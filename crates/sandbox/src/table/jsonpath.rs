//! The JSON paths of printer columns and of the scale subresource: fields, indexes, `[*]`, and filters that compare one
//! field with a string.

use serde_json::Value;

enum Step {
    Field(String),
    Index(i64),
    All,
    /// `?(@.type=="Ready")`, also with `!=`.
    Filter {
        path: String,
        value: String,
        equal: bool,
    },
}

/// The first value at the path.
pub(super) fn first<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let steps = parse(path)?;
    let mut found = vec![object];
    for step in &steps {
        found = found.into_iter().flat_map(|value| follow(value, step)).collect();
    }
    found.into_iter().next()
}

fn follow<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => {
            let Some(list) = value.as_array() else { return Vec::new() };
            let index = usize::try_from(*index)
                .ok()
                .or_else(|| list.len().checked_sub(usize::try_from(index.unsigned_abs()).ok()?));
            index.and_then(|i| list.get(i)).into_iter().collect()
        }
        Step::All => match value {
            Value::Array(list) => list.iter().collect(),
            Value::Object(map) => map.values().collect(),
            _ => Vec::new(),
        },
        Step::Filter { path, value: wanted, equal } => {
            let fits = |item: &&Value| {
                let shown = match first(item, path) {
                    Some(Value::String(text)) => text.clone(),
                    Some(other) => other.to_string(),
                    None => return false,
                };
                (shown == *wanted) == *equal
            };
            value.as_array().into_iter().flatten().filter(fits).collect()
        }
    }
}

/// `None` for a path that is not supported: the cell is empty, as for a path without a value.
fn parse(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}');
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = closing(inner)?;
            steps.push(bracket(inner[..end].trim())?);
            rest = &inner[end + 1..];
        } else {
            let (name, after) = field(rest.strip_prefix('.').unwrap_or(rest));
            // A single dot is the object itself.
            if !name.is_empty() {
                steps.push(Step::Field(name));
            }
            if after.len() == rest.len() {
                return None;
            }
            rest = after;
        }
    }
    Some(steps)
}

/// A field name up to the next dot or bracket; `\.` is a dot in the name.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (name, &text[i..]),
            c => name.push(c),
        }
    }
    (name, "")
}

fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (i, c) in text.char_indices() {
        match (quote, c) {
            (None, ']') => return Some(i),
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    None
}

fn bracket(inside: &str) -> Option<Step> {
    if inside == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = inside.strip_prefix("?(") {
        let filter = filter.strip_suffix(')')?;
        let (equal, (path, value)) = match filter.split_once("==") {
            Some(sides) => (true, sides),
            None => (false, filter.split_once("!=")?),
        };
        let path = path.trim().strip_prefix('@')?.to_owned();
        return Some(Step::Filter { path, value: unquoted(value.trim()).to_owned(), equal });
    }
    match unquoted(inside) {
        name if name.len() != inside.len() => Some(Step::Field(name.to_owned())),
        number => number.parse().ok().map(Step::Index),
    }
}

fn unquoted(text: &str) -> &str {
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_paths_find_the_values_of_columns() {
        let object = json!({"spec": {"replicas": 3, "list": [{"n": "a"}, {"n": "b"}]},
            "metadata": {"annotations": {"a.b/c": "dotted"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "No"}]}});
        for (path, wanted) in [
            (".spec.replicas", json!(3)),
            ("spec.replicas", json!(3)),
            ("{.spec.replicas}", json!(3)),
            (".spec.list[1].n", json!("b")),
            (".spec.list[-1].n", json!("b")),
            (".spec.list[*].n", json!("a")),
            (r".metadata.annotations.a\.b/c", json!("dotted")),
            (".metadata.annotations['a.b/c']", json!("dotted")),
            (r#".status.conditions[?(@.type=="Other")].status"#, json!("No")),
            (r".status.conditions[?(@.type=='Ready')].status", json!("True")),
            (".status.conditions[?(@.type!='Ready')].status", json!("No")),
        ] {
            assert_eq!(first(&object, path), Some(&wanted), "{path}");
        }
        for path in [".spec.nothing", ".spec.list[7]", ".spec.list[", "..x"] {
            assert_eq!(first(&object, path), None, "{path}");
        }
    }
}
