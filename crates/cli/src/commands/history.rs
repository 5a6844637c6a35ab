//! `history`: shows the revisions and their templates. Read-only.

use anyhow::{Result, anyhow, bail};
use jiff::Timestamp;
use ordereddeployment_api::HistoryEntry;
use serde_json::json;

use crate::client::explain::explain;
use crate::client::output::{self, Output};
use crate::client::reader;
use crate::client::{ConnectArgs, Connection, object_name};
use crate::terminal::escape::{escaped, print, print_data};
use crate::terminal::style::{Paint, Style};
use crate::terminal::table::{Table, left, text_of};
use crate::view::age::age;
use crate::view::overview::images;
use crate::view::state::Revision;

/// What `-o name` prints before the name of a set.
const SETS: &str = "orderedreplicaset.ordereddeployment.io";

/// List the revisions of an OrderedDeployment, the newest first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered history web                 the revision history
  kubectl ordered history web --revision 3    the template of revision 3, as YAML

Below the revisions are the last holds, resumes, aborts and retries, the newest last.
`spec.revisionHistoryLimit` is the number of old revisions to keep. CHANGE-CAUSE is the annotation \
kubernetes.io/change-cause that the OrderedDeployment had at that time.")]
pub(crate) struct Args {
    /// The name of an OrderedDeployment
    #[arg(value_parser = object_name)]
    name: String,
    /// Show the template of this revision
    #[arg(long, value_name = "N", allow_negative_numbers = true,
        value_parser = clap::value_parser!(i64).range(0..))]
    revision: Option<i64>,
    /// The output format; `name` prints the sets
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Output>,
}

pub(crate) async fn run(args: Args, connect: ConnectArgs) -> Result<()> {
    let connection = connect.connect().await?;
    let (output, number) = (output::for_programs(args.output), args.revision.filter(|number| *number > 0));
    let text = history(&connection, &args.name, number, output, Style::of_stdout()).await?;
    match (output, number) {
        (None, None) => Ok(print(text)?),
        _ => Ok(print_data(&text)?),
    }
}

/// The revisions and what happened, or the template of one revision; with a format, for programs.
async fn history(
    connection: &Connection,
    name: &str,
    number: Option<i64>,
    output: Option<Output>,
    style: Style,
) -> Result<String> {
    let doing = format!("cannot read {name} in {}", connection.namespace);
    let found = connection.deployments().get(name).await.map_err(|error| explain(error, &doing))?;
    let revisions = reader::revisions(connection, &found).await?;
    if let Some(number) = number {
        let revision = named(&revisions, number, name)?;
        return match output {
            Some(output) => output::data(&revision.template.value(), output, (SETS, [revision.set.as_str()])),
            None => template(revision, style),
        };
    }
    let events = found.status.and_then(|status| status.history).unwrap_or_default();
    let Some(output) = output else {
        if revisions.is_empty() {
            return Err(no_revision(name));
        }
        return Ok(format!(
            "{}{}",
            table(&revisions, connection.clock.now(), style),
            entries(&events, style)
        ));
    };
    let all = revisions.iter().map(|revision| {
        json!({
            "revision": revision.number, "current": revision.current, "set": revision.set,
            "pods": revision.pods,
            "created": revision.created, "changeCause": revision.cause,
            "images": images(&revision.template.value()),
        })
    });
    let value = json!({
        "name": name, "namespace": connection.namespace, "revisions": all.collect::<Vec<_>>(),
        "events": events,
    });
    output::data(&value, output, (SETS, revisions.iter().map(|revision| revision.set.as_str())))
}

fn no_revision(name: &str) -> anyhow::Error {
    anyhow!("{name} has no revision yet\nhint: is ordered-controller-manager running?")
}

/// The revision of that number, or an error that lists the existing ones.
pub(crate) fn named<'a>(revisions: &'a [Revision], number: i64, name: &str) -> Result<&'a Revision> {
    let Some(found) = revisions.iter().find(|revision| revision.number == number) else {
        let kept: Vec<String> = revisions.iter().rev().map(|revision| revision.number.to_string()).collect();
        if kept.is_empty() {
            return Err(no_revision(name));
        }
        bail!("{name} has no revision {number}\nhint: it has {}", kept.join(", "));
    };
    Ok(found)
}

fn table(revisions: &[Revision], now: Timestamp, style: Style) -> String {
    let current = |revision: &Revision| if revision.current { " (current)" } else { "" };
    let columns = [
        left("REVISION", |revision: &Revision| format!("{}{}", revision.number, current(revision))),
        left("PODS", |revision: &Revision| revision.pods.to_string()),
        left("AGE", |revision: &Revision| age(revision.created, now)),
        left("SET", |revision: &Revision| revision.set.clone()),
        left("IMAGES", |revision: &Revision| images(&revision.template.value()).join(",")),
        left("CHANGE-CAUSE", |revision: &Revision| revision.cause.clone().unwrap_or_else(|| "-".to_owned())),
    ];
    drawn(&Table::of(&columns, revisions), style)
}

/// The holds, resumes, aborts and retries, under a heading; nothing if there are none.
fn entries(entries: &[HistoryEntry], style: Style) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let columns = [
        left("TIME", |entry: &HistoryEntry| entry.at.0.to_string()),
        left("ACTION", |entry: &HistoryEntry| format!("{:?}", entry.action)),
        left("REVISION", |entry: &HistoryEntry| entry.revision.to_string()),
        left("PAUSE POINT", |entry: &HistoryEntry| entry.id.clone().unwrap_or_else(|| "-".to_owned())),
        left("REASON", |entry: &HistoryEntry| entry.reason.clone()),
    ];
    let heading = style.paint(Paint::Title, "Holds, resumes, aborts and retries:");
    format!("\n{heading}\n{}", drawn(&Table::of(&columns, entries), style))
}

fn drawn(table: &Table, style: Style) -> String {
    let mut lines = vec![style.paint(Paint::Dim, &table.headings())];
    lines.extend(table.rows());
    text_of(&lines)
}

fn template(revision: &Revision, style: Style) -> Result<String> {
    let cause = revision.cause.as_ref().map(|cause| format!(", {}", escaped(cause))).unwrap_or_default();
    let head = format!("# revision {}, set {}{cause}", revision.number, revision.set);
    Ok(format!("{}\n{}", style.paint(Paint::Dim, &head), output::yaml(&revision.template.value())?))
}

#[cfg(test)]
mod tests;
