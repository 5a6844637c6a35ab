//! Tests the binary: its help, its errors, and its commands against a server with TLS.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use ordereddeployment_api::OrderedDeployment;
use ordereddeployment_sandbox::{Config, Fault, Sandbox};
use tempfile::TempDir;

use crate::{program, web};

/// The binary with its own home directory and no cluster.
struct Fixture {
    home: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(&[], arguments)
    }

    /// Runs it with these variables in its environment.
    fn run_with(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Output {
        program(self.home.path()).args(arguments).envs(environment.iter().copied()).output().unwrap()
    }

    /// Standard output of a command that must succeed and print nothing to standard error.
    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{arguments:?}");
        text(&output.stdout)
    }

    /// Standard error of a command that must fail and print nothing to standard output.
    fn fails(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{arguments:?}: {}", text(&output.stdout));
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
        let error = text(&output.stderr);
        assert!(!error.contains("panicked") && !error.contains("backtrace"), "{error}");
        error.replace(self.home.path().to_str().unwrap(), "$HOME")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::File::create(self.path(name)).unwrap().write_all(text.as_bytes()).unwrap();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A sandbox. Its kubeconfig is the file `config` in the home directory.
async fn serve(fixture: &Fixture) -> Sandbox {
    let sandbox = Sandbox::start(Config::default()).await.unwrap();
    let endpoint = sandbox.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    fixture.write("config", &endpoint.kubeconfig);
    sandbox
}

async fn install(sandbox: &Sandbox) {
    let api: Api<CustomResourceDefinition> = Api::all(sandbox.client().unwrap());
    for crd in ordereddeployment_api::crds() {
        api.create(&PostParams::default(), &crd).await.unwrap();
    }
}

async fn create_web(sandbox: &Sandbox) {
    let api: Api<OrderedDeployment> = Api::default_namespaced(sandbox.client().unwrap());
    api.create(&PostParams::default(), &web()).await.unwrap();
}

/// A kubeconfig with that cluster.
fn kubeconfig(server: &str) -> String {
    serde_json::json!({
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    })
    .to_string()
}

#[test]
fn files_of_the_variable_kubeconfig_that_do_not_exist_are_left_out() {
    let fixture = Fixture::new();
    fixture.write("good", &kubeconfig("https://127.0.0.1:1"));
    let said = text(&fixture.run_with(&[("KUBECONFIG", "missing:good")], &["list"]).stderr);
    assert!(said.contains("cannot reach the API server: Connection refused"), "{said}");
    let said = text(&fixture.run_with(&[("KUBECONFIG", "missing:other")], &["list"]).stderr);
    assert!(said.contains("there is no kubeconfig at missing"), "{said}");
}

#[test]
fn requests_go_through_the_proxy_that_the_environment_names() {
    let fixture = Fixture::new();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", proxy.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = proxy.accept().unwrap();
        let mut first = String::new();
        BufReader::new(&stream).read_line(&mut first).unwrap();
        stream.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").unwrap();
        first
    });
    fixture.write("config", &kubeconfig("https://api.cluster.example:6443"));
    let environment = [("HTTPS_PROXY", address.as_str()), ("KUBECONFIG", "config")];
    let said = text(&fixture.run_with(&environment, &["list"]).stderr);
    assert_eq!(asked.join().unwrap(), "CONNECT api.cluster.example:6443 HTTP/1.1\r\n");
    assert!(
        said.contains("cannot reach the API server: tunnel error: unsuccessful\nhint: check the proxy"),
        "{said}"
    );
    let closed = [("HTTPS_PROXY", "http://127.0.0.1:1"), ("KUBECONFIG", "config"), ("NO_PROXY", ".example")];
    let said = text(&fixture.run_with(&closed, &["list"]).stderr);
    assert!(!said.contains("refused"), "it is sent to the cluster: {said}");
}

