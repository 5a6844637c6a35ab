//! `--dry-run`, as kubectl has it.

use kube::api::PatchParams;

/// Whether a write is sent, and whether the API server stores it. The variants have no doc comments, because
/// clap would print them in every help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DryRun {
    // The write is sent and stored.
    #[default]
    None,
    // The write is not sent.
    Client,
    // The write is sent; the API server checks it and does not store it.
    Server,
}

/// The flag of commands that write.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct DryRunArgs {
    /// Print what would be written, and change nothing; `client` sends no write, with `server` the API server
    /// checks it
    #[arg(
        long,
        value_name = "MODE",
        num_args = 0..=1,
        require_equals = true,
        default_value = "none",
        default_missing_value = "client",
        hide_default_value = true
    )]
    pub(crate) dry_run: DryRun,
}

impl DryRun {
    /// Whether nothing is stored.
    pub(crate) fn is_dry(self) -> bool {
        self != Self::None
    }

    /// Whether a write is sent.
    pub(crate) fn sends(self) -> bool {
        self != Self::Client
    }

    pub(crate) fn patch_params(self) -> PatchParams {
        PatchParams { dry_run: self == Self::Server, ..PatchParams::default() }
    }

    /// What a line about a write ends with, in kubectl's words.
    pub(crate) fn note(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Client => " (dry run)",
            Self::Server => " (server dry run)",
        }
    }
}
