//! The syntax of names, label keys and label values, with the messages of the API server.
//!
//! The caller adds the field to the message.

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
                         '-' or '.', and must start and end with an alphanumeric character (e.g. \
                         'example.com', regex used for validation is \
                         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
                     and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
                     regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start \
                         and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or \
                         '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' \
                     or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
                     'my_value',  or '12345', regex used for validation is \
                     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/// The error in a DNS-1123 subdomain, the name of most objects.
pub(crate) fn subdomain(name: &str) -> Option<String> {
    checked(name, 253, name.split('.').all(is_label), SUBDOMAIN)
}

/// The error in a DNS-1123 label: names of containers.
pub(crate) fn label(name: &str) -> Option<String> {
    checked(name, 63, is_label(name), LABEL)
}

/// The error in a key of a label or an annotation, `[prefix/]name`.
pub(crate) fn label_key(key: &str) -> Option<String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let wrong = prefix.and_then(subdomain).map(|detail| format!("prefix part {detail}"));
    wrong.or_else(|| checked(name, 63, is_qualified(name), QUALIFIED))
}

/// The error in a label value.
pub(crate) fn label_value(value: &str) -> Option<String> {
    checked(value, 63, value.is_empty() || is_qualified(value), VALUE)
}

fn checked(word: &str, max: usize, is_valid: bool, detail: &str) -> Option<String> {
    if word.len() > max {
        return Some(format!("must be no more than {max} bytes"));
    }
    (!is_valid).then(|| detail.to_owned())
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
            assert_eq!(subdomain(good), None, "{good}");
        }
        for bad in ["", "A", "a..b", "-a", "a_b", &"a".repeat(254)] {
            assert!(subdomain(bad).is_some(), "{bad}");
        }
        for good in ["a", "A_b.c", "example.com/Name", "a.b/c"] {
            assert_eq!(label_key(good), None, "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "_a", "Ex.com/a", "a b"] {
            assert!(label_key(bad).is_some(), "{bad}");
        }
        assert!(label_value("").is_none() && label_value("v1.2_x").is_none());
        assert!(label_value("a b").is_some() && label_value(&"a".repeat(64)).is_some());
        assert!(label("web-1").is_none() && label("web.1").is_some());
    }
}
