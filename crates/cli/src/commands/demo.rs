//! `demo`: shows a rollout on a cluster in this process.

use std::time::Duration;

use anyhow::Result;
use ordereddeployment_kubernetes::{Clock, Names};
use ordereddeployment_sandbox::Config;

use crate::demo::{self, DemoOptions, Screen};

/// Watch an ordered rollout with a pause point, on a cluster in memory; needs no cluster
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Ten pods in two pools: two get priority 5, one gets priority 3 and a pause point. Then the image changes: the two \
pods with priority 5 are deleted first, the rollout pauses at the pause point, is resumed (by Enter on a terminal, \
otherwise without a prompt) and completes. The demo fails if a pod is deleted out of order.")]
pub(crate) struct Args {}

pub(crate) async fn run(_: Args) -> Result<()> {
    let screen = Screen::of_stdout();
    // Slow on a terminal, so that a user can watch it.
    let (ready, shown) = if screen.is_terminal() { (1000, 3000) } else { (300, 0) };
    let options = DemoOptions {
        config: Config {
            ready_delay: Duration::from_millis(ready),
            termination_delay: Duration::from_millis(ready / 2),
            ..Config::default()
        },
        clock: Clock::system(),
        names: Names::random(),
        before_change: Duration::from_millis(shown),
        at_pause: Duration::from_millis(shown),
    };
    demo::run(options, screen).await
}
