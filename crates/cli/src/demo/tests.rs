use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ordereddeployment_controller::{Clock, Names};
use ordereddeployment_sandbox::{Clock as SandboxClock, Config};

use super::{Pace, Screen, play};

/// A pipe that keeps what was written.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn the_demo_halts_before_the_three_resumes_by_itself_and_keeps_its_promise() {
    let base = "2030-01-01T00:00:00Z".parse().unwrap();
    let pace = Pace {
        config: Config { clock: SandboxClock::simulated(base), ..Config::default() },
        clock: Clock::simulated(base),
        names: Names::seeded(1),
        before_change: Duration::from_secs(1),
        at_hold: Duration::from_secs(1),
    };
    let kept = Kept::default();
    play(pace, Screen::lines(Box::new(kept.clone()))).await.unwrap();
    let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let index = |part: &str| {
        lines.iter().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {text}"))
    };
    assert!(
        lines[index(" 1. deleted")].ends_with("smaller UID, all else is equal")
            || text.contains("delete priority 5 > 3"),
        "{text}"
    );
    assert!(index(" 2. deleted") < index("Held before"), "{text}");
    assert!(index("Held before") < index("$ kubectl ordered resume web"), "{text}");
    assert!(index("$ kubectl ordered resume web") < index(" 3. deleted"), "{text}");
    assert!(lines[index("Held before")].contains("2 of 10 pods are updated, 10 are available"), "{text}");
    assert!(lines[index("Complete:")].contains("10 of 10 pods are of revision 2"), "{text}");
    assert!(lines.last().unwrap().starts_with("ok: 10 pods went in the promised order"), "{text}");
}
