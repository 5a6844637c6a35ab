//! Ages as kubectl shows them: `5s`, `2m3s`, `4h`, `3d`.

use jiff::Timestamp;

/// The age of a timestamp.
pub(super) fn since(time: &str, now: Timestamp) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => human(now.as_second() - time.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// A duration in seconds, in at most two units.
fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        ..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 if seconds % 60 > 0 => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..28_800 if minutes % 60 > 0 => format!("{hours}h{}m", minutes % 60),
        10_800..172_800 => format!("{hours}h"),
        _ => format!("{}d", hours / 24),
    }
}
