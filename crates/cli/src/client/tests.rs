use super::{ConnectArgs, Timeout, kubeconfig, object_name, pod_name, timeout};

const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: a
clusters:
- {name: a, cluster: {server: 'https://a:6443'}}
- {name: b, cluster: {server: 'https://b:6443', insecure-skip-tls-verify: true}}
users:
- {name: a, user: {client-certificate-data: '', token: secret-a}}
- {name: b, user: {token: secret-b}}
contexts:
- {name: a, context: {cluster: a, user: a, namespace: shop}}
- {name: bare, context: {cluster: a}}
";

async fn config(args: ConnectArgs) -> Result<kube::Config, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    std::fs::write(&path, KUBECONFIG).unwrap();
    let args = ConnectArgs { kubeconfig: Some(path), ..args };
    kubeconfig::config(&args).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn flags_override_the_context() {
    let plain = config(ConnectArgs::default()).await.unwrap();
    assert_eq!(
        (plain.cluster_url.to_string().as_str(), plain.default_namespace.as_str()),
        ("https://a:6443/", "shop")
    );
    let other =
        config(ConnectArgs { cluster: Some("b".into()), user: Some("b".into()), ..ConnectArgs::default() })
            .await
            .unwrap();
    assert_eq!(other.cluster_url.to_string(), "https://b:6443/");
    assert!(other.accept_invalid_certs);
    let served =
        config(ConnectArgs { server: Some("https://c:1".into()), ..ConnectArgs::default() }).await.unwrap();
    assert_eq!(served.cluster_url.to_string(), "https://c:1/");
    assert!(served.auth_info.token.is_some());
}

#[tokio::test]
async fn credentials_are_not_sent_over_http_except_to_this_machine() {
    let served = |server: &str| ConnectArgs { server: Some(server.into()), ..ConnectArgs::default() };
    for server in ["http://c", "http://10.0.0.1:8080", "c:8080", "http://127.0.0.1.example.com"] {
        let error = config(served(server)).await.unwrap_err();
        assert!(error.contains("is not encrypted") && error.contains("hint: use an address"), "{error}");
        // Without credentials http is allowed.
        let bare = ConnectArgs { context: Some("bare".into()), ..served(server) };
        assert_eq!(config(bare).await.unwrap().cluster_url.scheme_str(), Some("http"));
    }
    for server in ["http://127.0.0.1:8001", "http://[::1]:8001", "localhost:8080", "https://c"] {
        config(served(server)).await.unwrap();
    }
    let token = ConnectArgs { token: Some("mine".into()), ..served("c:1") };
    config(ConnectArgs { context: Some("bare".into()), ..token }).await.unwrap_err();
}

#[tokio::test]
async fn a_server_without_a_scheme_is_https_if_there_are_tls_settings() {
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.pem");
    std::fs::write(&authority, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n").unwrap();
    let served = || ConnectArgs { server: Some("c:6443".into()), ..ConnectArgs::default() };
    for args in [
        ConnectArgs { certificate_authority: Some(authority), ..served() },
        ConnectArgs { insecure_skip_tls_verify: Some(true), ..served() },
        ConnectArgs { tls_server_name: Some("d".into()), ..served() },
        ConnectArgs { cluster: Some("b".into()), ..served() },
    ] {
        assert_eq!(config(args).await.unwrap().cluster_url.to_string(), "https://c:6443/");
    }
}

#[tokio::test]
async fn a_token_replaces_the_user_and_works_in_a_context_without_a_user() {
    let args = || ConnectArgs { token: Some("mine".into()), ..ConnectArgs::default() };
    let found = config(args()).await.unwrap();
    assert!(found.auth_info.token.is_some() && found.auth_info.client_certificate_data.is_none());
    let bare = config(ConnectArgs { context: Some("bare".into()), ..args() }).await.unwrap();
    assert!(bare.auth_info.token.is_some());
}

#[tokio::test]
async fn groups_and_uid_are_impersonated_with_the_user() {
    let args = ConnectArgs {
        impersonate: Some("jane".into()),
        as_group: vec!["dev".to_owned(), "ops".to_owned()],
        as_uid: Some("7".into()),
        ..ConnectArgs::default()
    };
    let found = config(args).await.unwrap().auth_info;
    assert_eq!(found.impersonate.as_deref(), Some("jane"));
    assert_eq!(found.impersonate_groups.unwrap(), ["dev", "ops"]);
    assert_eq!(found.impersonate_uid.as_deref(), Some("7"));
}

#[tokio::test]
async fn a_missing_part_of_the_kubeconfig_is_named() {
    for (args, said) in [
        (ConnectArgs { cluster: Some("x".into()), ..ConnectArgs::default() }, "no cluster \"x\""),
        (ConnectArgs { user: Some("x".into()), ..ConnectArgs::default() }, "no user \"x\""),
        (ConnectArgs { context: Some("x".into()), ..ConnectArgs::default() }, "no context \"x\""),
        (ConnectArgs { server: Some(":::".into()), ..ConnectArgs::default() }, "--server is not a valid URL"),
    ] {
        let error = config(args).await.unwrap_err();
        assert!(error.contains(said) && error.contains("hint:"), "{error}");
    }
}

#[test]
fn printed_commands_repeat_the_cluster_flags_without_secrets() {
    let args = ConnectArgs {
        namespace: Some("shop".into()),
        context: Some("it's mine".into()),
        token: Some("secret".into()),
        as_group: vec!["dev".to_owned()],
        impersonate: Some("jane".into()),
        ..ConnectArgs::default()
    };
    assert_eq!(args.flags(), r" -n shop --context 'it'\''s mine' --as jane --as-group dev");
}

#[test]
fn a_name_can_have_its_kind() {
    for kind in ["od", "OD", "ordereddeployment", "ordereddeployments.ordereddeployment.io"] {
        assert_eq!(object_name(&format!("{kind}/web")).unwrap(), "web");
    }
    assert_eq!(pod_name("pod/web-1").unwrap(), "web-1");
    for wrong in ["", "od/", "..", ".", "Web", "a b", "od/web/x", "web/../x", "deployment/web", "pod/web"] {
        assert!(object_name(wrong).is_err(), "{wrong}");
    }
    assert!(object_name("pod/web").unwrap_err().to_string().contains("od/web"));
}

#[test]
fn timeouts_are_durations_or_seconds() {
    let seconds = |seconds| Timeout(Some(std::time::Duration::from_secs(seconds)));
    assert_eq!(timeout("30s").unwrap(), seconds(30));
    assert_eq!(timeout("30").unwrap(), seconds(30));
    for none in ["0", "0s"] {
        assert_eq!(timeout(none).unwrap(), Timeout(None));
    }
    for wrong in ["", "-1", "-1s", "soon", "5x", "99999999999"] {
        assert!(timeout(wrong).is_err(), "{wrong}");
    }
}
