//! The string formats that the API server validates.
//!
//! An unknown format is valid, as on the API server.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether the text is valid in this format.
pub(super) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" => is_date_time(text).unwrap_or(false),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "byte" => is_base64(text),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "uuid" => is_uuid(text),
        _ => true,
    }
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

/// Checks the pattern, like the API server (`IsDateTime` in `go-openapi/strfmt`). The server therefore stores times
/// that clients cannot parse, such as the last second of the year 9999 or an offset of 99 hours.
fn is_date_time(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let mut parts = text.split('t');
    let (date, time) = (parts.next()?, parts.next()?);
    let digits = |text: &str| text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
    let (clock, rest) = time.split_at_checked(8)?;
    let clock: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = clock.as_slice() else { return None };
    let is_clock = digits(hours) && digits(minutes) && digits(seconds);
    let in_range = *hours <= "23" && *minutes <= "59" && *seconds <= "59";
    let zone = rest.strip_suffix('z').or_else(|| {
        let (fraction, offset) = rest.split_at_checked(rest.len().checked_sub(6)?)?;
        let (hours, minutes) = offset.strip_prefix(['+', '-'])?.split_once(':')?;
        (digits(hours) && digits(minutes)).then_some(fraction)
    });
    // Any character separates the fraction: the pattern of the API server does not escape the point.
    let mut fraction = zone?.chars();
    let is_fraction = match fraction.next() {
        None => true,
        Some('\n') => false,
        Some(_) => !fraction.as_str().is_empty() && fraction.all(|c| c.is_ascii_digit()),
    };
    Some(is_date(date) && is_clock && in_range && is_fraction)
}

/// `1h30m`, `1.5s`, `-2ms`, `0`, or one number with the name of a unit, `3 days`.
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
        // Longer units first: `ms` before `m`.
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
    fn formats_accept_the_values_that_the_api_server_accepts() {
        for (format, good, bad) in [
            ("date-time", "2024-01-02T03:04:05Z", "2024-01-02 03:04:05Z"),
            ("date-time", "2024-01-02T03:04:05.123456+02:00", "yesterday"),
            ("date-time", "9999-12-31T23:59:59Z", "2024-01-02T24:00:00Z"),
            ("date-time", "2024-01-02t03:04:05+99:99", "2024-01-02T03:04:60Z"),
            ("date-time", "2024-01-02T03:04:05,5z", "2024-02-30T03:04:05Z"),
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
