//! `demo`: a rollout to watch, on a cluster in this process.

use std::time::Duration;

use anyhow::Result;
use ordereddeployment_controller::{Clock, Names};
use ordereddeployment_sandbox::Config;

use crate::demo::{Pace, Screen, play};

/// Watch an ordered rollout with a pause point, on a cluster in memory; needs no cluster
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Ten pods on two pools get priorities 5, 5, 3 and 0, the 3 a pause point. Then the image changes: the two 5s go \
first, the rollout halts, is resumed (by Enter on a terminal, by itself elsewhere) and completes. The demo fails if \
any pod goes out of order.")]
pub(crate) struct Args {}

pub(crate) async fn run(_: &Args) -> Result<()> {
    let screen = Screen::of_stdout();
    // Slow enough to watch, where somebody may.
    let (ready, shown) = if screen.is_terminal() { (1000, 3000) } else { (300, 0) };
    let pace = Pace {
        config: Config {
            ready_delay: Duration::from_millis(ready),
            termination_delay: Duration::from_millis(ready / 2),
            ..Config::default()
        },
        clock: Clock::system(),
        names: Names::random(),
        before_change: Duration::from_millis(shown),
        at_hold: Duration::from_millis(shown),
    };
    play(pace, screen).await
}
