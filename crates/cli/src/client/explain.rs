//! Errors of the API server, of a login, of TLS and of the network, as a message and a hint. The server's own
//! message is kept.

use std::error::Error;
use std::fmt::Display;
use std::io::ErrorKind;

use anyhow::anyhow;
use kube::client::AuthError;
use kube::config::ExecConfig;

use crate::terminal::escape::escaped;

/// The error with a hint. `doing` is what failed, such as `cannot read web in shop`.
pub(crate) fn explain(error: kube::Error, doing: &str) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => match status.code {
            401 => anyhow!(
                "{doing}: the API server rejects the credentials\nhint: log in again, or choose another \
                 --context"
            ),
            403 => {
                anyhow!("{doing}: {}\nhint: {}", escaped(&status.message), role_for(doing, &status.message))
            }
            404 if status.details.as_ref().is_none_or(|details| details.name.is_empty()) => anyhow!(
                "{doing}: this cluster has no OrderedDeployment CRD\nhint: install the controller and its \
                 CRDs with the Helm chart (docs/installation.md); `kubectl ordered crd` prints the CRDs \
                 alone, and `kubectl ordered demo` needs no cluster"
            ),
            404 => {
                let what = if doing.contains(" pod ") { "shows the pods" } else { "lists the objects" };
                anyhow!(
                    "{doing}: {}\nhint: `kubectl ordered get` {what}, -n chooses the namespace",
                    escaped(&status.message)
                )
            }
            409 => anyhow!(
                "{doing}: {}\nhint: another client changed the object at the same time; try again",
                escaped(&status.message)
            ),
            _ => anyhow!("{doing}: {}", escaped(&status.message)),
        },
        other => anyhow!("{doing}: {}", explained(&other, None)),
    }
}

/// The role that the command needs. The server's message names the verb and the resource.
fn role_for(doing: &str, message: &str) -> &'static str {
    let requests = ["cannot resume ", "cannot abort ", "cannot retry "];
    if requests.iter().any(|request| doing.starts_with(request)) {
        "ask for the chart's role `ordered-deployment-resumer`: `edit` and `admin` may not patch \
         ordereddeployments/status"
    } else if message.contains("at the cluster scope") && !doing.contains("nodes") {
        "ask for a ClusterRoleBinding, or choose one namespace with -n"
    } else if doing.contains("nodes") {
        "ask for a role that may list nodes: the order reads their labels and taints"
    } else if message.contains("cannot patch resource \"pods\"") {
        "ask for a role that may patch pods, such as `edit`"
    } else if message.contains("cannot patch ") {
        "ask for a role that may patch ordereddeployments: `edit` has it if the chart is installed"
    } else {
        "ask for a role that may get and list ordereddeployments, orderedreplicasets and pods: `view` has it \
         if the chart is installed"
    }
}

/// What failed in a login, in TLS or in the network, and a hint. `exec` is the login plugin, if it is known.
pub(crate) fn explained(error: &(dyn Error + 'static), exec: Option<&ExecConfig>) -> String {
    let mut causes = std::iter::successors(Some(error), |cause| (*cause).source());
    if let Some(login) = causes.find_map(|cause| cause.downcast_ref::<AuthError>()) {
        return of_login(login, exec);
    }
    let innermost = escaped_cause(error);
    if let Some(why) = innermost.strip_prefix("invalid peer certificate: ") {
        return of_certificate(why);
    }
    if innermost.contains("InvalidContentType") {
        return "the server does not speak TLS\nhint: check the address of the cluster in the kubeconfig, or \
                --server"
            .to_owned();
    }
    let mut causes = std::iter::successors(Some(error), |cause| (*cause).source());
    let timed_out = causes.any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|cause| cause.kind() == ErrorKind::TimedOut)
    });
    if timed_out {
        return "the API server does not answer\nhint: is the cluster running, and does it need a VPN? \
                --request-timeout sets how long to wait"
            .to_owned();
    }
    let hint = if innermost.contains("tunnel error") {
        "check the proxy: HTTPS_PROXY, NO_PROXY, and the proxy-url of the cluster in the kubeconfig"
    } else {
        "is the cluster running, and is --context the right one?"
    };
    format!("cannot reach the API server: {innermost}\nhint: {hint}")
}

