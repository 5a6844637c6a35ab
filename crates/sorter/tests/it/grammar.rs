//! The grammar of priority and cost with difficult texts: digits of other scripts, signs, spaces, NULs,
//! numbers at the ends of 32 bits, values as large as annotations can be.

use ordereddeployment_sorter::parse_int32;
use proptest::prelude::*;

#[test]
fn priority_and_cost_are_decimal_int32() {
    for (text, value) in [("0", 0), ("5", 5), ("10", 10), ("-100", -100), ("-0", 0), ("-008", -8)] {
        assert_eq!(parse_int32(text), Some(value), "{text:?}");
    }
    assert_eq!(parse_int32("2147483647"), Some(i32::MAX));
    assert_eq!(parse_int32("-2147483648"), Some(i32::MIN));
    assert_eq!(parse_int32("-00000000000000000000000001"), Some(-1));
    let malformed = "2147483648|-2147483649|99999999999999999999999|+5|-+5|--5|008|00||-| 5|5 \
                     |5\n|1_000|1e3|0x10|5.0|five|٥";
    for text in malformed.split('|') {
        assert_eq!(parse_int32(text), None, "{text:?}");
    }
}

/// A reference that shares no code with the parser: the two alternatives of the grammar, then a
/// comparison of digit strings, without arithmetic.
fn reference(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let digits = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
    let (negative, magnitude) = match bytes {
        [b'0'] => return Some(0),
        [b'1'..=b'9', ..] if digits(bytes) => (false, bytes),
        [b'-', rest @ ..] if digits(rest) => (true, rest),
        _ => return None,
    };
    let leading = magnitude.iter().take_while(|byte| **byte == b'0').count();
    let significant = &magnitude[leading..];
    let limit: &[u8] = if negative { b"2147483648" } else { b"2147483647" };
    let fits = significant.len() < limit.len() || (significant.len() == limit.len() && significant <= limit);
    if !fits {
        return None;
    }
    let value = significant.iter().fold(0_i64, |value, byte| value * 10 + i64::from(byte - b'0'));
    Some(if negative { -value } else { value })
}

/// Digits of other scripts, which are not digits here.
const FOREIGN: &str = "٠٥٩۵०９０¹²³⁴①Ⅳ五½𝟗";

/// Pieces with a `|` between them.
const ODD: &str = "2147483647|2147483648|-2147483648|-2147483649|-0|-008|+1|00|1e3|0x10|0b1|4294967296|\
    9223372036854775808|-|--|+| |\t|\n|\u{0}|\u{feff}|\u{2212}|\u{a0}|_|,|.|5.0|NaN|inf|null|true";

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[0-9]{1,12}".prop_map(String::from),
        prop::sample::select(ODD.split('|').collect::<Vec<_>>()).prop_map(String::from),
        prop::sample::select(FOREIGN.chars().collect::<Vec<_>>()).prop_map(String::from),
        any::<char>().prop_map(String::from),
    ];
    let ends = [i64::from(i32::MIN), i64::from(i32::MAX)];
    let near_an_end = (prop::sample::select(ends.to_vec()), -4_i64..5, 0_usize..3);
    prop_oneof![
        "[-+]{0,2}[0-9]{0,11}[ _x.]{0,1}[0-9]{0,2}",
        any::<String>(),
        any::<i32>().prop_map(|value| value.to_string()),
        proptest::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat()),
        near_an_end.prop_map(|(end, off, zeros)| {
            let (sign, magnitude) = (if end < 0 { "-" } else { "" }, (end + off).unsigned_abs());
            format!("{sign}{}{magnitude}", "0".repeat(zeros))
        }),
    ]
}

fn config() -> ProptestConfig {
    let cases = std::env::var_os("PROPTEST_CASES").is_none().then_some(16_384);
    let default = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    ProptestConfig { cases: cases.unwrap_or(default.cases), ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn every_text_follows_the_grammar(text in text()) {
        prop_assert_eq!(parse_int32(&text).map(i64::from), reference(&text), "{:?}", text);
    }
}

#[test]
fn a_value_of_the_maximum_annotation_size_follows_the_grammar() {
    const SIZE: usize = 256 * 1024;
    assert_eq!(parse_int32(&format!("-{}7", "0".repeat(SIZE))), Some(-7));
    for byte in ["0", "1", "-", " ", "٥", "\u{0}"] {
        let text = byte.repeat(SIZE / byte.len());
        assert_eq!(parse_int32(&text).map(i64::from), reference(&text));
        assert_eq!(parse_int32(&text), None);
    }
}
