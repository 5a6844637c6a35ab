//! Generates the reference of the command line, `docs/cli.md`, from the command definitions, and compares it
//! in a test.
#![allow(clippy::unwrap_used, reason = "a test fails if its setup fails")]

use std::path::PathBuf;

/// The text before the commands.
const HEAD: &str = "\
# The command line

`kubectl ordered` is the plugin `kubectl-ordered`. This page is generated from its definitions by
`UPDATE_CLI_DOCS=1 cargo test -p kubectl-ordered docs`. A test checks that it is up to date.

A name can have its kind before it, as in kubectl: `web`, `od/web`, `ordereddeployment/web`, `pod/web-1`. \
Colours are used
on terminals only, and not if `NO_COLOR` is set or `TERM` is `dumb`. Unicode lines are used in UTF-8 locales.

## Exit codes

| code | meaning |
|---|---|
| 0 | Success. `status`: the awaited state is reached. |
| 1 | An error. A message on standard error says why and what to do. |
| 2 | The command line is invalid. |
| 3 | `status`: the rollout is paused at a pause point, or by `spec.paused`. |
| 4 | `status`: the rollout failed or was aborted. |
| 5 | Timed out: `--timeout` elapsed first. `status --watch=false`: the rollout has not ended. |
| 6 | `status --until held`: the rollout completed without a pause at a pause point. |

`pause` and `unpause` write `spec.paused`, as `kubectl rollout pause` and `resume` do for a Deployment. \
`resume` passes a
pause point. It does not change `spec.paused`, so that passing a pause point does not undo the pause of \
another user.

Two commands have other names too: `rollback` is `undo`, and `promote` and `continue` are `resume`. `kubectl \
ordered help`
lists the commands, `kubectl ordered help mark` describes one of them.

A shell that completes kubectl (1.26 or newer) completes `kubectl ordered` too, if the plugin has a second \
name in your
`PATH`: `ln -s $(command -v kubectl-ordered) ~/bin/kubectl_complete-ordered`. Names come from the cluster of \
the flags on
the command line. Only those of letters, digits and `._:/=@*-` are offered: a shell would interpret others.
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str(
        "\n## Flags for the cluster\n\nEvery command that uses a cluster has them. They can also be before \
         the name of the command, but must follow\n`ordered`: `kubectl ordered -n shop get`, not `kubectl -n \
         shop ordered get`.\n\n",
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
    // The flags for the cluster are listed once.
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
fn the_docs_of_the_command_line_are_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    if std::env::var_os("UPDATE_CLI_DOCS").is_some() {
        std::fs::write(&path, page()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == page(),
        "docs/cli.md is outdated: run `UPDATE_CLI_DOCS=1 cargo test -p kubectl-ordered docs`"
    );
}
