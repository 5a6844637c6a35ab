//! The grammar of `pause-duration`.

use std::time::Duration;

use ordereddeployment_api::parse_pause_duration;

#[test]
fn a_pause_lasts_a_positive_time_in_go_syntax() {
    assert_eq!(parse_pause_duration("10m"), Some(Duration::from_secs(600)));
    assert_eq!(parse_pause_duration("1h30m5s"), Some(Duration::from_secs(5405)));
    assert_eq!(parse_pause_duration("1.5h"), Some(Duration::from_secs(5400)));
    for bad in
        ["", "0", "0s", "-5m", "+5m", "10", "m", "10 m", "5d", "ten", "٥m", "1e9h", "9999999999999h", "NaNs"]
    {
        assert_eq!(parse_pause_duration(bad), None, "{bad}");
    }
}
