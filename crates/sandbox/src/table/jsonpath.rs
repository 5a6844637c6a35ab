//! The JSON paths of printer columns: fields, and filters that compare one field with a string. Any other
//! path finds nothing.

use serde_json::Value;

/// The value at a path such as `.spec.replicas` or `.status.conditions[?(@.type=="Ready")].status`. In the
/// name of a field, `\.` is a dot.
pub(super) fn first<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut found = object;
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(filter) = rest.strip_prefix("[?(@") {
            let (filter, after) = filter.split_once(")]")?;
            let (path, value) = filter.split_once("==")?;
            let value = value.trim().trim_matches(['"', '\'']);
            let fits = |item: &&Value| first(item, path.trim()).and_then(Value::as_str) == Some(value);
            found = found.as_array()?.iter().find(fits)?;
            rest = after;
        } else {
            let (name, after) = field(rest.strip_prefix('.')?);
            found = found.get(name)?;
            rest = after;
        }
    }
    Some(found)
}

/// A field name up to the next dot or bracket.
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