fn of_login(error: &AuthError, exec: Option<&ExecConfig>) -> String {
    let plugin = match exec.and_then(|exec| exec.command.as_deref()) {
        Some(name) => format!("the login plugin {}", escaped(name)),
        None => "the login plugin".to_owned(),
    };
    let again = "log in again, or choose another --context";
    match error {
        AuthError::AuthExecStart(cause) if cause.kind() == ErrorKind::NotFound => {
            let hint = exec.and_then(|exec| exec.install_hint.as_deref()).map(one_line);
            let hint = hint.unwrap_or_else(|| "install it, and check that it is in the PATH".to_owned());
            format!("{plugin} of the kubeconfig is not installed\nhint: {hint}")
        }
        AuthError::AuthExecStart(cause) => {
            format!("{plugin} cannot be run: {cause}\nhint: check the `exec` of the user in the kubeconfig")
        }
        AuthError::AuthExecRun { out, .. } => {
            let text = String::from_utf8_lossy(&out.stderr);
            // Without captured text, the plugin has written to the terminal itself.
            let last = text.lines().rfind(|line| !line.trim().is_empty()).map(one_line);
            let why = last.map(|line| format!(": {line}")).unwrap_or_default();
            format!("{plugin} failed ({}){why}\nhint: {again}", out.status)
        }
        AuthError::AuthExecParse(_)
        | AuthError::AuthExec(_)
        | AuthError::ExecPluginFailed
        | AuthError::MissingCommand
        | AuthError::MalformedTokenExpirationDate(_) => {
            let why = match error {
                // These errors repeat the output, which can have a token.
                AuthError::AuthExecParse(_) => "its output is not an ExecCredential".to_owned(),
                AuthError::MalformedTokenExpirationDate(_) => "its expirationTimestamp is no time".to_owned(),
                other => one_line(&other.to_string()),
            };
            format!(
                "{plugin} returned no credentials: {why}\nhint: update the plugin, or the apiVersion of \
                 `exec` in the kubeconfig"
            )
        }
        AuthError::ReadTokenFile(cause, path) => {
            let path = path.display().to_string();
            format!("cannot read the token file {}: {cause}\nhint: {again}", escaped(&path))
        }
        other => format!("cannot log in: {}\nhint: {again}", one_line(&other.to_string())),
    }
}

/// What is wrong with a certificate: a part of the error of TLS, without blanks, what it means, what to do.
const CERTIFICATES: [(&str, &str, &str); 5] = [
    (
        "unknownissuer",
        "is signed by an unknown authority",
        "give the authority of the cluster with --certificate-authority, or in the kubeconfig; a proxy that \
         decrypts traffic has its own",
    ),
    ("expired", "has expired", "renew it, or check the clock of this machine"),
    (
        "notvalidforname",
        "is for another address",
        "use an address that it names, or give that name with --tls-server-name",
    ),
    (
        "causedasendentity",
        "is that of an authority (CA:TRUE)",
        "give the API server a certificate of its own, signed by the authority of the cluster",
    ),
    ("", "is not valid", "check the address of the cluster, and its authority in the kubeconfig"),
];

/// Of a certificate that is not trusted. It is never accepted: only the user can choose that, as in kubectl.
fn of_certificate(why: &str) -> String {
    let part = why.to_lowercase().replace(' ', "");
    let (_, what, hint) =
        CERTIFICATES.into_iter().find(|(known, ..)| part.contains(known)).unwrap_or_default();
    format!("the certificate of the API server {what}: {why}\nhint: {hint}")
}

pub(crate) fn escaped_cause(error: &(dyn Error + 'static)) -> String {
    escaped(&root_cause(error)).into_owned()
}

/// The innermost cause. It can contain control characters. That of a login can contain a token, so what
/// failed is said instead.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    loop {
        if let Some(login) = cause.downcast_ref::<AuthError>() {
            return first_line(of_login(login, None));
        }
        match cause.source() {
            Some(source) => cause = source,
            None => return cause.to_string(),
        }
    }
}

/// The first line of an error. Hints, or an excerpt of the document that cannot be parsed, follow it.
pub(crate) fn first_line(error: impl Display) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

