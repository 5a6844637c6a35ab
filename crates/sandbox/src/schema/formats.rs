//! The string formats that an API server checks.
//!
//! Never does: refuse a format it does not know; a server ignores those.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether the text has the format.
pub(super) fn matches(format: &str, text: &str) -> bool {
    match format {
        // Lower case `t` and `z` are allowed by the RFC, a space is not.
        "date-time" => {
            text.as_bytes().get(10).is_some_and(|b| b.eq_ignore_ascii_case(&b't')) && is_timestamp(text)
        }
        "date" => text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok(),
        "duration" => is_duration(text),
        "byte" => is_base64(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "uuid" => is_uuid(text),
        _ => true,
    }
}

fn is_timestamp(text: &str) -> bool {
    text.parse::<jiff::Timestamp>().is_ok()
}

/// `1h30m`, `1.5s`, `-2ms`, `0`, and one amount with the name of its unit, `3 days`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 20] = [
        "ns", "nano", "us", "µs", "micro", "ms", "milli", "s", "sec", "second", "m", "min", "minute", "h",
        "hr", "hour", "d", "day", "w", "week",
    ];
    let unit = text.trim().trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = text.trim().strip_suffix(unit).unwrap_or_default();
    let unit = unit.trim().to_lowercase();
    let is_named =
        UNITS.iter().any(|known| unit.strip_suffix('s').unwrap_or(&unit) == *known || unit == *known);
    is_go_duration(text) || (number.parse::<f64>().is_ok() && is_named)
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &rest[..rest.len() - unit.len()];
        if number.parse::<f64>().is_err() {
            return false;
        }
        // `ms` ahead of `m`: the longer unit is the one meant.
        let Some(after) = ["ns", "us", "µs", "ms", "s", "m", "h"].iter().find_map(|u| unit.strip_prefix(u))
        else {
            return false;
        };
        rest = after;
    }
    true
}

fn is_base64(text: &str) -> bool {
    let data = text.trim_end_matches('=');
    text.len().is_multiple_of(4)
        && text.len() - data.len() <= 2
        && data.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.iter().map(|g| g.len()).eq([8, 4, 4, 4, 12])
        && groups.iter().all(|g| g.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_takes_what_a_server_takes() {
        for (format, good, bad) in [
            ("date-time", "2024-01-02T03:04:05Z", "2024-01-02 03:04:05Z"),
            ("date-time", "2024-01-02T03:04:05.123456+02:00", "yesterday"),
            ("date", "2024-02-29", "2023-02-29"),
            ("duration", "1h30m0.5s", "5"),
            ("duration", "1 hour", "1 fortnight"),
            ("byte", "aGk=", "aGk"),
            ("ipv4", "10.0.0.1", "10.0.0.256"),
            ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6ba7b810"),
        ] {
            assert!(matches(format, good), "{format} {good}");
            assert!(!matches(format, bad), "{format} {bad}");
        }
        assert!(matches("of-my-own", "anything"));
    }
}
