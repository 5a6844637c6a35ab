//! Resource quantities: `500m`, `2Gi`, `1e3`.
//!
//! A quantity that is too large keeps its text.

const NANO: i128 = 1_000_000_000;
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// The quantity in billionths; `None` if the text is not a quantity. A value out of range is capped.
fn parse(text: &str) -> Option<i128> {
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
    let nanos = format!("{whole}{fraction:0<9.9}").parse::<i128>().unwrap_or(i128::MAX);
    let amount = nanos.checked_mul(mul).map_or(i128::MAX, |scaled| scaled / div);
    Some(if negative { -amount } else { amount })
}

/// The canonical form of the API server: no fraction, the largest possible suffix, of the same family. `None`
/// if the text is not a quantity or if the server keeps the text.
pub(super) fn canonical(text: &str) -> Option<String> {
    let nanos = parse(text)?;
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

/// The factor and the divisor of a suffix.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    if let Some(power) = BINARY.iter().position(|unit| *unit == suffix) {
        return Some((1024_i128.pow(u32::try_from(power).ok()?), 1));
    }
    let power = match DECIMAL.iter().position(|unit| *unit == suffix) {
        Some(unit) => 3 * i32::try_from(unit).ok()? - 9,
        None => suffix.strip_prefix(['e', 'E'])?.parse().ok()?,
    };
    let factor = 10_i128.checked_pow(power.unsigned_abs())?;
    Some(if power < 0 { (1, factor) } else { (factor, 1) })
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
        for bad in ["", "x", "1x", "1.2.3", "m", "1 ", "1ki", "--1"] {
            assert_eq!(canonical(bad), None, "{bad}");
        }
    }
}
