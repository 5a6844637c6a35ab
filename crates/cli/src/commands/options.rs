//! `options`: prints the flags for a cluster that every command has.

use anyhow::Result;

use crate::client::ConnectArgs;
use crate::terminal::escape::print;

/// List the flags of all commands that use a cluster, as `kubectl options` does
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: Args) -> Result<()> {
    print(
        "Every command that uses a cluster has these flags. They can also be before the name of the \
         command:\n\n",
    )?;
    for (flag, help) in flags() {
        print(format_args!("  {flag}\n        {help}\n"))?;
    }
    Ok(())
}

/// The flags with the names of their values, and their help.
pub(crate) fn flags() -> Vec<(String, String)> {
    let command = <ConnectArgs as clap::Args>::augment_args(clap::Command::new(""));
    let arguments = command.get_arguments();
    arguments
        .map(|argument| {
            let short = argument.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
            let value = argument.get_value_names().into_iter().flatten().next();
            let value = value.map(|value| format!(" <{value}>")).unwrap_or_default();
            let value = if argument.is_require_equals_set() { String::new() } else { value };
            let flag = format!("{short}--{}{value}", argument.get_long().unwrap_or_default());
            (flag, argument.get_help().map(ToString::to_string).unwrap_or_default())
        })
        .collect()
}
