//! Numbers that are given as an integer or as a percentage: `maxSurge` and `maxUnavailable`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Which way a percentage is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// To the next larger integer (`maxSurge`).
    Up,
    /// To the next smaller integer (`maxUnavailable`).
    Down,
}

/// The number that `value` stands for where 100 % is `total` pods, as `GetScaledValueFromIntOrPercent` of
/// Kubernetes' `apimachinery/pkg/util/intstr` counts it. Sums of two such numbers fit 64 bits.
///
/// `None` when the value is negative or no percentage; validation refuses both.
#[must_use]
pub fn resolve(value: &IntOrString, total: i32, round: Round) -> Option<i64> {
    match value {
        IntOrString::Int(number) => (*number >= 0).then(|| i64::from(*number)),
        IntOrString::String(text) => {
            let percent = percent(text)?;
            let scaled = i64::from(percent) * i64::from(total.max(0));
            Some(match round {
                Round::Up => scaled / 100 + i64::from(scaled % 100 != 0),
                Round::Down => scaled / 100,
            })
        }
    }
}

/// The number before the `%`; more than an `i32` holds counts as the largest.
pub(crate) fn percent(text: &str) -> Option<i32> {
    let digits = text.strip_suffix('%')?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::{IntOrString, Round, resolve};

    #[test]
    fn percentages_round_up_for_surge_and_down_for_unavailable() {
        let quarter = IntOrString::String("25%".into());
        assert_eq!(resolve(&quarter, 10, Round::Up), Some(3));
        assert_eq!(resolve(&quarter, 10, Round::Down), Some(2));
        assert_eq!(resolve(&IntOrString::Int(4), 10, Round::Up), Some(4));
        assert_eq!(resolve(&IntOrString::String("0%".into()), 10, Round::Up), Some(0));
    }

    #[test]
    fn extremes_stay_within_64_bits_and_malformed_values_are_none() {
        let huge = IntOrString::String("99999999999999999999%".into());
        assert_eq!(
            resolve(&huge, i32::MAX, Round::Up),
            Some((i64::from(i32::MAX) * i64::from(i32::MAX)) / 100 + 1)
        );
        for bad in ["", "%", "5", "-5%", "5.5%", "٥%", "+5%", "5%%"] {
            assert_eq!(resolve(&IntOrString::String(bad.into()), 10, Round::Up), None, "{bad}");
        }
        assert_eq!(resolve(&IntOrString::Int(-1), 10, Round::Up), None);
    }
}
