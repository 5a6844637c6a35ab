//! Ages in the short form that kubectl prints. Pure functions.

use jiff::Timestamp;

/// `12s`, `4m30s`, `3h5m`, `2d4h`, `40d`.
pub(crate) fn span(from: Timestamp, to: Timestamp) -> String {
    let seconds = to.as_second().saturating_sub(from.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |big: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{big}{unit}"),
        small => format!("{big}{unit}{small}{small_unit}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}

/// The age of an object; `-` if its creation time is unknown.
pub(crate) fn age(created: Option<Timestamp>, now: Timestamp) -> String {
    created.map_or_else(|| "-".to_owned(), |created| span(created, now))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::span;

    #[test]
    fn spans_are_written_as_kubectl_writes_ages() {
        let cases = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (270, "4m30s"),
            (3600, "60m"),
            (11_100, "3h5m"),
            (90_000, "25h"),
            (187_200, "2d4h"),
            (3_456_000, "40d"),
        ];
        for (seconds, text) in cases {
            let then = Timestamp::from_second(1_000).unwrap();
            assert_eq!(span(then, Timestamp::from_second(1_000 + seconds).unwrap()), text);
        }
        let later = Timestamp::from_second(2_000).unwrap();
        assert_eq!(span(later, Timestamp::from_second(1_000).unwrap()), "0s");
    }
}
