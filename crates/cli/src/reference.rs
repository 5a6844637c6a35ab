//! The reference of the command line, made from its definitions. For `docs/cli.md`, and for the test that compares it.
#![allow(clippy::unwrap_used, reason = "a test ends where its ground is missing")]

use std::path::PathBuf;

/// What stands above the commands.
const HEAD: &str = "\
# The command line

`kubectl ordered` is the plugin `kubectl-ordered`. This page is made from its definitions, by
`UPDATE_CLI_DOCS=1 cargo test -p kubectl-ordered docs`; a test compares it with them.

Names may have their kind before them, as for kubectl: `web`, `od/web`, `ordereddeployment/web`, `pod/web-1`.
Colours are for terminals only, and not where `NO_COLOR` is set or `TERM` is `dumb`; lines beyond ASCII are for UTF-8
locales.

## Exit codes

| code | meaning |
|---|---|
| 0 | It did what was asked, or the state awaited is there. |
| 1 | It failed. A message on standard error says why and what to do. |
| 2 | The command line is malformed. |
| 3 | `status`: the rollout is held at a pause point, or paused as a whole. |
| 4 | `status`: the rollout failed. |
| 5 | The time limit of `--timeout` passed first. |
| 6 | `status --until held`: the rollout is complete, and was not held meanwhile. |

`pause` and `unpause` set `spec.paused`, as `kubectl rollout pause` and `resume` do for a Deployment. `resume` passes a
pause point, and never lifts that pause: who passes a point should not end by accident what somebody else has stopped.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str(
        "\n## Flags for the cluster\n\nEvery command that talks to a cluster takes them, before its name too; but behind `ordered`, \
         as kubectl wants\nthe flags of a plugin: `kubectl ordered -n shop get`, not `kubectl -n shop ordered get`.\n\n",
    );
    page.push_str("| flag | meaning |\n|---|---|\n");
    for (flag, help) in crate::commands::options::flags() {
        page.extend(["| `", &flag, "` | ", &help, " |\n"]);
    }
    let definition = crate::command();
    for command in definition.get_subcommands() {
        add(&mut page, command, "kubectl ordered");
    }
    page
}

fn add(page: &mut String, command: &clap::Command, above: &str) {
    if command.is_hide_set() {
        return;
    }
    let name = format!("{above} {}", command.get_name());
    // The flags for the cluster are told once.
    let is_own = |argument: &clap::Arg| argument.get_help_heading().is_none();
    let mut command = command
        .clone()
        .bin_name(name.clone())
        .mut_args(|argument| if is_own(&argument) { argument } else { argument.hide(true) })
        .term_width(110)
        .max_term_width(110);
    let help = command.render_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    page.extend(["\n## ", &name, "\n\n```\n", &lines.join("\n"), "\n```\n"]);
    for inner in command.get_subcommands() {
        add(page, inner, &name);
    }
}

#[test]
fn the_docs_of_the_command_line_are_those_of_the_code() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("UPDATE_CLI_DOCS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page(),
        "docs/cli.md is old: run `UPDATE_CLI_DOCS=1 cargo test -p kubectl-ordered docs`"
    );
}
