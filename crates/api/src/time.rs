//! Times as servers write them, read without ever failing at one that cannot be reckoned with. It reads no clock.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads a time as a server writes it. One that lies outside of what can be reckoned with is the first or the last that
/// can: servers take times to the very end of the year 9999, and write years of more than four digits, which is no RFC
/// 3339. `None`: it is no time.
#[must_use]
pub fn parse_time(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    let (is_before_christ, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (year, rest) = rest.split_once('-')?;
    let looks_like_a_time = year.len() >= 4
        && year.bytes().all(|byte| byte.is_ascii_digit())
        && rest.bytes().all(|byte| byte.is_ascii_digit() || b"-:.+TtZz".contains(&byte));
    let is_past = is_before_christ || year == "0000";
    let is_far = is_past || year.len() > 4 || year == "9999";
    let bound = if is_past { Timestamp::MIN } else { Timestamp::MAX };
    (looks_like_a_time && is_far).then_some(bound)
}

/// A stored time. Schemas let some through that cannot be read, and lists too (a format hides from servers that the type is
/// none), and one status that cannot be decoded would hide all others of its list. Such a time is the last one: it ends no
/// hold and passes no deadline.
pub(crate) fn stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(Time(value.as_str().and_then(parse_time).unwrap_or(Timestamp::MAX)))
}

/// The same where it may be absent.
pub(crate) fn stored_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    let value = Option::<Value>::deserialize(deserializer)?;
    Ok(value.map(|value| Time(value.as_str().and_then(parse_time).unwrap_or(Timestamp::MAX))))
}

#[cfg(test)]
mod tests {
    use super::{Timestamp, parse_time};

    #[test]
    fn times_beyond_reckoning_are_the_first_or_the_last() {
        for (text, time) in [
            ("2030-01-01T00:00:00Z", "2030-01-01T00:00:00Z".parse().ok()),
            ("9999-12-31T23:59:59Z", Some(Timestamp::MAX)),
            ("10000-01-01T00:00:00Z", Some(Timestamp::MAX)),
            ("292277026596-12-04T15:30:07Z", Some(Timestamp::MAX)),
            ("-292277022399-01-27T08:29:52Z", Some(Timestamp::MIN)),
            ("", None),
            ("soon", None),
            ("2030-01-01T00:00:00+99:99", None),
            ("99999-12-31 and more", None),
            ("٩٩٩٩٩-12-31T23:59:59Z", None),
        ] {
            assert_eq!(parse_time(text), time, "{text}");
        }
    }
}
