//! The completion scripts for shells and kubectl.

/// The target of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
    Kubectl,
}

pub(crate) fn script(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => include_str!("scripts/bash.sh"),
        Shell::Zsh => include_str!("scripts/zsh.sh"),
        Shell::Fish => include_str!("scripts/fish.fish"),
        Shell::Kubectl => include_str!("scripts/kubectl.sh"),
    }
}
