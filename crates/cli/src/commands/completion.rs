//! `completion`: prints the completion script of a shell or of kubectl.

use anyhow::Result;

use crate::complete::{Shell, script};
use crate::terminal::escape::print_data;

/// Print the completion script of a shell, or the one for kubectl, which completes `kubectl ordered`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  kubectl ordered completion kubectl > ~/bin/kubectl_complete-ordered
  chmod +x ~/bin/kubectl_complete-ordered
  source <(kubectl-ordered completion bash)
  source <(kubectl-ordered completion zsh)
  kubectl-ordered completion fish | source

The first example, in a directory of PATH, completes `kubectl ordered` in every shell that completes kubectl \
(1.26 and newer). The others complete `kubectl-ordered`. Names are read from the cluster of the flags on the \
command line. Only names of letters, digits and `._:/=@*-` are offered: a shell inserts others as they are, \
and would interpret them.")]
pub(crate) struct Args {
    /// The shell, or kubectl
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn run(Args { shell }: Args) -> Result<()> {
    Ok(print_data(script(shell))?)
}
