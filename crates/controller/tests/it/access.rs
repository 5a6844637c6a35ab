//! How the API server is reached: credentials that change or are refused, proxies, dead connections.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use ordereddeployment_kubernetes::client;
use serde_json::{Value, json};
use tokio::time::{advance, pause};

/// A server that accepts one value of the header `Authorization`, and has recorded the requests.
struct Server {
    address: SocketAddr,
    accepted: Arc<Mutex<String>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn start(accepted: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            accepted: Arc::new(Mutex::new(accepted.to_owned())),
            heads: Arc::default(),
        };
        let (accepted, heads) = (Arc::clone(&server.accepted), Arc::clone(&server.heads));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (accepted, heads) = (Arc::clone(&accepted), Arc::clone(&heads));
                std::thread::spawn(move || answer(&stream, &accepted, &heads));
            }
        });
        server
    }

    fn accept(&self, header: &str) {
        header.clone_into(&mut self.accepted.lock().unwrap());
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Answers every request of a connection, and through a tunnel those to any other server.
fn answer(mut stream: &TcpStream, accepted: &Mutex<String>, heads: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    loop {
        let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
        let Some(first) = head.first() else { return };
        heads.lock().unwrap().push(head.join("\n"));
        let given = head.iter().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or_default();
        let version = r#"{"major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "",
            "platform": "", "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": ""}"#;
        let answer = if first.starts_with("CONNECT ") {
            "HTTP/1.1 200 X\r\n\r\n".to_owned()
        } else if given == *accepted.lock().unwrap() {
            format!("HTTP/1.1 200 X\r\ncontent-length: {}\r\n\r\n{version}", version.len())
        } else {
            "HTTP/1.1 401 X\r\ncontent-length: 0\r\n\r\n".to_owned()
        };
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// A client for that server with this user.
async fn connect(server: &str, user: Value, cluster: Value) -> Client {
    let mut cluster = cluster;
    cluster["server"] = json!(server);
    let kubeconfig = json!({
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "a", "user": user}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    });
    let kubeconfig: Kubeconfig = serde_json::from_value(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    // The clock of these tests is set by them: no time runs out meanwhile.
    (config.connect_timeout, config.read_timeout, config.write_timeout) = (None, None, None);
    config.default_retry = false;
    client(config).unwrap().0
}

/// Whether the server accepts the credentials.
async fn is_accepted(client: &Client) -> bool {
    match client.apiserver_version().await {
        Ok(_) => true,
        Err(kube::Error::Api(status)) if status.code == 401 => false,
        Err(other) => panic!("{other:?}"),
    }
}

/// Sends requests until the credentials are accepted: they are loaded in the background.
async fn until_accepted(client: &Client) {
    while !is_accepted(client).await {}
}

/// A credential plugin that prints the token in that file, and no time at which it expires.
fn plugin(path: &Path) -> Value {
    let script = format!(
        r#"printf '{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"%s"}}}}' "$(cat '{}')""#,
        path.display()
    );
    json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
        "interactiveMode": "Never"}})
}

#[tokio::test]
async fn a_token_that_is_refused_is_replaced_by_the_one_that_the_plugin_or_the_file_has_now() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    for user in [plugin(&path), json!({"tokenFile": path})] {
        std::fs::write(&path, "first\n").unwrap();
        let server = Server::start("Bearer first");
        pause();
        let client = connect(&server.url(), user, json!({})).await;
        assert!(is_accepted(&client).await);
        std::fs::write(&path, "second\n").unwrap();
        server.accept("Bearer second");
        assert!(!is_accepted(&client).await, "it was loaded a moment ago");
        advance(Duration::from_secs(10)).await;
        until_accepted(&client).await;
        tokio::time::resume();
    }
}

#[tokio::test]
async fn a_token_file_is_read_again_each_minute() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    std::fs::write(&path, "first").unwrap();
    let server = Server::start("Bearer first");
    pause();
    let client = connect(&server.url(), json!({"tokenFile": path}), json!({})).await;
    assert!(is_accepted(&client).await);
    std::fs::write(&path, "second").unwrap();
    advance(Duration::from_secs(60)).await;
    let sends = |token: &str| server.heads.lock().unwrap().iter().any(|head| head.contains(token));
    while !sends("Bearer second") {
        is_accepted(&client).await;
    }
}

#[tokio::test]
async fn a_token_in_the_kubeconfig_may_end_with_a_line_break() {
    let server = Server::start("Bearer first");
    let client = connect(&server.url(), json!({"token": "first\n"}), json!({})).await;
    assert!(is_accepted(&client).await);
}

#[tokio::test]
async fn requests_go_through_the_proxy_of_the_kubeconfig_with_its_password() {
    let proxy = Server::start("Bearer first");
    let url = format!("http://user:pa%40ss@{}", proxy.address);
    let cluster = json!({"proxy-url": url});
    let client = connect("http://api.cluster.example:6443", json!({"token": "first"}), cluster).await;
    assert!(is_accepted(&client).await);
    let heads = proxy.heads.lock().unwrap();
    assert!(heads[0].starts_with("CONNECT api.cluster.example:6443 "), "{heads:?}");
    // user:pa@ss
    assert!(heads[0].contains("Basic dXNlcjpwYUBzcw=="), "{heads:?}");
}

/// The state of the timer of a TCP connection, as `/proc/net/tcp` shows it: 2 is a keepalive.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_idle_connection_is_probed() {
    let server = Server::start("");
    let client = connect(&server.url(), json!({}), json!({})).await;
    assert!(is_accepted(&client).await);
    let mut table = String::new();
    std::fs::File::open("/proc/net/tcp").unwrap().read_to_string(&mut table).unwrap();
    let remote = format!("0100007F:{:04X}", server.address.port());
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let own: Vec<_> = rows.filter(|row| row[2] == remote).collect();
    assert!(!own.is_empty() && own.iter().all(|row| row[5].starts_with("02:")), "{own:?}");
}
