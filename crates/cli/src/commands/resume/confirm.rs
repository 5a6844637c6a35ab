//! What a resume without a name passes: it is shown, and the user is asked.

use std::io::IsTerminal;

use anyhow::{Context, Result, bail};
use ordereddeployment_api::{Hold, OrderedDeployment};

use crate::terminal::escape::print_stderr;
use crate::view::overview::images;
use crate::view::phase::pause_point;

/// The id of the pause point at which the object is paused, once the user has seen it. `None`: it is not
/// paused.
pub(super) async fn confirmed(
    name: &str,
    object: &OrderedDeployment,
    flags: &str,
    yes: bool,
) -> Result<Option<String>> {
    let status = object.status.as_ref();
    let Some(hold) = status.and_then(|status| status.hold.as_ref()) else { return Ok(None) };
    let template = images(&object.spec.template.value()).join(", ");
    let updated = status.and_then(|status| status.updated_replicas).unwrap_or(0);
    let pods = format!("{updated} of {} pods are of the new template ({template})", object.spec.replicas);
    ask(name, hold, &pods, flags, yes).await.map(Some)
}

/// Shows the pause point and asks. Returns its id.
pub(super) async fn ask(name: &str, hold: &Hold, pods: &str, flags: &str, yes: bool) -> Result<String> {
    let shown = format!("{name} is paused at {} since {}: {pods}", pause_point(hold), hold.since.0);
    let attended = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if !attended {
        bail!(
            "{shown}\nhint: name the pause point that you mean: `kubectl ordered resume {name} {}{flags}`",
            hold.label()
        );
    }
    print_stderr(format_args!("{shown}\n"));
    if !yes {
        print_stderr(format_args!("Pass it? [y/N] "));
        let mut answer = String::new();
        let read =
            tokio::task::spawn_blocking(move || std::io::stdin().read_line(&mut answer).map(|_| answer));
        let answer = read.await?.context("cannot read the answer")?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            bail!("nothing was changed");
        }
    }
    Ok(hold.id.clone())
}