fn one_line(text: &str) -> String {
    escaped(&text.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{Error as IoError, ErrorKind};
    use std::net::TcpListener;

    use ordereddeployment_wire::Family;
    use serde_json::json;

    use super::{AuthError, explain, explained, root_cause};
    use crate::client::{ConnectArgs, timeout};

    /// The error of a command with this user and address.
    async fn failure(user: &serde_json::Value, server: &str, limit: Option<&str>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": server}}],
            "users": [{"name": "a", "user": user}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        });
        std::fs::write(&path, kubeconfig.to_string()).unwrap();
        let limit = limit.map(|limit| timeout(limit).unwrap());
        let args = ConnectArgs { kubeconfig: Some(path), request_timeout: limit, ..ConnectArgs::default() };
        let connection = match args.connect().await {
            Ok(connection) => connection,
            Err(error) => return format!("{error:#}"),
        };
        connection
            .state(Family::Ordered, "web")
            .await
            .map_or_else(|error| format!("{error:#}"), |_| "it answers".to_owned())
    }

    fn plugin(command: &str, args: &[&str]) -> serde_json::Value {
        json!({"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": command, "args": args,
            "interactiveMode": "Never", "installHint": "Install it:\n  brew install shop-login",
        }})
    }

    #[tokio::test]
    async fn a_missing_plugin_is_named_with_its_hint() {
        let said = failure(&plugin("shop-login\u{1b}[2J", &[]), "https://127.0.0.1:1", None).await;
        assert_eq!(
            said,
            "the login plugin shop-login\\u{1b}[2J of the kubeconfig is not installed\nhint: Install it: \
             brew install shop-login"
        );
    }

    #[tokio::test]
    async fn an_expired_login_shows_what_the_plugin_says() {
        let script = "echo 'Error: session expired' >&2; exit 3";
        let said = failure(&plugin("sh", &["-c", script]), "https://127.0.0.1:1", None).await;
        assert_eq!(
            said,
            "the login plugin sh failed (exit status: 3): Error: session expired\nhint: log in again, or \
             choose another --context"
        );
        let said = failure(&plugin("sh", &["-c", "echo {}"]), "https://127.0.0.1:1", None).await;
        assert!(said.starts_with("the login plugin sh returned no credentials: "), "{said}");
        assert_eq!(said.lines().count(), 2, "{said}");
    }

    #[tokio::test]
    async fn what_a_plugin_prints_is_never_shown() {
        let body =
            r#"{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": "#;
        for printed in
            ["s3cr3t", "{\"token\": s3cr3t", &format!("{body}\"s3cr3t\"}}"), &format!("{body}[s3cr3t")]
        {
            let user = plugin("sh", &["-c", "printf %s \"$0\"", printed]);
            assert_eq!(
                failure(&user, "https://127.0.0.1:1", None).await,
                "the login plugin sh returned no credentials: its output is not an ExecCredential\nhint: \
                 update the plugin, or the apiVersion of `exec` in the kubeconfig"
            );
        }
    }

    #[test]
    fn what_a_plugin_prints_is_no_cause() {
        let out = std::process::Command::new("sh").args(["-c", "echo s3cr3t; exit 3"]).output().unwrap();
        let failed = AuthError::AuthExecRun { cmd: "sh".to_owned(), out: out.into() };
        let error = kube::Error::Service(failed.into());
        assert_eq!(root_cause(&error), "the login plugin failed (exit status: 3)");
    }

    #[test]
    fn each_permission_has_the_role_to_ask_for() {
        for (doing, message, role) in [
            ("cannot resume web in shop", "", "`ordered-deployment-resumer`"),
            ("cannot read the nodes", "nodes is forbidden at the cluster scope", "may list nodes"),
            ("cannot read web in all namespaces", "at the cluster scope", "a ClusterRoleBinding"),
            ("cannot mark web-1 in shop", "cannot patch resource \"pods\"", "may patch pods"),
            ("cannot pause web in shop", "cannot patch resource \"x\"", "may patch ordereddeployments"),
            ("cannot read web in shop", "cannot get resource \"x\"", "may get and list ordereddeployments"),
        ] {
            let status = kube::core::Status::failure(message, "Forbidden").with_code(403);
            let said = explain(kube::Error::Api(status.boxed()), doing).to_string();
            let hint = said.split("\nhint: ask for ").nth(1).unwrap();
            assert!(hint.lines().next().unwrap().contains(role), "{said}");
        }
    }

    #[tokio::test]
    async fn a_server_that_does_not_answer_is_given_up() {
        // It accepts connections and sends nothing.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("https://{}", silent.local_addr().unwrap());
        let said = failure(&json!({}), &server, Some("50ms")).await;
        assert!(said.contains(": the API server does not answer\nhint: "), "{said}");
    }

    #[tokio::test]
    async fn a_server_without_tls_is_named() {
        let plain = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("https://{}", plain.local_addr().unwrap());
        std::thread::spawn(move || {
            use std::io::{Read, Write};
            let (mut stream, _) = plain.accept().unwrap();
            let mut hello = [0; 16];
            stream.read_exact(&mut hello).unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        });
        let said = failure(&json!({}), &server, None).await;
        assert!(said.contains(": the server does not speak TLS\nhint: "), "{said}");
    }

    #[test]
    fn certificates_that_are_not_trusted_have_a_hint() {
        let of = |text: &str| explained(&IoError::other(format!("invalid peer certificate: {text}")), None);
        for (text, what, hint) in [
            ("UnknownIssuer", "signed by an unknown authority", "--certificate-authority"),
            ("certificate expired: verification time 5", "has expired", "clock"),
            ("certificate not valid for name \"a\"", "is for another address", "--tls-server-name"),
            ("BadSignature", "is not valid: BadSignature", "authority"),
            ("Other(OtherError(CaUsedAsEndEntity))", "is that of an authority (CA:TRUE)", "of its own"),
        ] {
            let found = of(text);
            assert!(found.contains(what) && found.contains(hint), "{found}");
        }
        let refused = explained(&IoError::new(ErrorKind::ConnectionRefused, "refused"), None);
        assert!(refused.starts_with("cannot reach the API server: refused\nhint: "), "{refused}");
        let late = explained(&IoError::new(ErrorKind::TimedOut, "1"), None);
        assert!(late.starts_with("the API server does not answer\nhint: "), "{late}");
    }
}
