//! kubectl's flags for the cluster and the user. The module `kubeconfig` evaluates them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, FromArgMatches};

use super::dry_run::DryRunArgs;
use super::names::{namespace, object_name};

/// The heading above these flags, in help and documentation.
const HEADING: &str = "Cluster (`kubectl ordered options` has more)";

/// The OrderedDeployment that a command changes.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// The name of an OrderedDeployment
    #[arg(value_parser = object_name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArgs,
}

// kubectl's flags for the cluster and the user. It has no doc comment, because clap would print it in the
// help of every command.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct ConnectArgs {
    /// The kubeconfig to use, instead of $KUBECONFIG or ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// The namespace, instead of the context's
    #[arg(short, long, value_name = "NAME", value_parser = namespace)]
    pub(crate) namespace: Option<String>,
    /// Act as this user
    #[arg(long = "as", value_name = "USER")]
    pub(crate) impersonate: Option<String>,
    /// The timeout of a request, such as 5s or 1m; 0, the default, is no timeout
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    pub(crate) request_timeout: Option<Timeout>,
    /// Act as a member of this group; can be repeated
    #[arg(long, value_name = "GROUP", requires = "impersonate", hide = true)]
    pub(crate) as_group: Vec<String>,
    /// Act with this UID
    #[arg(long, value_name = "UID", requires = "impersonate", hide = true)]
    pub(crate) as_uid: Option<String>,
    /// The cluster of the kubeconfig to use
    #[arg(long, value_name = "NAME", hide = true)]
    pub(crate) cluster: Option<String>,
    /// The user of the kubeconfig to use
    #[arg(long, value_name = "NAME", hide = true)]
    pub(crate) user: Option<String>,
    /// The address of the API server
    #[arg(short, long, value_name = "URL", hide = true)]
    pub(crate) server: Option<String>,
    /// A bearer token for the API server
    #[arg(long, value_name = "TOKEN", hide = true)]
    pub(crate) token: Option<String>,
    /// The certificate authority of the API server
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) certificate_authority: Option<PathBuf>,
    /// The client certificate
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) client_certificate: Option<PathBuf>,
    /// The key of the client certificate
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) client_key: Option<PathBuf>,
    /// Do not check the certificate of the API server
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        hide = true)]
    pub(crate) insecure_skip_tls_verify: Option<bool>,
    /// The name that the certificate of the API server must have
    #[arg(long, value_name = "NAME", hide = true)]
    pub(crate) tls_server_name: Option<String>,
}

/// A timeout; `None` waits without a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Timeout(pub(crate) Option<Duration>);

/// Parses a duration as kubectl does: `30s`, `5m`, or a number of seconds.
pub(crate) fn timeout(text: &str) -> Result<Timeout, String> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Timeout((seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))));
    }
    if matches!(text, "0s" | "0m" | "0h") {
        return Ok(Timeout(None));
    }
    match ordereddeployment_api::parse_pause_duration(text) {
        Some(duration) => Ok(Timeout(Some(duration))),
        None => Err("give a duration such as 30s or 5m, or 0".to_owned()),
    }
}

/// Parses the length of a pause, in the grammar of the annotation `pause-duration`.
pub(crate) fn pause_length(text: &str) -> Result<Duration, String> {
    ordereddeployment_api::parse_pause_duration(text).ok_or_else(|| {
        "give a duration with its unit, such as 90s or 10m; without --for, the rollout pauses until it is \
         resumed"
            .to_owned()
    })
}

/// The matches of the innermost command.
pub(crate) fn innermost(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| innermost(inner))
}

impl ConnectArgs {
    /// The flags before and after the command. A flag after it replaces the one before it.
    pub(crate) fn of(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Self::from_arg_matches(matches)?;
        found.update_from_arg_matches(innermost(matches))?;
        Ok(found)
    }

    /// The flags that a printed command needs for the same cluster and user, without secrets.
    pub(crate) fn flags(&self) -> String {
        let path = |path: &Option<PathBuf>| path.as_ref().and_then(|path| path.to_str()).map(str::to_owned);
        let pairs = [
            ("-n", self.namespace.clone()),
            ("--context", self.context.clone()),
            ("--kubeconfig", path(&self.kubeconfig)),
            ("--cluster", self.cluster.clone()),
            ("--user", self.user.clone()),
            ("--server", self.server.clone()),
            ("--certificate-authority", path(&self.certificate_authority)),
            ("--as", self.impersonate.clone()),
        ];
        let groups = self.as_group.iter().map(|group| ("--as-group", Some(group.clone())));
        let mut flags = String::new();
        for (flag, value) in pairs.into_iter().chain(groups) {
            if let Some(value) = value {
                flags.extend([" ", flag, " ", &quoted(&value)]);
            }
        }
        flags
    }
}

/// Quotes a word for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
