//! kubectl's arguments: its flags for the cluster and the user, which the module `kubeconfig` evaluates,
//! `--dry-run`, durations, and names such as `web`, `od/web`, `pod/web-1`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::{ArgMatches, FromArgMatches};
use kube::api::PatchParams;
use ordereddeployment_api::parse_pause_duration;
use ordereddeployment_wire::Family;

/// The heading above these flags, in help and documentation.
const HEADING: &str = "Cluster (`kubectl ordered options` has more)";

#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// The name of an OrderedDeployment
    #[arg(value_parser = object_name)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArgs,
}

/// Whether a write is sent and stored. clap would print doc comments of the variants in every help.
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
    pub(crate) fn is_dry(self) -> bool {
        self != Self::None
    }

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

// kubectl's flags for the cluster and the user. clap would print a doc comment in the help of every command.
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
pub(crate) fn timeout(text: &str) -> Result<Timeout> {
    if let Ok(seconds) = text.parse::<u32>() {
        return Ok(Timeout((seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))));
    }
    if matches!(text, "0s" | "0m" | "0h") {
        return Ok(Timeout(None));
    }
    match parse_pause_duration(text) {
        Some(duration) => Ok(Timeout(Some(duration))),
        None => bail!("give a duration such as 30s or 5m, or 0"),
    }
}

/// Parses the length of a pause, in the grammar of the annotation `pause-duration`.
pub(crate) fn pause_length(text: &str) -> Result<Duration> {
    parse_pause_duration(text).ok_or_else(|| {
        anyhow!(
            "give a duration with its unit, such as 90s or 10m; without --for, the rollout pauses until it \
             is resumed"
        )
    })
}

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

pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A name that is valid in the path of a request.
pub(crate) fn object_name(text: &str) -> Result<String> {
    let kinds = ["od", "ordereddeployment", "ordereddeployments", "ordereddeployments.ordereddeployment.io"];
    of_kind(text, &kinds, "an OrderedDeployment", "od")
}

pub(crate) fn pod_name(text: &str) -> Result<String> {
    of_kind(text, &["po", "pod", "pods"], "a pod", "pod")
}

pub(crate) fn deployment_name(text: &str) -> Result<String> {
    let kinds = ["deploy", "deployment", "deployments", "deployment.apps", "deployments.apps"];
    of_kind(text, &kinds, "a Deployment", "deployment")
}

/// An OrderedDeployment of that name, or a plain Deployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfEither {
    pub(crate) family: Family,
    pub(crate) name: String,
}

/// The name of an OrderedDeployment, or `deployment/NAME`.
pub(crate) fn of_either(text: &str) -> Result<OfEither> {
    let (family, name) = match text.split_once('/') {
        Some(_) if object_name(text).is_err() => (Family::Plain, deployment_name(text)?),
        _ => (Family::Ordered, object_name(text)?),
    };
    Ok(OfEither { family, name })
}

fn namespace(text: &str) -> Result<String> {
    if text.contains('.') {
        bail!("a namespace consists of lower-case letters, digits and '-'");
    }
    name(text)
}

fn of_kind(text: &str, kinds: &[&str], what: &str, short: &str) -> Result<String> {
    match text.split_once('/') {
        Some((kind, rest)) if kinds.contains(&kind.to_ascii_lowercase().as_str()) => name(rest),
        Some((kind, rest)) if name(rest).is_ok() => {
            bail!("wrong kind {kind:?}: this command takes {what}: {rest} or {short}/{rest}")
        }
        _ => name(text),
    }
}

fn name(text: &str) -> Result<String> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    // `.` and `..` would change the path of the request.
    let dots = text.chars().all(|c| c == '.');
    if dots || text.len() > 253 || !text.chars().all(allowed) {
        bail!("a name consists of lower-case letters, digits, '-' and '.'");
    }
    Ok(text.to_owned())
}
