//! The grammar of `pause-duration`.

#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

use std::time::Duration;

use ordereddeployment_api::parse_pause_duration;
use proptest::prelude::*;

#[test]
fn a_pause_lasts_a_positive_time_in_go_syntax() {
    assert_eq!(parse_pause_duration("10m"), Some(Duration::from_secs(600)));
    assert_eq!(parse_pause_duration("1h30m5s"), Some(Duration::from_secs(5405)));
    assert_eq!(parse_pause_duration("1.5h"), Some(Duration::from_secs(5400)));
    let malformed = "|0|0s|-5m|+5m|10|m|10 \
                     m|5d|ten|٥m|1e9h|9999999999999h|NaNs|1h-30m|1h+30m|5s-0s|1s-.5s|1h0|1h00|1h5|1h.|.h|1..5h|1hs|1h s";
    for text in malformed.split('|') {
        assert_eq!(parse_pause_duration(text), None, "{text}");
    }
}

#[test]
fn many_digits_are_read_as_go_reads_them() {
    assert_eq!(parse_pause_duration("2000000000000000001ns"), Some(Duration::new(2_000_000_000, 1)));
    assert_eq!(parse_pause_duration("0.1000000000000000000000000000s"), Some(Duration::from_millis(100)));
    assert_eq!(parse_pause_duration("000000000000000000000000000001s"), Some(Duration::from_secs(1)));
    assert_eq!(parse_pause_duration(&format!("1{}h", "0".repeat(256 * 1024))), None);
    assert_eq!(parse_pause_duration(&"1ns".repeat(80_000)), Some(Duration::from_micros(80)));
}

/// What Go's `time.ParseDuration` makes of a text without a sign, said again by hand, character by character,
/// in attoseconds; `None` where it refuses the text or the result is no pause.
fn as_go_reads(text: &str) -> Option<u128> {
    const LONGEST: u128 = 100 * 365 * 24 * 3600 * 1_000_000_000;
    let chars: Vec<char> = text.chars().collect();
    let (mut at, mut total) = (0, 0_u128);
    while at < chars.len() {
        let (mut seen, mut whole, mut part, mut weight) =
            (false, 0_u128, 0_u128, 1_000_000_000_000_000_000_u128);
        while at < chars.len() && chars[at].is_ascii_digit() {
            whole = (whole * 10 + u128::from(chars[at] as u32 - '0' as u32)).min(1 << 64);
            (seen, at) = (true, at + 1);
        }
        if at < chars.len() && chars[at] == '.' {
            at += 1;
            while at < chars.len() && chars[at].is_ascii_digit() {
                weight /= 10;
                part += weight * u128::from(chars[at] as u32 - '0' as u32);
                (seen, at) = (true, at + 1);
            }
        }
        let mut unit = String::new();
        while at < chars.len() && chars[at] != '.' && !chars[at].is_ascii_digit() {
            unit.push(chars[at]);
            at += 1;
        }
        let units =
            [("ns", 1), ("us", 1000), ("µs", 1000), ("μs", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)];
        let units = units.into_iter().chain([("m", 60_000_000_000_u128), ("h", 3_600_000_000_000)]);
        let unit = units.into_iter().find(|(name, _)| *name == unit).filter(|_| seen)?.1;
        total = (total + whole * unit + part * unit / 1_000_000_000_000_000_000).min(1 << 100);
    }
    (0 < total && total <= LONGEST).then_some(total)
}

fn config() -> ProptestConfig {
    let cases = std::env::var_os("PROPTEST_CASES").is_none().then_some(6000);
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    ProptestConfig { cases: cases.unwrap_or(default.cases), ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn durations_are_read_as_go_reads_them(text in prop_oneof![
        "([-+ ]{0,1}[0-9]{0,20}[.]{0,1}[0-9]{0,20}(ns|us|µs|μs|ms|s|m|h|d|e|E|inf|NaN|_|٥|²|\u{0}|)){0,4}",
        "([0-9]{1,3}([.][0-9]{0,3}){0,1}(ns|us|ms|s|m|h)){1,4}",
        any::<String>(),
    ]) {
        prop_assert_eq!(parse_pause_duration(&text).map(|pause| pause.as_nanos()), as_go_reads(&text));
    }
}
