//! The grammar of `pause-duration`: a duration as Go writes one. Never a sign: a pause lasts a positive time.

use std::time::Duration;

/// Far beyond any use, and small enough to be added to any time of day.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Parses a duration as Go writes it (`10m`, `1h30m`), for `ordereddeployment.io/pause-duration`.
///
/// `None` when the text is malformed, zero or negative, or longer than a century: it then counts as absent.
#[must_use]
pub fn parse_pause_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (nanoseconds, after) = summand(rest)?;
        total = total.checked_add(nanoseconds)?;
        rest = after;
    }
    let duration = Duration::from_nanos(total);
    (!duration.is_zero() && duration <= LONGEST).then_some(duration)
}

/// One number with its unit, in nanoseconds, and what follows it.
fn summand(text: &str) -> Option<(u64, &str)> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), digits);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let unit: u64 = match unit {
        "ns" => 1,
        // The micro sign and the Greek letter mu look alike.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let nanoseconds = whole.checked_mul(unit)?.checked_add(part_of(unit, fraction))?;
    Some((nanoseconds, rest))
}

/// The decimal digits that the text begins with, and the rest.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// As much of the unit as the digits behind the point say, rounded down.
fn part_of(unit: u64, digits: &str) -> u64 {
    // What comes behind the eighteenth digit is less than a nanosecond of any unit.
    let kept = &digits[..digits.len().min(18)];
    let scale = kept.bytes().fold(1_u128, |scale, _| scale * 10);
    let numerator: u128 = kept.parse().unwrap_or(0);
    u64::try_from(u128::from(unit) * numerator / scale).unwrap_or(0)
}
