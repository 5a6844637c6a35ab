use std::collections::BTreeSet;
use std::time::Duration;

use ordereddeployment_kubernetes::{Clock, Names};
use ordereddeployment_sandbox::{Clock as SandboxClock, Config};

use super::{DemoOptions, check, show};
use crate::terminal::style::Style;
use crate::testing::{PLAIN, Written};
use crate::view::tree::Drawing;

#[tokio::test(start_paused = true)]
async fn the_demo_pauses_at_its_pause_point_resumes_and_deletes_pods_in_order() {
    let base = "2030-01-01T00:00:00Z".parse().unwrap();
    let options = DemoOptions {
        config: Config { clock: SandboxClock::simulated(base), ..Config::default() },
        clock: Clock::simulated(base),
        names: Names::seeded(1),
        shown: Duration::from_secs(1),
        attended: false,
    };
    let buffer = Written::default();
    let style = Style { color: true, ..PLAIN.style };
    show(options, Box::new(buffer.clone()), Drawing { style, ..PLAIN }).await.unwrap();
    let text = buffer.text();
    // An escaped character: a mark of a colour.
    assert!(!text.contains("\\u{"), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let index = |part: &str| {
        lines.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {text}"))
    };
    assert!(
        lines[index(" 1. deleted")].contains(": priority 5, ")
            && lines[index(" 2. deleted")].ends_with(": priority 5 > 3"),
        "{text}"
    );
    assert!(index(" 2. deleted") < index("Paused at pause point"), "{text}");
    assert!(index("Paused at pause point") < index("$ kubectl ordered resume web"), "{text}");
    assert!(index("$ kubectl ordered resume web") < index(" 3. deleted"), "{text}");
    assert!(
        lines[index("Paused at pause point")].contains("2 of 10 pods are updated, 10 are available"),
        "{text}"
    );
    assert!(lines[index("Complete:")].contains("10 of 10 pods are of revision 2"), "{text}");
    assert!(
        lines.iter().any(|line| line.contains("mok: 10 pods were deleted in the expected order")),
        "{text}"
    );
}

#[test]
fn another_order_or_a_deletion_during_the_pause_is_an_error() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let groups = [set(&["a", "b"]), set(&["c"]), set(&["d", "e"])];
    for (deleted, at_pause, at_resume, is_expected) in [
        ("a b c d e", 2, 2, true),
        ("b a c e d", 2, 2, true),
        ("a c b d e", 2, 2, false),
        ("a b d c e", 2, 2, false),
        ("a b c d", 2, 2, false),
        ("a b c d d", 2, 2, false),
        ("a b c d e f", 2, 2, false),
        ("a b c d e", 1, 2, false),
        ("a b c d e", 2, 3, false),
    ] {
        let names: Vec<String> = deleted.split(' ').map(str::to_owned).collect();
        let checked = check(&groups, &names, at_pause, at_resume);
        assert_eq!(checked.is_ok(), is_expected, "{deleted}: {checked:?}");
    }
}
