//! Resource quantities: `500m`, `2Gi`, `1e3`.
//!
//! Nothing is rounded. A quantity that is too large or too precise keeps its text.

use std::cmp::Ordering;

/// A quantity in billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantity(i128);

const NANO: i128 = 1_000_000_000;

impl Quantity {
    /// Parses a quantity; `None` if the text is not a quantity. A value out of range is capped.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (mul, div) = scale(suffix)?;
        // Nine decimal places are the precision of the smallest suffix.
        let mut digits: String = fraction.chars().take(9).collect();
        digits.extend(std::iter::repeat_n('0', 9 - digits.len()));
        let nanos = format!("{whole}{digits}").parse::<i128>().unwrap_or(i128::MAX);
        let amount = match nanos.checked_mul(mul) {
            Some(scaled) => scaled / div,
            None => i128::MAX,
        };
        Some(Self(if negative { -amount } else { amount }))
    }

    pub(super) fn is_negative(self) -> bool {
        self.0.cmp(&0) == Ordering::Less
    }

    pub(super) fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// The canonical form of the API server: no fraction, the largest possible suffix, of the same family. `None` if the
/// text is not a quantity or if the server keeps the text.
pub(super) fn canonical(text: &str) -> Option<String> {
    const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
    const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let Quantity(nanos) = Quantity::parse(text)?;
    if nanos == 0 {
        return Some("0".to_owned());
    }
    if nanos.unsigned_abs() >= i128::MAX.unsigned_abs() / 2 {
        return None;
    }
    if text.ends_with('i') && nanos % NANO == 0 && (nanos / NANO).unsigned_abs() >= 1024 {
        let (number, unit) = divided(nanos / NANO, 1024, BINARY.len());
        return Some(format!("{number}{}", BINARY[unit]));
    }
    let (number, unit) = divided(nanos, 1000, DECIMAL.len());
    let has_exponent = !text.ends_with('E') && text.contains(['e', 'E']);
    Some(match unit {
        3 => number.to_string(),
        _ if has_exponent => format!("{number}e{}", 3 * i64::try_from(unit).ok()? - 9),
        _ => format!("{number}{}", DECIMAL[unit]),
    })
}

/// How often `by` divides `number` without a remainder, less than `most` times.
fn divided(mut number: i128, by: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while number % by == 0 && times + 1 < most {
        number /= by;
        times += 1;
    }
    (number, times)
}

fn scale(suffix: &str) -> Option<(i128, i128)> {
    Some(match suffix {
        "" => (1, 1),
        "n" => (1, NANO),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (NANO, 1),
        "T" => (1_000 * NANO, 1),
        "P" => (1_000_000 * NANO, 1),
        "E" => (NANO * NANO, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            let factor = 10_i128.checked_pow(power.unsigned_abs())?;
            if power < 0 { (1, factor) } else { (factor, 1) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_canonical_form_of_quantities_is_short_and_exact() {
        for (given, written) in [
            ("0.5", "500m"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("1.5", "1500m"),
            ("2", "2"),
            ("2000", "2k"),
            ("4096Mi", "4Gi"),
            ("1.5Gi", "1536Mi"),
            ("1025Ki", "1025Ki"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("1024", "1024"),
            ("1e3", "1e3"),
            ("12E2", "1200"),
            ("1E", "1E"),
            ("0Gi", "0"),
            ("-0.25", "-250m"),
            ("1n", "1n"),
        ] {
            assert_eq!(canonical(given).as_deref(), Some(written), "{given}");
        }
        assert_eq!(canonical("x"), None);
    }

    #[test]
    fn quantities_compare_across_suffixes() {
        let ascending =
            ["-1", "0", "1n", "1u", "1m", "0.5", "600m", "1", "1k", "1Ki", "1M", "1Mi", "1e9", "1Gi", "1E"];
        let read: Vec<Quantity> = ascending.iter().map(|t| Quantity::parse(t).unwrap()).collect();
        assert!(read.is_sorted());
        for (a, b) in
            [("1", "1000m"), (".5", "500m"), ("1024", "1Ki"), ("1.", "1"), ("+2", "2E0"), ("1e-3", "1m")]
        {
            assert_eq!(Quantity::parse(a), Quantity::parse(b), "{a} {b}");
        }
        for bad in ["", "x", "1x", "1.2.3", "m", "1 ", "1ki", "--1"] {
            assert_eq!(Quantity::parse(bad), None, "{bad}");
        }
    }
}
