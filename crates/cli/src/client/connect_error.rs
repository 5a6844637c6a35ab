//! Errors of login, TLS and the network, as a message and a hint. Pure functions.

use std::error::Error;
use std::io::ErrorKind;

use kube::client::AuthError;
use kube::config::ExecConfig;

use crate::terminal::escape::escaped;

/// What failed, in one line, and what to do, in another.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Explained {
    pub(crate) what: String,
    pub(crate) hint: String,
}

impl Explained {
    fn new(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), hint: hint.into() }
    }
}

/// Explains an error of a login, of TLS or of the network. `exec` is the login plugin of the user, if it is
/// known.
pub(crate) fn explained(error: &(dyn Error + 'static), exec: Option<&ExecConfig>) -> Explained {
    let mut causes = std::iter::successors(Some(error), |cause| (*cause).source());
    if let Some(login) = causes.find_map(|cause| cause.downcast_ref::<AuthError>()) {
        return of_login(login, exec);
    }
    let innermost = escaped_cause(error);
    if let Some(why) = innermost.strip_prefix("invalid peer certificate: ") {
        return of_certificate(why);
    }
    if innermost.contains("InvalidContentType") {
        return Explained::new(
            "the server does not speak TLS",
            "check the address of the cluster in the kubeconfig, or --server",
        );
    }
    let mut causes = std::iter::successors(Some(error), |cause| (*cause).source());
    let timed_out = causes.any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|cause| cause.kind() == ErrorKind::TimedOut)
    });
    if timed_out {
        return Explained::new(
            "the API server does not answer",
            "is the cluster running, and does it need a VPN? --request-timeout sets how long to wait",
        );
    }
    let hint = if innermost.contains("tunnel error") {
        "check the proxy: HTTPS_PROXY, NO_PROXY, and the proxy-url of the cluster in the kubeconfig"
    } else {
        "is the cluster running, and is --context the right one?"
    };
    Explained::new(format!("cannot reach the API server: {innermost}"), hint)
}

fn of_login(error: &AuthError, exec: Option<&ExecConfig>) -> Explained {
    let command = exec.and_then(|exec| exec.command.as_deref());
    let plugin = command
        .map_or_else(|| "the login plugin".to_owned(), |name| format!("the login plugin {}", escaped(name)));
    let again = "log in again, or choose another --context";
    match error {
        AuthError::AuthExecStart(cause) if cause.kind() == ErrorKind::NotFound => {
            let hint = exec.and_then(|exec| exec.install_hint.as_deref()).map(one_line);
            Explained::new(
                format!("{plugin} of the kubeconfig is not installed"),
                hint.unwrap_or_else(|| "install it, and check that it is in the PATH".to_owned()),
            )
        }
        AuthError::AuthExecStart(cause) => Explained::new(
            format!("{plugin} cannot be run: {cause}"),
            "check the `exec` of the user in the kubeconfig",
        ),
        AuthError::AuthExecRun { out, .. } => {
            let text = String::from_utf8_lossy(&out.stderr);
            // Without captured text, the plugin has written to the terminal itself.
            let last = text.lines().rfind(|line| !line.trim().is_empty()).map(one_line);
            let why = last.map(|line| format!(": {line}")).unwrap_or_default();
            Explained::new(format!("{plugin} failed ({}){why}", out.status), again)
        }
        AuthError::AuthExecParse(_)
        | AuthError::AuthExec(_)
        | AuthError::ExecPluginFailed
        | AuthError::MissingCommand
        | AuthError::MalformedTokenExpirationDate(_) => {
            let why = match error {
                // The error repeats the output, which can have a token.
                AuthError::AuthExecParse(_) => "its output is not an ExecCredential".to_owned(),
                other => one_line(&other.to_string()),
            };
            Explained::new(
                format!("{plugin} returned no credentials: {why}"),
                "update the plugin, or the apiVersion of `exec` in the kubeconfig",
            )
        }
        AuthError::ReadTokenFile(cause, path) => Explained::new(
            format!("cannot read the token file {}: {cause}", escaped(&path.display().to_string())),
            again,
        ),
        other => Explained::new(format!("cannot log in: {}", one_line(&other.to_string())), again),
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
fn of_certificate(why: &str) -> Explained {
    let part = why.to_lowercase().replace(' ', "");
    let (_, what, hint) =
        CERTIFICATES.into_iter().find(|(known, ..)| part.contains(known)).unwrap_or_default();
    Explained::new(format!("the certificate of the API server {what}: {why}"), hint)
}

/// The innermost cause, escaped.
pub(crate) fn escaped_cause(error: &dyn Error) -> String {
    escaped(&root_cause(error)).into_owned()
}

/// The innermost cause. It can contain control characters.
pub(crate) fn root_cause(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
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

    use super::explained;
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
            assert!(found.what.contains(what) && found.hint.contains(hint), "{found:?}");
        }
        let refused = explained(&IoError::new(ErrorKind::ConnectionRefused, "refused"), None);
        assert_eq!(refused.what, "cannot reach the API server: refused");
        let late = explained(&IoError::new(ErrorKind::TimedOut, "1"), None);
        assert_eq!(late.what, "the API server does not answer");
    }
}