#[test]
fn help_and_the_names_of_other_tools_lead_to_the_command() {
    let fixture = Fixture::new();
    // That of each command is in `docs/cli.md`.
    insta::assert_snapshot!("help", fixture.ok(&["--help"]));
    assert_eq!(fixture.ok(&["help"]), fixture.ok(&["--help"]));
    assert_eq!(fixture.ok(&["help", "mark"]), fixture.ok(&["mark", "--help"]));
    for (alias, command) in [("rollback", "undo"), ("promote", "resume"), ("continue", "resume")] {
        assert_eq!(fixture.ok(&[alias, "--help"]), fixture.ok(&[command, "--help"]), "{alias}");
        assert!(fixture.ok(&["help"]).contains(alias), "{alias}");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let fixture = Fixture::new();
    for command in [&["--version"][..], &["version", "--client"]] {
        assert_eq!(fixture.ok(command), format!("kubectl-ordered {}\n", env!("CARGO_PKG_VERSION")));
    }
}

#[test]
fn the_printed_crds_are_those_of_the_chart() {
    let fixture = Fixture::new();
    let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/ordered-deployment/crds");
    let committed: Vec<String> = ["ordereddeployments", "orderedreplicasets"]
        .map(|plural| {
            std::fs::read_to_string(charts.join(format!("{plural}.ordereddeployment.io.yaml"))).unwrap()
        })
        .into();
    assert_eq!(fixture.ok(&["crd"]), committed.join("---\n"));
    let output = fixture.ok(&["crd", "--out", "folder"]);
    let written: Vec<String> =
        output.lines().map(|path| std::fs::read_to_string(fixture.path(path)).unwrap()).collect();
    assert_eq!(written, committed);
}

#[test]
fn errors_without_a_cluster_have_hints() {
    let fixture = Fixture::new();
    fixture.write("empty", "");
    fixture.write("broken", "clusters: [");
    fixture.write("mine", "apiVersion: v1\nkind: Config\nclusters:\n- name: production\n");
    let cases = "gett|set|status|status deploy/web|status web --until done|status web --timeout=-1s|\
                 get web api|list -o table|mark|mark web-1|mark web-1 --for 10m|\
                 mark od/web --priority 1|plan|\
                 plan -f nowhere.yaml|plan -f broken|get|get --kubeconfig nowhere|get --kubeconfig empty|\
                 get --kubeconfig broken|get Web|order web --replicas -1|resume web --all --hold web-1@2|\
                 sandbox --kubeconfig mine|get --request-timeout soon";
    let said = |case: &str| {
        let words: Vec<&str> = case.split(' ').collect();
        let code = fixture.run(&words).status.code().unwrap();
        format!("$ kubectl ordered {case}\n{}[{code}]\n", fixture.fails(&words))
    };
    let output: Vec<String> = cases.split('|').map(said).collect();
    insta::assert_snapshot!(output.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_of_a_cluster_have_hints() {
    let fixture = Fixture::new();
    let sandbox = serve(&fixture).await;
    let run = |case: &[&str]| {
        let mut arguments = case.to_vec();
        arguments.extend(["--kubeconfig", "config"]);
        tokio::task::block_in_place(|| {
            format!("$ kubectl ordered {}\n{}", case.join(" "), fixture.fails(&arguments))
        })
    };
    let forbid = |verb: &'static str, plural: &str| {
        let plural = Some(plural.to_owned());
        sandbox.inject(Fault { verb: Some(verb), plural, user_agent: None, code: 403, times: 1 });
    };
    let mut output = vec![run(&["get"]), run(&["get", "web"]), run(&["resume", "web"])];
    install(&sandbox).await;
    output.push(run(&["get", "web"]));
    output.push(run(&["resume", "web", "-n", "shop"]));
    output.push(run(&["get", "--context", "production"]));
    forbid("get", "ordereddeployments");
    output.push(run(&["get", "web"]));
    forbid("get", "ordereddeployments");
    output.push(run(&["resume", "web"]));
    for request in ["abort", "retry"] {
        forbid("get", "ordereddeployments");
        output.push(run(&[request, "web"]));
    }
    insta::assert_snapshot!(output.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_about_an_object_have_hints() {
    let fixture = Fixture::new();
    let sandbox = serve(&fixture).await;
    install(&sandbox).await;
    create_web(&sandbox).await;
    fixture.write("new.yaml", "kind: Deployment\n");
    fixture.write(
        "selector.yaml",
        "kind: OrderedDeployment\nmetadata: {name: web}\nspec: {selector: {matchLabels: {app: api}}}\n",
    );
    // No controller runs here.
    let cases = "abort web|retry web|resume web|resume web --all|resume web --hold Web@1|history web|\
                 history web --revision 7|undo web|undo web --to-revision 7|set image web web=web:2|\
                 mark web-1 --pause before|plan web --image web=web:2|plan -f new.yaml|plan -f selector.yaml|\
                 plan api -f selector.yaml";
    let said = |case: &str| {
        let words: Vec<&str> = case.split(' ').chain(["-n", "default", "--kubeconfig", "config"]).collect();
        let error = tokio::task::block_in_place(|| fixture.fails(&words));
        format!("$ kubectl ordered {case} -n default\n{error}")
    };
    let output: Vec<String> = cases.split('|').map(said).collect();
    insta::assert_snapshot!(output.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_completed_from_the_cluster() {
    let fixture = Fixture::new();
    let sandbox = serve(&fixture).await;
    install(&sandbox).await;
    create_web(&sandbox).await;
    let name = fixture.path("kubectl_complete-ordered");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-ordered"), &name).unwrap();
    let complete_in = |kubeconfig: &str, words: &[&str]| {
        let words = [&["--kubeconfig", kubeconfig], words].concat();
        let output = tokio::task::block_in_place(|| {
            Command::new(&name).args(words).current_dir(fixture.home.path()).output().unwrap()
        });
        assert_eq!(text(&output.stderr), "");
        text(&output.stdout)
    };
    let complete = |words: &[&str]| complete_in("config", words);
    assert_eq!(complete(&["get", ""]), "web\n:4\n");
    assert_eq!(complete(&["get", "od/w"]), "od/web\n:4\n");
    assert_eq!(complete(&["set", "image", "web", ""]), "app=\n:6\n");
    assert_eq!(complete(&["get", "-n", "def"]), "default\n:4\n");
    assert_eq!(complete(&["sta"]), "status\n:4\n");
    // Without a cluster there are no candidates and no errors.
    assert_eq!(complete_in("nowhere", &["get", ""]), ":4\n");
}
