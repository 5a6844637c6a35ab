use std::time::Duration;

use ordereddeployment_kubernetes::{Clock, Names};
use ordereddeployment_sandbox::{Clock as SandboxClock, Config};

use super::{DemoOptions, Screen, show};
use crate::testing::Written;

#[tokio::test(start_paused = true)]
async fn the_demo_pauses_at_its_pause_point_resumes_and_deletes_pods_in_order() {
    let base = "2030-01-01T00:00:00Z".parse().unwrap();
    let options = DemoOptions {
        config: Config { clock: SandboxClock::simulated(base), ..Config::default() },
        clock: Clock::simulated(base),
        names: Names::seeded(1),
        before_change: Duration::from_secs(1),
        at_pause: Duration::from_secs(1),
    };
    let buffer = Written::default();
    show(options, Screen::lines(Box::new(buffer.clone()))).await.unwrap();
    let text = buffer.text();
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
    assert!(lines.last().unwrap().starts_with("ok: 10 pods were deleted in the expected order"), "{text}");
}
