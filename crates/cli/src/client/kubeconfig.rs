//! Reads the kubeconfig and overrides it by flags, as kubectl does. It sends no request.

use anyhow::{Result, anyhow};
use kube::Config;
use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedCluster, NamedContext,
};

use ordereddeployment_kubernetes::stays_here;

use super::args::ConnectArgs;
use super::explain::first_line;

/// The name of the context and the cluster that are made from flags alone.
const FLAGS: &str = "flags";

pub(super) async fn config(args: &ConnectArgs) -> Result<Config> {
    let read = match &args.kubeconfig {
        Some(path) if !path.as_os_str().is_empty() => Kubeconfig::read_from(path),
        _ => ordereddeployment_kubernetes::kubeconfig(),
    };
    let mut kubeconfig = match read {
        Ok(kubeconfig) => kubeconfig,
        Err(_) if args.server.is_some() && args.kubeconfig.is_none() => Kubeconfig::default(),
        Err(error) => {
            // In a pod there is a service account instead of a kubeconfig.
            if args.kubeconfig.is_none()
                && args.context.is_none()
                && let Ok(config) = Config::incluster()
            {
                return Ok(impersonating(config, args));
            }
            return Err(unreadable(error));
        }
    };
    override_by(args, &mut kubeconfig)?;
    let context = args.context.clone();
    let options = KubeConfigOptions { context, cluster: args.cluster.clone(), user: args.user.clone() };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.map_err(|error| refused(error, args))?;
    override_user(args, &mut config.auth_info);
    refuse_plaintext_credentials(&config)?;
    Ok(impersonating(config, args))
}

/// An error if credentials would be sent unencrypted: over http, except to this machine.
fn refuse_plaintext_credentials(config: &Config) -> Result<()> {
    let address = &config.cluster_url;
    let user = &config.auth_info;
    let sends = user.token.is_some()
        || user.token_file.is_some()
        || user.username.is_some()
        || user.password.is_some()
        || user.exec.is_some()
        || user.auth_provider.is_some();
    if address.scheme_str() != Some("http") || !sends || stays_here(config) {
        return Ok(());
    }
    Err(anyhow!(
        "{address} is not encrypted, and the credentials of the user would be sent to it\nhint: use an \
         address that begins with https://, or a user without credentials"
    ))
}

fn impersonating(mut config: Config, args: &ConnectArgs) -> Config {
    if args.impersonate.is_some() {
        config.auth_info.impersonate.clone_from(&args.impersonate);
        config.auth_info.impersonate_groups = (!args.as_group.is_empty()).then(|| args.as_group.clone());
        config.auth_info.impersonate_uid.clone_from(&args.as_uid);
    }
    config
}

/// Overrides the cluster of the selected context by the flags.
fn override_by(args: &ConnectArgs, kubeconfig: &mut Kubeconfig) -> Result<()> {
    if args.server.is_some() && args.context.is_none() && kubeconfig.current_context.is_none() {
        let context = Context { cluster: FLAGS.to_owned(), ..Context::default() };
        kubeconfig.contexts.push(NamedContext {
            name: FLAGS.to_owned(),
            context: Some(context),
            ..NamedContext::default()
        });
        kubeconfig.current_context = Some(FLAGS.to_owned());
    }
    let chosen = args.context.as_ref().or(kubeconfig.current_context.as_ref());
    let context = kubeconfig.contexts.iter().find(|named| Some(&named.name) == chosen);
    // Without a context, loading the kubeconfig reports the error.
    let Some(context) = context.and_then(|named| named.context.as_ref()) else { return Ok(()) };
    let cluster = args.cluster.clone().unwrap_or_else(|| context.cluster.clone());
    if let Some(asked) = &args.user
        && !kubeconfig.auth_infos.iter().any(|named| named.name == *asked)
    {
        return Err(anyhow!(
            "the kubeconfig has no user {asked:?}\nhint: `kubectl config get-users` lists them"
        ));
    }
    if !kubeconfig.clusters.iter().any(|named| named.name == cluster) && args.server.is_some() {
        kubeconfig.clusters.push(NamedCluster { name: cluster.clone(), ..NamedCluster::default() });
    }
    for named in kubeconfig.clusters.iter_mut().filter(|named| named.name == cluster) {
        override_cluster(args, named.cluster.get_or_insert_default());
    }
    Ok(())
}

