//! `list`: one line per OrderedDeployment. Read-only.

use anyhow::Result;
use jiff::Timestamp;
use kube::{Api, ResourceExt};
use ordereddeployment_api::OrderedDeployment;

use crate::age::age;
use crate::client::ConnectArgs;
use crate::escape::{print, print_data, print_stderr};
use crate::exit::Exit;
use crate::explain::explain;
use crate::output::{self, Output};
use crate::state::State;
use crate::style::{Paint, Style, width_of_stdout};
use crate::table::{Align, Column, Dropped, REASON, Widths, chosen, fitting};

/// The columns that are left out if lines are too wide, in this order. `get` shows them.
const DROPPED: [Dropped; 3] = [("AGE", usize::MAX), ("UPDATED", usize::MAX), ("AVAILABLE", REASON)];

/// List OrderedDeployments, one per line, with their state
#[derive(Debug, clap::Args)]
#[command(
    visible_alias = "ls",
    after_help = "\
Examples:
  kubectl ordered list        in the namespace
  kubectl ordered list -A     in all namespaces

STATE is Complete, Rolling, Suspended, `Paused at` with the pod of the pause point, Paused (spec.paused), Failed, Adopting, \
Handing back, or `Waiting for controller` until the controller has observed the spec."
)]
pub(crate) struct Args {
    /// List the OrderedDeployments in all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// List those that this label selector selects
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,
    /// The output format; `wide` adds the images
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<Output>,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let connection = args.connect.connect().await?;
    let namespace = (!args.all_namespaces).then_some(connection.namespace.as_str());
    if let Some(output @ (Output::Json | Output::Yaml | Output::Name)) = args.output {
        let found =
            output::read(&output::raw(&connection.client, namespace), None, args.selector.as_deref()).await?;
        print_data(&output::text(&found, output)?)?;
        return Ok(Exit::Success);
    }
    let api: Api<OrderedDeployment> = match namespace {
        Some(namespace) => Api::namespaced(connection.client.clone(), namespace),
        None => Api::all(connection.client.clone()),
    };
    let found = api.list(&output::selected(args.selector.as_deref())).await;
    let place = namespace.map_or_else(|| "all namespaces".to_owned(), |name| format!("namespace {name}"));
    let found = found
        .map_err(|error| explain(error, &format!("cannot list the OrderedDeployments of {place}")))?
        .items;
    if found.is_empty() {
        print_stderr(format_args!("No OrderedDeployments in {place}."));
        return Ok(Exit::Success);
    }
    let wide = args.output == Some(Output::Wide);
    let text =
        table(&found, args.all_namespaces, wide, Timestamp::now(), (Style::of_stdout(), width_of_stdout()));
    print(text)?;
    Ok(Exit::Success)
}

/// The table, sorted by namespace and name.
pub(crate) fn table(
    found: &[OrderedDeployment],
    namespaces: bool,
    wide: bool,
    now: Timestamp,
    (style, width): (Style, Option<usize>),
) -> String {
    let column = |heading, align| Column { heading, align };
    let mut columns = vec![
        column("NAMESPACE", Align::Left),
        column("NAME", Align::Left),
        column("DESIRED", Align::Left),
        column("UPDATED", Align::Left),
        column("AVAILABLE", Align::Left),
        column("AGE", Align::Left),
        column("STATE", Align::Left),
        column("IMAGES", Align::Left),
    ];
    let shown = |index: usize| (index > 0 || namespaces) && (index < 7 || wide);
    let keep = |cells: Vec<String>| -> Vec<String> {
        let cells = cells.into_iter().enumerate();
        cells.filter(|(index, _)| shown(*index)).map(|(_, cell)| cell).collect()
    };
    columns = columns.into_iter().enumerate().filter(|(i, _)| shown(*i)).map(|(_, column)| column).collect();
    let mut found: Vec<&OrderedDeployment> = found.iter().collect();
    found.sort_by_key(|deployment| (deployment.namespace(), deployment.name_any()));
    let rows: Vec<(State, Vec<String>)> = found
        .into_iter()
        .map(|deployment| {
            let status = deployment.status.clone().unwrap_or_default();
            let count = |count: Option<i32>| count.unwrap_or(0).to_string();
            let state = State::of(deployment);
            let cells = vec![
                deployment.namespace().unwrap_or_default(),
                deployment.name_any(),
                deployment.spec.replicas.to_string(),
                count(status.updated_replicas),
                count(status.available_replicas),
                age(deployment.metadata.creation_timestamp.as_ref().map(|time| time.0), now),
                format!("{} {}", state.mark(style).0, state.label()),
                crate::overview::images(&deployment.spec.template.value()).join(","),
            ];
            (state, keep(cells))
        })
        .collect();
    let all: Vec<Vec<String>> = rows.iter().map(|(_, cells)| cells.clone()).collect();
    let kept = match width.filter(|_| !wide) {
        Some(width) => fitting(&columns, &all, width, &DROPPED),
        None => (0..columns.len()).collect(),
    };
    let columns: Vec<Column> = kept.iter().map(|index| columns[*index]).collect();
    let all: Vec<Vec<String>> = all.iter().map(|cells| chosen(cells, &kept)).collect();
    let widths = Widths::of(&columns, all.iter().map(Vec::as_slice));
    let mut lines = vec![style.paint(Paint::Dim, &widths.headings())];
    lines.extend(rows.iter().zip(&all).map(|((state, _), cells)| {
        let line = widths.row(cells);
        match state.mark(style) {
            (mark, paint @ (Paint::Good | Paint::Title)) => line.replacen(mark, &style.paint(paint, mark), 1),
            (_, paint) => style.paint(paint, &line),
        }
    }));
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}

#[cfg(test)]
#[path = "list/tests.rs"]
mod tests;
