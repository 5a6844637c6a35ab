//! Decodes times of API servers, including times out of the range of [`Timestamp`]. It reads no clock.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Parses a time as a server writes it. A time out of range is the first or the last timestamp: servers
/// accept times up to the end of the year 9999, and write years of more than four digits, which RFC 3339 does
/// not allow. `None`: the text is not a time.
#[must_use]
pub fn parse_time(text: &str) -> Option<Timestamp> {
    if let Ok(time) = text.parse() {
        return Some(time);
    }
    let (is_negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (year, rest) = rest.split_once('-')?;
    let is_plausible = year.len() >= 4
        && year.bytes().all(|byte| byte.is_ascii_digit())
        && rest.bytes().all(|byte| byte.is_ascii_digit() || b"-:.+TtZz".contains(&byte));
    let is_past = is_negative || year == "0000";
    let is_far = is_past || year.len() > 4 || year == "9999";
    let bound = if is_past { Timestamp::MIN } else { Timestamp::MAX };
    (is_plausible && is_far).then_some(bound)
}

/// Decodes a stored time. Schemas accept some texts that are not times, and lists (the API server does not
/// check the type where a format is set), and one status that cannot be decoded would hide all others of its
/// list. Such a time is the last timestamp: it ends no hold and no deadline.
pub(crate) fn stored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    Ok(time(&Value::deserialize(deserializer)?))
}

/// Decodes a stored time that may be absent.
pub(crate) fn stored_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Time>, D::Error> {
    Ok(Option::<Value>::deserialize(deserializer)?.as_ref().map(time))
}

fn time(value: &Value) -> Time {
    Time(value.as_str().and_then(parse_time).unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::{Timestamp, parse_time};

    #[test]
    fn times_out_of_range_are_the_first_or_the_last() {
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