fn override_cluster(args: &ConnectArgs, cluster: &mut Cluster) {
    if let Some(path) = &args.certificate_authority {
        cluster.certificate_authority = Some(path.display().to_string());
        cluster.certificate_authority_data = None;
    }
    if let Some(insecure) = args.insecure_skip_tls_verify {
        cluster.insecure_skip_tls_verify = Some(insecure);
    }
    if args.tls_server_name.is_some() {
        cluster.tls_server_name.clone_from(&args.tls_server_name);
    }
    if let Some(server) = &args.server {
        // As kubectl does: TLS settings imply https.
        let scheme =
            if has_tls_settings(cluster) || args.client_certificate.is_some() { "https" } else { "http" };
        let address = if server.contains("://") { server.clone() } else { format!("{scheme}://{server}") };
        cluster.server = Some(address);
    }
}

fn has_tls_settings(cluster: &Cluster) -> bool {
    cluster.certificate_authority.is_some()
        || cluster.certificate_authority_data.is_some()
        || cluster.insecure_skip_tls_verify == Some(true)
        || cluster.tls_server_name.is_some()
}

fn override_user(args: &ConnectArgs, user: &mut AuthInfo) {
    // A certificate of the kubeconfig would take precedence over the flag, so the user is replaced.
    if let Some(token) = &args.token {
        *user = AuthInfo { token: Some(token.clone().into()), ..AuthInfo::default() };
    }
    if let Some(path) = &args.client_certificate {
        user.client_certificate = Some(path.display().to_string());
        user.client_certificate_data = None;
    }
    if let Some(path) = &args.client_key {
        user.client_key = Some(path.display().to_string());
        user.client_key_data = None;
    }
}

fn refused(error: KubeconfigError, args: &ConnectArgs) -> anyhow::Error {
    match (error, &args.context) {
        (KubeconfigError::LoadContext(_), Some(context)) => anyhow!(
            "the kubeconfig has no context {context:?}\nhint: `kubectl config get-contexts` lists them"
        ),
        (KubeconfigError::CurrentContextNotSet | KubeconfigError::LoadContext(_), None) => anyhow!(
            "the kubeconfig has no current context\nhint: choose one with --context or `kubectl config \
             use-context`"
        ),
        (KubeconfigError::LoadClusterOfContext(cluster), _) => anyhow!(
            "the kubeconfig has no cluster {cluster:?}\nhint: `kubectl config get-clusters` lists them"
        ),
        (KubeconfigError::ParseClusterUrl(cause), _) if args.server.is_some() => {
            anyhow!("--server is not a valid URL: {cause}\nhint: give one such as https://127.0.0.1:6443")
        }
        (error, _) => unreadable(error),
    }
}

fn unreadable(error: KubeconfigError) -> anyhow::Error {
    match error {
        KubeconfigError::ReadConfig(source, path) if source.kind() == std::io::ErrorKind::NotFound => {
            anyhow!(
                "no cluster: there is no kubeconfig at {}\nhint: name one with --kubeconfig, or try `kubectl \
                 ordered demo`, which needs none",
                path.display()
            )
        }
        KubeconfigError::FindPath => anyhow!(
            "no cluster: no kubeconfig found\nhint: name one with --kubeconfig, or try `kubectl ordered \
             demo`, which needs none"
        ),
        other => anyhow!("cannot use the kubeconfig: {}", first_line(other)),
    }
}
