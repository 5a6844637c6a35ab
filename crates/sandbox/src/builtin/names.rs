//! The syntax of names, label keys and label values, with the messages of the API server.
//!
//! The caller adds the field to the message.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                         '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex \
                         used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must \
                     start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and \
                         end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
                         used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                     and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
                     '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The message for an invalid DNS-1035 label.
pub(crate) const DNS1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
                                  an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  \
                                  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Whether the word is a DNS-1035 label.
pub(crate) fn is_dns1035(word: &str) -> bool {
    is_label(word) && word.len() <= 63 && word.starts_with(|c: char| c.is_ascii_lowercase())
}

/// The errors in the name of a port.
pub(crate) fn port(name: &str) -> Vec<&'static str> {
    let mut errors = Vec::new();
    if name.len() > 15 {
        errors.push("must be no more than 15 characters");
    }
    if !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    } else if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        errors.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        errors.push("must not begin or end with a hyphen");
    }
    errors
}

/// The errors in a DNS-1123 subdomain, the name of most objects.
pub(crate) fn subdomain(name: &str) -> Vec<String> {
    let mut errors = too_long(name, 253);
    if !name.split('.').all(is_label) {
        errors.push(SUBDOMAIN.to_owned());
    }
    errors
}

/// The errors in a DNS-1123 label: names of containers and volumes.
pub(crate) fn label(name: &str) -> Vec<String> {
    let mut errors = too_long(name, 63);
    if !is_label(name) {
        errors.push(LABEL.to_owned());
    }
    errors
}

/// The errors in a key of a label or an annotation, `[prefix/]name`.
pub(crate) fn label_key(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let parts: Vec<&str> = key.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(subdomain(prefix).into_iter().map(|c| format!("prefix part {c}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                 with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                 validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix \
                 and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    }
    errors.extend(too_long(name, 63).into_iter().map(|c| format!("name part {c}")));
    if !is_qualified(name) {
        errors.push(QUALIFIED.to_owned());
    }
    errors
}

/// The error in a label value.
pub(crate) fn label_value(value: &str) -> Option<String> {
    if let Some(error) = too_long(value, 63).pop() {
        return Some(error);
    }
    (!value.is_empty() && !is_qualified(value)).then(|| VALUE.to_owned())
}

fn too_long(word: &str, max: usize) -> Vec<String> {
    if word.len() > max { vec![format!("must be no more than {max} bytes")] } else { Vec::new() }
}

fn is_label(word: &str) -> bool {
    !word.is_empty()
        && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !word.starts_with('-')
        && !word.ends_with('-')
}

fn is_qualified(word: &str) -> bool {
    word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && word.starts_with(|c: char| c.is_ascii_alphanumeric())
        && word.ends_with(|c: char| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_validated_like_on_the_api_server() {
        for good in ["a", "a-b.c", "0", &"a".repeat(253)] {
            assert!(subdomain(good).is_empty(), "{good}");
        }
        for bad in ["", "A", "a..b", "-a", "a_b", &"a".repeat(254)] {
            assert!(!subdomain(bad).is_empty(), "{bad}");
        }
        for good in ["a", "A_b.c", "example.com/Name", "a.b/c"] {
            assert!(label_key(good).is_empty(), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "_a", "Ex.com/a", "a b"] {
            assert!(!label_key(bad).is_empty(), "{bad}");
        }
        assert!(label_value("").is_none() && label_value("v1.2_x").is_none());
        assert!(label_value("a b").is_some() && label_value(&"a".repeat(64)).is_some());
        assert!(label("web-1").is_empty() && !label("web.1").is_empty());
    }
}
