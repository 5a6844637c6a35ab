//! What a resume without a name passes: it is shown, and the user is asked.

use std::io::IsTerminal;

use anyhow::{Context, Result, bail};
use ordereddeployment_api::Hold;

use crate::terminal::escape::print_stderr;
use crate::view::phase::pause_point;

/// Shows the pause point, and asks whether to pass it.
pub(super) async fn confirm(name: &str, hold: &Hold, pods: &str, flags: &str, yes: bool) -> Result<()> {
    let shown = format!("{name} is paused at {} since {}: {pods}", pause_point(hold), hold.since.0);
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        bail!(
            "{shown}\nhint: name the pause point that you mean: `kubectl ordered resume {name} {}{flags}`",
            hold.label()
        );
    }
    print_stderr(format_args!("{shown}\n"));
    if yes {
        return Ok(());
    }
    print_stderr(format_args!("Pass it? [y/N] "));
    let mut answer = String::new();
    let read = tokio::task::spawn_blocking(move || std::io::stdin().read_line(&mut answer).map(|_| answer));
    let answer = read.await?.context("cannot read the answer")?;
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        bail!("nothing was changed");
    }
    Ok(())
}
