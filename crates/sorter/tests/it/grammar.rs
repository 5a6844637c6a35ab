//! The grammar of priority and cost.

use ordereddeployment_sorter::parse_int32;
use proptest::prelude::*;

#[test]
fn priority_and_cost_are_decimal_int32() {
    for (text, value) in [
        ("0", Some(0)),
        ("5", Some(5)),
        ("10", Some(10)),
        ("-100", Some(-100)),
        ("2147483647", Some(i32::MAX)),
        ("-2147483648", Some(i32::MIN)),
        ("-0", Some(0)),
        ("-008", Some(-8)),
        ("-00000000000000000000000001", Some(-1)),
        ("2147483648", None),
        ("-2147483649", None),
        ("99999999999999999999999", None),
        ("+5", None),
        ("-+5", None),
        ("--5", None),
        ("008", None),
        ("00", None),
        ("", None),
        ("-", None),
        (" 5", None),
        ("5 ", None),
        ("5\n", None),
        ("1_000", None),
        ("1e3", None),
        ("0x10", None),
        ("5.0", None),
        ("five", None),
        ("٥", None),
    ] {
        assert_eq!(parse_int32(text), value, "{text:?}");
    }
}

/// How Kubernetes reads the value, written again: a check of the first character, then base 10
/// with a sign, digits only, within 32 bits.
fn as_kubernetes_reads(text: &str) -> Option<i32> {
    let mut chars = text.chars();
    let may_begin = match chars.next()? {
        '-' | '1'..='9' => true,
        '0' => text.len() == 1,
        _ => false,
    };
    if !may_begin {
        return None;
    }
    let (negative, digits) = match text.split_at(1) {
        ("-", digits) => (true, digits),
        _ => (false, text),
    };
    if digits.is_empty() {
        return None;
    }
    let mut magnitude = 0_i128;
    for digit in digits.chars() {
        magnitude = (magnitude * 10 + i128::from(digit.to_digit(10)?)).min(1 << 40);
    }
    i32::try_from(if negative { -magnitude } else { magnitude }).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn grammar_agrees_with_kubernetes(text in "[-+]{0,2}[0-9]{0,11}[ _x.]{0,1}[0-9]{0,2}") {
        prop_assert_eq!(parse_int32(&text), as_kubernetes_reads(&text));
    }

    #[test]
    fn grammar_agrees_with_kubernetes_on_any_text(text in any::<String>()) {
        prop_assert_eq!(parse_int32(&text), as_kubernetes_reads(&text));
    }

    #[test]
    fn every_int32_is_read_back(value in any::<i32>()) {
        prop_assert_eq!(parse_int32(&value.to_string()), Some(value));
    }
}
